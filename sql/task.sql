-- Tasks: what Amoro tests in TestDefaultOptimizingService and TestOptimizingQueue.
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
\set VERBOSITY terse
SELECT create_optimizer_group('default');
SELECT register_optimizer('default', 8, 512) AS token \gset

-- pollNoTask
SELECT poll_task(:'token', 0) IS NULL AS nothing;
-- a timeout of the role or the database ends the wait, not the poll
SET statement_timeout = '1 s';
SELECT poll_task(:'token', 0, wait => '5 s') IS NULL AS nothing;
RESET statement_timeout;

-- pollOnce: PLANNED, SCHEDULED, ACKED, SUCCESS, then COMMITTING
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{"partition": "day=1"}]') AS process \gset
SELECT state, attempt FROM tasks WHERE process_id = :process;
SELECT process_id = :process AS right_one, task_id, attempt, catalog_name, database_name, table_name, process_type, input FROM poll_task(:'token', 0);
SELECT state, attempt, thread_id FROM tasks WHERE process_id = :process;
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT state FROM tasks WHERE process_id = :process;
SELECT complete_task(:'token', 0, :process, 1, 1, output => '\x0102', metrics => '{"files": 3}');
SELECT state, output, metrics FROM tasks WHERE process_id = :process;
SELECT stage FROM processes WHERE process_id = :process;
SELECT poll_task(:'token', 0) IS NULL AS nothing;
SELECT finish_process(:process);

-- ackAndComplete: complete before ack is ignored
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT task_id FROM poll_task(:'token', 0);
SELECT complete_task(:'token', 0, :process, 1, 1);
SELECT state FROM tasks WHERE process_id = :process;
-- neither is anybody else's report of use: another thread, another attempt, another task
SELECT ack_task(:'token', 1, :process, 1, 1);
SELECT ack_task(:'token', 0, :process, 1, 2);
SELECT ack_task(:'token', 0, :process, 2, 1);
SELECT ack_task(:'token', 0, NULL, 1, 1);
SELECT ack_task(:'token', 0, :process, 1, 1);
-- again: the answer was lost, or it is still at work
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT complete_task(:'token', 1, :process, 1, 1);
SELECT complete_task(:'token', 0, :process, 1, 2);
SELECT complete_task(:'token', 0, -1, 1, 1);
SELECT complete_task(:'token', 0, :process, 1, NULL);
SELECT complete_task(:'token', 0, :process, 1, 1, metrics => '[]');
SELECT complete_task(:'token', 0, :process, 1, 1);
-- a success is final
SELECT complete_task(:'token', 0, :process, 1, 1);
SELECT complete_task(:'token', 0, :process, 1, 1, error => 'no');
SELECT state, failures FROM tasks WHERE process_id = :process;
SELECT finish_process(:process);

