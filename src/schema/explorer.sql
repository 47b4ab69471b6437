/* What the explorer does in the database, each call a transaction of its own: between two of them it is on the network. */

-- Of what was read of a table only that counts by which its group and its optimizing are decided.
CREATE INDEX listed_table_unread ON amoro_meta.listed_table (catalog_id, table_id) WHERE table_uuid IS NULL;

CREATE FUNCTION amoro_meta.wake_explorer() RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_wake_explorer';
COMMENT ON FUNCTION amoro_meta.wake_explorer() IS 'has the explorer look what is due when the transaction commits';
REVOKE ALL ON FUNCTION amoro_meta.wake_explorer() FROM PUBLIC;

CREATE FUNCTION amoro_meta.explorer_pid() RETURNS integer
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_explorer_pid';
COMMENT ON FUNCTION amoro_meta.explorer_pid() IS 'process id of the explorer of this database; null when there is none';
REVOKE ALL ON FUNCTION amoro_meta.explorer_pid() FROM PUBLIC;

-- What is left of the round of an explorer that ended in the middle: the round begins anew.
CREATE FUNCTION amoro_meta.begin_exploring() RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$UPDATE amoro_meta.exploration e SET phase = 'waiting', next_at = NULL WHERE e.phase <> 'waiting'$$;
COMMENT ON FUNCTION amoro_meta.begin_exploring() IS 'makes rounds that were under way when an explorer ended due again';
REVOKE ALL ON FUNCTION amoro_meta.begin_exploring() FROM PUBLIC;

-- Also due is what lies further ahead than it ever should: the clock was set back.
CREATE FUNCTION amoro_meta.exploration_due_in(next_at timestamptz) RETURNS interval
	LANGUAGE sql VOLATILE
	-- no string: of thousands of catalogs it is asked again and again, and so it is put into the query itself
	RETURN CASE WHEN next_at IS NULL OR next_at > clock_timestamp() + current_setting('amoro_meta.explore_interval')::interval * 12 + interval '1 hour'
		THEN interval '0' ELSE greatest(next_at - clock_timestamp(), interval '0') END;
COMMENT ON FUNCTION amoro_meta.exploration_due_in(timestamptz) IS 'how long until a catalog is due that is to be explored at that time';
REVOKE ALL ON FUNCTION amoro_meta.exploration_due_in(timestamptz) FROM PUBLIC;

CREATE FUNCTION amoro_meta.next_exploration(running bigint[]) RETURNS bigint
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT (extract(epoch FROM min(amoro_meta.exploration_due_in(e.next_at))) * 1000)::bigint
	FROM amoro_meta.catalog c LEFT JOIN amoro_meta.exploration e USING (catalog_id)
	WHERE c.metastore = 'iceberg_rest' AND c.catalog_id <> ALL (running)
	$$;
COMMENT ON FUNCTION amoro_meta.next_exploration(bigint[]) IS 'in how many milliseconds a catalog is due; null when there is none to explore';
REVOKE ALL ON FUNCTION amoro_meta.next_exploration(bigint[]) FROM PUBLIC;

