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
CREATE INDEX table_runtime_names ON amoro_meta.table_runtime (catalog_name, database_name, hashtextextended(table_name, 0));
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
	RETURN ((greatest(amoro_meta.timeline_id() + (SELECT i.timeline_offset FROM amoro_meta.identity AS i), amoro_meta.timeline_id(),
			(SELECT c.term >> 32 FROM amoro_meta.coordinator AS c)) - 1)::bigint << 40)
		+ nextval('amoro_meta.runtime_version_sequence');
END;
$$;
COMMENT ON FUNCTION amoro_meta.next_runtime_version() IS
	'a version that no runtime of this database had before, not even on a timeline that was lost in a failover';
REVOKE ALL ON FUNCTION amoro_meta.next_runtime_version() FROM PUBLIC;

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
	WHERE t.relation_kind = 'table'
	UNION ALL
	SELECT t.table_id, c.catalog_name, t.database_name, t.table_name, t.format, NULL,
		c.properties, t.properties, c.defaults_version
	FROM amoro_meta.listed_table t JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW amoro_meta.runtime_source IS 'what the runtimes of tables are made from, wherever the tables are kept';

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
	PERFORM amoro_meta.end_running_process(p.process_id, 'CLOSED', 'another table has got its name') FROM amoro_meta.process p
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
		PERFORM amoro_meta.end_running_process(running, 'CLOSED', reason);
	END LOOP;
	DELETE FROM amoro_meta.table_runtime r WHERE r.table_id = ANY (table_ids);
END;
$$;
COMMENT ON FUNCTION amoro_meta.remove_table_runtimes(bigint[], text) IS
	'removes the runtimes of tables that are gone or optimized no longer, after their processes; one of a table that has none does no harm';
REVOKE ALL ON FUNCTION amoro_meta.remove_table_runtimes(bigint[], text) FROM PUBLIC;

-- Without a group the table rests; with one its process, if it has any, goes along.
CREATE FUNCTION amoro_meta.change_table_runtime(present amoro_meta.table_runtime, renewed amoro_meta.table_runtime) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF renewed.group_name IS NULL THEN
		IF present.group_name IS NOT NULL THEN
			RAISE WARNING 'table %."%" is optimized no longer: optimizer group % does not exist',
				amoro_meta.quoted_name(renewed.catalog_name, renewed.database_name), renewed.table_name, amoro_meta.shown_text(renewed.wanted_group);
		END IF;
		IF present.process_id IS NOT NULL THEN
			PERFORM amoro_meta.end_running_process(present.process_id, 'CLOSED', 'the optimizer group of the table does not exist');
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
		WHERE r.table_id = present.table_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.change_table_runtime(amoro_meta.table_runtime, amoro_meta.table_runtime) IS
	'writes what a runtime, which the caller holds, is to be from now on';
REVOKE ALL ON FUNCTION amoro_meta.change_table_runtime(amoro_meta.table_runtime, amoro_meta.table_runtime) FROM PUBLIC;

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
	PERFORM amoro_meta.change_table_runtime(present, renewed);
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
	SELECT k, 'view', 'table_runtimes' FROM unnest(ARRAY['reader', 'operator', 'admin']) k;