-- retryTask: five failures are tried again, the sixth fails the process; the reason is kept
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}]') AS process \gset
SELECT task_id FROM poll_task(:'token', 1);
CREATE FUNCTION pg_temp.fail(token uuid, process bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE task optimizing_task := poll_task(token, 0);
BEGIN
	PERFORM ack_task(token, 0, process, task.task_id, task.attempt);
	RETURN format('task %s attempt %s: %s', task.task_id, task.attempt,
				  complete_task(token, 0, process, task.task_id, task.attempt, error => 'out of memory'));
END$$;
SELECT pg_temp.fail(:'token', :process) FROM generate_series(1, 6);
SELECT task_id, state, attempt, failures, resets, error FROM tasks WHERE process_id = :process ORDER BY task_id;
SELECT status, reason FROM processes WHERE process_id = :process;
-- no more offers, and whoever still works on the other one is told
SELECT poll_task(:'token', 0) IS NULL AS nothing;
SELECT ack_task(:'token', 1, :process, 1, 1);

-- pollTaskThreeTimes: two failures, then success
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT pg_temp.fail(:'token', :process) FROM generate_series(1, 2);
SELECT task_id, attempt FROM poll_task(:'token', 0);
SELECT poll_task(:'token', 2) IS NULL AS nothing;
SELECT ack_task(:'token', 0, :process, 1, 3), complete_task(:'token', 0, :process, 1, 3);
SELECT finish_process(:process);

-- ackTimeoutReset: the optimizer lives, its thread is silent; a late ack is refused, a late completion ignored
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT task_id, attempt FROM poll_task(:'token', 0);
SELECT reset_tasks();
UPDATE amoro_meta.task SET claimed_at = clock_timestamp() - interval '31s' WHERE process_id = :process;
SELECT reset_tasks();
SELECT state, attempt, failures, resets, thread_id FROM tasks WHERE process_id = :process;
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT task_id, attempt FROM poll_task(:'token', 1);
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT ack_task(:'token', 1, :process, 1, 2);
SELECT complete_task(:'token', 0, :process, 1, 1);
-- executeTimeout, counted from the last ack
UPDATE amoro_meta.task SET acked_at = clock_timestamp() - interval '61 min' WHERE process_id = :process;
SELECT ack_task(:'token', 1, :process, 1, 2);
SELECT reset_tasks();
UPDATE amoro_meta.task SET acked_at = clock_timestamp() - interval '61 min' WHERE process_id = :process;
SELECT reset_tasks();
SELECT state, failures, resets FROM tasks WHERE process_id = :process;
SELECT complete_task(:'token', 1, :process, 1, 2);
-- a clock that was set back resets nothing, and keeps nothing for ever
SELECT task_id, attempt FROM poll_task(:'token', 0);
UPDATE amoro_meta.task SET claimed_at = clock_timestamp() + interval '1 year' WHERE process_id = :process;
SELECT reset_tasks();
SELECT state, claimed_at <= clock_timestamp() AS as_if_now FROM tasks WHERE process_id = :process;
SELECT ack_task(:'token', 0, :process, 1, 3);
UPDATE amoro_meta.task SET acked_at = clock_timestamp() + interval '1 year' WHERE process_id = :process;
SELECT reset_tasks();
SELECT state, acked_at BETWEEN claimed_at AND clock_timestamp() AS as_if_now FROM tasks WHERE process_id = :process;
UPDATE amoro_meta.task SET acked_at = clock_timestamp() - interval '61 min' WHERE process_id = :process;
SELECT reset_tasks();
-- resets are no failures: there is no end to them
SELECT task_id, attempt FROM poll_task(:'token', 0);
-- poll resets the stale task of the same thread (Q08)
SELECT task_id, attempt FROM poll_task(:'token', 0);
SELECT ack_task(:'token', 0, :process, 1, 5);
SELECT task_id, attempt FROM poll_task(:'token', 0);
SELECT ack_task(:'token', 0, :process, 1, 5);
SELECT state, failures, resets FROM tasks WHERE process_id = :process;
SELECT cancel_process(:process);

-- over-quota disabled: the second poll waits for the completion of the first
SELECT alter_optimizer_group('default', properties => '{"break-quota-limit-enabled": "false"}');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}, {}]', quota => 0.1) AS process \gset
SELECT task_id FROM poll_task(:'token', 0);
SELECT poll_task(:'token', 1) IS NULL AS nothing;
SELECT ack_task(:'token', 0, :process, 1, 1), complete_task(:'token', 0, :process, 1, 1);
SELECT task_id FROM poll_task(:'token', 1);
SELECT poll_task(:'token', 0) IS NULL AS nothing;
-- a reset gives its place back
UPDATE amoro_meta.task SET claimed_at = clock_timestamp() - interval '31s' WHERE process_id = :process AND state = 'SCHEDULED';
SELECT reset_tasks();
SELECT task_id FROM poll_task(:'token', 0);
SELECT poll_task(:'token', 1) IS NULL AS nothing;
-- over-quota enabled
SELECT alter_optimizer_group('default', properties => '{}');
SELECT task_id FROM poll_task(:'token', 1);
SELECT cancel_process(:process);
-- floor(q) of more than one, the rounded up share of the threads of the group of at most one
SELECT q, amoro_meta.quota_limit(q, 'default') FROM unnest('{0.01, 0.125, 0.13, 0.5, 1, 1.9, 2.5, 100}'::float8[]) q;
SELECT alter_optimizer_group('default', properties => '{"break-quota-limit-enabled": "false"}');
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}, {}, {}, {}, {}, {}, {}]', quota => 0.3) AS process \gset
SELECT count(poll_task(:'token', n)) FROM generate_series(0, 7) n;
-- the others see that its quota is used up, and are given the tasks of another table
SELECT start_process('lake', 'sales', 'items', 'MINOR', '[{}, {}]', quota => 1) AS process2 \gset
SELECT count(t) FROM generate_series(3, 7) n, LATERAL poll_task(:'token', n) t WHERE t.table_name = 'items';
SELECT cancel_process(:process), cancel_process(:process2);

