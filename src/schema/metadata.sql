/* What nodes load: single objects, and everything of a kind. */

-- The documents that nodes serve are built here, so that all nodes of whatever version serve the same.
CREATE FUNCTION amoro_meta.table_document(catalog_name text, database_name text, table_name text, table_id bigint,
										  version bigint, definition jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN json_build_object('catalog', catalog_name, 'database', database_name, 'table', table_name, 'table_id', table_id,
							 'version', version, 'definition', definition)::text;
COMMENT ON FUNCTION amoro_meta.table_document(text, text, text, bigint, bigint, jsonb) IS 'what a node serves of a table';
REVOKE ALL ON FUNCTION amoro_meta.table_document(text, text, text, bigint, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.database_document(catalog_name text, database_name text, database_id bigint, version bigint,
											 properties jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN json_build_object('catalog', catalog_name, 'database', database_name, 'database_id', database_id, 'version', version,
							 'properties', properties)::text;
COMMENT ON FUNCTION amoro_meta.database_document(text, text, bigint, bigint, jsonb) IS 'what a node serves of a database';
REVOKE ALL ON FUNCTION amoro_meta.database_document(text, text, bigint, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.catalog_document(catalog_name text, catalog_id bigint, metastore text, properties jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN json_build_object('catalog', catalog_name, 'catalog_id', catalog_id, 'metastore', metastore, 'properties', properties)::text;
COMMENT ON FUNCTION amoro_meta.catalog_document(text, bigint, text, jsonb) IS 'what a node serves of a catalog, without its secrets';
REVOKE ALL ON FUNCTION amoro_meta.catalog_document(text, bigint, text, jsonb) FROM PUBLIC;

-- Everything that can be loaded, in one shape. A table shares the fate of a database that comes or goes.
CREATE VIEW amoro_meta.metadata_object AS
	SELECT 'table' AS kind, c.catalog_name, d.database_name, t.table_name AS object_name, t.table_id AS object_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE t.state END AS state, t.version,
		amoro_meta.table_document(c.catalog_name, d.database_name, t.table_name, t.table_id, t.version, t.definition) AS document
	FROM amoro_meta.catalog c JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id
		JOIN amoro_meta.table_metadata t ON t.database_id = d.database_id
	UNION ALL
	SELECT 'database', c.catalog_name, d.database_name, '', d.database_id, d.state, d.version,
		amoro_meta.database_document(c.catalog_name, d.database_name, d.database_id, d.version, d.properties)
	FROM amoro_meta.catalog c JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id
	UNION ALL
	SELECT 'catalog', c.catalog_name, '', '', c.catalog_id, 'normal', 0,
		amoro_meta.catalog_document(c.catalog_name, c.catalog_id, c.metastore, c.properties)
	FROM amoro_meta.catalog c
	UNION ALL
	SELECT a.kind, a.catalog_name, a.database_name, a.object_name, a.object_id, a.state, a.version, a.document
	FROM amoro_meta.authority_object a;
COMMENT ON VIEW amoro_meta.metadata_object IS 'every object that nodes load, with its marker and the document they serve';

CREATE FUNCTION amoro_meta.metadata_name_count(kind text) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE kind WHEN 'catalog' THEN 1 WHEN 'authority' THEN 1 WHEN 'database' THEN 2 WHEN 'table' THEN 3 END;
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
	'all tables, databases, catalogs or users (authority), and the version of the metadata that they make up together; no rows: there are none. '
	'A state other than normal is the marker of a procedure. Errors: 22023 unknown kind, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_snapshot(text) FROM PUBLIC;

CREATE FUNCTION metadata_lookup(kind text, catalog_name text, database_name text DEFAULT NULL, table_name text DEFAULT NULL)
	RETURNS TABLE (metadata_version bigint, term bigint, found boolean, state text, object_id bigint, object_version bigint,
				   document text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 1
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	current_term bigint := amoro_meta.current_term();
	name_count integer;
BEGIN
	PERFORM amoro_meta.check_metadata_kind(kind);
	name_count := amoro_meta.metadata_name_count(kind);
	IF catalog_name IS NULL OR (database_name IS NULL) <> (name_count < 2) OR (table_name IS NULL) <> (name_count < 3) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('these are not the names of a %s', kind),
			DETAIL = format('Given in the order catalog_name, database_name, table_name it has %s; the others are null.', name_count);
	END IF;
	RETURN QUERY
		SELECT v.version, current_term, o.object_id IS NOT NULL, o.state, o.object_id, o.version, o.document
		FROM amoro_meta.metadata_version v LEFT JOIN amoro_meta.metadata_object o
			ON o.kind = metadata_lookup.kind AND o.catalog_name = metadata_lookup.catalog_name
			AND o.database_name = coalesce(metadata_lookup.database_name, '')
			AND o.object_name = coalesce(metadata_lookup.table_name, '');
END;
$$;
COMMENT ON FUNCTION metadata_lookup(text, text, text, text) IS
	'one row: an object, the document that nodes serve of it, the marker if a procedure works on it (state), and the version of the metadata '
	'this was read at; found is false when there is no such object. Errors: 22023 unknown kind or wrong number of names, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_lookup(text, text, text, text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('node', 'function', 'metadata_snapshot'),
	('node', 'function', 'metadata_lookup'),
	('reader', 'function', 'metadata_snapshot'),
	('reader', 'function', 'metadata_lookup');
