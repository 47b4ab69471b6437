/* What statements of terminal sessions are shown: catalogs, databases, tables, blockers, optimizers. */

-- Names that are not given are those of the session; problem is null when it knows enough.
CREATE FUNCTION amoro_meta.terminal_names(session amoro_meta.terminal_session, parts text[], wanted integer,
										  OUT catalog_name text, OUT database_name text, OUT table_name text, OUT problem text)
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	-- from the innermost: wanted is 1 for a catalog, 2 for a database, 3 for a table
	given integer := cardinality(parts);
BEGIN
	catalog_name := coalesce(parts[given - wanted + 1], session.catalog_name);
	IF wanted > 1 THEN
		database_name := coalesce(parts[given - wanted + 2], session.database_name);
		problem := CASE WHEN database_name IS NULL THEN 'no database is in use: name one, or "use" it' END;
	END IF;
	IF wanted > 2 THEN
		table_name := parts[given];
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.terminal_names(amoro_meta.terminal_session, text[], integer) IS
	'completes the name of a catalog, database or table by where the session stands';
REVOKE ALL ON FUNCTION amoro_meta.terminal_names(amoro_meta.terminal_session, text[], integer) FROM PUBLIC;

-- A catalog whose metastore is elsewhere may have databases that are not known here.
CREATE FUNCTION amoro_meta.terminal_problem(catalog_name text, database_name text DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	catalog record;
BEGIN
	SELECT c.catalog_id, c.metastore INTO catalog FROM amoro_meta.catalog c WHERE c.catalog_name = terminal_problem.catalog_name;
	IF NOT FOUND THEN
		RETURN format('catalog %s does not exist', amoro_meta.quoted_name(catalog_name));
	END IF;
	IF database_name IS NOT NULL AND catalog.metastore = 'internal' AND NOT EXISTS
		(SELECT FROM amoro_meta.database d WHERE d.catalog_id = catalog.catalog_id AND d.database_name = terminal_problem.database_name
			AND d.state <> 'pre_create') THEN
		RETURN format('database %s does not exist', amoro_meta.quoted_name(catalog_name, database_name));
	END IF;
	RETURN NULL;
END;
$$;
COMMENT ON FUNCTION amoro_meta.terminal_problem(text, text) IS 'why a session cannot be in this catalog, or database; null when it can';
REVOKE ALL ON FUNCTION amoro_meta.terminal_problem(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.show_catalogs(OUT columns text[], OUT rows jsonb)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT ARRAY['catalog', 'metastore'], jsonb_agg(jsonb_build_array(c.catalog_name, c.metastore))
	FROM (SELECT * FROM amoro_meta.catalog c ORDER BY c.catalog_name LIMIT 1001) c
	$$;
COMMENT ON FUNCTION amoro_meta.show_catalogs() IS 'show catalogs';
REVOKE ALL ON FUNCTION amoro_meta.show_catalogs() FROM PUBLIC;

CREATE FUNCTION amoro_meta.show_databases(catalog_name text, OUT columns text[], OUT rows jsonb)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT ARRAY['database'], jsonb_agg(jsonb_build_array(d.database_name))
	FROM (SELECT d.database_name FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)
		  WHERE c.catalog_name = show_databases.catalog_name AND d.state <> 'pre_create'
		  UNION
		  SELECT l.database_name FROM amoro_meta.listed_table l JOIN amoro_meta.catalog c USING (catalog_id)
		  WHERE c.catalog_name = show_databases.catalog_name ORDER BY 1 LIMIT 1001) d
	$$;
COMMENT ON FUNCTION amoro_meta.show_databases(text) IS 'show databases [in catalog]';
REVOKE ALL ON FUNCTION amoro_meta.show_databases(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.show_tables(catalog_name text, database_name text, OUT columns text[], OUT rows jsonb)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT ARRAY['table', 'format'], jsonb_agg(jsonb_build_array(t.table_name, t.format))
	FROM (SELECT t.table_name, CASE t.relation_kind WHEN 'view' THEN 'view' ELSE t.definition->>'format' END AS format
		  FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		  WHERE c.catalog_name = show_tables.catalog_name AND d.database_name = show_tables.database_name
			AND t.state <> 'pre_create' AND d.state <> 'pre_create'
		  UNION ALL
		  SELECT l.table_name, l.format FROM amoro_meta.listed_table l JOIN amoro_meta.catalog c USING (catalog_id)
		  WHERE c.catalog_name = show_tables.catalog_name AND l.database_name = show_tables.database_name
		  ORDER BY 1 LIMIT 1001) t
	$$;
COMMENT ON FUNCTION amoro_meta.show_tables(text, text) IS 'show tables [in [catalog.]database]';
REVOKE ALL ON FUNCTION amoro_meta.show_tables(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.describe_table(catalog_name text, database_name text, table_name text, OUT columns text[], OUT rows jsonb,
										  OUT problem text)
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	definition jsonb;
BEGIN
	columns := ARRAY['column', 'type', 'required', 'comment', 'partitioned_by'];
	SELECT CASE t.relation_kind WHEN 'view' THEN jsonb_build_object('columns', amoro_meta.view_columns(t.definition, b.definition))
			ELSE t.definition END INTO definition
		FROM amoro_meta.table_metadata t JOIN amoro_meta.database d ON d.database_id = t.database_id JOIN amoro_meta.catalog c USING (catalog_id)
			LEFT JOIN amoro_meta.table_metadata b ON b.table_id = t.base_id
		WHERE c.catalog_name = describe_table.catalog_name AND d.database_name = describe_table.database_name
			AND t.table_name = describe_table.table_name AND t.state <> 'pre_create' AND d.state <> 'pre_create';
	IF NOT FOUND THEN
		problem := format('table %s does not exist', amoro_meta.quoted_name(catalog_name, database_name, table_name));
	END IF;
	rows := (SELECT jsonb_agg(jsonb_build_array(f.field->>'name', f.field->>'type', f.field->'required', f.field->>'comment',
				(SELECT string_agg(p->>'transform', ', ') FROM jsonb_array_elements(definition->'partitioning') p
				 WHERE p->'column_id' = f.field->'id')) ORDER BY f.ordinal)
			 FROM jsonb_array_elements(definition->'columns') WITH ORDINALITY f (field, ordinal));
END;
$$;
COMMENT ON FUNCTION amoro_meta.describe_table(text, text, text) IS 'describe [table] [[catalog.]database.]table; problem when it is not known here';
REVOKE ALL ON FUNCTION amoro_meta.describe_table(text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.show_blockers(catalog_name text, database_name text, table_name text, OUT columns text[], OUT rows jsonb)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT ARRAY['table', 'operations', 'acquired_by', 'expires_at', 'blocker_id'],
		jsonb_agg(jsonb_build_array(b.table_name, array_to_string(b.operations, ','), b.acquired_by, b.expires_at, b.blocker_id))
	FROM (SELECT b.* FROM @extschema@.blockers b
		  WHERE b.catalog_name = show_blockers.catalog_name AND b.database_name = show_blockers.database_name
			AND b.table_name = coalesce(show_blockers.table_name, b.table_name) ORDER BY b.table_name, b.blocker_id LIMIT 1001) b
	$$;
COMMENT ON FUNCTION amoro_meta.show_blockers(text, text, text) IS 'show blockers [in [[catalog.]database.]table]; without a table, those of the database';
REVOKE ALL ON FUNCTION amoro_meta.show_blockers(text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.show_optimizers(group_name text, OUT columns text[], OUT rows jsonb)
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT ARRAY['optimizer_id', 'group', 'container', 'threads', 'memory_mb', 'draining', 'registered_at', 'touched_at'],
		jsonb_agg(jsonb_build_array(o.optimizer_id, o.group_name, o.container_name, o.thread_count, o.memory_mb, o.draining,
									o.registered_at, o.touched_at))
	FROM ((SELECT o.* FROM amoro_meta.optimizer o WHERE o.group_name = show_optimizers.group_name ORDER BY o.optimizer_id LIMIT 1001)
		  UNION ALL
		  (SELECT o.* FROM amoro_meta.optimizer o WHERE show_optimizers.group_name IS NULL ORDER BY o.group_name, o.optimizer_id LIMIT 1001)) o
	$$;
COMMENT ON FUNCTION amoro_meta.show_optimizers(text) IS 'show optimizers [in group]';
REVOKE ALL ON FUNCTION amoro_meta.show_optimizers(text) FROM PUBLIC;

-- Of a catalog whose metastore is elsewhere the listings are known; to describe a table is the engine's.
CREATE FUNCTION amoro_meta.terminal_show(session amoro_meta.terminal_session, command text, parts text[], OUT columns text[],
										 OUT rows jsonb, OUT problem text, OUT elsewhere boolean)
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	place record;
BEGIN
	SELECT * INTO place FROM amoro_meta.terminal_names(session, parts, CASE WHEN command = 'show databases' THEN 1
		WHEN command = 'describe' OR (command = 'show blockers' AND cardinality(parts) > 0) THEN 3 ELSE 2 END);
	elsewhere := command = 'describe' AND EXISTS
		(SELECT FROM amoro_meta.catalog c WHERE c.catalog_name = place.catalog_name AND c.metastore <> 'internal');
	problem := coalesce(place.problem, amoro_meta.terminal_problem(place.catalog_name, place.database_name));
	IF elsewhere OR (command NOT IN ('show catalogs', 'show optimizers') AND problem IS NOT NULL) THEN
		RETURN;
	END IF;
	problem := NULL;
	CASE command
		WHEN 'show optimizers' THEN SELECT * INTO columns, rows FROM amoro_meta.show_optimizers(parts[1]);
		WHEN 'show blockers' THEN
			SELECT * INTO columns, rows FROM amoro_meta.show_blockers(place.catalog_name, place.database_name, place.table_name);
		WHEN 'show catalogs' THEN SELECT * INTO columns, rows FROM amoro_meta.show_catalogs();
		WHEN 'show databases' THEN SELECT * INTO columns, rows FROM amoro_meta.show_databases(place.catalog_name);
		WHEN 'show tables' THEN SELECT * INTO columns, rows FROM amoro_meta.show_tables(place.catalog_name, place.database_name);
		WHEN 'describe' THEN
			SELECT * INTO columns, rows, problem
				FROM amoro_meta.describe_table(place.catalog_name, place.database_name, place.table_name);
	END CASE;
END;
$$;
COMMENT ON FUNCTION amoro_meta.terminal_show(amoro_meta.terminal_session, text, text[]) IS
	'show ... and describe; elsewhere when the engine has to answer';
REVOKE ALL ON FUNCTION amoro_meta.terminal_show(amoro_meta.terminal_session, text, text[]) FROM PUBLIC;
