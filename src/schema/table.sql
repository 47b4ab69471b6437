/* Tables of catalogs that are kept here; what concerns views of them is in view.sql. */

CREATE TABLE amoro_meta.table_metadata
(
	table_id		bigint PRIMARY KEY,
	database_id		bigint NOT NULL,
	table_name		text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_create', 'pre_alter', 'pre_drop')),
	procedure_id	bigint,
	definition		jsonb NOT NULL,
	version			bigint NOT NULL,
	relation_kind	text NOT NULL DEFAULT 'table' CHECK (relation_kind IN ('table', 'view')),
	base_id			bigint,					-- of a view: the table that it shows
	UNIQUE (database_id, table_name),
	CHECK ((state = 'normal') = (procedure_id IS NULL)),
	CHECK ((relation_kind = 'view') = (base_id IS NOT NULL))
);
COMMENT ON TABLE amoro_meta.table_metadata IS
	'tables and views, which share their names; a state other than normal is the marker of the procedure that works on it';
CREATE INDEX table_metadata_base_id ON amoro_meta.table_metadata (base_id) WHERE base_id IS NOT NULL;
CREATE INDEX table_metadata_procedure_id ON amoro_meta.table_metadata (procedure_id) WHERE procedure_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.table_metadata', '');

CREATE FUNCTION amoro_meta.table_definition(definition jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_table_definition';
COMMENT ON FUNCTION amoro_meta.table_definition(jsonb) IS
	'validates the definition of a table and returns its canonical form, every column with an id. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.table_definition(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.altered_definition(definition jsonb, changes jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_altered_definition';
COMMENT ON FUNCTION amoro_meta.altered_definition(jsonb, jsonb) IS
	'a canonical definition after the changes of alter_table. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.altered_definition(jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.find_table(database_id bigint, table_name text, OUT table_id bigint, OUT definition jsonb,
									  OUT relation_kind text, OUT base_id bigint)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT t.table_id, t.definition, t.relation_kind, t.base_id FROM amoro_meta.table_metadata t
	WHERE t.database_id = find_table.database_id AND t.table_name = find_table.table_name
	$$;
