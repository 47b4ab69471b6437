/* Catalogs: the roots of the names. */

CREATE TABLE amoro_meta.catalog
(
	catalog_id		bigint PRIMARY KEY,
	catalog_name	text NOT NULL UNIQUE,
	metastore		text NOT NULL CHECK (metastore IN ('internal', 'iceberg_rest', 'pushed')),
	properties		jsonb NOT NULL,
	storage_config	jsonb NOT NULL,
	auth_config		jsonb NOT NULL,
	created_at		timestamptz NOT NULL,
	created_by		regrole NOT NULL,
	-- of amoro_meta.next_id(), anew when a property table.* changes: runtimes made from older ones are made again
	defaults_version bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.catalog IS 'catalogs; auth_config holds secrets and is shown by no view';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.catalog', '');

CREATE FUNCTION amoro_meta.check_configuration(argument text, configuration jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null(argument, configuration IS NOT NULL);
	IF jsonb_typeof(configuration) <> 'object' OR pg_column_size(configuration) > 1024 * 1024 THEN
		RAISE EXCEPTION '% is not an object of at most 1 MB', argument USING ERRCODE = 'invalid_parameter_value';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_configuration(text, jsonb) IS 'raises 22004 or 22023 unless it is an object of bearable size';
REVOKE ALL ON FUNCTION amoro_meta.check_configuration(text, jsonb) FROM PUBLIC;

CREATE FUNCTION create_catalog(catalog_name text, metastore text DEFAULT 'internal', properties jsonb DEFAULT '{}',
							   storage_config jsonb DEFAULT '{}', auth_config jsonb DEFAULT '{}') RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	catalog_id bigint;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('catalog_name', catalog_name);
	IF metastore IS NULL OR metastore NOT IN ('internal', 'iceberg_rest', 'pushed') THEN
		RAISE EXCEPTION 'unknown metastore: %', coalesce(quote_literal(left(metastore, 100)), 'null')
			USING ERRCODE = 'invalid_parameter_value', HINT = 'It is internal, iceberg_rest or pushed.';
	END IF;
	PERFORM amoro_meta.check_properties('properties', properties), amoro_meta.check_configuration('storage_config', storage_config),
		amoro_meta.check_configuration('auth_config', auth_config);
	PERFORM amoro_meta.check_listing_properties(properties);
	PERFORM amoro_meta.hold_default_group(properties);
	catalog_id := amoro_meta.next_id();
	INSERT INTO amoro_meta.catalog
		VALUES (catalog_id, catalog_name, metastore, properties, storage_config, auth_config, clock_timestamp(),
				amoro_meta.calling_role(), catalog_id)
		ON CONFLICT ON CONSTRAINT catalog_catalog_name_key DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" already exists', catalog_name USING ERRCODE = 'duplicate_object';
	END IF;
	IF metastore = 'iceberg_rest' THEN
		PERFORM amoro_meta.explore_soon(catalog_id);
	END IF;
	RETURN catalog_id;
END;
$$;
COMMENT ON FUNCTION create_catalog(text, text, jsonb, jsonb, jsonb) IS
	'creates a catalog and returns its id. metastore: internal (databases and tables are kept here), iceberg_rest or pushed (they are '
	'kept elsewhere). properties: those that begin with table. are the defaults of its tables. auth_config holds secrets: no view shows it. '
	'Errors: 42710 there is one, 42704 no such optimizer group (table.self-optimizing.group), 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_catalog(text, text, jsonb, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION alter_catalog(catalog_name text, properties jsonb DEFAULT NULL, storage_config jsonb DEFAULT NULL,
							  auth_config jsonb DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	old_properties jsonb;
	new_defaults boolean;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('catalog_name', catalog_name);
	PERFORM amoro_meta.check_properties('properties', coalesce(properties, '{}')),
		amoro_meta.check_configuration('storage_config', coalesce(storage_config, '{}')),
		amoro_meta.check_configuration('auth_config', coalesce(auth_config, '{}'));
	PERFORM amoro_meta.check_listing_properties(coalesce(properties, '{}'));
	SELECT c.properties INTO old_properties FROM amoro_meta.catalog c WHERE c.catalog_name = alter_catalog.catalog_name FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	new_defaults := properties IS NOT NULL AND
		amoro_meta.merged_properties(properties, '{}') <> amoro_meta.merged_properties(old_properties, '{}');
	IF new_defaults THEN
		PERFORM amoro_meta.hold_default_group(properties), amoro_meta.request_sweep('refresh_table_runtimes');
	END IF;
	UPDATE amoro_meta.catalog c
		SET properties = coalesce(alter_catalog.properties, c.properties),
			storage_config = coalesce(alter_catalog.storage_config, c.storage_config),
			auth_config = coalesce(alter_catalog.auth_config, c.auth_config),
			defaults_version = CASE WHEN new_defaults THEN amoro_meta.next_id() ELSE c.defaults_version END
		WHERE c.catalog_name = alter_catalog.catalog_name;
	PERFORM amoro_meta.explore_soon(c.catalog_id) FROM amoro_meta.catalog c
		WHERE c.catalog_name = alter_catalog.catalog_name AND c.metastore = 'iceberg_rest';
END;
$$;
COMMENT ON FUNCTION alter_catalog(text, jsonb, jsonb, jsonb) IS
	'replaces properties, storage_config or auth_config of a catalog; null leaves one as it is. New defaults of tables reach them with the '
	'refresh that follows. Errors: 42704 no such catalog or optimizer group, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION alter_catalog(text, jsonb, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION drop_catalog(catalog_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('catalog_name', catalog_name);
	PERFORM amoro_meta.require_read_committed('drop a catalog');
	-- against create_database, which holds the row FOR KEY SHARE until its transaction ends
	SELECT c.catalog_id INTO target FROM amoro_meta.catalog c WHERE c.catalog_name = drop_catalog.catalog_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	PERFORM amoro_meta.refuse_procedures_below(catalog_name);
	IF EXISTS (SELECT FROM amoro_meta.database d WHERE d.catalog_id = target.catalog_id) THEN
		RAISE EXCEPTION 'catalog "%" is not empty', catalog_name USING ERRCODE = 'dependent_objects_still_exist',
			DETAIL = (SELECT format('It has the database "%s".', min(d.database_name)) FROM amoro_meta.database d
					  WHERE d.catalog_id = target.catalog_id),
			HINT = 'Drop its databases first.';
	END IF;
	PERFORM amoro_meta.forget_listing(target.catalog_id);
	-- on tables that were never listed
	PERFORM amoro_meta.end_running_process(p.process_id, 'CLOSED', 'the catalog was dropped') FROM amoro_meta.process p
		WHERE p.catalog_name = drop_catalog.catalog_name AND p.ended_at IS NULL;
	PERFORM amoro_meta.drop_blockers(catalog_name);
	DELETE FROM amoro_meta.catalog c WHERE c.catalog_id = target.catalog_id;
END;
$$;
COMMENT ON FUNCTION drop_catalog(text) IS
	'drops a catalog that has no databases; one that is kept elsewhere goes with the tables that were listed. Errors: 42704 no such catalog, 2BP01 it has databases, AM401 a procedure works in it, 25000 not READ COMMITTED, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_catalog(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.sees_secrets_of(owner regrole) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
	-- a role that is gone cannot be asked about, and has no members
	SELECT c.caller = owner OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.caller AND r.rolsuper)
		OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = owner AND pg_has_role(c.caller, r.oid, 'USAGE'))
	FROM amoro_meta.calling_role() c (caller)
	$$;
