/* The database of an Apache AMS: its tables are read without running any of its code, and its values as far as they make sense. */

-- Emptied by the import that filled it, before it commits.
CREATE UNLOGGED TABLE amoro_meta.ams_row
(
	relation		text NOT NULL,
	ordinal			bigint NOT NULL,
	data			jsonb NOT NULL,
	PRIMARY KEY (relation, ordinal)
);
COMMENT ON TABLE amoro_meta.ams_row IS 'rows of an AMS database while import_ams() works on them, each an object of texts';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.ams_row', 'WHERE false');

CREATE FUNCTION amoro_meta.plain_table_problem(relation oid, columns text[]) RETURNS text
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_plain_table_problem';
COMMENT ON FUNCTION amoro_meta.plain_table_problem(oid, text[]) IS
	'why a table cannot be read without running code of its owner; null when it can. It stays as it is to the end of the transaction';
REVOKE ALL ON FUNCTION amoro_meta.plain_table_problem(oid, text[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.read_plain_table(relation oid, columns text[]) RETURNS SETOF jsonb
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_read_plain_table';
COMMENT ON FUNCTION amoro_meta.read_plain_table(oid, text[]) IS
	'the rows of a table as objects of texts, without running code of its owner; who may read it is for the caller to check. Errors: 42809';
REVOKE ALL ON FUNCTION amoro_meta.read_plain_table(oid, text[]) FROM PUBLIC;

-- What is read, and what is not.
CREATE FUNCTION amoro_meta.ams_relations()
	RETURNS TABLE (relation text, columns text[], reason text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	VALUES ('catalog_metadata', ARRAY['catalog_name', 'catalog_metastore', 'storage_configs', 'auth_configs', 'catalog_properties'], NULL),
		('database_metadata', ARRAY['catalog_name', 'db_name', 'properties'], NULL),
		('resource_group', ARRAY['group_name', 'container_name', 'properties'], NULL),
		('table_identifier', ARRAY['table_id', 'catalog_name', 'db_name', 'table_name', 'format'], NULL),
		('table_metadata', ARRAY['table_id', 'table_location'], NULL),
		('table_runtime', ARRAY['table_id', 'table_config', 'status_code'], NULL),
		('table_runtime_state', ARRAY['table_id', 'state_key', 'state_value'], NULL),
		('table_blocker', ARRAY['blocker_id', 'catalog_name', 'db_name', 'table_name', 'operations', 'expiration_time', 'properties'], NULL),
		('table_process', ARRAY['process_id', 'table_id', 'status', 'process_type', 'process_stage', 'create_time', 'finish_time', 'fail_message'], NULL),
		('optimizer', NULL, 'optimizers that run register again'),
		('resource', NULL, 'what was launched for AMS is released there'),
		('optimizing_process_state', NULL, 'plans of processes are of use to the AMS that made them alone'),
		('task_runtime', NULL, 'tasks that have not ended are planned again'),
		('optimizing_task_quota', NULL, 'quotas are counted anew'),
		('table_process_state', NULL, 'no longer in use by AMS itself'),
		('api_tokens', NULL, 'access is granted to roles of the database'),
		('platform_file', NULL, 'files of the dashboard'),
		('http_session', NULL, 'logins of the dashboard'),
		('ha_lease', NULL, 'there is nothing to elect here'),
		('bucket_assignments', NULL, 'buckets are given to nodes of this database, see create_service_buckets')
	$$;
COMMENT ON FUNCTION amoro_meta.ams_relations() IS 'tables of an AMS database: the columns that import_ams() reads, or why it leaves a table alone';
REVOKE ALL ON FUNCTION amoro_meta.ams_relations() FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_ams_schema(schema_name text) RETURNS oid
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	schema_oid oid;
BEGIN
	PERFORM amoro_meta.check_name('schema_name', schema_name);
	SELECT n.oid INTO schema_oid FROM pg_namespace n WHERE n.nspname::text = schema_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'schema "%" does not exist', schema_name USING ERRCODE = 'invalid_schema_name';
	END IF;
	IF NOT has_schema_privilege(amoro_meta.calling_role(), schema_oid, 'USAGE') THEN
		RAISE EXCEPTION 'permission denied for schema %', quote_ident(schema_name) USING ERRCODE = 'insufficient_privilege';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = 'catalog_metadata') THEN
		RAISE EXCEPTION 'schema "%" is not that of an AMS', schema_name USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It has no table catalog_metadata.';
	END IF;
	RETURN schema_oid;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_ams_schema(text) IS 'a schema that the caller may use and that has the tables of an AMS. Errors: 3F000, 42501, 22004, 22023';
REVOKE ALL ON FUNCTION amoro_meta.require_ams_schema(text) FROM PUBLIC;

-- All of it in one statement, hence in one snapshot: AMS may be running.
CREATE FUNCTION amoro_meta.stage_ams(schema_name text)
	RETURNS TABLE (object_kind text, name text, outcome text, reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	schema_oid oid := amoro_meta.require_ams_schema(schema_name);
	forbidden text;
BEGIN
	LOCK TABLE amoro_meta.ams_row IN SHARE ROW EXCLUSIVE MODE;	-- one import at a time
	SELECT min(c.relname) INTO forbidden FROM pg_class c JOIN amoro_meta.ams_relations() r ON r.relation = c.relname AND r.columns IS NOT NULL
		WHERE c.relnamespace = schema_oid AND NOT has_table_privilege(amoro_meta.calling_role(), c.oid, 'SELECT');
	IF forbidden IS NOT NULL THEN
		RAISE EXCEPTION 'permission denied for table %', quote_ident(forbidden) USING ERRCODE = 'insufficient_privilege';
	END IF;
	RETURN QUERY
		SELECT 'relation', r.relation, CASE WHEN r.reason IS NOT NULL THEN 'skipped' ELSE 'refused' END,
			coalesce(r.reason, CASE WHEN c.oid IS NULL THEN 'there is no such table' ELSE amoro_meta.plain_table_problem(c.oid, r.columns) END)
		FROM amoro_meta.ams_relations() r LEFT JOIN pg_class c ON c.relnamespace = schema_oid AND c.relname = r.relation
		WHERE CASE WHEN r.reason IS NOT NULL THEN c.oid IS NOT NULL
			ELSE c.oid IS NULL OR amoro_meta.plain_table_problem(c.oid, r.columns) IS NOT NULL END;
	INSERT INTO amoro_meta.ams_row
		SELECT s.relation, d.ordinal, d.data
		FROM (SELECT r.relation, r.columns, c.oid FROM amoro_meta.ams_relations() r
				JOIN pg_class c ON c.relnamespace = schema_oid AND c.relname = r.relation
			  WHERE r.columns IS NOT NULL AND amoro_meta.plain_table_problem(c.oid, r.columns) IS NULL OFFSET 0) s,
			amoro_meta.read_plain_table(s.oid, s.columns) WITH ORDINALITY d (data, ordinal);
END;
$$;
COMMENT ON FUNCTION amoro_meta.stage_ams(text) IS
	'reads the tables of an AMS with the rights of the caller into amoro_meta.ams_row; says which are not read, and why';
REVOKE ALL ON FUNCTION amoro_meta.stage_ams(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ams_json(document text) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN document::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
	RETURN NULL;
END;
$$;
COMMENT ON FUNCTION amoro_meta.ams_json(text) IS 'a document, or null when it is none';
REVOKE ALL ON FUNCTION amoro_meta.ams_json(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ams_properties(document text) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	properties jsonb := amoro_meta.ams_json(coalesce(nullif(trim(document), ''), '{}'));
BEGIN
	RETURN CASE jsonb_typeof(properties) WHEN 'object' THEN
		(SELECT coalesce(jsonb_object_agg(p.key, p.value) FILTER (WHERE p.value IS NOT NULL), '{}') FROM jsonb_each_text(properties) p) END;
END;
$$;
COMMENT ON FUNCTION amoro_meta.ams_properties(text) IS 'a map as AMS writes it, every value a text; null when it is none';
REVOKE ALL ON FUNCTION amoro_meta.ams_properties(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ams_name(VARIADIC parts text[]) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT string_agg(coalesce(amoro_meta.printable_text(translate(p.part, E'\n\t', '??'), 100), '(null)'), '.' ORDER BY p.ordinal)
		FROM unnest(parts) WITH ORDINALITY p (part, ordinal)$$;
COMMENT ON FUNCTION amoro_meta.ams_name(text[]) IS 'a name in a report, whatever is in it';
REVOKE ALL ON FUNCTION amoro_meta.ams_name(text[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ams_timestamp(moment text) RETURNS timestamptz
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN CASE WHEN isfinite(moment::timestamptz) THEN moment::timestamptz END;
EXCEPTION WHEN data_exception THEN
	RETURN NULL;
END;
$$;
COMMENT ON FUNCTION amoro_meta.ams_timestamp(text) IS 'a moment, in the time zone of the session where it names none; null when it is none';
REVOKE ALL ON FUNCTION amoro_meta.ams_timestamp(text) FROM PUBLIC;
