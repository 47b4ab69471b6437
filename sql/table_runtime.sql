-- Runtimes of tables: they follow the properties of the tables, and the leader of optimizing moves their status.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''));
END;
$$;
-- the coordinator sweeps too: whoever does it, it gets done
CREATE PROCEDURE pg_temp.refresh_until(condition text) LANGUAGE plpgsql AS $$
DECLARE
	done boolean;
BEGIN
	FOR i IN 1..500 LOOP
		PERFORM refresh_table_runtimes();
		EXECUTE 'SELECT ' || condition INTO done;
		EXIT WHEN done;
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
	IF done IS NOT TRUE THEN
		RAISE EXCEPTION 'not reached: %', condition;
	END IF;
END;
$$;
\pset format unaligned
\pset tuples_only on
SELECT create_optimizer_group('default'), create_optimizer_group('g1');
SELECT create_catalog('lake', properties => '{"table.self-optimizing.group": "g1", "table.self-optimizing.quota": "0.1", "owner": "x"}') > 0;
SELECT create_database('lake', 'd') AS id \gset
SELECT wait_for_procedure(:id);

-- created with the table, in the group of its catalog, or of its own; every format that optimizers know
\set columns '"columns": [{"name": "a", "type": "int"}]'
SELECT create_table('lake', 'd', 'plain', ('{"format": "iceberg", ' || :'columns' || '}')::jsonb) AS plain \gset
SELECT create_table('lake', 'd', 'own', ('{"format": "mixed_iceberg", ' || :'columns' || ', "properties": {"self-optimizing.group": "default", "self-optimizing.quota": "0.7"}}')::jsonb) AS own \gset
SELECT create_table('lake', 'd', 'lost', ('{"format": "mixed_hive", ' || :'columns' || ', "properties": {"self-optimizing.group": "nope"}}')::jsonb) AS lost \gset
SELECT create_table('lake', 'd', 'off', ('{"format": "iceberg", ' || :'columns' || ', "properties": {"self-optimizing.enabled": "FALSE"}}')::jsonb) AS off \gset
SELECT create_table('lake', 'd', 'on', ('{"format": "iceberg", ' || :'columns' || ', "properties": {"self-optimizing.enabled": "True"}}')::jsonb) AS on \gset
SELECT create_table('lake', 'd', 'other', ('{"format": "paimon", ' || :'columns' || '}')::jsonb) AS other \gset
SELECT wait_for_procedure(id) FROM unnest(ARRAY[:plain, :own, :lost, :off, :on, :other]) id;
SELECT table_name, group_name, wanted_group, status_code, status, process_id, leader_term, config, state, refresh_error FROM table_runtimes ORDER BY table_name;
SELECT bool_and(r.table_version = t.version) FROM amoro_meta.table_runtime r JOIN amoro_meta.table_metadata t USING (table_id);

-- the group is persisted with the change of the property: what was left can be dropped at once, what was joined cannot
SELECT create_optimizer_group('g2');
SELECT pg_temp.attempt($$SELECT drop_optimizer_group('default')$$);
SELECT alter_table('lake', 'd', 'own', '[{"op": "set_properties", "properties": {"self-optimizing.group": "g2"}}]') AS id \gset
SELECT wait_for_procedure(:id);
SELECT drop_optimizer_group('default');
SELECT pg_temp.attempt($$SELECT drop_optimizer_group('g2')$$);
-- to a group that does not exist: it rests, also when it was pending
SELECT set_table_status(table_id, version, 600, 1) > 0 FROM table_runtimes WHERE table_name = 'own';
SELECT alter_table('lake', 'd', 'own', '[{"op": "set_properties", "properties": {"self-optimizing.group": "ghost"}}]') AS id \gset
SELECT wait_for_procedure(:id);
SELECT group_name, wanted_group, status FROM table_runtimes WHERE table_name = 'own';
SELECT drop_optimizer_group('g2');
-- a group that is created later is joined by those that wait for it
SELECT create_optimizer_group('ghost');
CALL pg_temp.refresh_until($$group_name = 'ghost' FROM table_runtimes WHERE table_name = 'own'$$);
-- switched off and on
SELECT alter_table('lake', 'd', 'own', '[{"op": "set_properties", "properties": {"self-optimizing.enabled": "false"}}]') AS id \gset
SELECT wait_for_procedure(:id);
SELECT count(*) FROM table_runtimes WHERE table_name = 'own';
SELECT drop_optimizer_group('ghost');
SELECT alter_table('lake', 'd', 'own', '[{"op": "remove_properties", "keys": ["self-optimizing.enabled", "self-optimizing.group"]}]') AS id \gset
SELECT wait_for_procedure(:id);
SELECT group_name, wanted_group, status FROM table_runtimes WHERE table_name = 'own';