-- Catalogs that failed last time get half of the places: however many are dead, there is room for the others.
CREATE FUNCTION amoro_meta.claim_explorations(running bigint[], places integer)
	RETURNS TABLE (catalog_id bigint, catalog_name text, uri text, warehouse text, prefix text, token text, credential text,
				   token_uri text, token_scope text, ca_certificate text, client_certificate text, client_key text,
				   database_filter text, table_filter text, reads_tables boolean)
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH due AS (
		SELECT c.catalog_id, e.catalog_id IS NOT NULL AS present, coalesce(e.failures, 0) > 0 AS failing,
			row_number() OVER (PARTITION BY coalesce(e.failures, 0) > 0 ORDER BY e.next_at NULLS FIRST, c.catalog_id)
				+ (SELECT count(*) FROM amoro_meta.exploration r WHERE r.catalog_id = ANY (running) AND r.failures > 0) AS place
		FROM amoro_meta.catalog c LEFT JOIN amoro_meta.exploration e USING (catalog_id)
		WHERE c.metastore = 'iceberg_rest' AND c.catalog_id <> ALL (running) AND amoro_meta.exploration_due_in(e.next_at) = interval '0'),
	-- whoever asks for a catalog in a transaction that stays open holds up no other one
	free AS (
		SELECT e.catalog_id FROM amoro_meta.exploration e WHERE e.catalog_id IN (SELECT d.catalog_id FROM due d) FOR NO KEY UPDATE SKIP LOCKED),
	chosen AS (
		SELECT d.catalog_id FROM due d
		WHERE (NOT d.failing OR d.place <= places / 2) AND (NOT d.present OR d.catalog_id IN (SELECT f.catalog_id FROM free f))
		ORDER BY d.failing, d.place LIMIT greatest(places - cardinality(running), 0)),
	begun AS (
		INSERT INTO amoro_meta.exploration AS e (catalog_id, rounds, phase, started_at)
			SELECT h.catalog_id, 1, 'config', clock_timestamp() FROM chosen h
			ON CONFLICT ON CONSTRAINT exploration_pkey DO UPDATE
				SET rounds = e.rounds + 1, phase = 'config', started_at = clock_timestamp(), done = 0, known = 0, tables = 0,
					added = 0, changed = 0, removed = 0, skipped = 0, skipped_name = NULL
			RETURNING e.catalog_id)
	SELECT c.catalog_id, c.catalog_name, c.properties->>'uri', c.properties->>'warehouse', c.properties->>'prefix',
		c.auth_config->>'token', c.auth_config->>'credential', c.auth_config->>'oauth2-server-uri', c.auth_config->>'scope',
		c.auth_config->>'ca-certificate', c.auth_config->>'client-certificate', c.auth_config->>'client-key',
		c.properties->>'database-filter', c.properties->>'table-filter', coalesce(c.properties->>'read-tables', 'true') = 'true'
	FROM begun b JOIN amoro_meta.catalog c USING (catalog_id)
	$$;
COMMENT ON FUNCTION amoro_meta.claim_explorations(bigint[], integer) IS
	'begins a round of catalogs that are due, as long as there are places beside those that run, and returns what is needed to ask them';
