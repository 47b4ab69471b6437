/* What nodes load: single objects, and everything of a kind. */

-- The documents that nodes serve are built here, so that all nodes of whatever version serve the same.
CREATE FUNCTION amoro_meta.table_document(catalog_name text, database_name text, table_name text, table_id bigint,
										  version bigint, definition jsonb, database_ttl_ms bigint) RETURNS text
	LANGUAGE c STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_table_document';
COMMENT ON FUNCTION amoro_meta.table_document(text, text, text, bigint, bigint, jsonb, bigint) IS 'what a node serves of a table';
REVOKE ALL ON FUNCTION amoro_meta.table_document(text, text, text, bigint, bigint, jsonb, bigint) FROM PUBLIC;

-- Looked up one by one: views are few beside tables, and no load of all tables is to join them with themselves.
CREATE FUNCTION amoro_meta.view_document(catalog_name text, database_name text, view_name text, view_id bigint, version bigint,
										 definition jsonb, base_id bigint) RETURNS text
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	base record;
BEGIN
	SELECT b.table_id, b.table_name, b.definition, d.database_name, d.ttl_ms INTO base
		FROM amoro_meta.table_metadata b JOIN amoro_meta.database d USING (database_id) WHERE b.table_id = view_document.base_id;
	RETURN json_build_object('catalog', catalog_name, 'database', database_name, 'table', view_name, 'table_id', view_id, 'version', version,
		'relation_kind', 'view', 'ttl_ms', coalesce((definition->'ttl')::bigint, (base.definition->'ttl')::bigint, base.ttl_ms),
		'definition', definition || jsonb_build_object('columns', amoro_meta.view_columns(definition, base.definition),
			'base', jsonb_build_object('database', base.database_name, 'table', base.table_name, 'table_id', base.table_id)))::text;
END;
$$;
COMMENT ON FUNCTION amoro_meta.view_document(text, text, text, bigint, bigint, jsonb, bigint) IS
	'what a node serves of a view: it is found among the tables, and says its table and the columns as they are now';
