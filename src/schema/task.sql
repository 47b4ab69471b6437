/* Tasks: handed out one at a time, to one thread each (src/extension/README.md, tasks). */

CREATE TYPE amoro_meta.task_state AS ENUM ('PLANNED', 'SCHEDULED', 'ACKED', 'SUCCESS', 'FAILED', 'CANCELED');
COMMENT ON TYPE amoro_meta.task_state IS 'states of a task, as Amoro calls them';

-- Narrow, and no index has a column that changes from the claim to the end: these updates stay on their page.
CREATE TABLE amoro_meta.task
(
	process_id		bigint NOT NULL,
	position		bigint NOT NULL,
	claimed_at		timestamptz,
	acked_at		timestamptz,
	ended_at		timestamptz,
	optimizer_id	bigint,
	cost_ms			bigint NOT NULL DEFAULT 0,
	task_id			integer NOT NULL,
	thread_id		integer,
	attempt			integer NOT NULL DEFAULT 0,
	failures		integer NOT NULL DEFAULT 0,
	resets			integer NOT NULL DEFAULT 0,
	state			amoro_meta.task_state NOT NULL,
	PRIMARY KEY (process_id, task_id)
) WITH (fillfactor = 40);
COMMENT ON TABLE amoro_meta.task IS
	'tasks of the processes; position: place in the line of the process, a new one at its end after each return';
CREATE INDEX task_position ON amoro_meta.task (process_id, position);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task', '');

CREATE TABLE amoro_meta.task_input
(
	process_id		bigint NOT NULL,
	task_id			integer NOT NULL,
	input			jsonb NOT NULL,
	PRIMARY KEY (process_id, task_id)
);
COMMENT ON TABLE amoro_meta.task_input IS 'what an optimizer is told to do; apart, because it never changes';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_input', '');

CREATE TABLE amoro_meta.task_result
(
	process_id		bigint NOT NULL,
	task_id			integer NOT NULL,
	attempt			integer NOT NULL,
	output			bytea,
	error			text,
	metrics			jsonb,
	ended_at		timestamptz NOT NULL,
	PRIMARY KEY (process_id, task_id, attempt)
);
COMMENT ON TABLE amoro_meta.task_result IS 'what the attempts came to, where there is anything to say';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_result', '');

-- Only the newest claim of a thread, and of a seat, can still be held: both are found without a look at the older ones.
CREATE TABLE amoro_meta.task_claim
(
	optimizer_id	bigint NOT NULL,
	process_id		bigint NOT NULL,
	claimed_at		timestamptz NOT NULL,
	ring_turn		bigint NOT NULL,
	thread_id		integer NOT NULL,
	number			integer NOT NULL,
	task_id			integer NOT NULL,
	attempt			integer NOT NULL,
	seat			integer NOT NULL,
	seat_number		integer NOT NULL,
	PRIMARY KEY (optimizer_id, thread_id, number),
	UNIQUE (process_id, seat, seat_number)
);
COMMENT ON TABLE amoro_meta.task_claim IS
	'every claim of a task: number counts those of a thread, seat_number those of a seat; a process has a seat for each of its tasks that are handed out';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_claim', '');

CREATE TYPE optimizing_task AS
(
	process_id		bigint,
	task_id			integer,
	attempt			integer,
	catalog_name	text,
	database_name	text,
	table_name		text,
	process_type	text,
	input			jsonb
);
COMMENT ON TYPE optimizing_task IS 'a task as it is handed out: process_id, task_id and attempt are to be shown with ack_task and complete_task';

CREATE FUNCTION amoro_meta.announce_tasks(group_name text, task_count integer) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_announce_tasks';
COMMENT ON FUNCTION amoro_meta.announce_tasks(text, integer) IS
	'wakes optimizers that wait for work of the group, as soon as the transaction is committed';
