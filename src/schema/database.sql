/* Databases: what a catalog consists of, and what they keep together. */

-- No foreign keys: pg_restore --jobs loads the tables of an extension in any order. The steps lock the row above.
CREATE TABLE amoro_meta.database
(
	database_id		bigint PRIMARY KEY,
	catalog_id		bigint NOT NULL,
	database_name	text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_create', 'pre_alter', 'pre_drop')),
	procedure_id	bigint,
	properties		jsonb NOT NULL,
	version			bigint NOT NULL,
	ttl_ms			bigint CHECK (ttl_ms > 0),
	UNIQUE (catalog_id, database_name),
	CHECK ((state = 'normal') = (procedure_id IS NULL))
);
COMMENT ON TABLE amoro_meta.database IS 'databases; a state other than normal is the marker of the procedure that works on it';
CREATE INDEX database_procedure_id ON amoro_meta.database (procedure_id) WHERE procedure_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.database', '');

-- The parent stays until the caller's transaction ends; the coordinator's step looks again (a snapshot may be old).
CREATE FUNCTION amoro_meta.lock_parent_database(catalog_name text, database_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	found_database_id bigint;
BEGIN
	SELECT d.database_id INTO found_database_id
		FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE c.catalog_name = lock_parent_database.catalog_name AND d.database_name = lock_parent_database.database_name
		FOR KEY SHARE OF d;
	PERFORM amoro_meta.refuse_claimed_name('database', catalog_name, database_name, '');
	RETURN found_database_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_parent_database(text, text) IS
	'id of a database, which stays to the end of the transaction, or null; raises AM401 when a procedure works on it';
REVOKE ALL ON FUNCTION amoro_meta.lock_parent_database(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_database(database_id bigint, catalog_name text, database_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF database_id IS NOT NULL THEN
		RETURN;
	END IF;
	IF NOT EXISTS (SELECT FROM amoro_meta.catalog c WHERE c.catalog_name = require_database.catalog_name) THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	RAISE EXCEPTION 'database "%"."%" does not exist', catalog_name, database_name USING ERRCODE = 'undefined_object';
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_database(bigint, text, text) IS 'raises 42704 unless the database was found';
REVOKE ALL ON FUNCTION amoro_meta.require_database(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_parent_database(catalog_name text, database_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	parent bigint := amoro_meta.lock_parent_database(catalog_name, database_name);
BEGIN
	PERFORM amoro_meta.require_database(parent, catalog_name, database_name);
	RETURN parent;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_parent_database(text, text) IS 'lock_parent_database for one that must be there: raises 42704 as well';
REVOKE ALL ON FUNCTION amoro_meta.require_parent_database(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_database_names(catalog_name text, database_name text) RETURNS void
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_name('database_name', database_name)$$;
COMMENT ON FUNCTION amoro_meta.check_database_names(text, text) IS 'raises 22004 or 22023 unless both are names';
REVOKE ALL ON FUNCTION amoro_meta.check_database_names(text, text) FROM PUBLIC;

CREATE FUNCTION create_database(catalog_name text, database_name text, properties jsonb DEFAULT '{}', request_id uuid DEFAULT NULL,
								timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_properties('properties', properties);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_database', catalog_name, database_name, NULL,
		jsonb_build_array(catalog_name, database_name, properties), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'database', catalog_name, database_name, '');
	SELECT c.catalog_id, c.metastore INTO parent FROM amoro_meta.catalog c
		WHERE c.catalog_name = create_database.catalog_name FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	IF parent.metastore <> 'internal' THEN
		RAISE EXCEPTION 'catalog "%" keeps its databases elsewhere', catalog_name USING ERRCODE = 'feature_not_supported',
			DETAIL = format('Its metastore is "%s".', parent.metastore);
	END IF;
	IF EXISTS (SELECT FROM amoro_meta.database d
			   WHERE d.catalog_id = parent.catalog_id AND d.database_name = create_database.database_name) THEN
		RAISE EXCEPTION 'database "%"."%" already exists', catalog_name, database_name USING ERRCODE = 'duplicate_object';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(),
		jsonb_build_object('catalog_id', parent.catalog_id, 'properties', properties));
END;
$$;
COMMENT ON FUNCTION create_database(text, text, jsonb, uuid, interval) IS
	'submits the creation of a database in an internal catalog and returns the procedure''s id. request_id: a retry with the same one '
	'returns the same procedure. timeout: rolled back after it; null: a time that suffices for nodes that have just died. '
	'Errors: 42704 no such catalog, 42710 there is one, AM401 a procedure works on it, AM005, 0A000, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_database(text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_empty_database(database_id bigint, catalog_name text, database_name text) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_require_empty_database';
COMMENT ON FUNCTION amoro_meta.require_empty_database(bigint, text, text) IS
	'raises 2BP01 when something keeps the database from being dropped without cascade';
REVOKE ALL ON FUNCTION amoro_meta.require_empty_database(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION drop_database(catalog_name text, database_name text, cascade boolean DEFAULT false, request_id uuid DEFAULT NULL,
							  timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target bigint;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('drop_database', catalog_name, database_name, NULL,
		jsonb_build_array(catalog_name, database_name, cascade), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'database', catalog_name, database_name, '');
	PERFORM amoro_meta.refuse_procedures_below(catalog_name, database_name);
	-- waits for those who are about to submit something on a table in it, then looks whether they did
	SELECT d.database_id INTO target FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE c.catalog_name = drop_database.catalog_name AND d.database_name = drop_database.database_name FOR UPDATE OF d;
	PERFORM amoro_meta.require_database(target, catalog_name, database_name);
	PERFORM amoro_meta.refuse_procedures_below(catalog_name, database_name);
	PERFORM amoro_meta.refuse_views_elsewhere(target);
	IF NOT cascade THEN
		PERFORM amoro_meta.require_empty_database(target, catalog_name, database_name);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target, jsonb_build_object('cascade', cascade));
END;
$$;
COMMENT ON FUNCTION drop_database(text, text, boolean, uuid, interval) IS
	'submits the drop of a database, cascade: with all that is in it, and returns the procedure''s id. request_id: a retry with the same one '
	'returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, 2BP01 it is not empty, AM401 a procedure works on it or in it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_database(text, text, boolean, uuid, interval) FROM PUBLIC;

CREATE VIEW databases AS
	SELECT c.catalog_name, d.database_name, d.database_id, d.state, d.procedure_id, d.properties, d.version, d.ttl_ms
	FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW databases IS 'databases; a state other than normal is the marker of the procedure that works on one';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'databases' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['create_database', 'drop_database']) n;