-- the status: by compare-and-set, along the ways that Amoro knows, with the term of the leader
SELECT table_id, version FROM table_runtimes WHERE table_name = 'plain' \gset
SELECT set_table_status(:table_id, :version, 600, 7, '{"pending_input": {"files": 12}}') AS next \gset
SELECT :next > :version, status, leader_term, state, status_changed_at > clock_timestamp() - interval '1 minute' FROM table_runtimes WHERE table_id = :table_id;
SELECT regexp_replace(regexp_replace(pg_temp.attempt(format('SELECT set_table_status(%s, %s, 500, 7)', :table_id, :version)), 'since .* [|]', 'since … |'), '[0-9]+', '#', 'g');
SELECT regexp_replace(pg_temp.attempt(format('SELECT set_table_status(%s, %s, 500, 6)', :table_id, :next)), 'table [0-9]+', 'table #');
-- the deposed leader hears of its term first
SELECT left(pg_temp.attempt(format('SELECT set_table_status(%s, %s, 500, 6)', :table_id, :version)), 5);
SELECT set_table_status(:table_id, :next, 500, 8) AS version \gset
SELECT set_table_status(:table_id, :version, 600, 8) AS version \gset
SELECT set_table_status(:table_id, :version, 700, 8) AS version \gset
SELECT s.status_code, regexp_replace(pg_temp.attempt(format('SELECT set_table_status(%s, %s, %s, 8)', :table_id, :version, s.status_code)), 'table [0-9]+', 'table #')
	FROM unnest(ARRAY[100, 200, 300, 400, 500, 0, 650, -1]) s (status_code);
SELECT set_table_status(:table_id, :version, NULL, 8, '{"optimizing_state": {"lastMinorOptimizingTime": 1}}') AS version \gset
SELECT set_table_status(:table_id, :version, 700, 8) AS version \gset
SELECT status, state FROM table_runtimes WHERE table_id = :table_id;
SELECT regexp_replace(pg_temp.attempt(s), 'table [0-9]+', 'table #') FROM unnest(ARRAY['SELECT set_table_status(1, 1, 600, 1)', 'SELECT set_table_status(NULL, 1, 600, 1)',
	format('SELECT set_table_status(%s, NULL, 600, 8)', :table_id), format('SELECT set_table_status(%s, %s, 600, NULL)', :table_id, :version),
	format('SELECT set_table_status(%s, %s, 700, 8, ''[]'')', :table_id, :version)]) s;
SELECT table_id, version FROM table_runtimes WHERE table_name = 'lost' \gset
SELECT regexp_replace(pg_temp.attempt(format('SELECT set_table_status(%s, %s, 600, 9)', :table_id, :version)), 'table [0-9]+', 'table #');

-- the defaults of the catalog change: one refresh brings them to every table, the one that had no runtime too
-- (who refreshes is warned that a group is missing)
SET client_min_messages = error;
SELECT alter_catalog('lake', '{"table.self-optimizing.quota": "0.3", "table.self-optimizing.enabled": "false"}');
CALL pg_temp.refresh_until($$(SELECT count(*) = 1 AND bool_and(wanted_group = 'default') FROM table_runtimes)$$);
SELECT table_name, group_name, wanted_group, config FROM table_runtimes;
SELECT create_optimizer_group('default'), alter_catalog('lake', '{"owner": "y"}');
CALL pg_temp.refresh_until($$(SELECT count(*) FILTER (WHERE group_name = 'default') = 3 AND count(*) = 4
	AND bool_and(NOT config ? 'self-optimizing.quota' OR table_name = 'own') FROM table_runtimes)$$);
SELECT table_name, group_name, wanted_group, status, config FROM table_runtimes ORDER BY 1;
-- what is not a default of tables makes nobody look
SELECT defaults_version AS before FROM amoro_meta.catalog \gset
SELECT alter_catalog('lake', '{"owner": "z"}', '{"region": "eu"}');
SELECT defaults_version = :before FROM amoro_meta.catalog;

-- renamed with the table, gone with it
SELECT version FROM table_runtimes WHERE table_name = 'plain' \gset
SELECT rename_table('lake', 'd', 'plain', 'd', 'renamed "1"') AS id \gset
SELECT wait_for_procedure(:id);
SELECT table_name, table_id = (SELECT table_id FROM tables WHERE table_name = 'renamed "1"'), version > :version FROM table_runtimes WHERE table_name LIKE 'renamed%';
SELECT drop_table('lake', 'd', 'renamed "1"') AS id \gset
SELECT wait_for_procedure(:id);
SELECT count(*) FROM table_runtimes WHERE table_name LIKE 'renamed%';