COMMENT ON FUNCTION amoro_meta.sees_secrets_of(regrole) IS 'whether the caller is that role, one of its members or a superuser';
REVOKE ALL ON FUNCTION amoro_meta.sees_secrets_of(regrole) FROM PUBLIC;

CREATE FUNCTION amoro_meta.masked_configuration(configuration jsonb, levels integer) RETURNS jsonb
	LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	-- no document, however deep, is to fail the view
	hidden CONSTANT jsonb := '"******"';
BEGIN
	CASE jsonb_typeof(configuration)
	WHEN 'object' THEN
		RETURN (SELECT coalesce(jsonb_object_agg(p.key,
					CASE WHEN levels = 0 OR amoro_meta.terminal_key_is_sensitive(p.key) THEN hidden
						ELSE amoro_meta.masked_configuration(p.value, levels - 1) END), '{}')
				FROM jsonb_each(configuration) p);
	WHEN 'array' THEN
		RETURN (SELECT coalesce(jsonb_agg(CASE WHEN levels = 0 THEN hidden
					ELSE amoro_meta.masked_configuration(e.value, levels - 1) END ORDER BY e.place), '[]')
				FROM jsonb_array_elements(configuration) WITH ORDINALITY e (value, place));
	ELSE
		RETURN configuration;
	END CASE;