COMMENT ON FUNCTION amoro_meta.find_table(bigint, text) IS 'a table or view by its name, or nulls';
REVOKE ALL ON FUNCTION amoro_meta.find_table(bigint, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_table(table_id bigint, catalog_name text, database_name text, table_name text,
										 relation_kind text DEFAULT NULL, wanted_kind text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF table_id IS NULL THEN
		RAISE EXCEPTION '% "%"."%"."%" does not exist', coalesce(wanted_kind, 'table'), catalog_name, database_name, table_name
			USING ERRCODE = 'undefined_object';
	ELSIF relation_kind <> wanted_kind THEN
		RAISE EXCEPTION '"%"."%"."%" is a %', catalog_name, database_name, table_name, relation_kind
			USING ERRCODE = 'wrong_object_type', HINT = format('The functions for it end in _%s.', relation_kind);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_table(bigint, text, text, text, text, text) IS
	'raises 42704 unless the table or view was found, and 42809 when it is not of the wanted kind';
REVOKE ALL ON FUNCTION amoro_meta.require_table(bigint, text, text, text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_free_name(found_kind text, catalog_name text, database_name text, table_name text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF found_kind IS NOT NULL THEN
		RAISE EXCEPTION '% "%"."%"."%" already exists', found_kind, catalog_name, database_name, table_name USING ERRCODE = 'duplicate_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_free_name(text, text, text, text) IS 'raises 42710 when a table or view was found';
REVOKE ALL ON FUNCTION amoro_meta.require_free_name(text, text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_table_names(catalog_name text, database_name text, table_name text) RETURNS void
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('table_name', table_name);
	$$;
COMMENT ON FUNCTION amoro_meta.check_table_names(text, text, text) IS 'raises 22004 or 22023 unless all three are names';
REVOKE ALL ON FUNCTION amoro_meta.check_table_names(text, text, text) FROM PUBLIC;

CREATE FUNCTION create_table(catalog_name text, database_name text, table_name text, definition jsonb,
							 if_not_exists boolean DEFAULT false, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	canonical jsonb;
	present record;
BEGIN
	PERFORM amoro_meta.check_table_names(catalog_name, database_name, table_name);
	PERFORM amoro_meta.check_not_null('definition', definition IS NOT NULL),
		amoro_meta.check_not_null('if_not_exists', if_not_exists IS NOT NULL);
	canonical := amoro_meta.table_definition(definition);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_table', catalog_name, database_name, table_name,
		jsonb_build_array(catalog_name, database_name, table_name, definition, if_not_exists), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, table_name);
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	SELECT * INTO present FROM amoro_meta.find_table(parent, table_name);
	IF present.relation_kind = 'table' AND if_not_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('table "%s"."%s"."%s" already exists, skipping', catalog_name, database_name, table_name));
	END IF;
	PERFORM amoro_meta.require_free_name(present.relation_kind, catalog_name, database_name, table_name);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(),
		jsonb_build_object('database_id', parent, 'definition', canonical));
END;
$$;
COMMENT ON FUNCTION create_table(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits the creation of a table and returns the procedure''s id. definition: format, columns with Iceberg types, properties, location. '
	'if_not_exists: a NOTICE and a procedure that is done already when there is one. request_id: a retry with the same one returns the '
	'same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, 42710 there is one, AM401 a procedure works on it or its database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_table(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION alter_table(catalog_name text, database_name text, table_name text, changes jsonb, cascade boolean DEFAULT false,
							request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	target record;
	altered jsonb;
BEGIN
	PERFORM amoro_meta.check_table_names(catalog_name, database_name, table_name);
	PERFORM amoro_meta.check_not_null('changes', changes IS NOT NULL), amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('alter_table', catalog_name, database_name, table_name,
		jsonb_build_array(catalog_name, database_name, table_name, changes, cascade), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, table_name);
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	SELECT * INTO target FROM amoro_meta.find_table(parent, table_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, database_name, table_name, target.relation_kind, 'table');
	altered := amoro_meta.altered_definition(target.definition, changes);
	IF NOT cascade THEN
		PERFORM amoro_meta.refuse_change_under_views(target.table_id, target.definition, altered, 0);
	END IF;
	IF amoro_meta.views_notice(target.definition, altered) THEN
		PERFORM amoro_meta.claim_views(submission.procedure_id, target.table_id, 0);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.table_id,
		jsonb_build_object('changes', changes, 'cascade', cascade));
END;
$$;
COMMENT ON FUNCTION alter_table(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits a list of changes of a table, made all or none, and returns the procedure''s id. Each has "op": add_column, drop_column, '
	'rename_column, retype_column, set_properties, remove_properties, set_ttl or unset_ttl. cascade: views lose columns that are dropped, and '
	'are dropped with their last one, and get types that change; without it that is refused. request_id: a retry with the same one returns '
	'the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such table, 42809 it is a view, 22023 a change that is not possible, 2BP01 views show a column that changes, '
	'AM401 a procedure works on it or on a view of it, AM005, 22004, 25006';
REVOKE ALL ON FUNCTION alter_table(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_rename(relation_kind text, catalog_name text, database_name text, table_name text, new_database_name text,
										 new_table_name text, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	new_parent bigint;
	target record;
BEGIN
	PERFORM amoro_meta.check_table_names(catalog_name, database_name, table_name);
	PERFORM amoro_meta.check_name('new_database_name', new_database_name), amoro_meta.check_name('new_table_name', new_table_name);
	IF (database_name, table_name) = (new_database_name, new_table_name) THEN
		RAISE EXCEPTION '% "%"."%"."%" has this name already', relation_kind, catalog_name, database_name, table_name
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure('rename_' || relation_kind, catalog_name, database_name, table_name,
		jsonb_build_array(catalog_name, database_name, table_name, new_database_name, new_table_name), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	IF relation_kind = 'view' THEN
		PERFORM amoro_meta.claim_base(submission.procedure_id, catalog_name, database_name, table_name);
	END IF;
	-- always in the same order: two that exchange names do not wait for each other
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, n.d, n.t)
		FROM (SELECT * FROM (VALUES (database_name, table_name), (new_database_name, new_table_name)) v (d, t)
			  ORDER BY d COLLATE "C", t COLLATE "C") n;
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	new_parent := amoro_meta.require_parent_database(catalog_name, new_database_name);
	SELECT * INTO target FROM amoro_meta.find_table(parent, table_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, database_name, table_name, target.relation_kind, relation_kind);
	PERFORM amoro_meta.require_free_name(f.relation_kind, catalog_name, new_database_name, new_table_name)
		FROM amoro_meta.find_table(new_parent, new_table_name) f;
	PERFORM amoro_meta.claim_views(submission.procedure_id, target.table_id, 0);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.table_id,
		jsonb_build_object('new_database_id', new_parent, 'new_database_name', new_database_name, 'new_table_name', new_table_name,
						   'reserved_id', amoro_meta.next_id()));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_rename(text, text, text, text, text, text, uuid, interval) IS 'what rename_table and rename_view have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_rename(text, text, text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION rename_table(catalog_name text, database_name text, table_name text, new_database_name text, new_table_name text,
							 request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.submit_rename('table', catalog_name, database_name, table_name, new_database_name, new_table_name, request_id, timeout)
	$$;
COMMENT ON FUNCTION rename_table(text, text, text, text, text, uuid, interval) IS
	'submits a new name for a table, in the same or another database of its catalog, and returns the procedure''s id; the table keeps its '
	'id, and views go on showing it. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such table or database, 42809 it is a view, 42710 the name is taken, AM401 a procedure works on one of the names or on a view '
	'of the table, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION rename_table(text, text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_table(catalog_name text, database_name text, table_name text, if_exists boolean DEFAULT false,
						   purge boolean DEFAULT false, cascade boolean DEFAULT false, request_id uuid DEFAULT NULL,
						   timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	target record;
BEGIN
	PERFORM amoro_meta.check_table_names(catalog_name, database_name, table_name);
	PERFORM amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL), amoro_meta.check_not_null('purge', purge IS NOT NULL),
		amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('drop_table', catalog_name, database_name, table_name,
		jsonb_build_array(catalog_name, database_name, table_name, if_exists, purge, cascade), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, table_name);
	parent := amoro_meta.lock_parent_database(catalog_name, database_name);
	SELECT * INTO target FROM amoro_meta.find_table(parent, table_name);
	IF target.table_id IS NULL AND if_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('table "%s"."%s"."%s" does not exist, skipping', catalog_name, database_name, table_name));
	END IF;
	PERFORM amoro_meta.require_database(parent, catalog_name, database_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, database_name, table_name, target.relation_kind, 'table');
	IF NOT cascade THEN
		PERFORM amoro_meta.refuse_drop_under_views(target.table_id, 0);
	END IF;
	PERFORM amoro_meta.claim_views(submission.procedure_id, target.table_id, 0);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.table_id,
		jsonb_build_object('purge', purge, 'cascade', cascade));
END;
$$;
COMMENT ON FUNCTION drop_table(text, text, text, boolean, boolean, boolean, uuid, interval) IS
	'submits the drop of a table and returns the procedure''s id. if_exists: a NOTICE and a procedure that is done already when there is '
	'none. purge: says, in the change, that its files are to be removed. cascade: its views go with it; without it that is refused. '
	'request_id: a retry with the same one returns the same '
	'procedure. timeout: rolled back after it. '
	'Errors: 42704 no such table, 42809 it is a view, 2BP01 views show it, AM401 a procedure works on it, a view of it or its database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_table(text, text, text, boolean, boolean, boolean, uuid, interval) FROM PUBLIC;

CREATE VIEW tables AS
	SELECT c.catalog_name, d.database_name, t.table_name, t.table_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE t.state END AS state,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.procedure_id ELSE t.procedure_id END AS procedure_id,
		t.definition->>'format' AS format, t.definition->>'location' AS location, t.definition, t.version
	FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
	WHERE t.relation_kind = 'table';
COMMENT ON VIEW tables IS
	'tables; a state other than normal is the marker of the procedure that works on one or on its database. '
	'A row in state pre_create with an empty definition is the new name of a table that is being renamed';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'tables' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['create_table', 'alter_table', 'rename_table', 'drop_table']) n;
