-- Processes and the tables they work on: what happens to one when its table changes its group or name, or goes.
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''));
END;
$$;
-- changes the properties of a table, and waits until that is done
CREATE PROCEDURE pg_temp.run(call text) LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	EXECUTE 'SELECT ' || call INTO id;
	COMMIT;
	IF wait_for_procedure(id, '60 s') <> 'done' THEN
		RAISE EXCEPTION 'not done: %', call;
	END IF;
END;
$$;
CREATE FUNCTION pg_temp.group_of(table_name text, group_name text) RETURNS text LANGUAGE sql AS $$
	SELECT format('alter_table(%L, %L, %L, %L)', 'lake', 'd', table_name,
		format('[{"op": "set_properties", "properties": {"self-optimizing.group": "%s"}}]', group_name))
$$;
\pset format unaligned
\pset tuples_only on
SELECT create_optimizer_group('default'), create_optimizer_group('g1'), create_optimizer_group('g2'), create_catalog('lake') > 0;
CALL pg_temp.run($$create_database('lake', 'd')$$);
CALL pg_temp.run($$create_table('lake', 'd', 't', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"self-optimizing.group": "g1", "self-optimizing.quota": "5"}}')$$);
CALL pg_temp.run($$create_table('lake', 'd', 'disabled', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"self-optimizing.enabled": "false"}}')$$);
SELECT register_optimizer('g1', 4, 512) AS o1 \gset
SELECT register_optimizer('g2', 4, 512) AS o2 \gset

-- a process has the status of its table in its hands
SELECT start_process('lake', 'd', 't', 'MINOR', '[{"n": 1}, {"n": 2}, {"n": 3}]') AS p \gset
SELECT group_name, status, process_id = :p FROM table_runtimes WHERE table_name = 't';
SELECT regexp_replace(pg_temp.attempt(format('SELECT set_table_status(table_id, version, 700, 1) FROM table_runtimes WHERE table_name = %L', 't')), '[0-9]+', '#', 'g');
SELECT reason, count(*) FROM optimizer_group_references('g1') GROUP BY 1 ORDER BY 1;

-- the table moves: what is handed out ends where it is, what is planned is handed out in the new group only
SELECT task_id AS first, attempt FROM poll_task(:'o1', 0) \gset
SELECT ack_task(:'o1', 0, :p, :first, :attempt);
CALL pg_temp.run(pg_temp.group_of('t', 'g2'));
SELECT r.group_name, r.status, p.group_name, p.status FROM table_runtimes r JOIN processes p USING (process_id) WHERE r.table_name = 't';
SELECT poll_task(:'o1', 1) IS NULL;
SELECT task_id AS second, attempt AS second_attempt FROM poll_task(:'o2', 0) \gset
SELECT :first <> :second;
SELECT complete_task(:'o1', 0, :p, :first, :attempt);
SELECT ack_task(:'o2', 0, :p, :second, :second_attempt), complete_task(:'o2', 0, :p, :second, :second_attempt);
-- and back
CALL pg_temp.run(pg_temp.group_of('t', 'g1'));
SELECT poll_task(:'o2', 0) IS NULL;
SELECT task_id AS third, attempt FROM poll_task(:'o1', 0) \gset
SELECT ack_task(:'o1', 0, :p, :third, :attempt), complete_task(:'o1', 0, :p, :third, :attempt);
SELECT status FROM table_runtimes WHERE table_name = 't';
SELECT finish_process(:p);
SELECT status, process_id FROM table_runtimes WHERE table_name = 't';

-- to a group that does not exist: released, never stuck; the optimizer hears of it
SELECT start_process('lake', 'd', 't', 'MAJOR', '[{"n": 1}, {"n": 2}]') AS p \gset
SELECT task_id AS first, attempt FROM poll_task(:'o1', 0) \gset
SELECT ack_task(:'o1', 0, :p, :first, :attempt);
CALL pg_temp.run(pg_temp.group_of('t', 'ghost'));
SELECT group_name, wanted_group, status, process_id FROM table_runtimes WHERE table_name = 't';
SELECT status, reason FROM processes WHERE process_id = :p;
SELECT process_id = :p, task_id = :first FROM touch_optimizer(:'o1');
SELECT poll_task(:'o1', 1) IS NULL, poll_task(:'o2', 1) IS NULL;
SELECT pg_temp.attempt($$SELECT start_process('lake', 'd', 't', 'MINOR', '[{"n": 1}]')$$);

-- renamed with the table: it is the same table; a process on a table of the new name that nobody knew gives way
CALL pg_temp.run(pg_temp.group_of('t', 'g1'));
SELECT start_process('lake', 'd', 't', 'FULL', '[{"n": 1}]') AS p \gset
SELECT start_process('lake', 'd', 'renamed', 'MINOR', '[{"n": 1}]') AS unknown \gset
CALL pg_temp.run($$rename_table('lake', 'd', 't', 'd', 'renamed')$$);
SELECT status, reason FROM processes WHERE process_id = :unknown;
SELECT table_name, status FROM processes WHERE process_id = :p;
SELECT table_name, task_id FROM poll_task(:'o1', 2);
-- another table under the old name has nothing to do with it
CALL pg_temp.run($$create_table('lake', 'd', 't', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"self-optimizing.group": "g2"}}')$$);
SELECT start_process('lake', 'd', 't', 'MINOR', '[{"n": 1}]') AS q \gset
SELECT table_name, status, process_id = :p AS old, process_id = :q AS new FROM table_runtimes ORDER BY 1;

