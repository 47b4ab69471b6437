/* Runtimes are brought in line with their tables, and with the groups there are, again and again. */

-- How far refresh_table_runtimes() has come. Nothing is lost with it: it begins again.
CREATE TABLE amoro_meta.refresh_position
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	table_id		bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.refresh_position IS 'the last table that refresh_table_runtimes() has looked at';
INSERT INTO amoro_meta.refresh_position VALUES (true, 0);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.refresh_position', 'WHERE false');

CREATE FUNCTION amoro_meta.bind_table_runtimes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	waited_for text;
	bound bigint := 0;
	more bigint;
BEGIN
	FOR waited_for IN
		SELECT g.group_name FROM amoro_meta.optimizer_group g
		WHERE EXISTS (SELECT FROM amoro_meta.table_runtime r WHERE r.wanted_group = g.group_name AND r.group_name IS NULL)
	LOOP
		EXIT WHEN bound >= amoro_meta.sweep_batch();
		PERFORM FROM amoro_meta.optimizer_group g WHERE g.group_name = waited_for FOR KEY SHARE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		WITH waiting AS
		(
			SELECT r.table_id FROM amoro_meta.table_runtime r WHERE r.wanted_group = waited_for AND r.group_name IS NULL
			LIMIT amoro_meta.sweep_batch() - bound FOR NO KEY UPDATE SKIP LOCKED
		)
		UPDATE amoro_meta.table_runtime r SET group_name = waited_for, version = amoro_meta.next_runtime_version()
			FROM waiting w WHERE r.table_id = w.table_id;
		GET DIAGNOSTICS more = ROW_COUNT;
		bound := bound + more;
	END LOOP;
	RETURN bound;
END;
$$;
COMMENT ON FUNCTION amoro_meta.bind_table_runtimes() IS 'binds a batch of tables to the groups they waited for, and returns how many';
REVOKE ALL ON FUNCTION amoro_meta.bind_table_runtimes() FROM PUBLIC;