-- priorities
SELECT start_process('lake', 'sales', 'low', 'MINOR', '[{}, {}]', priority => -1) AS low \gset
SELECT start_process('lake', 'sales', 'normal', 'MINOR', '[{}, {}]') AS normal \gset
SELECT start_process('lake', 'sales', 'high', 'MINOR', '[{}, {}]', priority => 5) AS high \gset
SELECT (poll_task(:'token', n)).table_name FROM generate_series(0, 5) n;
SELECT cancel_process(:low), cancel_process(:normal), cancel_process(:high);

-- balanced: the table whose last success is longest ago, here never
SELECT unregister_optimizer(:'token');
SELECT alter_optimizer_group('default', properties => '{"scheduling-policy": "balanced"}');
SELECT register_optimizer('default', 8, 512) AS token \gset
SELECT finish_process(start_process('lake', 'sales', 'recent', 'MINOR', '[]'));
SELECT start_process('lake', 'sales', 'recent', 'MINOR', '[{}, {}, {}]') AS recent \gset
SELECT start_process('lake', 'sales', 'never', 'MINOR', '[{}, {}, {}]') AS never \gset
SELECT (poll_task(:'token', n)).table_name FROM generate_series(0, 1) n;
SELECT cancel_process(:recent), cancel_process(:never);
-- quota: the table that used least of its quota within the last hour
SELECT unregister_optimizer(:'token');
SELECT alter_optimizer_group('default', properties => '{"scheduling-policy": "quota"}');
SELECT register_optimizer('default', 8, 512) AS token \gset
SELECT count(*) FROM settle_processes();
UPDATE amoro_meta.process SET busy_ms = 1000000 WHERE process_id = :recent;
SELECT start_process('lake', 'sales', 'recent', 'MINOR', '[{}, {}, {}]') AS recent \gset
SELECT start_process('lake', 'sales', 'never', 'MINOR', '[{}, {}, {}]') AS never \gset
SELECT (poll_task(:'token', n)).table_name FROM generate_series(0, 1) n;
SELECT cancel_process(:recent), cancel_process(:never);

-- fairness (Q15): many tasks of one table, one of another, and a single thread
SELECT unregister_optimizer(:'token');
SELECT register_optimizer('default', 1, 512) AS token \gset
SELECT start_process('lake', 'sales', 'big', 'MINOR', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 5000))) AS big \gset
SELECT start_process('lake', 'sales', 'small', 'MINOR', '[{}]') AS small \gset
SELECT t.table_name, count(*) FROM generate_series(1, 4) n, LATERAL poll_task(:'token', n - n) t GROUP BY 1 ORDER BY 1;

-- plans are lookups, whatever is in the tables (statements of the functions, as the server runs them)
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- how a parameter looks differs by version
CREATE FUNCTION pg_temp.plan_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || statement LOOP
		RETURN NEXT regexp_replace(regexp_replace(line, 'InitPlan 1 .*', 'InitPlan 1'), '\$0|\(InitPlan 1\)\.col1', 'its result');
	END LOOP;
END;
$$;
SELECT * FROM pg_temp.plan_of($$SELECT t.task_id FROM amoro_meta.task t WHERE t.process_id = 1 AND t.state = 'PLANNED' AND t.position >=
	coalesce((SELECT f.position FROM amoro_meta.task_floor f WHERE f.process_id = 1 ORDER BY f.position DESC LIMIT 1), 0)
	ORDER BY t.position LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED$$) AS plan;
SELECT * FROM pg_temp.plan_of($$SELECT c.task_id FROM amoro_meta.task_claim c WHERE c.optimizer_id = 1 AND c.thread_id = 1 ORDER BY c.number DESC LIMIT 1$$) AS plan;
SELECT * FROM pg_temp.plan_of($$SELECT p.process_id FROM amoro_meta.process p WHERE p.queue_id = 1 AND p.waiting AND p.turn >= 1 ORDER BY p.turn LIMIT 32$$) AS plan;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- counted, where there is shared memory
SELECT polls > 0 AS polls, claims > 0 AS claims, retries > 0 AS retries, resets > 0 AS resets, late_completions > 0 AS late_completions,
	stale_acks > 0 AS stale_acks, claims_over_quota > 0 AS claims_over_quota, empty_polls > 0 AS empty_polls FROM amoro_stat_task;
