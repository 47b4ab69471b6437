/* For those who come from Apache Amoro: what can be taken over from the database of an AMS. */

CREATE FUNCTION amoro_meta.ams_refusal(state text, message text) RETURNS text
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	-- retry, resources, shutdown, defects: not because of what it is
	IF state !~ '^(22|0A000|2BP01|42501|42704|42710|54|55000|AM)' THEN
		RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, HINT = 'Nothing was imported.';
	END IF;
	RETURN message;
END;
$$;
COMMENT ON FUNCTION amoro_meta.ams_refusal(text, text) IS 'why an object was refused; an error that is not about the object is raised again';
REVOKE ALL ON FUNCTION amoro_meta.ams_refusal(text, text) FROM PUBLIC;

-- Catalogs of the import that are here now, whether it made them or not.
CREATE VIEW amoro_meta.ams_catalog AS
	SELECT DISTINCT c.catalog_name, c.catalog_id, c.metastore, c.properties
	FROM amoro_meta.ams_row r JOIN amoro_meta.catalog c ON c.catalog_name = r.data->>'catalog_name'
	WHERE r.relation = 'catalog_metadata'
		AND c.metastore = CASE r.data->>'catalog_metastore' WHEN 'ams' THEN 'internal' WHEN 'rest' THEN 'iceberg_rest' ELSE 'pushed' END;
COMMENT ON VIEW amoro_meta.ams_catalog IS 'catalogs of an AMS that are here, with a metastore of the same kind';

