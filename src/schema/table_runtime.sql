/* Runtimes of tables: what the optimizing of each table is about. */

CREATE TABLE amoro_meta.table_runtime
(
	table_id		bigint PRIMARY KEY,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	table_name		text NOT NULL,
	group_name		text,
	wanted_group	text NOT NULL,
	status_code		integer NOT NULL CHECK (status_code IN (100, 200, 300, 400, 500, 600, 700)),
	status_changed_at timestamptz NOT NULL,
	process_id		bigint,
	-- of amoro_meta.next_runtime_version(), anew at each change
	version			bigint NOT NULL,
	leader_term		bigint NOT NULL,
	config			jsonb NOT NULL,
	state			jsonb NOT NULL,
	-- of the table and of the defaults of its catalog, from which this row was made; null: look again
	table_version	bigint,
	defaults_version bigint,
	refresh_error	text
);
COMMENT ON TABLE amoro_meta.table_runtime IS
	'one row for each table with optimizing enabled; group_name is null while there is no group of the name wanted_group';
COMMENT ON COLUMN amoro_meta.table_runtime.status_code IS
	'100 full, 200 major and 300 minor optimizing, 400 committing, 500 planning, 600 pending, 700 idle';
CREATE INDEX table_runtime_group_name ON amoro_meta.table_runtime (group_name, status_code) WHERE group_name IS NOT NULL;
CREATE INDEX table_runtime_wanted_group ON amoro_meta.table_runtime (wanted_group) WHERE group_name IS NULL;
CREATE INDEX table_runtime_names ON amoro_meta.table_runtime (catalog_name, database_name, table_name);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.table_runtime', '');

CREATE SEQUENCE amoro_meta.runtime_version_sequence AS bigint;
COMMENT ON SEQUENCE amoro_meta.runtime_version_sequence IS 'low part of the versions of table runtimes, see amoro_meta.next_runtime_version()';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.runtime_version_sequence', '');

-- As amoro_meta.next_id(): a version that a leader saw before a failover never stands for something else.
-- (PL/pgSQL, here and below, where a function is called once a row: it keeps its plan.)
CREATE FUNCTION amoro_meta.next_runtime_version() RETURNS bigint
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN ((amoro_meta.timeline_id() - 1 + coalesce((SELECT i.timeline_offset FROM amoro_meta.identity AS i), 0))::bigint << 40)
		+ nextval('amoro_meta.runtime_version_sequence');
END;
$$;
COMMENT ON FUNCTION amoro_meta.next_runtime_version() IS
	'a version that no runtime of this database had before, not even on a timeline that was lost in a failover';
REVOKE ALL ON FUNCTION amoro_meta.next_runtime_version() FROM PUBLIC;

-- How far refresh_table_runtimes() has come. Nothing is lost with it: it begins again.
CREATE TABLE amoro_meta.refresh_position
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	table_id		bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.refresh_position IS 'the last table that refresh_table_runtimes() has looked at';
INSERT INTO amoro_meta.refresh_position VALUES (true, 0);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.refresh_position', 'WHERE false');

CREATE FUNCTION amoro_meta.merged_properties(catalog_properties jsonb, properties jsonb) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN coalesce((SELECT jsonb_object_agg(substr(p.key, 7), p.value) FROM jsonb_each(catalog_properties) p
					 WHERE starts_with(p.key, 'table.')), '{}') || coalesce(properties, '{}');
END;
$$;
COMMENT ON FUNCTION amoro_meta.merged_properties(jsonb, jsonb) IS
	'properties of a table over the defaults that its catalog has under table.';
REVOKE ALL ON FUNCTION amoro_meta.merged_properties(jsonb, jsonb) FROM PUBLIC;