CREATE FUNCTION amoro_meta.repair_table_runtime(table_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	-- a sweep holds what it has repaired, so for a process that somebody else changes it must not wait: a deadlock
	SET lock_timeout = '10ms'
	AS $$
DECLARE
	error text;
BEGIN
	-- whoever has the table or its runtime locked is about to change it: later
	PERFORM FROM amoro_meta.table_metadata t WHERE t.table_id = repair_table_runtime.table_id FOR KEY SHARE SKIP LOCKED;
	IF NOT FOUND THEN
		PERFORM FROM amoro_meta.listed_table t WHERE t.table_id = repair_table_runtime.table_id FOR KEY SHARE SKIP LOCKED;
	END IF;
	IF NOT FOUND AND EXISTS (SELECT FROM amoro_meta.runtime_source s WHERE s.table_id = repair_table_runtime.table_id) THEN
		RETURN;
	END IF;
	PERFORM FROM amoro_meta.table_runtime r WHERE r.table_id = repair_table_runtime.table_id FOR UPDATE SKIP LOCKED;
	IF NOT FOUND AND EXISTS (SELECT FROM amoro_meta.table_runtime r WHERE r.table_id = repair_table_runtime.table_id) THEN
		RETURN;
	END IF;
	PERFORM amoro_meta.put_table_runtime(table_id);
EXCEPTION
WHEN lock_not_available THEN
	RETURN;
WHEN OTHERS THEN
	error := format('%s: %s', SQLSTATE, SQLERRM);
	UPDATE amoro_meta.table_runtime r SET refresh_error = error
		FROM (SELECT l.table_id FROM amoro_meta.table_runtime l
			  WHERE l.table_id = repair_table_runtime.table_id FOR NO KEY UPDATE SKIP LOCKED) free
		WHERE r.table_id = free.table_id AND r.refresh_error IS DISTINCT FROM error;
	IF FOUND THEN
		RAISE LOG 'the runtime of table % cannot be refreshed: %', table_id, error;
		PERFORM amoro_meta.count_row_error('refresh_table_runtimes', SQLSTATE, SQLERRM);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.repair_table_runtime(bigint) IS 'put_table_runtime for a sweep: waits for nobody, and an error stays with the table';
REVOKE ALL ON FUNCTION amoro_meta.repair_table_runtime(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.stale_runtimes(after_id bigint, page_size integer, OUT rows_seen bigint, OUT last_id bigint, OUT table_ids bigint[])
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH page AS
	(
		SELECT i.table_id FROM
		(
			(SELECT t.table_id FROM amoro_meta.table_metadata t WHERE t.table_id > after_id ORDER BY t.table_id LIMIT page_size)
			UNION ALL
			(SELECT l.table_id FROM amoro_meta.listed_table l WHERE l.table_id > after_id ORDER BY l.table_id LIMIT page_size)
			UNION ALL
			(SELECT r.table_id FROM amoro_meta.table_runtime r WHERE r.table_id > after_id ORDER BY r.table_id LIMIT page_size)
		) i
		ORDER BY i.table_id LIMIT page_size
	)
	-- what is compared first stands in the rows themselves: no definition is read but where something is different
	SELECT count(*), max(p.table_id), array_agg(DISTINCT p.table_id) FILTER (WHERE CASE
			WHEN coalesce(t.table_id, l.table_id) IS NULL THEN true
			WHEN t.state = 'pre_create' OR t.relation_kind = 'view' THEN false
			WHEN r.table_id IS NULL THEN
				amoro_meta.is_optimized(coalesce(l.format, t.definition->>'format'), c.properties, coalesce(l.properties, t.definition->'properties'))
			WHEN r.defaults_version <> c.defaults_version THEN true
			WHEN t.table_id IS NOT NULL THEN r.table_version IS DISTINCT FROM t.version
			ELSE r.config <> amoro_meta.merged_properties(c.properties, l.properties) END)
	FROM page p
		LEFT JOIN amoro_meta.table_runtime r ON r.table_id = p.table_id
		LEFT JOIN amoro_meta.table_metadata t ON t.table_id = p.table_id
		LEFT JOIN amoro_meta.database d ON d.database_id = t.database_id
		LEFT JOIN amoro_meta.listed_table l ON l.table_id = p.table_id
		LEFT JOIN amoro_meta.catalog c ON c.catalog_id = coalesce(l.catalog_id, d.catalog_id)
	$$;
COMMENT ON FUNCTION amoro_meta.stale_runtimes(bigint, integer) IS
	'looks at the tables and runtimes after an id, and returns how far it came and the tables whose runtime is not as it should be';
REVOKE ALL ON FUNCTION amoro_meta.stale_runtimes(bigint, integer) FROM PUBLIC;

-- Most of the tables whose catalog has new defaults stay in their group, and nobody works on them: all of those at once.
-- They go on naming a group that they name, so it need not be held.
CREATE FUNCTION amoro_meta.renew_resting_runtimes(table_ids bigint[]) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	renewed bigint[];
BEGIN
	WITH free AS MATERIALIZED
	(
		SELECT r.table_id, r.group_name FROM amoro_meta.table_runtime r
		WHERE r.table_id = ANY (table_ids) AND r.process_id IS NULL AND r.group_name IS NOT NULL
		ORDER BY r.table_id FOR NO KEY UPDATE SKIP LOCKED
	),
	source AS MATERIALIZED
	(
		SELECT s.*, f.group_name, amoro_meta.merged_properties(s.catalog_properties, s.properties) AS config
		FROM free f CROSS JOIN LATERAL (SELECT v.* FROM amoro_meta.runtime_source v WHERE v.table_id = f.table_id LIMIT 1) s
		WHERE amoro_meta.is_optimized(s.format, s.catalog_properties, s.properties)
	),
	done AS
	(
		UPDATE amoro_meta.table_runtime r
			SET (catalog_name, database_name, table_name, wanted_group, config, table_version, defaults_version, refresh_error, version) =
				(s.catalog_name, s.database_name, s.table_name, s.group_name, s.config, s.version, s.defaults_version, NULL,
				 amoro_meta.next_runtime_version())
			FROM source s
			WHERE r.table_id = s.table_id AND coalesce(s.config->>'self-optimizing.group', 'default') = s.group_name
			RETURNING r.table_id
	)
	SELECT coalesce(array_agg(d.table_id), '{}') INTO renewed FROM done d;
	RETURN renewed;
EXCEPTION WHEN OTHERS THEN
	-- one by one, then
	PERFORM amoro_meta.count_row_error('refresh_table_runtimes', SQLSTATE, SQLERRM);
	RETURN '{}';
END;
$$;
COMMENT ON FUNCTION amoro_meta.renew_resting_runtimes(bigint[]) IS
	'put_table_runtime for those of the tables that stay in their group and have no process; returns which it has treated';
REVOKE ALL ON FUNCTION amoro_meta.renew_resting_runtimes(bigint[]) FROM PUBLIC;

-- A page is small and its tables may be millions, which the planner cannot know: all of this walks along indexes.
CREATE FUNCTION refresh_table_runtimes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
	AS $$
DECLARE
	batch integer := amoro_meta.sweep_batch();
	began timestamptz := clock_timestamp();
	seen bigint;
	reached bigint;
	page record;
	renewed bigint[];
	stale bigint;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	IF amoro_meta.bind_table_runtimes() >= batch THEN
		RETURN batch;
	END IF;
	SELECT p.table_id INTO STRICT seen FROM amoro_meta.refresh_position p;
	SELECT * INTO page FROM amoro_meta.stale_runtimes(seen, batch);
	reached := CASE WHEN page.rows_seen < batch THEN 0 ELSE page.last_id END;
	IF cardinality(page.table_ids) > 1 THEN
		renewed := amoro_meta.renew_resting_runtimes(page.table_ids);
	END IF;
	FOREACH stale IN ARRAY coalesce(page.table_ids, '{}') LOOP
		CONTINUE WHEN stale = ANY (renewed);
		PERFORM amoro_meta.repair_table_runtime(stale);
		-- to repair takes longer than to look: verdicts and procedures have their turn before it goes on here
		IF clock_timestamp() > began + interval '20 ms' AND stale < page.last_id THEN
			reached := stale;
			page.rows_seen := batch;
			EXIT;
		END IF;
	END LOOP;
	IF reached <> seen THEN
		-- two that sweep at once do the same work twice, and none is left out
		PERFORM FROM amoro_meta.refresh_position p FOR UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			RETURN 0;
		END IF;
		UPDATE amoro_meta.refresh_position p SET table_id = reached;
	END IF;
	RETURN page.rows_seen;
END;
$$;
COMMENT ON FUNCTION refresh_table_runtimes() IS
	'sweep: compares the next batch of tables with their runtimes, repairs what differs, as much as is done in 20 ms, binds tables to groups '
	'they waited for, and returns how many it looked at; fewer than amoro_meta.sweep_batch() at the end of a round. Errors: 25006 on a standby';
REVOKE ALL ON FUNCTION refresh_table_runtimes() FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'function', 'refresh_table_runtimes' FROM unnest(ARRAY['operator', 'admin']) k;