CREATE FUNCTION amoro_meta.import_ams_catalog(data jsonb, OUT outcome text, OUT reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	metastore text := CASE data->>'catalog_metastore' WHEN 'ams' THEN 'internal' WHEN 'rest' THEN 'iceberg_rest' ELSE 'pushed' END;
	wanted jsonb := amoro_meta.ams_properties(data->>'catalog_properties');
	storage_config jsonb := amoro_meta.ams_properties(data->>'storage_configs');
	auth_config jsonb := amoro_meta.ams_properties(data->>'auth_configs');
	present text := (SELECT c.metastore FROM amoro_meta.catalog c WHERE c.catalog_name = data->>'catalog_name');
BEGIN
	IF present IS NOT NULL THEN
		outcome := CASE WHEN present = metastore THEN 'present' ELSE 'refused' END;
		reason := CASE WHEN present <> metastore THEN format('there is a catalog of this name with the metastore %s', present) END;
	ELSIF wanted IS NULL OR storage_config IS NULL OR auth_config IS NULL THEN
		outcome := 'refused';
		reason := 'its properties or configurations are not JSON objects';
	ELSE
		IF metastore = 'pushed' THEN
			wanted := wanted || jsonb_build_object('amoro.metastore', coalesce(data->>'catalog_metastore', ''));
			reason := 'its tables are to be reported: report_listing';
		END IF;
		IF wanted ? 'table.self-optimizing.group' AND NOT EXISTS
			(SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = wanted->>'table.self-optimizing.group') THEN
			reason := concat_ws('; ', reason, 'without its default group, which does not exist: ' || amoro_meta.shown_text(wanted->>'table.self-optimizing.group'));
			wanted := wanted - 'table.self-optimizing.group';
		END IF;
		PERFORM @extschema@.create_catalog(data->>'catalog_name', metastore, wanted, storage_config, auth_config);
		outcome := 'imported';
	END IF;
EXCEPTION WHEN OTHERS THEN
	reason := amoro_meta.ams_refusal(SQLSTATE, SQLERRM);
	outcome := 'refused';
END;
$$;
COMMENT ON FUNCTION amoro_meta.import_ams_catalog(jsonb) IS 'makes a catalog like one of an AMS';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_catalog(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.import_ams_group(data jsonb, OUT outcome text, OUT reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	properties jsonb := amoro_meta.ams_properties(data->>'properties');
	container text := coalesce(data->>'container_name', 'external');
BEGIN
	IF EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = data->>'group_name') THEN
		outcome := 'present';
	ELSIF properties IS NULL THEN
		outcome := 'refused';
		reason := 'its properties are not a JSON object';
	ELSE
		-- what a container is stands in the configuration of AMS, not in its database
		IF container <> 'external' AND NOT EXISTS (SELECT FROM amoro_meta.optimizer_container c WHERE c.container_name = container) THEN
			PERFORM @extschema@.create_optimizer_container(container, 'unknown');
			reason := format('with container "%s", whose implementation is not in the database: alter_optimizer_container', container);
		END IF;
		PERFORM @extschema@.create_optimizer_group(data->>'group_name', container, properties);
		outcome := 'imported';
	END IF;
EXCEPTION WHEN OTHERS THEN
	reason := amoro_meta.ams_refusal(SQLSTATE, SQLERRM);
	outcome := 'refused';
END;
$$;
COMMENT ON FUNCTION amoro_meta.import_ams_group(jsonb) IS 'makes an optimizer group like one of an AMS, and its container where there is none of the name';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_group(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.import_ams_blocker(schema_name text, data jsonb, OUT outcome text, OUT reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	-- the same for every import of it
	import_request uuid := md5(concat_ws('/', 'import_ams', schema_name, data->>'blocker_id', data->>'catalog_name', data->>'db_name', data->>'table_name'))::uuid;
	properties jsonb := amoro_meta.ams_properties(data->>'properties');
	ends_at timestamptz;
	remaining interval;
BEGIN
	ends_at := data->>'expiration_time';	-- what is no moment is refused
	IF NOT isfinite(ends_at) THEN
		outcome := 'refused';
		reason := 'it never expires';
		RETURN;
	END IF;
	remaining := ends_at - clock_timestamp();
	IF remaining IS NULL OR remaining <= interval '0' THEN
		outcome := 'skipped';
		reason := 'it has expired';
	ELSIF EXISTS (SELECT FROM @extschema@.blockers b WHERE b.request_id = import_request) THEN
		outcome := 'present';
	ELSE
		PERFORM @extschema@.acquire_blocker(data->>'catalog_name', data->>'db_name', data->>'table_name',
			string_to_array(data->>'operations', ','), date_trunc('milliseconds', remaining), coalesce(properties, '{}') - 'blocker.timeout', import_request);
		outcome := 'imported';
		reason := format('until %s; its holder cannot renew it here', ends_at);
	END IF;
EXCEPTION WHEN OTHERS THEN
	reason := amoro_meta.ams_refusal(SQLSTATE, SQLERRM);
	outcome := 'refused';
END;
$$;
COMMENT ON FUNCTION amoro_meta.import_ams_blocker(text, jsonb) IS 'blocks what a blocker of an AMS blocks, for as long as it does without being renewed';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_blocker(text, jsonb) FROM PUBLIC;

-- The databases that an internal catalog is to have. The change log is written last: its counter is held to the commit.
CREATE FUNCTION amoro_meta.import_ams_database(data jsonb, OUT outcome text, OUT reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	parent record;
	properties jsonb := amoro_meta.ams_properties(data->>'properties');
	new_id bigint;
BEGIN
	outcome := 'refused';
	SELECT c.catalog_id, c.metastore INTO parent FROM amoro_meta.ams_catalog c WHERE c.catalog_name = data->>'catalog_name';
	IF NOT FOUND THEN
		reason := 'its catalog was not imported';
	ELSIF parent.metastore <> 'internal' THEN
		outcome := 'skipped';
		reason := 'its catalog keeps its databases elsewhere';
	ELSIF amoro_meta.is_name(data->>'db_name') IS NOT TRUE THEN
		reason := 'its name is empty, too long, or has control characters';
	ELSIF properties IS NULL THEN
		reason := 'its properties are not a JSON object';
	ELSIF EXISTS (SELECT FROM amoro_meta.procedure_claim q WHERE q.object_kind = 'database'
				  AND q.catalog_name = data->>'catalog_name' AND q.database_name = data->>'db_name') THEN
		outcome := 'skipped';
		reason := 'a procedure works on it';
	ELSE
		PERFORM amoro_meta.hold_catalog(parent.catalog_id);
		INSERT INTO amoro_meta.database AS d VALUES (amoro_meta.next_id(), parent.catalog_id, data->>'db_name', 'normal', NULL, properties, 0)
			ON CONFLICT ON CONSTRAINT database_catalog_id_database_name_key DO NOTHING RETURNING d.database_id INTO new_id;
		outcome := CASE WHEN new_id IS NULL THEN 'present' ELSE 'imported' END;
		UPDATE amoro_meta.database d
			SET version = amoro_meta.append_change('database', 'create', data->>'catalog_name', data->>'db_name', NULL, new_id)
			WHERE d.database_id = new_id;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.import_ams_database(jsonb) IS
	'makes a database like one of an AMS: no node has to know before it is there, since none keeps in memory that something does not exist';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_database(jsonb) FROM PUBLIC;

-- The tables of catalogs that are kept elsewhere are listed; of the others the columns stand in files that AMS reads.
CREATE VIEW amoro_meta.ams_table AS
	SELECT i.ams_id, i.catalog_name, c.catalog_id, i.database_name, i.table_name, i.format, i.table_config, i.status_code, i.ordinal,
		CASE
			WHEN c.catalog_id IS NULL THEN 'refused'
			WHEN i.occurrence > 1 THEN 'refused'
			WHEN (amoro_meta.is_name(i.database_name) AND amoro_meta.is_name(i.table_name)) IS NOT TRUE THEN 'refused'
			WHEN c.metastore = 'internal' THEN CASE WHEN t.table_id IS NULL THEN 'skipped' ELSE 'present' END
			WHEN l.table_id IS NOT NULL THEN 'present'
			WHEN NOT (amoro_meta.matches_filter(c.properties->>'database-filter', i.database_name)
				AND amoro_meta.matches_filter(c.properties->>'table-filter', i.database_name || '.' || i.table_name)) THEN 'skipped'
			ELSE 'imported'
		END AS outcome,
		CASE
			WHEN c.catalog_id IS NULL THEN 'its catalog was not imported'
			WHEN i.occurrence > 1 THEN 'it is there twice'
			WHEN (amoro_meta.is_name(i.database_name) AND amoro_meta.is_name(i.table_name)) IS NOT TRUE
				THEN 'a name is empty, too long, or has control characters'
			WHEN c.metastore = 'internal' AND t.table_id IS NULL
				THEN 'its columns stand in its files, not in the database: create_table' || coalesce(', location ' || i.location, '')
			WHEN c.metastore = 'internal' OR l.table_id IS NOT NULL THEN NULL
			WHEN NOT (amoro_meta.matches_filter(c.properties->>'database-filter', i.database_name)
				AND amoro_meta.matches_filter(c.properties->>'table-filter', i.database_name || '.' || i.table_name))
				THEN 'a filter of its catalog hides it'
			WHEN amoro_meta.ams_properties(i.table_config) IS NULL THEN 'without its properties, which are not a JSON object'
		END AS reason
	FROM (SELECT r.data->>'table_id' AS ams_id, r.data->>'catalog_name' AS catalog_name, r.data->>'db_name' AS database_name, r.data->>'table_name' AS table_name,
				r.data->>'format' AS format, u.data->>'table_config' AS table_config,
				u.data->>'status_code' AS status_code, r.ordinal,
				amoro_meta.printable_text(m.data->>'table_location', 1000) AS location,
				row_number() OVER (PARTITION BY r.data->>'catalog_name', r.data->>'db_name', r.data->>'table_name' ORDER BY r.ordinal) AS occurrence
		  FROM amoro_meta.ams_row r
			LEFT JOIN amoro_meta.ams_row u ON u.relation = 'table_runtime' AND u.data->>'table_id' = r.data->>'table_id'
			LEFT JOIN amoro_meta.ams_row m ON m.relation = 'table_metadata' AND m.data->>'table_id' = r.data->>'table_id'
		  WHERE r.relation = 'table_identifier') i
		LEFT JOIN amoro_meta.ams_catalog c ON c.catalog_name = i.catalog_name
		LEFT JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id AND d.database_name = i.database_name
		LEFT JOIN amoro_meta.table_metadata t ON t.database_id = d.database_id AND t.table_name = i.table_name
			AND t.relation_kind = 'table'
		LEFT JOIN amoro_meta.listed_table l ON l.catalog_id = c.catalog_id AND l.database_name = i.database_name AND l.table_name = i.table_name;
COMMENT ON VIEW amoro_meta.ams_table IS 'tables of an AMS, and what import_ams() does about each';

-- A table that AMS was working on, or about to, is pending: no process of AMS goes on here.
CREATE FUNCTION amoro_meta.import_ams_runtimes(table_ids bigint[])
	RETURNS TABLE (object_kind text, name text, outcome text, reason text)
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH state AS
	(
		SELECT r.data->>'table_id' AS ams_id, jsonb_object_agg(r.data->>'state_key', amoro_meta.ams_json(r.data->>'state_value')) AS state
		FROM amoro_meta.ams_row r
		WHERE r.relation = 'table_runtime_state' AND r.data->>'state_key' IN ('optimizing_state', 'pending_input', 'cleanup_state')
		GROUP BY r.data->>'table_id'
	), restored AS
	(
		UPDATE amoro_meta.table_runtime r
			SET status_code = CASE WHEN r.group_name IS NOT NULL AND t.status_code ~ '^[1-6]00$' THEN 600 ELSE 700 END,
				status_changed_at = clock_timestamp(), state = coalesce(jsonb_strip_nulls(s.state), '{}'), version = amoro_meta.next_runtime_version()
			FROM amoro_meta.ams_table t LEFT JOIN state s ON s.ams_id = t.ams_id
			WHERE r.table_id = ANY (table_ids) AND r.catalog_name = t.catalog_name AND r.database_name = t.database_name
				AND r.table_name = t.table_name AND t.outcome = 'present'
			RETURNING r.*
	)
	SELECT 'table runtime', amoro_meta.ams_name(r.catalog_name, r.database_name, r.table_name), 'imported',
		CASE WHEN r.group_name IS NULL THEN format('waits for optimizer group %s', amoro_meta.shown_text(r.wanted_group))
			ELSE format('%s in group %s', CASE r.status_code WHEN 600 THEN 'pending' ELSE 'idle' END, r.group_name) END
	FROM restored r ORDER BY r.catalog_name COLLATE "C", r.database_name COLLATE "C", r.table_name COLLATE "C"
	$$;
COMMENT ON FUNCTION amoro_meta.import_ams_runtimes(bigint[]) IS 'gives the runtimes of new tables the state that AMS kept of them';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_runtimes(bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.import_ams_tables()
	RETURNS TABLE (object_kind text, name text, outcome text, reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	new_ids bigint[] := '{}';
BEGIN
	RETURN QUERY SELECT 'table', amoro_meta.ams_name(t.catalog_name, t.database_name, t.table_name), t.outcome, t.reason
		FROM amoro_meta.ams_table t ORDER BY t.ordinal;
	FOR target IN
		SELECT t.catalog_id, t.database_name, jsonb_agg(jsonb_build_object('name', t.table_name, 'format', coalesce(t.format, 'iceberg'),
				'properties', coalesce(amoro_meta.ams_properties(t.table_config), '{}'))) AS tables
		FROM amoro_meta.ams_table t WHERE t.outcome = 'imported' GROUP BY t.catalog_id, t.database_name
	LOOP
		new_ids := new_ids || (SELECT m.seen FROM amoro_meta.merge_listing(target.catalog_id, target.database_name, target.tables, NULL) m);
	END LOOP;
	RETURN QUERY SELECT r.* FROM amoro_meta.import_ams_runtimes(new_ids) r;
END;
$$;
COMMENT ON FUNCTION amoro_meta.import_ams_tables() IS 'lists the tables of an AMS that catalogs keep elsewhere, with the properties they had there';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_tables() FROM PUBLIC;

CREATE VIEW amoro_meta.ams_process AS
	SELECT p.*, t.catalog_name, t.database_name, t.table_name,
		CASE WHEN p.status IN ('UNKNOWN', 'PENDING', 'SUBMITTED', 'RUNNING', 'CANCELING') THEN 'it has not ended: what is needed is planned anew'
			WHEN p.status IN ('SUCCESS', 'CANCELED', 'CLOSED', 'KILLED', 'FAILED') IS NOT TRUE THEN 'its status is unknown here'
			WHEN t.ams_id IS NULL THEN 'its table is not here'
			WHEN p.started_at IS NULL OR p.ended_at IS NULL OR p.ended_at < p.started_at THEN 'its times are none'
			WHEN p.ended_at < clock_timestamp() - current_setting('amoro_meta.history_retention')::interval
				THEN 'it ended longer ago than amoro_meta.history_retention'
		END AS reason
	FROM (SELECT r.ordinal, r.data->>'table_id' AS table_id, r.data->>'status' AS status,
			coalesce(nullif(amoro_meta.printable_text(r.data->>'process_type', 64), ''), 'UNKNOWN') AS process_type,
			coalesce(amoro_meta.printable_text(r.data->>'process_stage', 64), '') AS stage,
			amoro_meta.ams_timestamp(r.data->>'create_time') AS started_at, amoro_meta.ams_timestamp(r.data->>'finish_time') AS ended_at,
			amoro_meta.printable_text(r.data->>'fail_message', 4000) AS fail_message
		  FROM amoro_meta.ams_row r WHERE r.relation = 'table_process') p
		LEFT JOIN amoro_meta.ams_table t ON t.ams_id = p.table_id AND t.outcome = 'present';
COMMENT ON VIEW amoro_meta.ams_process IS 'processes of an AMS, and why one is not taken over into the history';

CREATE FUNCTION amoro_meta.import_ams_processes()
	RETURNS TABLE (object_kind text, name text, outcome text, reason text)
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH found AS MATERIALIZED (SELECT * FROM amoro_meta.ams_process), imported AS
	(
		INSERT INTO amoro_meta.process (process_id, table_key, catalog_name, database_name, table_name, table_id, group_name, queue_id, turn,
				waiting, process_type, status, stage, quota, rank, task_count, started_by, started_at, ended_at, reason, settled, busy_ms)
			SELECT amoro_meta.next_id(), k.table_key, f.catalog_name, f.database_name, f.table_name, r.table_id, coalesce(r.wanted_group, 'default'),
				0, 0, false, f.process_type, f.status, f.stage, 1, 0, 0, amoro_meta.calling_role(), f.started_at, f.ended_at, f.fail_message, true, 0
			FROM (SELECT DISTINCT ON (f.table_id, f.started_at, f.ended_at) f.* FROM found f WHERE f.reason IS NULL
				  ORDER BY f.table_id, f.started_at, f.ended_at, f.ordinal) f
				CROSS JOIN LATERAL (SELECT amoro_meta.table_key(f.catalog_name, f.database_name, f.table_name) AS table_key) k
				LEFT JOIN amoro_meta.table_runtime r ON r.catalog_name = f.catalog_name AND r.database_name = f.database_name
					AND hashtextextended(r.table_name, 0) = hashtextextended(f.table_name, 0) AND r.table_name = f.table_name
			WHERE NOT EXISTS (SELECT FROM amoro_meta.process p WHERE p.table_key = k.table_key AND p.ended_at = f.ended_at AND p.started_at = f.started_at)
			RETURNING 1
	)
	SELECT 'process', c.number || CASE c.number WHEN 1 THEN ' process' ELSE ' processes' END, c.outcome, c.reason
	FROM (SELECT 1, (SELECT count(*) FROM imported), 'imported', 'into the history'
		  UNION ALL SELECT 2, (SELECT count(*) FROM found f WHERE f.reason IS NULL) - (SELECT count(*) FROM imported), 'present', NULL
		  UNION ALL SELECT 3, count(*), 'skipped', f.reason FROM found f WHERE f.reason IS NOT NULL GROUP BY f.reason) c (position, number, outcome, reason)
	WHERE c.number > 0 ORDER BY c.position, c.reason COLLATE "C"
	$$;
COMMENT ON FUNCTION amoro_meta.import_ams_processes() IS 'takes over the history of processes of tables that are here';
REVOKE ALL ON FUNCTION amoro_meta.import_ams_processes() FROM PUBLIC;

CREATE FUNCTION import_ams(schema_name text)
	RETURNS TABLE (object_kind text, name text, outcome text, reason text)
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	RETURN QUERY SELECT s.* FROM amoro_meta.stage_ams(schema_name) s;
	RETURN QUERY SELECT 'optimizer group', amoro_meta.ams_name(r.data->>'group_name'), i.outcome, i.reason
		FROM amoro_meta.ams_row r CROSS JOIN LATERAL amoro_meta.import_ams_group(r.data) i
		WHERE r.relation = 'resource_group' ORDER BY r.ordinal;
	RETURN QUERY SELECT 'catalog', amoro_meta.ams_name(r.data->>'catalog_name'), i.outcome, i.reason
		FROM amoro_meta.ams_row r CROSS JOIN LATERAL amoro_meta.import_ams_catalog(r.data) i
		WHERE r.relation = 'catalog_metadata' ORDER BY r.ordinal;
	RETURN QUERY SELECT t.* FROM amoro_meta.import_ams_tables() t;
	RETURN QUERY SELECT p.* FROM amoro_meta.import_ams_processes() p;
	RETURN QUERY SELECT 'blocker', amoro_meta.ams_name(r.data->>'catalog_name', r.data->>'db_name', r.data->>'table_name'), i.outcome, i.reason
		FROM amoro_meta.ams_row r CROSS JOIN LATERAL amoro_meta.import_ams_blocker(schema_name, r.data) i
		WHERE r.relation = 'table_blocker' ORDER BY r.ordinal;
	RETURN QUERY SELECT 'database', amoro_meta.ams_name(r.data->>'catalog_name', r.data->>'db_name'), i.outcome, i.reason
		FROM amoro_meta.ams_row r CROSS JOIN LATERAL amoro_meta.import_ams_database(r.data) i
		WHERE r.relation = 'database_metadata' ORDER BY r.ordinal;
	DELETE FROM amoro_meta.ams_row;
END;
$$;
COMMENT ON FUNCTION import_ams(text) IS
	'takes over what can be from the tables of an Apache AMS in a schema of this database that the caller may read: catalogs, optimizer groups, '
	'listed tables with the state of their optimizing and the history of their processes, databases of internal catalogs, live blockers. One row an object: imported, present (it was there and stays as it is), '
	'skipped or refused, and why. All or nothing; again it imports only what has come since. Nothing in that schema is executed. Timestamps '
	'without time zone are read in that of the session. Errors: 3F000 no such schema, 42501 the caller may not read it, 22023 it is no AMS, 22004, 25006';
REVOKE ALL ON FUNCTION import_ams(text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES ('admin', 'function', 'import_ams');
