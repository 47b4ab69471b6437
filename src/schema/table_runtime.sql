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
CREATE FUNCTION amoro_meta.next_runtime_version() RETURNS bigint
	LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT ((amoro_meta.timeline_id() - 1 + coalesce((SELECT i.timeline_offset FROM amoro_meta.identity AS i), 0))::bigint << 40)
		+ nextval('amoro_meta.runtime_version_sequence')$$;
COMMENT ON FUNCTION amoro_meta.next_runtime_version() IS
	'a version that no runtime of this database had before, not even on a timeline that was lost in a failover';
REVOKE ALL ON FUNCTION amoro_meta.next_runtime_version() FROM PUBLIC;

-- How far refresh_table_runtimes() has come. Nothing is lost with it: it begins again.
CREATE TABLE amoro_meta.refresh_position
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	database_id		bigint NOT NULL,
	table_name		text NOT NULL,
	table_id		bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.refresh_position IS 'the last table and the last runtime that refresh_table_runtimes() has looked at';
INSERT INTO amoro_meta.refresh_position VALUES (true, 0, '', 0);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.refresh_position', 'WHERE false');

CREATE FUNCTION amoro_meta.merged_properties(catalog_properties jsonb, definition jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce((SELECT jsonb_object_agg(substr(p.key, 7), p.value) FROM jsonb_each(catalog_properties) p
					 WHERE starts_with(p.key, 'table.')), '{}') || coalesce(definition->'properties', '{}')
	$$;
COMMENT ON FUNCTION amoro_meta.merged_properties(jsonb, jsonb) IS
	'properties of a table over the defaults that its catalog has under table.';
REVOKE ALL ON FUNCTION amoro_meta.merged_properties(jsonb, jsonb) FROM PUBLIC;

-- The formats are those that Amoro's optimizers know. As Java reads it, whatever is not "true" is false.
CREATE FUNCTION amoro_meta.is_optimized(catalog_properties jsonb, definition jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(definition->>'format' IN ('iceberg', 'mixed_iceberg', 'mixed_hive')
		AND lower(coalesce(definition->'properties'->>'self-optimizing.enabled', catalog_properties->>'table.self-optimizing.enabled', 'true'))
			= 'true', false)
	$$;
COMMENT ON FUNCTION amoro_meta.is_optimized(jsonb, jsonb) IS 'whether a table has a runtime: it is of a format that can be optimized, and not disabled';
REVOKE ALL ON FUNCTION amoro_meta.is_optimized(jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.remove_table_runtime(table_id bigint) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$DELETE FROM amoro_meta.table_runtime r WHERE r.table_id = remove_table_runtime.table_id$$;
COMMENT ON FUNCTION amoro_meta.remove_table_runtime(bigint) IS 'ends what is going on for a table that is optimized no longer';
REVOKE ALL ON FUNCTION amoro_meta.remove_table_runtime(bigint) FROM PUBLIC;

-- Never waits for a group: one that is being dropped right now counts as gone, and the next refresh looks again.
CREATE FUNCTION amoro_meta.put_table_runtime(table_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	merged jsonb;
	wanted text;
	group_held boolean;
	present amoro_meta.table_runtime;
	renewed amoro_meta.table_runtime;
BEGIN
	SELECT c.catalog_name, d.database_name, t.table_name, t.definition, t.version, c.properties, c.defaults_version INTO target
		FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE t.table_id = put_table_runtime.table_id;
	IF NOT FOUND OR NOT amoro_meta.is_optimized(target.properties, target.definition) THEN
		PERFORM amoro_meta.remove_table_runtime(table_id);
		RETURN;
	END IF;
	merged := amoro_meta.merged_properties(target.properties, target.definition);
	wanted := coalesce(merged->>'self-optimizing.group', 'default');
	PERFORM FROM amoro_meta.optimizer_group g WHERE g.group_name = wanted FOR KEY SHARE SKIP LOCKED;
	group_held := FOUND;
	INSERT INTO amoro_meta.table_runtime AS r
		VALUES (put_table_runtime.table_id, target.catalog_name, target.database_name, target.table_name,
				CASE WHEN group_held THEN wanted END, wanted, 700, clock_timestamp(), NULL, amoro_meta.next_runtime_version(), 0, merged, '{}',
				target.version, target.defaults_version, NULL)
		ON CONFLICT ON CONSTRAINT table_runtime_pkey DO NOTHING;
	IF FOUND THEN
		RETURN;
	END IF;
	SELECT * INTO present FROM amoro_meta.table_runtime r WHERE r.table_id = put_table_runtime.table_id FOR NO KEY UPDATE;
	renewed := present;
	renewed.catalog_name := target.catalog_name;
	renewed.database_name := target.database_name;
	renewed.table_name := target.table_name;
	-- it references the group already, so whoever drops the group sees that
	renewed.group_name := CASE WHEN group_held OR present.group_name = wanted THEN wanted END;
	renewed.wanted_group := wanted;
	renewed.config := merged;
	renewed.table_version := target.version;
	renewed.defaults_version := target.defaults_version;
	renewed.refresh_error := NULL;
	IF renewed.group_name IS NULL AND present.status_code <> 700 THEN
		renewed.status_code := 700;
		renewed.status_changed_at := clock_timestamp();
		renewed.process_id := NULL;
	END IF;
	IF renewed IS DISTINCT FROM present THEN
		renewed.version := amoro_meta.next_runtime_version();
		UPDATE amoro_meta.table_runtime r
			SET (catalog_name, database_name, table_name, group_name, wanted_group, status_code, status_changed_at, process_id, version,
				 config, table_version, defaults_version, refresh_error)
				= (renewed.catalog_name, renewed.database_name, renewed.table_name, renewed.group_name, renewed.wanted_group, renewed.status_code,
				   renewed.status_changed_at, renewed.process_id, renewed.version, renewed.config, renewed.table_version, renewed.defaults_version, NULL)
			WHERE r.table_id = put_table_runtime.table_id;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.put_table_runtime(bigint) IS
	'makes, changes or removes the runtime of a table, as the properties of the table and of its catalog have it now';
REVOKE ALL ON FUNCTION amoro_meta.put_table_runtime(bigint) FROM PUBLIC;

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
	AS $$
DECLARE
	error text;
BEGIN
	-- whoever has the table or its runtime locked is about to change it: later
	PERFORM FROM amoro_meta.table_metadata t WHERE t.table_id = repair_table_runtime.table_id FOR KEY SHARE SKIP LOCKED;
	IF NOT FOUND AND EXISTS (SELECT FROM amoro_meta.table_metadata t WHERE t.table_id = repair_table_runtime.table_id) THEN
		RETURN;
	END IF;
	PERFORM FROM amoro_meta.table_runtime r WHERE r.table_id = repair_table_runtime.table_id FOR UPDATE SKIP LOCKED;
	IF NOT FOUND AND EXISTS (SELECT FROM amoro_meta.table_runtime r WHERE r.table_id = repair_table_runtime.table_id) THEN
		RETURN;
	END IF;
	PERFORM amoro_meta.put_table_runtime(table_id);
EXCEPTION WHEN OTHERS THEN
	error := format('%s: %s', SQLSTATE, SQLERRM);
	UPDATE amoro_meta.table_runtime r SET refresh_error = error
		WHERE r.table_id = repair_table_runtime.table_id AND r.refresh_error IS DISTINCT FROM error;
	IF FOUND THEN
		RAISE LOG 'the runtime of table % cannot be refreshed: %', table_id, error;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.repair_table_runtime(bigint) IS 'put_table_runtime for a sweep: waits for nobody, and an error stays with the table';
REVOKE ALL ON FUNCTION amoro_meta.repair_table_runtime(bigint) FROM PUBLIC;

CREATE FUNCTION refresh_table_runtimes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	batch integer := amoro_meta.sweep_batch();
	seen amoro_meta.refresh_position;
	reached amoro_meta.refresh_position;
	tables bigint;
	runtimes bigint;
	stale bigint[];
	orphans bigint[];
	target bigint;
BEGIN
	IF amoro_meta.bind_table_runtimes() >= batch THEN
		RETURN batch;
	END IF;
	SELECT * INTO STRICT seen FROM amoro_meta.refresh_position;
	reached := seen;

	-- what is compared stands in the rows themselves: no definition is read but where something is different
	WITH page AS
	(
		SELECT t.database_id, t.table_name, t.table_id, t.version, t.state, t.definition FROM amoro_meta.table_metadata t
		WHERE (t.database_id, t.table_name) > (seen.database_id, seen.table_name)
		ORDER BY t.database_id, t.table_name LIMIT batch
	)
	SELECT count(*), (array_agg(p.database_id ORDER BY p.database_id DESC, p.table_name DESC))[1],
			(array_agg(p.table_name ORDER BY p.database_id DESC, p.table_name DESC))[1],
			array_agg(p.table_id) FILTER (WHERE p.state <> 'pre_create' AND CASE WHEN r.table_id IS NULL
					THEN amoro_meta.is_optimized(c.properties, p.definition)
					ELSE (r.table_version, r.defaults_version) IS DISTINCT FROM (p.version, c.defaults_version) END)
		INTO tables, reached.database_id, reached.table_name, stale
		FROM page p LEFT JOIN amoro_meta.database d USING (database_id) LEFT JOIN amoro_meta.catalog c USING (catalog_id)
			LEFT JOIN amoro_meta.table_runtime r USING (table_id);

	WITH page AS
	(
		SELECT r.table_id FROM amoro_meta.table_runtime r WHERE r.table_id > seen.table_id ORDER BY r.table_id LIMIT batch
	)
	SELECT count(*), max(p.table_id), array_agg(p.table_id) FILTER (WHERE t.table_id IS NULL)
		INTO runtimes, reached.table_id, orphans
		FROM page p LEFT JOIN amoro_meta.table_metadata t USING (table_id);

	FOREACH target IN ARRAY coalesce(stale, '{}') || orphans LOOP
		PERFORM amoro_meta.repair_table_runtime(target);
	END LOOP;

	IF tables < batch AND runtimes < batch THEN
		reached := ROW(true, 0, '', 0);
	ELSE
		reached.database_id := coalesce(reached.database_id, seen.database_id);
		reached.table_name := coalesce(reached.table_name, seen.table_name);
		reached.table_id := coalesce(reached.table_id, seen.table_id);
	END IF;
	IF reached IS DISTINCT FROM seen THEN
		PERFORM FROM amoro_meta.refresh_position p FOR UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE amoro_meta.refresh_position p
				SET (database_id, table_name, table_id) = (reached.database_id, reached.table_name, reached.table_id);
		END IF;
	END IF;
	RETURN greatest(tables, runtimes);
END;
$$;
COMMENT ON FUNCTION refresh_table_runtimes() IS
	'sweep: compares the next batch of tables with their runtimes, repairs what differs, binds tables to groups they waited for, and returns '
	'how many it looked at; fewer than amoro_meta.sweep_batch() at the end of a round. Errors: 25006 on a standby';
REVOKE ALL ON FUNCTION refresh_table_runtimes() FROM PUBLIC;

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
	SELECT k, 'function', 'refresh_table_runtimes' FROM unnest(ARRAY['operator', 'admin']) k;