REVOKE ALL ON FUNCTION amoro_meta.announce_tasks(text, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.count_task_event(event text) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_count_task_event';
COMMENT ON FUNCTION amoro_meta.count_task_event(text) IS 'counts something for amoro_stat_task, in shared memory';
REVOKE ALL ON FUNCTION amoro_meta.count_task_event(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.milliseconds_since(began timestamptz, now timestamptz) RETURNS bigint
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT greatest(coalesce(extract(epoch FROM now - began) * 1000, 0), 0)::bigint$$;
COMMENT ON FUNCTION amoro_meta.milliseconds_since(timestamptz, timestamptz) IS 'never less than 0, whatever the clock does; 0 for null';
REVOKE ALL ON FUNCTION amoro_meta.milliseconds_since(timestamptz, timestamptz) FROM PUBLIC;

CREATE FUNCTION amoro_meta.return_task(process_id bigint, task_id integer, attempt integer, failed boolean) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process;
	now timestamptz;
	queue_id bigint;
BEGIN
	SELECT p.* INTO process FROM amoro_meta.process p WHERE p.process_id = return_task.process_id FOR NO KEY UPDATE;
	now := clock_timestamp();
	IF process.ended_at IS NOT NULL THEN
		UPDATE amoro_meta.task t SET state = 'CANCELED', ended_at = now
			WHERE t.process_id = return_task.process_id AND t.task_id = return_task.task_id AND t.attempt = return_task.attempt
				AND t.state IN ('SCHEDULED', 'ACKED');
		RETURN false;
	END IF;
	UPDATE amoro_meta.task t
		SET state = 'PLANNED', position = amoro_meta.last_position(return_task.process_id) + 1, optimizer_id = NULL, thread_id = NULL,
			claimed_at = NULL, acked_at = NULL, failures = t.failures + failed::integer, resets = t.resets + (NOT failed)::integer,
			cost_ms = t.cost_ms + CASE WHEN failed THEN amoro_meta.milliseconds_since(t.acked_at, now) ELSE 0 END
		WHERE t.process_id = return_task.process_id AND t.task_id = return_task.task_id AND t.attempt = return_task.attempt
			AND t.state IN ('SCHEDULED', 'ACKED');
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF NOT process.waiting THEN
		queue_id := amoro_meta.hold_task_queue(process.group_name, (SELECT q.priority FROM amoro_meta.task_queue q WHERE q.queue_id = process.queue_id));
		UPDATE amoro_meta.process p SET waiting = true, turn = amoro_meta.next_id() WHERE p.process_id = process.process_id;
	END IF;
	PERFORM amoro_meta.announce_tasks(process.group_name, 1), amoro_meta.count_task_event(CASE WHEN failed THEN 'retry' ELSE 'reset' END);
	RETURN true;
END;
$$;
COMMENT ON FUNCTION amoro_meta.return_task(bigint, integer, integer, boolean) IS
	'puts a task that is handed out back to the end of the line of its process, to be tried again after a failure, or else reset; '
	'false when that attempt is over, or the process: then the task is cancelled';
REVOKE ALL ON FUNCTION amoro_meta.return_task(bigint, integer, integer, boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_ack(token uuid, thread_id integer, process_id bigint, task_id integer, attempt integer) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer := amoro_meta.find_optimizer(token);
	task amoro_meta.task;
BEGIN
	PERFORM amoro_meta.check_not_null('thread_id, process_id, task_id and attempt', num_nulls(thread_id, process_id, task_id, attempt) = 0);
	SELECT t.* INTO task FROM amoro_meta.task t WHERE t.process_id = refuse_ack.process_id AND t.task_id = refuse_ack.task_id;
	IF (task.optimizer_id, task.thread_id, task.attempt) = (optimizer.optimizer_id, refuse_ack.thread_id, refuse_ack.attempt) AND
		EXISTS (SELECT FROM amoro_meta.process p WHERE p.process_id = refuse_ack.process_id AND p.ended_at IS NOT NULL) THEN
		RETURN 'cancelled';
	END IF;
	PERFORM amoro_meta.count_task_event('stale_ack');
	RAISE EXCEPTION 'attempt % of task % of process % is over', attempt, task_id, process_id USING ERRCODE = 'AM302',
		DETAIL = CASE
			WHEN task.task_id IS NULL THEN 'There is no such task.'
			WHEN task.state IN ('SCHEDULED', 'ACKED') THEN format('Attempt %s of it is %s by another thread since %s.', task.attempt, task.state,
				coalesce(task.acked_at, task.claimed_at))
			ELSE format('The task is %s, after attempt %s.', task.state, task.attempt) END,
		HINT = 'Drop it, and SELECT * FROM poll_task(...)';
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_ack(uuid, integer, bigint, integer, integer) IS
	'why a task could not be acknowledged: returns cancelled, or raises AM302, AM301, 42501 or 22004';
REVOKE ALL ON FUNCTION amoro_meta.refuse_ack(uuid, integer, bigint, integer, integer) FROM PUBLIC;

-- What complete_task does where it is not just one success among many. The process is locked before the task.
CREATE FUNCTION amoro_meta.end_task(token uuid, thread_id integer, process_id bigint, task_id integer, attempt integer, error text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer := amoro_meta.find_optimizer(token);
	process amoro_meta.process;
	task amoro_meta.task;
	retries integer := current_setting('amoro_meta.task_max_retries')::integer;
	process_is_locked boolean := error IS NOT NULL OR amoro_meta.first_planned(process_id) IS NULL;
	now timestamptz;
BEGIN
	PERFORM amoro_meta.check_not_null('thread_id, process_id, task_id and attempt', num_nulls(thread_id, process_id, task_id, attempt) = 0);
	IF process_is_locked THEN
		process := amoro_meta.lock_process(process_id);
	ELSE
		SELECT p.* INTO process FROM amoro_meta.process p WHERE p.process_id = end_task.process_id;
	END IF;
	SELECT t.* INTO task FROM amoro_meta.task t
		WHERE t.process_id = end_task.process_id AND t.task_id = end_task.task_id AND t.attempt = end_task.attempt
			AND t.optimizer_id = optimizer.optimizer_id AND t.thread_id = end_task.thread_id
		FOR NO KEY UPDATE;
	now := clock_timestamp();
	IF task.state IN ('SCHEDULED', 'ACKED', 'CANCELED') AND process.ended_at IS NOT NULL THEN
		UPDATE amoro_meta.task t SET state = 'CANCELED', ended_at = now
			WHERE t.process_id = end_task.process_id AND t.task_id = end_task.task_id AND t.state <> 'CANCELED';
		RETURN 'cancelled';
	ELSIF task.state IS DISTINCT FROM 'ACKED' THEN
		RETURN 'ignored';
	ELSIF error IS NOT NULL AND task.failures < retries THEN
		PERFORM amoro_meta.return_task(process_id, task_id, attempt, true);
		RETURN 'retry';
	END IF;
	UPDATE amoro_meta.task t
		SET state = CASE WHEN error IS NULL THEN 'SUCCESS' ELSE 'FAILED' END::amoro_meta.task_state, ended_at = now,
			failures = t.failures + (error IS NOT NULL)::integer, cost_ms = t.cost_ms + amoro_meta.milliseconds_since(t.acked_at, now)
		WHERE t.process_id = end_task.process_id AND t.task_id = end_task.task_id;
	IF error IS NULL THEN
		-- of two that end at once neither sees the other: settle_processes() looks after a process that waits no longer
		IF NOT amoro_meta.commit_if_done(process_id) AND process_is_locked THEN
			PERFORM amoro_meta.raise_task_floor(process_id);
		END IF;
		RETURN 'success';
	END IF;
	PERFORM amoro_meta.end_process(process, 'FAILED', format('task %s failed %s times, at last with: %s', task_id, task.failures + 1, error));
	RETURN 'failed';
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_task(uuid, integer, bigint, integer, integer, text) IS
	'ends an attempt of a task, and what follows from that for its process; the answer of complete_task';
REVOKE ALL ON FUNCTION amoro_meta.end_task(uuid, integer, bigint, integer, integer, text) FROM PUBLIC;

CREATE FUNCTION poll_task(token uuid, thread_id integer, wait interval DEFAULT '0') RETURNS optimizing_task
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_poll_task';
COMMENT ON FUNCTION poll_task(uuid, integer, interval) IS
	'hands out a task to a thread of an optimizer, or null: after wait (0 to 5 seconds, and at most half of statement_timeout) if there is none until then. A task that the thread '
	'still holds from before is reset: it works on it no longer. Errors: AM301 unknown token, 42501 token of another role, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION poll_task(uuid, integer, interval) FROM PUBLIC;

CREATE FUNCTION ack_task(token uuid, thread_id integer, process_id bigint, task_id integer, attempt integer) RETURNS text
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_ack_task';
COMMENT ON FUNCTION ack_task(uuid, integer, bigint, integer, integer) IS
	'says that a thread begins to work on the task it was handed out, or is still at work: amoro_meta.task_execute_timeout counts from the '
	'last ack. Returns acked, or cancelled when its process was: then drop it. '
	'Errors: AM302 that attempt is over, drop it; AM301 unknown token, 42501 token of another role, 22004, 25006';
REVOKE ALL ON FUNCTION ack_task(uuid, integer, bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION complete_task(token uuid, thread_id integer, process_id bigint, task_id integer, attempt integer,
							  output bytea DEFAULT NULL, error text DEFAULT NULL, metrics jsonb DEFAULT '{}') RETURNS text
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_complete_task';
COMMENT ON FUNCTION complete_task(uuid, integer, bigint, integer, integer, bytea, text, jsonb) IS
	'reports the end of a task that was acknowledged; error: why it failed; output and metrics (an object) are kept with the attempt. Returns success, retry (it failed and is planned again), failed '
	'(it did more than amoro_meta.task_max_retries times, and so does its process), cancelled (its process is over), or ignored: that attempt '
	'is over or was not acknowledged, nothing has changed, drop it. Errors: AM301 unknown token, 42501 token of another role, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION complete_task(uuid, integer, bigint, integer, integer, bytea, text, jsonb) FROM PUBLIC;