REVOKE ALL ON FUNCTION amoro_meta.claim_explorations(bigint[], integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.report_exploration(catalog_id bigint, phase text, done bigint, known bigint, tables bigint, added bigint,
											  changed bigint, skipped bigint, skipped_name text) RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.exploration e
		SET phase = report_exploration.phase, done = report_exploration.done, known = report_exploration.known,
			tables = report_exploration.tables, added = report_exploration.added, changed = report_exploration.changed,
			skipped = report_exploration.skipped, skipped_name = report_exploration.skipped_name
		WHERE e.catalog_id = report_exploration.catalog_id
	$$;
COMMENT ON FUNCTION amoro_meta.report_exploration(bigint, text, bigint, bigint, bigint, bigint, bigint, bigint, text) IS 'how far a round has come';
REVOKE ALL ON FUNCTION amoro_meta.report_exploration(bigint, text, bigint, bigint, bigint, bigint, bigint, bigint, text) FROM PUBLIC;

-- A round that failed is tried again later and later, at most ten intervals later; scattered, so that catalogs that
-- failed together do not come together for ever.
CREATE FUNCTION amoro_meta.end_exploration(catalog_id bigint, failed boolean, error text, removed bigint, retry_after_seconds integer) RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.exploration e
		SET phase = 'waiting', ended_at = clock_timestamp(), removed = end_exploration.removed,
			failures = CASE WHEN failed THEN e.failures + 1 ELSE 0 END,
			last_error = CASE WHEN error IS NULL AND NOT failed THEN NULL ELSE error END,
			last_error_at = CASE WHEN error IS NULL AND NOT failed THEN NULL ELSE clock_timestamp() END,
			next_at = CASE WHEN e.asked_for > e.rounds THEN NULL ELSE clock_timestamp() + greatest(
				current_setting('amoro_meta.explore_interval')::interval * (1 + random() / 20)
					* CASE WHEN failed THEN least(pow(2, least(e.failures, 10)), 10) ELSE 1 END,
				make_interval(secs => least(retry_after_seconds, 3600))) END
		WHERE e.catalog_id = end_exploration.catalog_id
	$$;
COMMENT ON FUNCTION amoro_meta.end_exploration(bigint, boolean, text, bigint, integer) IS 'ends the round of a catalog and says when the next one is due';
REVOKE ALL ON FUNCTION amoro_meta.end_exploration(bigint, boolean, text, bigint, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.read_rest_config(answer jsonb, OUT prefix text, OUT separator text, OUT lists boolean, OUT reads boolean)
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(answer->'overrides'->>'prefix', answer->'defaults'->>'prefix'),
		coalesce(answer->'overrides'->>'namespace-separator', answer->'defaults'->>'namespace-separator'),
		jsonb_typeof(answer->'endpoints') IS DISTINCT FROM 'array' OR answer->'endpoints' ? 'GET /v1/{prefix}/namespaces/{namespace}/tables',
		jsonb_typeof(answer->'endpoints') IS DISTINCT FROM 'array' OR answer->'endpoints' ? 'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}'
	$$;
COMMENT ON FUNCTION amoro_meta.read_rest_config(jsonb) IS
	'what matters of the answer to GET /v1/config; an endpoint counts as there when the server advertises none';
REVOKE ALL ON FUNCTION amoro_meta.read_rest_config(jsonb) FROM PUBLIC;

-- A namespace is one name here: its levels with dots between them, and a backslash before a dot that is part of a level.
CREATE FUNCTION amoro_meta.namespace_name(path text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN replace(regexp_replace(path, '[.\\]', '\\\&', 'g'), E'\x1f', '.');
COMMENT ON FUNCTION amoro_meta.namespace_name(text) IS 'the name under which a namespace is kept; path: its levels with U+001F between them';
REVOKE ALL ON FUNCTION amoro_meta.namespace_name(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.page_token(answer jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT nullif(answer->>'next-page-token', '')$$;
COMMENT ON FUNCTION amoro_meta.page_token(jsonb) IS 'where the next page begins; null after the last one';
REVOKE ALL ON FUNCTION amoro_meta.page_token(jsonb) FROM PUBLIC;

-- A server that knows no nested namespaces may answer the question for those below one with all there are: those are left aside.
CREATE FUNCTION amoro_meta.read_namespaces_page(answer jsonb, parent text[], database_filter text, OUT next_page_token text,
												OUT names text[], OUT paths text[], OUT listed boolean[], OUT skipped bigint, OUT skipped_name text)
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF jsonb_typeof(answer->'namespaces') IS DISTINCT FROM 'array' THEN
		RAISE EXCEPTION 'the answer has no list of namespaces' USING ERRCODE = 'data_exception';
	END IF;
	next_page_token := amoro_meta.page_token(answer);
	WITH entry AS MATERIALIZED (
		SELECT CASE jsonb_typeof(j) WHEN 'array' THEN ARRAY(SELECT e.v FROM jsonb_array_elements_text(j) WITH ORDINALITY e (v, n) ORDER BY e.n) END AS levels
		FROM jsonb_array_elements(answer->'namespaces') j),
	child AS MATERIALIZED (
		SELECT e.levels, array_to_string(e.levels, E'\x1f', '') AS path, amoro_meta.namespace_name(array_to_string(e.levels, E'\x1f', '')) AS name
		FROM entry e
		WHERE e.levels IS NULL OR (cardinality(e.levels) = cardinality(parent) + 1 AND e.levels[:cardinality(parent)] = parent)),
	checked AS MATERIALIZED (
		-- the separator of the path is in no name; the length of the whole is that of its name
		SELECT c.name, c.path, '' <> ALL (c.levels) AND cardinality(string_to_array(c.path, E'\x1f')) = cardinality(c.levels)
			AND amoro_meta.is_name(c.name) AS kept
		FROM child c)
	SELECT coalesce(array_agg(c.name) FILTER (WHERE c.kept), '{}'), coalesce(array_agg(c.path) FILTER (WHERE c.kept), '{}'),
			coalesce(array_agg(amoro_meta.matches_filter(database_filter, c.name)) FILTER (WHERE c.kept), '{}'),
			count(*) FILTER (WHERE c.kept IS NOT TRUE), min(left(c.name, 100)) FILTER (WHERE c.kept IS NOT TRUE)
		INTO names, paths, listed, skipped, skipped_name FROM checked c;
END;
$$;
COMMENT ON FUNCTION amoro_meta.read_namespaces_page(jsonb, text[], text) IS
	'the namespaces right below one in a page of GET namespaces: by name, by path (levels with U+001F between them), and whether their tables are wanted';
REVOKE ALL ON FUNCTION amoro_meta.read_namespaces_page(jsonb, text[], text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.merge_tables_page(catalog_id bigint, database_name text, answer jsonb, table_filter text, OUT next_page_token text,
											 OUT listed bigint, OUT seen bigint[], OUT added bigint, OUT changed bigint, OUT skipped bigint,
											 OUT skipped_name text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	merged record;
BEGIN
	IF jsonb_typeof(answer->'identifiers') IS DISTINCT FROM 'array' THEN
		RAISE EXCEPTION 'the answer has no list of identifiers' USING ERRCODE = 'data_exception';
	END IF;
	next_page_token := amoro_meta.page_token(answer);
	listed := jsonb_array_length(answer->'identifiers');
	-- the names alone: what else a stranger adds is not part of this answer
	merged := amoro_meta.merge_listing(catalog_id, database_name,
		(SELECT coalesce(jsonb_agg(jsonb_build_object('name', j->'name')), '[]') FROM jsonb_array_elements(answer->'identifiers') j), table_filter);
	seen := merged.seen;
	added := merged.added;
	changed := merged.changed;
	skipped := merged.skipped;
	skipped_name := merged.skipped_name;
END;
$$;
COMMENT ON FUNCTION amoro_meta.merge_tables_page(bigint, text, jsonb, text) IS 'merges a page of GET tables';
REVOKE ALL ON FUNCTION amoro_meta.merge_tables_page(bigint, text, jsonb, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.missing_databases(catalog_id bigint, listed text[]) RETURNS bigint[]
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(array_agg(t.table_id), '{}') FROM
		(SELECT d.database_name FROM amoro_meta.listed_table d WHERE d.catalog_id = missing_databases.catalog_id EXCEPT SELECT l FROM unnest(listed) l) gone,
		LATERAL (SELECT o.table_id FROM amoro_meta.listed_table o
				 WHERE o.catalog_id = missing_databases.catalog_id AND o.database_name = gone.database_name OFFSET 0) t
	$$;
COMMENT ON FUNCTION amoro_meta.missing_databases(bigint, text[]) IS 'tables of all databases of a catalog but those';
REVOKE ALL ON FUNCTION amoro_meta.missing_databases(bigint, text[]) FROM PUBLIC;

-- Each in a page of its own: first those of which nothing was read yet, then again those that were, a few at a time.
CREATE FUNCTION amoro_meta.tables_to_read(catalog_id bigint, unread boolean, after bigint, most integer)
	RETURNS TABLE (table_id bigint, database_name text, table_name text)
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF unread THEN
		RETURN QUERY SELECT t.table_id, t.database_name, t.table_name FROM amoro_meta.listed_table t
			WHERE t.catalog_id = tables_to_read.catalog_id AND t.table_uuid IS NULL AND t.table_id > after AND t.missing_since IS NULL
			ORDER BY t.table_id LIMIT most;
	ELSE
		RETURN QUERY SELECT t.table_id, t.database_name, t.table_name FROM amoro_meta.listed_table t
			WHERE t.catalog_id = tables_to_read.catalog_id AND t.table_uuid IS NOT NULL AND t.table_id > after AND t.missing_since IS NULL
			ORDER BY t.table_id LIMIT most;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.tables_to_read(bigint, boolean, bigint, integer) IS 'tables of a catalog in the order of their ids, after one of them';
REVOKE ALL ON FUNCTION amoro_meta.tables_to_read(bigint, boolean, bigint, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.merge_table(table_id bigint, answer jsonb) RETURNS boolean
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	merged record;
	uuid text := left(answer->'metadata'->>'table-uuid', 100);
BEGIN
	IF uuid IS NULL THEN
		RAISE EXCEPTION 'the answer has no table-uuid' USING ERRCODE = 'data_exception';
	END IF;
	SELECT t.catalog_id, t.database_name, t.table_name INTO target FROM amoro_meta.listed_table t WHERE t.table_id = merge_table.table_id;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	merged := amoro_meta.merge_listing(target.catalog_id, target.database_name, jsonb_build_array(jsonb_build_object('name', target.table_name,
		'uuid', uuid, 'properties', (SELECT coalesce(jsonb_object_agg(p.key, left(p.value, 1000)), '{}')
			FROM jsonb_each_text(CASE jsonb_typeof(answer->'metadata'->'properties') WHEN 'object' THEN answer->'metadata'->'properties' END) p
			WHERE starts_with(p.key, 'self-optimizing.')))), NULL);
	RETURN merged.added + merged.changed > 0;
END;
$$;
COMMENT ON FUNCTION amoro_meta.merge_table(bigint, jsonb) IS
	'takes over what GET table says: the uuid, by which a table made anew under the old name is known, and the properties self-optimizing.*';
REVOKE ALL ON FUNCTION amoro_meta.merge_table(bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.read_token(answer jsonb, OUT token text, OUT expires_in integer)
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT answer->>'access_token',
		CASE WHEN answer->>'expires_in' ~ '^\d{1,8}$' THEN (answer->>'expires_in')::integer END
	WHERE lower(coalesce(answer->>'token_type', 'bearer')) = 'bearer' AND answer->>'access_token' ~ '^[!-~]+$'
		AND length(answer->>'access_token') <= 16384
	$$;
COMMENT ON FUNCTION amoro_meta.read_token(jsonb) IS 'a bearer token and for how many seconds it is good; nulls when the answer has none that can be sent';
REVOKE ALL ON FUNCTION amoro_meta.read_token(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.explore_soon(catalog_id bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	round bigint;
BEGIN
	-- a round that is under way may have passed what is to be seen: then the next one begins right after it
	INSERT INTO amoro_meta.exploration AS e (catalog_id) VALUES (explore_soon.catalog_id)
		ON CONFLICT ON CONSTRAINT exploration_pkey DO UPDATE SET next_at = NULL, asked_for = e.rounds + 1
		RETURNING e.rounds + 1 INTO round;
	PERFORM amoro_meta.wake_explorer();
	RETURN round;
END;
$$;
COMMENT ON FUNCTION amoro_meta.explore_soon(bigint) IS 'makes a catalog due, and returns the number of the round that begins after this moment';
REVOKE ALL ON FUNCTION amoro_meta.explore_soon(bigint) FROM PUBLIC;

-- The tables are here, so there is nothing to ask: only to compare.
CREATE FUNCTION amoro_meta.repair_catalog_runtimes(catalog_name text) RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.repair_table_runtime(d.table_id)
	FROM (SELECT s.table_id FROM amoro_meta.runtime_source s LEFT JOIN amoro_meta.table_runtime r USING (table_id)
		  WHERE s.catalog_name = repair_catalog_runtimes.catalog_name
			AND CASE WHEN r.table_id IS NULL THEN amoro_meta.is_optimized(s.format, s.catalog_properties, s.properties)
					 ELSE (r.table_version, r.defaults_version) IS DISTINCT FROM (s.version, s.defaults_version) END
		  UNION ALL
		  SELECT r.table_id FROM amoro_meta.table_runtime r
		  WHERE r.catalog_name = repair_catalog_runtimes.catalog_name
			AND NOT EXISTS (SELECT FROM amoro_meta.runtime_source s WHERE s.table_id = r.table_id)) d
	$$;
COMMENT ON FUNCTION amoro_meta.repair_catalog_runtimes(text) IS 'has the runtimes of a catalog looked at that do not fit its tables';
REVOKE ALL ON FUNCTION amoro_meta.repair_catalog_runtimes(text) FROM PUBLIC;

CREATE FUNCTION explore_catalog(catalog_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name);
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	SELECT c.catalog_id, c.metastore INTO target FROM amoro_meta.catalog c WHERE c.catalog_name = explore_catalog.catalog_name FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	IF target.metastore = 'internal' THEN
		PERFORM amoro_meta.repair_catalog_runtimes(explore_catalog.catalog_name);
		RETURN 0;
	END IF;
	IF target.metastore <> 'iceberg_rest' THEN
		RAISE EXCEPTION 'catalog "%" is not explored', catalog_name USING ERRCODE = 'feature_not_supported',
			DETAIL = format('Its metastore is "%s".', target.metastore);
	END IF;
	IF NOT amoro_meta.preloaded() THEN
		RAISE EXCEPTION 'there is no explorer in this database' USING ERRCODE = 'AM005', DETAIL = 'The library is not preloaded.',
			HINT = 'Add amoro_meta to shared_preload_libraries in postgresql.conf and restart the server.';
	END IF;
	RETURN amoro_meta.explore_soon(target.catalog_id);
END;
$$;
COMMENT ON FUNCTION explore_catalog(text) IS
	'has a catalog whose metastore is iceberg_rest explored at once, and returns the number of that round; it is over when amoro_stat_explorer '
	'shows it in rounds. For an internal catalog: brings the runtimes of its tables up to date before it returns, and returns 0. Errors: 42704 no such catalog, 0A000 it is not explored, AM005 no explorer, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION explore_catalog(text) FROM PUBLIC;

CREATE VIEW amoro_stat_explorer AS
	SELECT c.catalog_name, c.metastore, amoro_meta.explorer_pid() AS pid, coalesce(e.phase, 'waiting') AS phase, e.done, e.known AS "of", e.tables,
		CASE WHEN e.phase <> 'waiting' THEN round(e.tables / nullif(extract(epoch FROM pg_catalog.clock_timestamp() - e.started_at), 0))
			 ELSE round(e.tables / nullif(extract(epoch FROM e.ended_at - e.started_at), 0)) END AS rate,
		CASE WHEN e.phase <> 'waiting' THEN e.rounds - 1 ELSE e.rounds END AS rounds, e.started_at, e.ended_at,
		e.added, e.changed, e.removed, e.skipped, e.skipped_name,
		(SELECT count(*) FROM amoro_meta.listed_table t WHERE t.catalog_id = c.catalog_id AND t.missing_since IS NOT NULL) AS held,
		e.failures, e.last_error, e.last_error_at, e.next_at AS next_run
	FROM amoro_meta.catalog c LEFT JOIN amoro_meta.exploration e USING (catalog_id)
	WHERE c.metastore = 'iceberg_rest';
COMMENT ON VIEW amoro_stat_explorer IS
	'catalogs that are explored: what the round under way or the last one has seen and done, how it ended, and when the next one is due';
COMMENT ON COLUMN amoro_stat_explorer.phase IS 'waiting, config, namespaces, tables or properties';
COMMENT ON COLUMN amoro_stat_explorer.done IS 'databases that were listed to their end; in phase properties: tables that were read';
COMMENT ON COLUMN amoro_stat_explorer."of" IS 'databases known so far, of which done are done';
COMMENT ON COLUMN amoro_stat_explorer.rate IS 'tables listed a second';
COMMENT ON COLUMN amoro_stat_explorer.rounds IS 'rounds that have ended';
COMMENT ON COLUMN amoro_stat_explorer.failures IS 'rounds in a row that failed; the pause between them grows to ten intervals';
COMMENT ON COLUMN amoro_stat_explorer.last_error IS 'why the last round failed, or what of it could not be listed and stays as it is';
REVOKE ALL ON amoro_stat_explorer FROM PUBLIC;
GRANT SELECT ON amoro_stat_explorer TO pg_monitor;
-- a view checks the functions in it against its reader
GRANT EXECUTE ON FUNCTION amoro_meta.explorer_pid() TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'amoro_stat_explorer' FROM unnest(ARRAY['operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['explore_catalog', 'amoro_meta.explorer_pid']) n;
