-- Processes: start, commit, fail, cancel; what becomes of their tables, and of their history.
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
\set VERBOSITY terse
SELECT create_optimizer_group('default');
SELECT register_optimizer('default', 4, 512) AS token \gset

-- bad arguments
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '{}');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[1]');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', NULL);
SELECT start_process('', 'sales', 'orders', 'MINOR', '[]');
SELECT start_process('lake', 'sales', 'orders', 'what''s this', '[]');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[]', priority => 101);
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[]', quota => 0);
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[]', quota => 'NaN');

-- a table without a runtime, of a catalog that is not known: the group is default
SELECT start_process('lake', 'sales', 'orders', 'minor', '[{"n": 1}, {"n": 2}]') AS process \gset
SELECT group_name, table_id, process_type, status, stage, priority, quota, task_count FROM processes;
-- one at a time; the names are three, not one
SELECT start_process('lake', 'sales', 'orders', 'MAJOR', '[]');
SELECT start_process('lake', 'sales.orders', '', 'MAJOR', '[]');
SELECT start_process('lake', 'sales","orders', 'x', 'MAJOR', '[]') > 0 AS started;
-- names that fit into no index
SELECT start_process(repeat(U&'\+01F4A7', 255), repeat(U&'\+01F9CA', 255), repeat(U&'\+01F30A', 255), 'MAJOR', '[]') > 0 AS started;
-- not before its tasks are done
SELECT finish_process(:process);
SELECT finish_process(-1);
SELECT finish_process(NULL);

-- cancel: definite, whoever asks
SELECT cancel_process(:process, 'changed my mind');
SELECT cancel_process(:process);
SELECT cancel_process(-1), cancel_process(NULL);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT cancel_process(-1);
ROLLBACK;
SELECT finish_process(:process);
SELECT status, reason FROM processes WHERE process_id = :process;
SELECT task_id, state FROM tasks WHERE process_id = :process ORDER BY task_id;
SELECT poll_task(:'token', 0) IS NULL AS nothing;

-- cancel while tasks are handed out (Q11): told at touch, ack and complete; the thread is free at once
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}, {}]') AS process \gset
SELECT task_id FROM poll_task(:'token', 0);
SELECT task_id FROM poll_task(:'token', 1);
SELECT ack_task(:'token', 1, :process, 2, 1);
SELECT cancel_process(:process);
SELECT thread_id, process_id = :process AS right_one, task_id, attempt FROM touch_optimizer(:'token');
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT complete_task(:'token', 1, :process, 2, 1);
SELECT complete_task(:'token', 1, :process, 2, 1, error => 'too late');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT task_id, process_id = :process AS right_one FROM poll_task(:'token', 1);

-- error of the leader of the commit
SELECT ack_task(:'token', 1, :process, 1, 1), complete_task(:'token', 1, :process, 1, 1);
SELECT status, stage FROM processes WHERE process_id = :process;
SELECT finish_process(:process, 'conflict with a writer');
SELECT status, reason FROM processes WHERE process_id = :process;
-- second commit
SELECT finish_process(:process);
-- completeEmptyProcess
SELECT start_process('lake', 'sales', 'orders', 'FULL', '[]') AS process \gset
SELECT stage FROM processes WHERE process_id = :process;
SELECT finish_process(:process);