REVOKE ALL ON FUNCTION amoro_meta.view_document(text, text, text, bigint, bigint, jsonb, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.database_document(catalog_name text, database_name text, database_id bigint, version bigint,
											 properties jsonb, ttl_ms bigint) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN json_build_object('catalog', catalog_name, 'database', database_name, 'database_id', database_id, 'version', version,
							 'ttl_ms', ttl_ms, 'properties', properties)::text;
COMMENT ON FUNCTION amoro_meta.database_document(text, text, bigint, bigint, jsonb, bigint) IS 'what a node serves of a database';
REVOKE ALL ON FUNCTION amoro_meta.database_document(text, text, bigint, bigint, jsonb, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.catalog_document(catalog_name text, catalog_id bigint, metastore text, properties jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN json_build_object('catalog', catalog_name, 'catalog_id', catalog_id, 'metastore', metastore, 'properties', properties)::text;
COMMENT ON FUNCTION amoro_meta.catalog_document(text, bigint, text, jsonb) IS 'what a node serves of a catalog, without its secrets';
REVOKE ALL ON FUNCTION amoro_meta.catalog_document(text, bigint, text, jsonb) FROM PUBLIC;

-- Each kind that can be loaded has a view of this shape, named KIND_object, whose rows are found by its names, and by object_id in order, through
-- indexes; object_id is better unique among the objects of the kind. A table shares the fate of a database that comes or goes.
CREATE VIEW amoro_meta.table_object AS
	SELECT 'table' AS kind, c.catalog_name, d.database_name, t.table_name AS object_name, t.table_id AS object_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE t.state END AS state, t.version,
		CASE t.relation_kind WHEN 'view' THEN
			amoro_meta.view_document(c.catalog_name, d.database_name, t.table_name, t.table_id, t.version, t.definition, t.base_id)
		ELSE
			amoro_meta.table_document(c.catalog_name, d.database_name, t.table_name, t.table_id, t.version, t.definition, d.ttl_ms)
		END AS document
	FROM amoro_meta.catalog c JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id
		JOIN amoro_meta.table_metadata t ON t.database_id = d.database_id;
COMMENT ON VIEW amoro_meta.table_object IS 'tables as nodes load them';

CREATE VIEW amoro_meta.database_object AS
	SELECT 'database' AS kind, c.catalog_name, d.database_name, '' AS object_name, d.database_id AS object_id, d.state, d.version,
		amoro_meta.database_document(c.catalog_name, d.database_name, d.database_id, d.version, d.properties, d.ttl_ms) AS document
	FROM amoro_meta.catalog c JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id;
COMMENT ON VIEW amoro_meta.database_object IS 'databases as nodes load them';

CREATE VIEW amoro_meta.catalog_object AS
	SELECT 'catalog' AS kind, c.catalog_name, '' AS database_name, '' AS object_name, c.catalog_id AS object_id, 'normal' AS state,
		0::bigint AS version, amoro_meta.catalog_document(c.catalog_name, c.catalog_id, c.metastore, c.properties) AS document
	FROM amoro_meta.catalog c;
COMMENT ON VIEW amoro_meta.catalog_object IS 'catalogs as nodes load them';

CREATE VIEW amoro_meta.metadata_object AS
	SELECT * FROM amoro_meta.table_object
	UNION ALL SELECT * FROM amoro_meta.database_object
	UNION ALL SELECT * FROM amoro_meta.catalog_object
	UNION ALL SELECT * FROM amoro_meta.authority_object
	UNION ALL SELECT * FROM amoro_meta.device_object
	UNION ALL SELECT * FROM amoro_meta.bucket_object
	UNION ALL SELECT * FROM amoro_meta.partition_object;
COMMENT ON VIEW amoro_meta.metadata_object IS 'every object that nodes load, with its marker and the document they serve';

CREATE FUNCTION amoro_meta.metadata_name_count(kind text) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE kind WHEN 'catalog' THEN 1 WHEN 'authority' THEN 1 WHEN 'database' THEN 2 WHEN 'bucket' THEN 2 WHEN 'table' THEN 3
		WHEN 'device' THEN 3 WHEN 'partition' THEN 3 END;
COMMENT ON FUNCTION amoro_meta.metadata_name_count(text) IS
	'how many of the three names of metadata_lookup an object of that kind has; null when there is no such kind';
REVOKE ALL ON FUNCTION amoro_meta.metadata_name_count(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_metadata_kind(kind text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF amoro_meta.metadata_name_count(kind) IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'unknown kind of metadata ' || amoro_meta.shown_text(kind),
			DETAIL = 'Kinds are those of the view amoro_meta.metadata_object, such as table, database and catalog.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_metadata_kind(text) IS 'raises 22023 unless there is such a kind of metadata';
REVOKE ALL ON FUNCTION amoro_meta.check_metadata_kind(text) FROM PUBLIC;

CREATE FUNCTION metadata_snapshot(kind text)
	RETURNS TABLE (metadata_version bigint, term bigint, object_id bigint, catalog_name text, database_name text, object_name text,
				   state text, object_version bigint, document text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	current_term bigint := amoro_meta.current_term();
BEGIN
	PERFORM amoro_meta.check_metadata_kind(kind);
	RETURN QUERY
		SELECT v.version, current_term, o.object_id, o.catalog_name, nullif(o.database_name, ''), nullif(o.object_name, ''),
			o.state, o.version, o.document
		FROM amoro_meta.metadata_version v CROSS JOIN amoro_meta.metadata_object o
		WHERE o.kind = metadata_snapshot.kind;
END;
$$;
COMMENT ON FUNCTION metadata_snapshot(text) IS
	'all tables, databases, catalogs, devices or users (authority), and the version of the metadata that they make up together; no rows: there are none. '
	'A state other than normal is the marker of a procedure. Errors: 22023 unknown kind, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_snapshot(text) FROM PUBLIC;

-- These read the view of the kind alone, by a plan that is made once a session: while the table is small, and kept while it grows.
-- Where there is nothing but a walk over a table (of one row), that looks so dear that it would be compiled, each time.
CREATE FUNCTION metadata_lookup(kind text, catalog_name text, database_name text DEFAULT NULL, table_name text DEFAULT NULL)
	RETURNS TABLE (metadata_version bigint, term bigint, found boolean, state text, object_id bigint, object_version bigint,
				   document text)
	LANGUAGE c STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 1
	SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
	AS 'MODULE_PATHNAME', 'amoro_meta_metadata_lookup';
COMMENT ON FUNCTION metadata_lookup(text, text, text, text) IS
	'one row: an object, the document that nodes serve of it, the marker if a procedure works on it (state), and the version of the metadata '
	'this was read at; found is false when there is no such object. Errors: 22023 unknown kind or wrong number of names, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_lookup(text, text, text, text) FROM PUBLIC;

CREATE FUNCTION metadata_lookup_many(kind text, catalog_names text[], database_names text[] DEFAULT NULL, table_names text[] DEFAULT NULL)
	RETURNS TABLE (metadata_version bigint, term bigint, ordinal integer, found boolean, state text, object_id bigint,
				   object_version bigint, document text)
	LANGUAGE c STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 100
	SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
	AS 'MODULE_PATHNAME', 'amoro_meta_metadata_lookup_many';
COMMENT ON FUNCTION metadata_lookup_many(text, text[], text[], text[]) IS
	'as metadata_lookup for up to 10000 objects of one kind, all at one version of the metadata: a row for each, in their order, counted from 1. '
	'Errors: 22023 unknown kind, wrong number of names, arrays of different lengths or of more than one dimension, 22004 a null name, '
	'25006 on a standby';
REVOKE ALL ON FUNCTION metadata_lookup_many(text, text[], text[], text[]) FROM PUBLIC;

CREATE FUNCTION metadata_snapshot_chunk(kind text, after_object_id bigint DEFAULT NULL, after_catalog_name text DEFAULT NULL,
										after_database_name text DEFAULT NULL, after_object_name text DEFAULT NULL,
										max_rows integer DEFAULT 1000, max_bytes integer DEFAULT 4194304)
	RETURNS TABLE (metadata_version bigint, term bigint, object_id bigint, catalog_name text, database_name text, object_name text,
				   state text, object_version bigint, document text)
	LANGUAGE c STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 1000
	SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
	AS 'MODULE_PATHNAME', 'amoro_meta_metadata_snapshot_chunk';
COMMENT ON FUNCTION metadata_snapshot_chunk(text, bigint, text, text, text, integer, integer) IS
	'the next objects of a kind, in the order of object_id and names, after the last one of the chunk before (its object_id and names): at most '
	'max_rows, and no more after max_bytes of documents. A row without names, at the end, says that there are no more. A chunk is read at its own '
	'metadata_version: all of them and the changes after the version of the first make up the newest version. '
	'Errors: 22023 unknown kind or limits out of range, 22004 null limits, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_snapshot_chunk(text, bigint, text, text, text, integer, integer) FROM PUBLIC;

-- What is listed, by the id of its database, in the order of an index: a page costs what is on it, however much there is.
CREATE VIEW amoro_meta.table_listing AS
	SELECT t.database_id, t.table_name AS object_name, t.state, t.version, t.relation_kind FROM amoro_meta.table_metadata t;
COMMENT ON VIEW amoro_meta.table_listing IS 'tables and views as they are listed, but for the marker of their database';

CREATE VIEW amoro_meta.device_listing AS
	SELECT v.database_id, v.device_path AS object_name, coalesce(nullif(v.state, 'normal'), p.state, t.state, 'normal') AS state,
		greatest(v.version, t.version) AS version, NULL AS relation_kind
	FROM amoro_meta.device v LEFT JOIN amoro_meta.template t ON t.template_id = v.template_id
		LEFT JOIN LATERAL (SELECT m.state FROM amoro_meta.device_pattern m
			WHERE m.database_id = v.database_id AND amoro_meta.device_paths_overlap(m.pattern, v.device_path) LIMIT 1) p ON true;
COMMENT ON VIEW amoro_meta.device_listing IS 'devices as they are listed, but for the marker of their database';

CREATE FUNCTION metadata_listing(kind text, catalog_name text, database_name text, after_name text DEFAULT NULL,
								 max_rows integer DEFAULT 1000)
	RETURNS TABLE (metadata_version bigint, term bigint, found boolean, state text, object_version bigint, document text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 1
	SET search_path = pg_catalog, pg_temp SET enable_sort = off SET enable_seqscan = off SET jit = off
	AS $$
#variable_conflict use_column
DECLARE
	current_term bigint := amoro_meta.current_term();
BEGIN
	PERFORM amoro_meta.check_metadata_kind(kind);
	IF kind NOT IN ('table', 'device') OR metadata_listing.catalog_name IS NULL OR metadata_listing.database_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('a %s cannot be listed by these names', kind),
			DETAIL = 'The tables or devices of a database are listed, by catalog_name and database_name.';
	END IF;
	IF max_rows IS NULL OR max_rows NOT BETWEEN 1 AND 10000 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'max_rows must be between 1 and 10000',
			DETAIL = format('It is %s.', coalesce(max_rows::text, 'null'));
	END IF;
	-- devices are in the order of their bytes, as their index is
	RETURN QUERY EXECUTE format(
		$query$
		SELECT v.version, $5, d.database_id IS NOT NULL, d.state, d.version, json_build_object('catalog', $1, 'database', $2, %L,
			coalesce(page.objects, '[]'::json), 'next', page.last)::text
		FROM amoro_meta.metadata_version v
			LEFT JOIN (SELECT b.database_id, b.state, b.version
				FROM amoro_meta.catalog c JOIN amoro_meta.database b ON b.catalog_id = c.catalog_id
				WHERE c.catalog_name = $1 AND b.database_name = $2) d ON true
			LEFT JOIN LATERAL (SELECT
					json_strip_nulls(json_agg(json_build_object('name', p.object_name, 'version', p.version, 'relation_kind', p.relation_kind,
						'state', CASE WHEN d.state = 'pre_drop' THEN d.state ELSE p.state END) ORDER BY p.ordinal)) AS objects,
					CASE count(*) WHEN $4 THEN max(p.object_name) FILTER (WHERE p.ordinal = $4) END AS last
				FROM (SELECT o.object_name, o.state, o.version, o.relation_kind, row_number() OVER () AS ordinal
					FROM (SELECT * FROM amoro_meta.%I l
						WHERE l.database_id = d.database_id AND d.state <> 'pre_create' AND l.state <> 'pre_create' AND l.object_name %3$s $3
						ORDER BY l.object_name USING %4$s LIMIT $4) o) p) page ON true
		$query$, kind || 's', kind || '_listing', CASE kind WHEN 'device' THEN '~>~' ELSE '>' END, CASE kind WHEN 'device' THEN '~<~' ELSE '<' END)
		USING metadata_listing.catalog_name, metadata_listing.database_name, coalesce(after_name, ''), max_rows, current_term;
END;
$$;
COMMENT ON FUNCTION metadata_listing(text, text, text, text, integer) IS
	'one row: the names of the tables and views or of the devices of a database, in their order after after_name (that of devices is byte by byte), as a JSON '
	'document with the version and the marker of each, of tables and views the kind (relation_kind); next is what to give as after_name for more. What is being created is left out. found and '
	'state are those of the database. Errors: 22023 unknown kind, names missing or max_rows out of range, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_listing(text, text, text, text, integer) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('node', 'function', 'metadata_snapshot'),
	('node', 'function', 'metadata_snapshot_chunk'),
	('node', 'function', 'metadata_lookup'),
	('node', 'function', 'metadata_lookup_many'),
	('node', 'function', 'metadata_listing'),
	('reader', 'function', 'metadata_snapshot'),
	('reader', 'function', 'metadata_snapshot_chunk'),
	('reader', 'function', 'metadata_lookup'),
	('reader', 'function', 'metadata_lookup_many'),
	('reader', 'function', 'metadata_listing');