-- disabled: closed without a commit
CALL pg_temp.run($$alter_table('lake', 'd', 't', '[{"op": "set_properties", "properties": {"self-optimizing.enabled": "false"}}]')$$);
SELECT status, reason FROM processes WHERE process_id = :q;
-- gone: in the right order, all or nothing, and back again without a trace
SELECT start_process('lake', 'd', 'disabled', 'EXPIRE-DATA', '[{"n": 1}]') AS q \gset
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
CREATE TRIGGER refuse BEFORE DELETE ON amoro_meta.table_runtime FOR EACH ROW EXECUTE FUNCTION public.refuse();
SELECT drop_table('lake', 'd', 'renamed') AS id \gset
SELECT wait_for_procedure(:id, '500 ms');
SELECT p.status, r.table_name, t.state FROM processes p, table_runtimes r, tables t WHERE p.process_id = :p AND r.process_id = :p AND t.table_id = r.table_id;
DROP FUNCTION public.refuse() CASCADE;
SELECT wait_for_procedure(:id);
SELECT p.status, p.reason FROM processes p WHERE p.process_id = :p;
SELECT count(*) FROM table_runtimes;
CALL pg_temp.run($$drop_table('lake', 'd', 'disabled')$$);
SELECT p.status, p.reason FROM processes p WHERE p.process_id = :q;
CALL pg_temp.run($$create_table('lake', 'd', 'renamed', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"self-optimizing.group": "g1"}}')$$);
SELECT start_process('lake', 'd', 'renamed', 'MINOR', '[{"n": 1}]') AS p \gset
SELECT poll_task(:'o1', 3) IS NOT NULL;

-- a group goes together with optimizers that are dead by the clock, and what they worked on is given to others
CALL pg_temp.run($$drop_database('lake', 'd', cascade => true)$$);
SELECT status, reason FROM processes WHERE process_id = :p;
SELECT pg_temp.attempt($$SELECT drop_optimizer_group('g1')$$) ~ '^AM201 . optimizer group "g1" is in use . It has optimizer \d+[.]$';
UPDATE amoro_meta.optimizer SET touched_at = touched_at - interval '1 day' WHERE token = :'o1';
SELECT count(*) FROM optimizer_group_references('g1');
SELECT drop_optimizer_group('g1');
SELECT create_optimizer_group('g1');
-- the old token is good for nothing in the new group
SELECT pg_temp.attempt(format('SELECT touch_optimizer(%L)', :'o1')), pg_temp.attempt(format('SELECT poll_task(%L, 0)', :'o1'));
SELECT count(*) FROM optimizer_group_references('g1');

-- a table that is kept elsewhere vanishes, or gives way to another one of its name: its process and its blockers go with it
SELECT create_catalog('listed', 'pushed', '{"table.self-optimizing.group": "g2", "max-removed-share": "100"}') > 0;
SELECT added FROM report_listing('listed', 'd', '[{"name": "a", "uuid": "1"}, {"name": "b", "uuid": "2"}]', true);
SELECT start_process('listed', 'd', 'a', 'MINOR', '[{"n": 1}]') AS p \gset
SELECT start_process('listed', 'd', 'b', 'MINOR', '[{"n": 1}]') AS q \gset
SELECT count(acquire_blocker('listed', 'd', t, ARRAY['BATCH_WRITE'])) FROM unnest(ARRAY['a', 'b', 'c']) t;
SELECT table_id AS old_id FROM external_tables WHERE table_name = 'a' \gset
SELECT added, removed FROM report_listing('listed', 'd', '[{"name": "a", "uuid": "3"}]', true);
SELECT table_id > :old_id, status, process_id FROM table_runtimes WHERE catalog_name = 'listed';
SELECT status, reason FROM processes WHERE process_id IN (:p, :q);
SELECT table_name FROM blockers ORDER BY 1;
-- all or nothing there as well
SELECT start_process('listed', 'd', 'a', 'MINOR', '[{"n": 1}]') AS p \gset
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
CREATE TRIGGER refuse BEFORE DELETE ON amoro_meta.table_runtime FOR EACH ROW EXECUTE FUNCTION public.refuse();
SELECT pg_temp.attempt($$SELECT drop_catalog('listed')$$);
SELECT p.status, t.table_name FROM processes p, external_tables t WHERE p.process_id = :p AND t.catalog_name = 'listed';
DROP FUNCTION public.refuse() CASCADE;
SELECT drop_catalog('listed');
SELECT status, reason FROM processes WHERE process_id = :p;
SELECT count(*) FROM blockers;

-- one without tasks, ready to be committed from its start, is in the hands of its table like any other
CALL pg_temp.run($$create_database('lake', 'd')$$);
CALL pg_temp.run($$create_table('lake', 'd', 'empty', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"self-optimizing.group": "g1"}}')$$);
SELECT start_process('lake', 'd', 'empty', 'MINOR', '[]') AS p \gset
SELECT status, process_id = :p FROM table_runtimes WHERE table_name = 'empty';
CALL pg_temp.run(pg_temp.group_of('empty', 'g2'));
SELECT group_name FROM processes WHERE process_id = :p;
CALL pg_temp.run($$drop_table('lake', 'd', 'empty')$$);
SELECT status FROM processes WHERE process_id = :p;
CALL pg_temp.run($$drop_database('lake', 'd')$$);

-- processes on tables that nobody knows go with their catalog
SELECT create_catalog('far', 'pushed', '{"table.self-optimizing.group": "g2"}') > 0;
SELECT start_process('far', 'd', 'unknown', 'MINOR', '[{"n": 1}]') AS p \gset
SELECT reason FROM optimizer_group_references('g2') ORDER BY 1;
SELECT drop_catalog('far');
SELECT status, reason FROM processes WHERE process_id = :p;
SELECT unregister_optimizer(:'o2'), drop_optimizer_group('g2'), drop_optimizer_group('g1');
DROP EXTENSION amoro_meta;