-- whatever was missed is repaired: runtimes without a table, tables without a runtime, runtimes of an older table
INSERT INTO amoro_meta.table_runtime SELECT 77, 'lake', 'd', 'gone', NULL, 'default', 700, clock_timestamp(), NULL, 1, 0, '{}', '{}', 1, 1, NULL;
DELETE FROM amoro_meta.table_runtime WHERE table_name = 'on';
UPDATE amoro_meta.table_runtime SET table_version = NULL, config = '{}', group_name = NULL, wanted_group = 'x' WHERE table_name = 'own';
CALL pg_temp.refresh_until($$(SELECT array_agg(table_name ORDER BY table_name) = '{lost,on,own}' AND bool_and(group_name IS NOT NULL OR table_name = 'lost') FROM table_runtimes)$$);
-- a row that cannot be put right is shown, and is in nobody's way
ALTER TABLE amoro_meta.table_runtime ADD CONSTRAINT bad_luck CHECK (NOT (table_name = 'own' AND config ? 'bad'));
UPDATE amoro_meta.table_metadata SET definition = jsonb_set(definition, '{properties,bad}', '"x"'), version = 77 WHERE table_name = 'own';
DELETE FROM amoro_meta.table_runtime WHERE table_name = 'on';
CALL pg_temp.refresh_until($$(SELECT count(*) = 3 AND count(refresh_error) = 1 FROM table_runtimes)$$);
SELECT table_name, refresh_error FROM table_runtimes WHERE refresh_error IS NOT NULL;
SELECT errors, row_errors > 0 AS of_rows, last_error_code, last_error FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes';
ALTER TABLE amoro_meta.table_runtime DROP CONSTRAINT bad_luck;
CALL pg_temp.refresh_until($$(SELECT count(refresh_error) = 0 AND count(*) FILTER (WHERE config ? 'bad') = 1 FROM table_runtimes)$$);

-- so is what goes wrong with many at once and with none of them alone: each is put right, and the error is counted
SELECT amoro_stat_reset();
CREATE FUNCTION one_at_a_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM renewed) > 1 THEN
		RAISE 'not so many';
	END IF;
	RETURN NULL;
END;
$$;
CREATE TRIGGER one_at_a_time AFTER UPDATE ON amoro_meta.table_runtime REFERENCING NEW TABLE AS renewed FOR EACH STATEMENT EXECUTE FUNCTION one_at_a_time();
BEGIN;	-- from the first one on, wherever a slow sweep has stopped
UPDATE amoro_meta.refresh_position SET table_id = 0;
SELECT alter_catalog('lake', '{"table.many": "x"}');
COMMIT;
CALL pg_temp.refresh_until($$(SELECT count(*) FILTER (WHERE config ? 'many') >= 2 FROM table_runtimes WHERE refresh_error IS NULL)$$);
SELECT errors, row_errors > 0 AS of_rows, last_error_code, last_error FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes';
DROP FUNCTION one_at_a_time() CASCADE;
SELECT amoro_stat_reset();

-- the plans are walks along indexes, however few rows there are now
BEGIN;
CREATE TEMP TABLE before ON COMMIT DROP AS SELECT relname, seq_scan FROM pg_stat_xact_all_tables WHERE schemaname = 'amoro_meta';
SELECT refresh_table_runtimes() >= 0, count(*) > 0 FROM optimizer_group_references('default');
SELECT relname FROM pg_stat_xact_all_tables s JOIN before b USING (relname) WHERE s.schemaname = 'amoro_meta' AND s.seq_scan > b.seq_scan
	AND relname IN ('table_metadata', 'listed_table', 'table_runtime', 'catalog', 'database', 'process', 'optimizer', 'optimizer_group');
ROLLBACK;

-- tables of a catalog that is kept elsewhere
SELECT create_catalog('far', 'pushed', '{"max-removed-share": "100"}') > 0;
SELECT * FROM report_listing('far', 'db', '[{"name": "a"}, {"name": "b", "properties": {"self-optimizing.group": "g1"}}, {"name": "c", "format": "hudi"}]', true);
SELECT table_name, group_name, config FROM table_runtimes WHERE catalog_name = 'far' ORDER BY 1;
SELECT * FROM report_listing('far', 'db', '[{"name": "a", "properties": {"self-optimizing.group": "g1"}}, {"name": "c", "format": "iceberg"}]', true);
SELECT table_name, group_name, config FROM table_runtimes WHERE catalog_name = 'far' ORDER BY 1;
SELECT alter_catalog('far', '{"table.self-optimizing.group": "g1"}');
CALL pg_temp.refresh_until($$(SELECT count(*) FILTER (WHERE group_name = 'g1') = 2 FROM table_runtimes WHERE catalog_name = 'far')$$);
SELECT drop_catalog('far');
SELECT count(*) FROM table_runtimes WHERE catalog_name = 'far';

-- the coordinator does so by itself
SELECT amoro_stat_reset();
SELECT alter_catalog('lake', '{"table.many": "y"}');
DO $$
BEGIN
	WHILE (SELECT rows = 0 FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SELECT runs > 0, rows > 0, last_duration_us > 0, last_run_at <= clock_timestamp() FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes';

-- a database with its tables
SELECT drop_database('lake', 'd', cascade => true) AS id \gset
SELECT wait_for_procedure(:id);
SELECT count(*) FROM table_runtimes;
SELECT drop_catalog('lake'), drop_optimizer_group('default'), drop_optimizer_group('g1');

-- sweeps, as the coordinator runs them
SELECT sweep_name, interval_ms, errors, last_error FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes';
SELECT pg_temp.attempt($$SELECT amoro_meta.request_sweep('nope')$$), amoro_meta.request_sweep(NULL) IS NULL;
DROP EXTENSION amoro_meta;