-- the table's status follows, where it has a runtime
SELECT create_catalog('house', metastore => 'pushed');
INSERT INTO amoro_meta.table_runtime VALUES (77, 'house', 'sales', 'orders', 'default', 'default', 600, clock_timestamp(), NULL, 1, 0, '{"self-optimizing.quota": "3"}', '{}');
SELECT start_process('house', 'sales', 'orders', 'MAJOR', '[{}]') AS process \gset
SELECT table_id, quota FROM processes WHERE process_id = :process;
SELECT status, process_id = :process AS this_one, version > 1 AS newer FROM table_runtimes WHERE table_id = 77;
SELECT task_id FROM poll_task(:'token', 0);
SELECT ack_task(:'token', 0, :process, 1, 1), complete_task(:'token', 0, :process, 1, 1);
SELECT status FROM table_runtimes WHERE table_id = 77;
SELECT finish_process(:process);
SELECT status, process_id FROM table_runtimes WHERE table_id = 77;
-- retries used up (Q09): the process fails and its table is free for the next one
SELECT start_process('house', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT complete_task(:'token', 0, :process, 1, t.attempt, error => 'no ' || n)
	FROM generate_series(1, 6) n, LATERAL (SELECT p.attempt, ack_task(:'token', n - n, p.process_id, p.task_id, p.attempt) FROM poll_task(:'token', n - n) p OFFSET 0) t;
SELECT p.status, p.reason, r.status AS table_status, r.process_id FROM processes p, table_runtimes r WHERE p.process_id = :process AND r.table_id = 77;
SELECT poll_task(:'token', 0) IS NULL AS nothing;
SELECT cancel_process(start_process('house', 'sales', 'orders', 'MINOR', '[{}]'));
-- its group is gone from under it
UPDATE amoro_meta.table_runtime SET group_name = NULL, wanted_group = 'gone' WHERE table_id = 77;
SELECT start_process('house', 'sales', 'orders', 'MAJOR', '[{}]');

-- blocked for OPTIMIZE: is not planned, nor handed out
SELECT blocker_id FROM acquire_blocker('lake', 'sales', 'orders', '{OPTIMIZE}') \gset
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]');
SELECT release_blocker(:blocker_id);
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT blocker_id FROM acquire_blocker('lake', 'sales', 'orders', '{OPTIMIZE}') \gset
SELECT poll_task(:'token', 0) IS NULL AS nothing;
SELECT release_blocker(:blocker_id);
SELECT blocker_id FROM acquire_blocker('lake', 'sales', 'orders', '{BATCH_WRITE}') \gset
SELECT task_id FROM poll_task(:'token', 0);

-- what is left of the tasks is settled, then all of it purged
SELECT cancel_process(:process);
SELECT count(*) FROM settle_processes();
SELECT count(*) FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id) WHERE p.ended_at IS NOT NULL AND t.state IN ('PLANNED', 'SCHEDULED', 'ACKED');
SELECT count(*) FROM purge_history();
UPDATE amoro_meta.process SET ended_at = ended_at - interval '31 days' WHERE ended_at IS NOT NULL;
SELECT count(*) FROM purge_history();
SELECT count(*) FROM processes WHERE ended_at IS NOT NULL;
SELECT (SELECT count(*) FROM amoro_meta.task), (SELECT count(*) FROM amoro_meta.task_input), (SELECT count(*) FROM amoro_meta.task_claim),
	(SELECT count(*) FROM amoro_meta.task_floor), (SELECT count(*) FROM amoro_meta.task_result);

-- quotas without end, and half of the threads of a group that has very many
SELECT start_process('lake', 'sales', 'quota', 'MINOR', '[{}]', quota => 'Infinity') AS process \gset
SELECT cancel_process(:process);
SELECT register_optimizer('default', 65536, 512) AS large \gset
SELECT start_process('lake', 'sales', 'quota', 'MINOR', '[{}]') AS process \gset
SELECT cancel_process(:process), unregister_optimizer(:'large');

-- many that have ended at once: the sweep is called again until it is done with all
SELECT count(cancel_process(start_process('lake', 'sales', 'many ' || n, 'MINOR', '[]'))) FROM generate_series(1, 101) n;
SELECT settle_processes() >= amoro_meta.sweep_batch() OR NOT EXISTS (SELECT FROM amoro_meta.process WHERE NOT settled AND ended_at IS NOT NULL) AS goes_on;
SELECT count(*) FROM settle_processes();
SELECT count(*) FROM amoro_meta.process WHERE NOT settled AND ended_at IS NOT NULL;

DROP EXTENSION amoro_meta;
