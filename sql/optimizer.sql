-- Optimizers: what Amoro tests in TestDefaultOptimizingService, as far as it is about who polls.
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
\set VERBOSITY terse
CREATE ROLE regress_optimizer_a;
CREATE ROLE regress_optimizer_b;
SELECT grant_access('regress_optimizer_a', 'optimizer'), grant_access('regress_optimizer_b', 'optimizer');
SELECT create_optimizer_group('default');

-- pollWithoutAuth
SELECT poll_task('00000000-0000-0000-0000-000000000000', 0);
SELECT touch_optimizer('00000000-0000-0000-0000-000000000000');
SELECT unregister_optimizer('00000000-0000-0000-0000-000000000000');

-- bad arguments
SELECT register_optimizer('missing', 1, 1);
SELECT register_optimizer('default', 0, 1);
SELECT register_optimizer('default', 1, -1);
SELECT register_optimizer('default', NULL, 1);
SELECT register_optimizer('default', 1, 1, properties => '[]');
-- its heartbeats would come too late
SELECT register_optimizer('default', 1, 1, properties => '{"heart-beat-interval": "60000"}');
SELECT register_optimizer('default', 1, 1, properties => '{"heart-beat-interval": "2min"}');
SELECT register_optimizer('default', 1, 1, properties => '{"heart-beat-interval": "soon"}');
SELECT register_optimizer('default', 1, 1, properties => '{"heart-beat-interval": "999999999999 d"}');

SET ROLE regress_optimizer_a;
SELECT register_optimizer('default', 2, 512, properties => '{"heart-beat-interval": "10s"}') AS token \gset
RESET ROLE;
SELECT group_name, container_name, thread_count, memory_mb, state, registered_by FROM optimizers;
SELECT optimizer_id AS optimizer FROM optimizers \gset
-- a token is shown to nobody
SELECT count(*) FROM information_schema.columns WHERE table_name = 'optimizers' AND column_name = 'token';

-- bound to its role (X07)
SET ROLE regress_optimizer_b;
SELECT touch_optimizer(:'token');
SELECT unregister_optimizer(:'token');
SELECT poll_task(:'token', 0);
SELECT ack_task(:'token', 0, 1, 1, 1);
SELECT complete_task(:'token', 0, 1, 1, 1);
SET ROLE regress_optimizer_a;
SELECT count(*) FROM touch_optimizer(:'token');
SELECT poll_task(:'token', 0) IS NULL AS nothing;
-- threads are those that were registered
SELECT poll_task(:'token', 2);
SELECT poll_task(:'token', -1);
SELECT poll_task(:'token', NULL);
SELECT poll_task(:'token', 0, wait => '6s');
SELECT poll_task(:'token', 0, wait => '-1s');
SELECT poll_task(:'token', 0, wait => '1 month');
RESET ROLE;

-- touch
SELECT touched_at AS before FROM optimizers \gset
SET ROLE regress_optimizer_a;
SELECT count(*) FROM touch_optimizer(:'token');
RESET ROLE;
SELECT touched_at > :'before' AS later FROM optimizers;

-- pollTaskBlockedWhileDraining, cancelDrain
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}]') AS process \gset
SELECT drain_optimizer(:optimizer);
SELECT state FROM optimizers;
SET ROLE regress_optimizer_a;
SELECT poll_task(:'token', 0) IS NULL AS nothing;
RESET ROLE;
SELECT drain_optimizer(:optimizer, draining => false);
SET ROLE regress_optimizer_a;
SELECT task_id, attempt FROM poll_task(:'token', 0);
RESET ROLE;
SELECT drain_optimizer(:optimizer);
SELECT drain_optimizer(-1);
SELECT group_name, thread_count, scheduled, acked, idle FROM amoro_stat_optimizer;

-- one heartbeat that is late is no death (Q05), and a clock that was set back neither ends an optimizer nor keeps it for ever
UPDATE amoro_meta.optimizer SET touched_at = clock_timestamp() - interval '54s';
SELECT expire_optimizers() AS expired;
UPDATE amoro_meta.optimizer SET touched_at = clock_timestamp() + interval '1 year';
SELECT expire_optimizers() AS expired;
SELECT touched_at <= clock_timestamp() AS as_if_now FROM optimizers;

-- touchTimeout: what an optimizer that is out of touch worked on is given to others; heartbeatExpiry ends the drain
UPDATE amoro_meta.optimizer SET touched_at = clock_timestamp() - interval '61s';
SELECT count(*) FROM expire_optimizers();
SELECT count(*) FROM optimizers;
SELECT state, attempt, failures, resets FROM tasks WHERE process_id = :process;
SET ROLE regress_optimizer_a;
SELECT touch_optimizer(:'token');
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT register_optimizer('default', 1, 512) AS token \gset
SELECT task_id, attempt FROM poll_task(:'token', 0);

-- another token, be it of the same role and thread, has nothing to do with it (Q07)
SELECT register_optimizer('default', 1, 512, resource_id => 'r') AS token2 \gset
SELECT ack_task(:'token2', 0, :process, 1, 2);
SELECT complete_task(:'token2', 0, :process, 1, 2);
SELECT poll_task(:'token2', 0) IS NULL AS nothing;
SELECT ack_task(:'token', 0, :process, 1, 2);

-- unregister, twice; the task is free at once
SELECT unregister_optimizer(:'token'), unregister_optimizer(:'token');
SELECT complete_task(:'token', 0, :process, 1, 2);
SELECT task_id, attempt FROM poll_task(:'token2', 0);
SELECT unregister_optimizer(:'token2');
RESET ROLE;
SELECT state, attempt, failures, resets FROM tasks WHERE process_id = :process;

-- one row that cannot be reset stops neither the others nor the sweep: it is tried again
SELECT register_optimizer('default', 3, 512) AS token \gset
SELECT cancel_process(:process);
SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}, {}]') AS process \gset
SELECT count(poll_task(:'token', n)) FROM generate_series(0, 2) n;
CREATE FUNCTION pg_temp.bad_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'bad row'; END$$;
CREATE TRIGGER bad_row BEFORE UPDATE ON amoro_meta.task FOR EACH ROW WHEN (NEW.task_id = 2) EXECUTE FUNCTION pg_temp.bad_row();
UPDATE amoro_meta.optimizer SET touched_at = clock_timestamp() - interval '61s';
SELECT count(*) FROM expire_optimizers();
SELECT state FROM optimizers;
SELECT task_id, state, resets FROM tasks WHERE process_id = :process ORDER BY task_id;
SELECT touch_optimizer(:'token');
DROP TRIGGER bad_row ON amoro_meta.task;
SELECT count(*) FROM expire_optimizers();
SELECT count(*) FROM optimizers;
SELECT task_id, state, resets FROM tasks WHERE process_id = :process ORDER BY task_id;

DROP EXTENSION amoro_meta;
DROP ROLE regress_optimizer_a, regress_optimizer_b;