END;
$$;
COMMENT ON FUNCTION amoro_meta.masked_configuration(jsonb, integer) IS
	'a document without the values of sensitive keys, and without what is nested deeper than so many levels';
REVOKE ALL ON FUNCTION amoro_meta.masked_configuration(jsonb, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.visible_configuration(owner regrole, configuration jsonb) RETURNS jsonb
	LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT CASE WHEN amoro_meta.sees_secrets_of(owner) THEN configuration ELSE amoro_meta.masked_configuration(configuration, 16) END
	$$;
COMMENT ON FUNCTION amoro_meta.visible_configuration(regrole, jsonb) IS
	'what the caller sees of a document of that role: to others the values of the keys that amoro_meta.terminal_sensitive_keys names are ******';
REVOKE ALL ON FUNCTION amoro_meta.visible_configuration(regrole, jsonb) FROM PUBLIC;

CREATE FUNCTION catalog_auth_config(catalog_name text) RETURNS jsonb
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name);
	SELECT c.auth_config, c.created_by INTO target FROM amoro_meta.catalog c WHERE c.catalog_name = catalog_auth_config.catalog_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	IF NOT amoro_meta.sees_secrets_of(target.created_by) THEN
		RAISE EXCEPTION 'permission denied for the secrets of catalog "%"', catalog_name USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('They are shown to role %s, which created the catalog.', target.created_by);
	END IF;
	RETURN target.auth_config;
END;
$$;
COMMENT ON FUNCTION catalog_auth_config(text) IS
	'secrets of a catalog, for the role that created it, its members and superusers. Errors: 42704 no such catalog, 42501 another role, 22004, 22023';
REVOKE ALL ON FUNCTION catalog_auth_config(text) FROM PUBLIC;

CREATE VIEW catalogs AS
	SELECT c.catalog_name, c.catalog_id, c.metastore, amoro_meta.visible_configuration(c.created_by, c.properties) AS properties,
		amoro_meta.visible_configuration(c.created_by, c.storage_config) AS storage_config, c.created_at, c.created_by
	FROM amoro_meta.catalog c;
COMMENT ON VIEW catalogs IS
	'catalogs, without auth_config; values of sensitive keys (amoro_meta.terminal_sensitive_keys) are shown to the role that created it, its members and superusers';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, o.kind, o.name FROM unnest(ARRAY['reader', 'operator', 'admin']) k,
		(VALUES ('view', 'catalogs'), ('function', 'amoro_meta.visible_configuration')) o (kind, name)
	UNION ALL
	SELECT 'admin', 'function', n FROM unnest(ARRAY['create_catalog', 'alter_catalog', 'drop_catalog', 'catalog_auth_config']) n;