SELECT amoro_stat_reset();
SELECT * FROM amoro_stat_task;
SELECT unregister_optimizer(:'token');
SELECT cancel_process(:big), cancel_process(:small);

-- the same millisecond (Q12): a thousand processes, claims, acks and completions in one transaction; nothing is known by a time alone
BEGIN;
SELECT register_optimizer('default', 1, 512) AS token \gset
SELECT count(DISTINCT start_process('lake', 'sales', 'same ' || n, 'MINOR', '[{}]')) FROM generate_series(1, 1000) n;
SELECT answer, count(*), count(DISTINCT (t.process_id, t.task_id))
	FROM (SELECT t.process_id, t.task_id, ack_task(:'token', 0, t.process_id, t.task_id, t.attempt) ||
			', ' || complete_task(:'token', 0, t.process_id, t.task_id, t.attempt, metrics => '{"n": 1}') AS answer
		  FROM generate_series(1, 1000) n, LATERAL poll_task(:'token', n - n) t OFFSET 0) t GROUP BY 1;
SELECT count(finish_process(p.process_id)) FROM processes p WHERE p.stage = 'committing' AND p.ended_at IS NULL;
SELECT status, count(*) FROM processes WHERE table_name ~ '^same ' GROUP BY 1;
COMMIT;
SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
	WHERE c.relnamespace = 'amoro_meta'::regnamespace AND i.indisunique AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype);

-- times of clients (Q13): no function takes one; in metrics they are kept as what was said, and decide nothing
SELECT count(*) AS functions, count(*) FILTER (WHERE p.proargtypes::regtype[] && '{timestamptz,timestamp,date,time,timetz}'::regtype[]) AS with_a_time
	FROM pg_proc p JOIN amoro_meta.access_rule r ON r.object_kind = 'function' AND r.access_kind = 'optimizer' AND r.object_name = p.proname
	WHERE p.pronamespace = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'amoro_meta');
SELECT start_process('lake', 'sales', 'clocks', 'MINOR', '[{}, {}, {}, {}]') AS process \gset
SELECT s.said, ack_task(:'token', 0, t.process_id, t.task_id, t.attempt),
	complete_task(:'token', 0, t.process_id, t.task_id, t.attempt, metrics => s.said)
	FROM (VALUES ('{"start": "1970-01-01", "end": "1970-01-02"}'::jsonb), ('{"start": "2999-01-01", "end": "2999-12-31"}'),
		('{"start": null, "end": null}'), ('{"start": 1893456000000, "end": 0}')) s (said), LATERAL poll_task(:'token', length(s.said::text) * 0) t;
SELECT t.task_id, t.state, t.metrics, t.claimed_at BETWEEN p.started_at AND clock_timestamp() AND t.acked_at >= t.claimed_at AND t.ended_at >= t.acked_at
	AND t.ended_at <= clock_timestamp() AND t.cost_ms BETWEEN 0 AND 60000 AS by_this_clock
	FROM tasks t JOIN processes p USING (process_id) WHERE t.process_id = :process ORDER BY t.task_id;
SELECT count(*) AS cancelled FROM touch_optimizer(:'token');
SELECT touched_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() AS by_this_clock FROM optimizers;
SELECT expire_optimizers(), reset_tasks();

-- a share of more threads than an integer counts
SELECT create_optimizer_group('crowd', properties => '{"break-quota-limit-enabled": "false"}');
INSERT INTO amoro_meta.optimizer (optimizer_id, token, group_name, thread_count, memory_mb, properties, registered_by, registered_at, touched_at)
	SELECT amoro_meta.next_id(), gen_random_uuid(), 'crowd', 65536, 0, '{}', current_user::regrole, clock_timestamp(), clock_timestamp()
	FROM generate_series(1, 33000);
SELECT create_catalog('crowded', properties => '{"table.self-optimizing.group": "crowd"}') > 0 AS created;
SELECT start_process('crowded', 'sales', 'orders', 'MINOR', '[{}]', quota => 1) > 0 AS started;
SELECT t.task_id FROM (SELECT o.token FROM amoro_meta.optimizer o WHERE o.group_name = 'crowd' LIMIT 1) o, LATERAL poll_task(o.token, 0) t;

DROP EXTENSION amoro_meta;