-- As Java reads it, whatever is not "true" is false.
CREATE FUNCTION amoro_meta.is_optimized(format text, catalog_properties jsonb, properties jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(amoro_meta.is_supported_format(format)
		AND lower(coalesce(properties->>'self-optimizing.enabled', catalog_properties->>'table.self-optimizing.enabled', 'true')) = 'true', false);
COMMENT ON FUNCTION amoro_meta.is_optimized(text, jsonb, jsonb) IS
	'whether a table has a runtime: it is of a format that optimizers know, and not disabled';
REVOKE ALL ON FUNCTION amoro_meta.is_optimized(text, jsonb, jsonb) FROM PUBLIC;

-- A listing keeps no version; what it says of a table is small, and compared as it is.
CREATE VIEW amoro_meta.runtime_source AS
	SELECT t.table_id, c.catalog_name, d.database_name, t.table_name, t.definition->>'format' AS format, t.version,
		c.properties AS catalog_properties, t.definition->'properties' AS properties, c.defaults_version
	FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
	UNION ALL
	SELECT t.table_id, c.catalog_name, t.database_name, t.table_name, t.format, NULL,
		c.properties, t.properties, c.defaults_version
	FROM amoro_meta.listed_table t JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW amoro_meta.runtime_source IS 'what the runtimes of tables are made from, wherever the tables are kept';

-- The caller holds the runtime of the table, if it has one.
CREATE FUNCTION amoro_meta.close_table_process(process_id bigint, reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
BEGIN
	IF process.process_id IS NOT NULL AND process.ended_at IS NULL THEN
		PERFORM amoro_meta.end_process(process, 'CLOSED', reason);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.close_table_process(bigint, text) IS 'closes the process of a table without a commit, if it still runs';
REVOKE ALL ON FUNCTION amoro_meta.close_table_process(bigint, text) FROM PUBLIC;

-- What is planned is handed out in the new group from now on; what is handed out already ends where it is.
CREATE FUNCTION amoro_meta.move_table_process(process_id bigint, target amoro_meta.table_runtime) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
	queue bigint;
	key bytea := amoro_meta.table_key(target.catalog_name, target.database_name, target.table_name);
BEGIN
	IF process.process_id IS NULL OR process.ended_at IS NOT NULL THEN
		RETURN;
	END IF;
	-- one on a table that nobody knew, which had the name that is this table's now
	PERFORM amoro_meta.close_table_process(p.process_id, 'another table has got its name') FROM amoro_meta.process p
		WHERE p.table_key = key AND p.ended_at IS NULL AND p.process_id <> process.process_id;
	queue := process.queue_id;
	IF process.group_name <> target.group_name THEN
		queue := amoro_meta.hold_task_queue(target.group_name,
			(SELECT q.priority FROM amoro_meta.task_queue q WHERE q.queue_id = process.queue_id));
	END IF;
	UPDATE amoro_meta.process p
		SET (catalog_name, database_name, table_name, table_key, group_name, queue_id) =
				(target.catalog_name, target.database_name, target.table_name, key, target.group_name, queue),
			-- a place in another queue is drawn while that is held: no floor is beyond it
			turn = CASE WHEN queue = p.queue_id THEN p.turn ELSE amoro_meta.next_id() END
		WHERE p.process_id = process.process_id;
	IF queue <> process.queue_id AND process.waiting THEN
		PERFORM amoro_meta.announce_tasks(target.group_name, process.task_count);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.move_table_process(bigint, amoro_meta.table_runtime) IS
	'has the process of a table follow the table to another name or group';
REVOKE ALL ON FUNCTION amoro_meta.move_table_process(bigint, amoro_meta.table_runtime) FROM PUBLIC;

CREATE FUNCTION amoro_meta.remove_table_runtimes(table_ids bigint[], reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
	AS $$
DECLARE
	running bigint;
BEGIN
	PERFORM FROM amoro_meta.table_runtime r WHERE r.table_id = ANY (table_ids) ORDER BY r.table_id FOR UPDATE;
	-- a process may work on a table that has no runtime
	FOR running IN
		SELECT p.process_id FROM
			(SELECT r.catalog_name, r.database_name, r.table_name FROM amoro_meta.table_runtime r WHERE r.table_id = ANY (table_ids)
			 UNION SELECT s.catalog_name, s.database_name, s.table_name FROM amoro_meta.runtime_source s WHERE s.table_id = ANY (table_ids)) t
			CROSS JOIN LATERAL
			(SELECT p.process_id FROM amoro_meta.process p
			 WHERE p.table_key = amoro_meta.table_key(t.catalog_name, t.database_name, t.table_name) AND p.ended_at IS NULL LIMIT 1) p
		ORDER BY p.process_id
	LOOP
		PERFORM amoro_meta.close_table_process(running, reason);
	END LOOP;
	DELETE FROM amoro_meta.table_runtime r WHERE r.table_id = ANY (table_ids);
END;
$$;
COMMENT ON FUNCTION amoro_meta.remove_table_runtimes(bigint[], text) IS
	'removes the runtimes of tables that are gone or optimized no longer, after their processes; one of a table that has none does no harm';
REVOKE ALL ON FUNCTION amoro_meta.remove_table_runtimes(bigint[], text) FROM PUBLIC;

-- Never waits for a group: one that is being dropped right now counts as gone, and the next refresh looks again.
CREATE FUNCTION amoro_meta.put_table_runtime(table_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	wanted text;
	group_held boolean;
	present amoro_meta.table_runtime;
	renewed amoro_meta.table_runtime;
BEGIN
	SELECT s.*, amoro_meta.merged_properties(s.catalog_properties, s.properties) AS config INTO target
		FROM amoro_meta.runtime_source s WHERE s.table_id = put_table_runtime.table_id;
	IF NOT FOUND OR NOT amoro_meta.is_optimized(target.format, target.catalog_properties, target.properties) THEN
		PERFORM amoro_meta.remove_table_runtimes(ARRAY[table_id], 'the table is optimized no longer');
		RETURN;
	END IF;
	wanted := coalesce(target.config->>'self-optimizing.group', 'default');
	PERFORM FROM amoro_meta.optimizer_group g WHERE g.group_name = wanted FOR KEY SHARE SKIP LOCKED;
	group_held := FOUND;
	LOOP
		SELECT * INTO present FROM amoro_meta.table_runtime r WHERE r.table_id = put_table_runtime.table_id FOR NO KEY UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO amoro_meta.table_runtime AS r
			VALUES (put_table_runtime.table_id, target.catalog_name, target.database_name, target.table_name,
					CASE WHEN group_held THEN wanted END, wanted, 700, clock_timestamp(), NULL, amoro_meta.next_runtime_version(), 0,
					target.config, '{}', target.version, target.defaults_version, NULL)
			ON CONFLICT ON CONSTRAINT table_runtime_pkey DO NOTHING;
		IF FOUND THEN
			RETURN;
		END IF;
	END LOOP;

	renewed := present;
	renewed.catalog_name := target.catalog_name;
	renewed.database_name := target.database_name;
	renewed.table_name := target.table_name;
	-- it references the group already, so whoever drops the group sees that
	renewed.group_name := CASE WHEN group_held OR present.group_name = wanted THEN wanted END;
	renewed.wanted_group := wanted;
	renewed.config := target.config;
	renewed.table_version := target.version;
	renewed.defaults_version := target.defaults_version;
	renewed.refresh_error := NULL;
	IF renewed IS NOT DISTINCT FROM present THEN
		RETURN;
	END IF;
	IF renewed.group_name IS NULL THEN
		IF present.group_name IS NOT NULL THEN
			RAISE WARNING 'table %."%" is optimized no longer: optimizer group % does not exist',
				amoro_meta.quoted_name(renewed.catalog_name, renewed.database_name), renewed.table_name, amoro_meta.shown_text(wanted);
		END IF;
		IF present.process_id IS NOT NULL THEN
			PERFORM amoro_meta.close_table_process(present.process_id, 'the optimizer group of the table does not exist');
		END IF;
		renewed.status_code := 700;
		renewed.process_id := NULL;
	ELSIF present.process_id IS NOT NULL THEN
		PERFORM amoro_meta.move_table_process(present.process_id, renewed);
	END IF;
	UPDATE amoro_meta.table_runtime r
		SET (catalog_name, database_name, table_name, group_name, wanted_group, status_code, process_id, config, table_version,
			 defaults_version, refresh_error)
			= (renewed.catalog_name, renewed.database_name, renewed.table_name, renewed.group_name, renewed.wanted_group,
			   renewed.status_code, renewed.process_id, renewed.config, renewed.table_version, renewed.defaults_version, NULL),
			status_changed_at = CASE WHEN renewed.status_code <> present.status_code THEN clock_timestamp() ELSE r.status_changed_at END,
			version = amoro_meta.next_runtime_version()
		WHERE r.table_id = put_table_runtime.table_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.put_table_runtime(bigint) IS
	'makes, changes or removes the runtime of a table, as the properties of the table and of its catalog have it now';
REVOKE ALL ON FUNCTION amoro_meta.put_table_runtime(bigint) FROM PUBLIC;

-- Nobody else knows these tables yet, so there is nothing to wait for and nothing to compare with.
CREATE FUNCTION amoro_meta.add_table_runtimes(catalog_id bigint, table_ids bigint[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
DECLARE
	defaults jsonb := (SELECT amoro_meta.merged_properties(c.properties, '{}') FROM amoro_meta.catalog c
					   WHERE c.catalog_id = add_table_runtimes.catalog_id);
	first_version bigint := amoro_meta.next_runtime_version() >> 40 << 40;
	held_groups text[];
BEGIN
	held_groups := ARRAY(SELECT g.group_name FROM amoro_meta.optimizer_group g
		WHERE g.group_name IN (SELECT coalesce(t.properties->>'self-optimizing.group', defaults->>'self-optimizing.group', 'default')
							   FROM amoro_meta.listed_table t WHERE t.table_id = ANY (table_ids))
		FOR KEY SHARE SKIP LOCKED);
	INSERT INTO amoro_meta.table_runtime AS r
		SELECT s.table_id, s.catalog_name, s.database_name, s.table_name, CASE WHEN s.wanted = ANY (held_groups) THEN s.wanted END, s.wanted, 700,
			clock_timestamp(), NULL, first_version + nextval('amoro_meta.runtime_version_sequence'), 0, s.config, '{}', s.version, s.defaults_version, NULL
		FROM (SELECT u.*, coalesce(u.config->>'self-optimizing.group', 'default') AS wanted
			  FROM (SELECT w.*, CASE WHEN w.properties = '{}' THEN defaults ELSE defaults || w.properties END AS config
					FROM amoro_meta.runtime_source w WHERE w.table_id = ANY (table_ids)) u
			  WHERE amoro_meta.is_optimized(u.format, u.catalog_properties, u.properties)) s
		ON CONFLICT ON CONSTRAINT table_runtime_pkey DO NOTHING;
END;
$$;
COMMENT ON FUNCTION amoro_meta.add_table_runtimes(bigint, bigint[]) IS 'put_table_runtime for listed tables of one catalog that are new';
REVOKE ALL ON FUNCTION amoro_meta.add_table_runtimes(bigint, bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.bind_table_runtimes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
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

-- A page is small and its tables may be millions, which the planner cannot know: it walks along the primary keys.
CREATE FUNCTION amoro_meta.stale_runtimes(after_id bigint, page_size integer, OUT rows_seen bigint, OUT last_id bigint, OUT table_ids bigint[])
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
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
			WHEN t.state = 'pre_create' THEN false
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
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
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

CREATE FUNCTION refresh_table_runtimes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
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

-- What Amoro allows, but for the steps that belong to a process: those are taken by the functions of processes.
CREATE FUNCTION amoro_meta.check_status_step(target amoro_meta.table_runtime, status_code integer) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF target.process_id IS NOT NULL THEN
		RAISE EXCEPTION 'the status of table % is up to its process', target.table_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Process %s is running; the status is %s.', target.process_id, target.status_code),
			HINT = format('To end it: SELECT cancel_process(%s)', target.process_id);
	END IF;
	IF NOT (target.status_code, check_status_step.status_code) IN ((700, 600), (600, 500), (600, 700), (500, 600), (500, 700)) THEN
		RAISE EXCEPTION 'the status of table % cannot go from % to %', target.table_id, target.status_code, check_status_step.status_code
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'It goes from 700 (idle) to 600 (pending) and 500 (planning), and back; start_process leads on from there.';
	END IF;
	IF status_code <> 700 AND target.group_name IS NULL THEN
		RAISE EXCEPTION 'no group optimizes table %', target.table_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('There is no optimizer group "%s".', left(target.wanted_group, 100)),
			HINT = CASE WHEN target.wanted_group ~ '^[A-Za-z0-9_-]{1,50}$' THEN format('SELECT create_optimizer_group(%L);', target.wanted_group)
				ELSE 'A group of that name cannot exist: set self-optimizing.group of the table to another one.' END;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_status_step(amoro_meta.table_runtime, integer) IS 'raises 55000 unless a leader may set this status now';
REVOKE ALL ON FUNCTION amoro_meta.check_status_step(amoro_meta.table_runtime, integer) FROM PUBLIC;

CREATE FUNCTION set_table_status(table_id bigint, expected_version bigint, status_code integer, leader_term bigint, state jsonb DEFAULT NULL)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.table_runtime;
	new_version bigint;
BEGIN
	PERFORM amoro_meta.check_not_null('table_id', table_id IS NOT NULL),
		amoro_meta.check_not_null('expected_version', expected_version IS NOT NULL),
		amoro_meta.check_not_null('leader_term', leader_term IS NOT NULL),
		amoro_meta.check_configuration('state', coalesce(state, '{}'));
	IF status_code NOT IN (100, 200, 300, 400, 500, 600, 700) THEN
		RAISE EXCEPTION 'unknown status: %', status_code USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is 500 (planning), 600 (pending) or 700 (idle); 100 to 400 belong to processes.';
	END IF;
	SELECT * INTO target FROM amoro_meta.table_runtime r WHERE r.table_id = set_table_status.table_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'table % has no runtime', table_id USING ERRCODE = 'undefined_object',
			DETAIL = 'It was dropped, or its optimizing is disabled.';
	END IF;
	IF leader_term < target.leader_term THEN
		RAISE EXCEPTION 'leader term % is over', leader_term USING ERRCODE = 'AM004',
			DETAIL = format('A leader of term %s has written to table %s.', target.leader_term, table_id), HINT = 'Stop acting as the leader.';
	END IF;
	IF expected_version <> target.version THEN
		RAISE EXCEPTION 'the runtime of table % has changed', table_id USING ERRCODE = 'serialization_failure',
			DETAIL = format('Its version is %s, not %s; its status is %s since %s.', target.version, expected_version, target.status_code,
							target.status_changed_at),
			HINT = format('Decide anew: SELECT * FROM table_runtimes WHERE table_id = %s', table_id);
	END IF;
	IF status_code <> target.status_code THEN
		PERFORM amoro_meta.check_status_step(target, status_code);
	END IF;
	UPDATE amoro_meta.table_runtime r
		SET status_code = coalesce(set_table_status.status_code, r.status_code),
			status_changed_at = CASE WHEN set_table_status.status_code <> r.status_code THEN clock_timestamp() ELSE r.status_changed_at END,
			state = r.state || coalesce(set_table_status.state, '{}'), leader_term = set_table_status.leader_term,
			version = amoro_meta.next_runtime_version()
		WHERE r.table_id = set_table_status.table_id RETURNING r.version INTO new_version;
	RETURN new_version;
END;
$$;
COMMENT ON FUNCTION set_table_status(bigint, bigint, integer, bigint, jsonb) IS
	'for the leader of optimizing: moves the status of a table between idle (700), pending (600) and planning (500), null keeps it, and lays '
	'the keys of state over what is kept of the table, provided that the runtime still has the version expected; returns its new version. '
	'leader_term: grows with each leader; a smaller one than was seen here is refused. '
	'Errors: 40001 it has another version, AM004 the term is over, 42704 no runtime, 55000 no such step, a process is running, or no group, '
	'22004, 22023, 25006';
REVOKE ALL ON FUNCTION set_table_status(bigint, bigint, integer, bigint, jsonb) FROM PUBLIC;

CREATE VIEW table_runtimes AS
	SELECT r.catalog_name, r.database_name, r.table_name, r.table_id, r.group_name, r.wanted_group, r.status_code,
		CASE r.status_code WHEN 100 THEN 'FULL_OPTIMIZING' WHEN 200 THEN 'MAJOR_OPTIMIZING' WHEN 300 THEN 'MINOR_OPTIMIZING'
			WHEN 400 THEN 'COMMITTING' WHEN 500 THEN 'PLANNING' WHEN 600 THEN 'PENDING' WHEN 700 THEN 'IDLE' END AS status,
		r.status_changed_at, r.process_id, r.version, r.leader_term, r.config, r.state, r.refresh_error
	FROM amoro_meta.table_runtime r;
COMMENT ON VIEW table_runtimes IS
	'tables with optimizing enabled. group_name: the group that optimizes it; null: there is none of the name wanted_group, and the table rests. '
	'config: properties of the table over the defaults of its catalog; state: what its leader keeps here';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'table_runtimes' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['refresh_table_runtimes', 'set_table_status']) n;
