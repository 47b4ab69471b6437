/* Time to live: of databases, tables, views and devices, and what inherits it. */

-- That of a database is in its row, that of a table or a view in its definition.
CREATE TABLE amoro_meta.device_ttl
(
	database_id		bigint NOT NULL,
	path_pattern	text NOT NULL,
	ttl_ms			bigint NOT NULL CHECK (ttl_ms > 0),
	PRIMARY KEY (database_id, path_pattern)
);
COMMENT ON TABLE amoro_meta.device_ttl IS 'times to live of devices, by path; the longest match counts';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.device_ttl', '');

CREATE FUNCTION amoro_meta.device_ttl_rule(database_id bigint, device_path text, OUT path_pattern text, OUT ttl_ms bigint)
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_ttl_rule';
COMMENT ON FUNCTION amoro_meta.device_ttl_rule(bigint, text) IS
	'what is set for a device: for its path, else for the longest pattern that matches it; nulls: nothing';
REVOKE ALL ON FUNCTION amoro_meta.device_ttl_rule(bigint, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.device_ttl_ms(database_id bigint, device_path text) RETURNS bigint
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_ttl_ms';
COMMENT ON FUNCTION amoro_meta.device_ttl_ms(bigint, text) IS 'ttl_ms of device_ttl_rule alone, for all devices of a database one after the other';
REVOKE ALL ON FUNCTION amoro_meta.device_ttl_ms(bigint, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ttl_milliseconds(ttl interval) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('ttl', ttl IS NOT NULL);
	IF extract(year FROM ttl) <> 0 OR extract(month FROM ttl) <> 0 THEN
		RAISE EXCEPTION 'ttl has months or years, which differ in length: %', ttl USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Say days, such as interval ''365 days''.';
	END IF;
	IF ttl < interval '1 ms' OR ttl > interval '100000000 days' THEN
		RAISE EXCEPTION 'ttl is out of range: %', ttl USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is at least 1 ms and at most 100000000 days; unset_ttl takes one away.';
	END IF;
	RETURN floor(extract(epoch FROM ttl) * 1000);
END;
$$;
COMMENT ON FUNCTION amoro_meta.ttl_milliseconds(interval) IS 'a time to live in milliseconds. Errors: 22004, 22023 when it is not positive or has months';
REVOKE ALL ON FUNCTION amoro_meta.ttl_milliseconds(interval) FROM PUBLIC;

-- One name, or names and ** at the end: of two patterns that match a device one is always the longer.
CREATE FUNCTION amoro_meta.ttl_pattern(path_pattern text) RETURNS text
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	canonical text := amoro_meta.device_path('path_pattern', path_pattern, true);
BEGIN
	IF strpos(regexp_replace(canonical, '[.][*][*]$', ''), '*') > 0 THEN
		RAISE EXCEPTION 'invalid path_pattern' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It has a wildcard that is not ** at its end.',
			HINT = 'A time to live is set for the path of a device, or for all below a path, such as root.site1.**.';
	END IF;
	RETURN canonical;
END;
$$;
COMMENT ON FUNCTION amoro_meta.ttl_pattern(text) IS
	'the canonical form of a path, which may end with **. Errors: 22023 other wildcards, or no path';
REVOKE ALL ON FUNCTION amoro_meta.ttl_pattern(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_ttl(kind text, catalog_name text, database_name text, table_name text, path_pattern text, ttl_ms bigint,
									  request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	target bigint;
	pattern text;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name);
	IF table_name IS NOT NULL AND path_pattern IS NOT NULL THEN
		RAISE EXCEPTION 'table_name and path_pattern exclude each other' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Without both, the time to live is that of the database.';
	ELSIF table_name IS NOT NULL THEN
		PERFORM amoro_meta.check_name('table_name', table_name);
	ELSIF path_pattern IS NOT NULL THEN
		pattern := amoro_meta.ttl_pattern(path_pattern);
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, catalog_name, database_name, coalesce(table_name, pattern),
		jsonb_build_array(catalog_name, database_name, table_name, pattern, ttl_ms), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, CASE WHEN table_name IS NULL THEN 'ttl' ELSE 'table' END, catalog_name,
		database_name, coalesce(table_name, pattern, ''));
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	IF table_name IS NOT NULL THEN
		target := (SELECT f.table_id FROM amoro_meta.find_table(parent, table_name) f);
		PERFORM amoro_meta.require_table(target, catalog_name, database_name, table_name);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, coalesce(target, parent),
		jsonb_strip_nulls(jsonb_build_object('database_id', parent, 'path_pattern', pattern, 'table_id', target, 'ttl_ms', ttl_ms)));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_ttl(text, text, text, text, text, bigint, uuid, interval) IS 'what set_ttl and unset_ttl have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_ttl(text, text, text, text, text, bigint, uuid, interval) FROM PUBLIC;

CREATE FUNCTION set_ttl(catalog_name text, database_name text, ttl interval, table_name text DEFAULT NULL, path_pattern text DEFAULT NULL,
						request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.submit_ttl('set_ttl', catalog_name, database_name, table_name, path_pattern, amoro_meta.ttl_milliseconds(ttl),
		request_id, timeout)
	$$;
COMMENT ON FUNCTION set_ttl(text, text, interval, text, text, uuid, interval) IS
	'submits a time to live, after which data may be removed, and returns the procedure''s id; it is done when every node knows. Of a table or view '
	'(table_name), of the devices below a path or of one (path_pattern: root.site1.**, root.site1.turbine7), else of the database. Whatever has none '
	'of its own inherits it, see effective_ttl. ttl: at least 1 ms, without months. request_id: a retry with the same one returns the same procedure. '
	'timeout: rolled back after it, unless it is set by then. '
	'Errors: 42704 no such database or table, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION set_ttl(text, text, interval, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION unset_ttl(catalog_name text, database_name text, table_name text DEFAULT NULL, path_pattern text DEFAULT NULL,
						  request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.submit_ttl('unset_ttl', catalog_name, database_name, table_name, path_pattern, NULL, request_id, timeout)
	$$;
COMMENT ON FUNCTION unset_ttl(text, text, text, text, uuid, interval) IS
	'submits that a time to live is taken away, if there is one: what had it inherits again. Arguments and errors are those of set_ttl, 25006 among them';
REVOKE ALL ON FUNCTION unset_ttl(text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION effective_ttl(catalog_name text, database_name text, table_name text DEFAULT NULL, device_path text DEFAULT NULL)
	RETURNS TABLE (ttl_ms bigint, set_on text, set_on_name text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 1
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	parent record;
	relation record;
	path text;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name);
	IF table_name IS NOT NULL AND device_path IS NOT NULL THEN
		RAISE EXCEPTION 'table_name and device_path exclude each other' USING ERRCODE = 'invalid_parameter_value';
	ELSIF table_name IS NOT NULL THEN
		PERFORM amoro_meta.check_name('table_name', table_name);
	END IF;
	SELECT d.database_id, d.ttl_ms INTO parent FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE c.catalog_name = effective_ttl.catalog_name AND d.database_name = effective_ttl.database_name;
	PERFORM amoro_meta.require_database(parent.database_id, catalog_name, database_name);
	IF table_name IS NOT NULL THEN
		SELECT t.table_id, t.relation_kind, (t.definition->'ttl')::bigint AS own, b.table_id AS base_id,
				(b.definition->'ttl')::bigint AS base, p.ttl_ms AS parent, p.database_name AS parent_name,
				amoro_meta.quoted_name(p.database_name, b.table_name) AS base_name INTO relation
			FROM amoro_meta.table_metadata t LEFT JOIN amoro_meta.table_metadata b ON b.table_id = t.base_id
				LEFT JOIN amoro_meta.database p ON p.database_id = coalesce(b.database_id, t.database_id)
			WHERE t.database_id = parent.database_id AND t.table_name = effective_ttl.table_name;
		PERFORM amoro_meta.require_table(relation.table_id, catalog_name, database_name, table_name);
		RETURN QUERY SELECT f.* FROM (VALUES (relation.own, relation.relation_kind, table_name),
				(relation.base, 'table', relation.base_name), (relation.parent, 'database', relation.parent_name)) f (ttl_ms, set_on, set_on_name)
			WHERE f.ttl_ms IS NOT NULL LIMIT 1;
	ELSIF device_path IS NOT NULL THEN
		path := amoro_meta.device_path('device_path', device_path, false);
		RETURN QUERY SELECT f.* FROM (SELECT r.ttl_ms, CASE WHEN r.path_pattern = path THEN 'device' ELSE 'pattern' END, r.path_pattern
				FROM amoro_meta.device_ttl_rule(parent.database_id, path) r
				UNION ALL SELECT parent.ttl_ms, 'database', database_name) f (ttl_ms, set_on, set_on_name)
			WHERE f.ttl_ms IS NOT NULL LIMIT 1;
	ELSIF parent.ttl_ms IS NOT NULL THEN
		RETURN QUERY SELECT parent.ttl_ms, 'database', database_name;
	END IF;
	IF NOT FOUND OR (table_name IS NULL AND device_path IS NULL AND parent.ttl_ms IS NULL) THEN
		RETURN QUERY SELECT NULL::bigint, NULL, NULL;
	END IF;
END;
$$;
COMMENT ON FUNCTION effective_ttl(text, text, text, text) IS
	'one row: the time to live that is in force, in milliseconds, and where it is set: on the table, view, device, pattern of paths or database of that name; '
	'nulls: none. A table inherits that of its database, a view that of its table, a device that of the longest pattern that matches it, then that of '
	'its database. The device need not exist. Errors: 42704 no such database or table, 22004, 22023';
REVOKE ALL ON FUNCTION effective_ttl(text, text, text, text) FROM PUBLIC;

CREATE VIEW ttls AS
	SELECT c.catalog_name, d.database_name, 'database' AS object_kind, NULL AS object_name, d.ttl_ms
	FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id) WHERE d.ttl_ms IS NOT NULL
	UNION ALL
	SELECT c.catalog_name, d.database_name, t.relation_kind, t.table_name, (t.definition->'ttl')::bigint
	FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
	WHERE t.definition ? 'ttl'
	UNION ALL
	SELECT c.catalog_name, d.database_name, 'device', r.path_pattern, r.ttl_ms
	FROM amoro_meta.device_ttl r JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW ttls IS
	'times to live that are set, in milliseconds; object_name is a table, a view, or a path or pattern of devices. What is in force: effective_ttl';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, o, n FROM unnest(ARRAY['reader', 'operator', 'admin']) k, (VALUES ('view', 'ttls'), ('function', 'effective_ttl')) v (o, n)
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['set_ttl', 'unset_ttl']) n;
