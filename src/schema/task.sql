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
) WITH (fillfactor = 50);
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

-- Hints, never dumped: nothing before the highest floor is to be had. Only ever inserted, so the newest is found at once.
CREATE TABLE amoro_meta.task_floor
(
	process_id		bigint NOT NULL,
	position		bigint NOT NULL,
	PRIMARY KEY (process_id, position)
);
COMMENT ON TABLE amoro_meta.task_floor IS 'positions before which no task of a process is planned, nor will be';

CREATE TABLE amoro_meta.queue_floor
(
	queue_id		bigint NOT NULL,
	turn			bigint NOT NULL,
	PRIMARY KEY (queue_id, turn)
);
COMMENT ON TABLE amoro_meta.queue_floor IS 'turns before which no process of a queue has tasks waiting, nor will have';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_floor', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.queue_floor', 'WHERE false');

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

-- The newest claim of each seat. Nested loops whatever the statistics say: LIMIT keeps the lookups from becoming joins.
CREATE FUNCTION amoro_meta.seated_tasks(process_id bigint) RETURNS TABLE (task_id integer, attempt integer)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 16
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT c.task_id, c.attempt
	FROM generate_series(1, (SELECT c.seat FROM amoro_meta.task_claim c WHERE c.process_id = seated_tasks.process_id
							 ORDER BY c.seat DESC LIMIT 1)) s (seat)
		CROSS JOIN LATERAL
			(SELECT c.task_id, c.attempt FROM amoro_meta.task_claim c
			 WHERE c.process_id = seated_tasks.process_id AND c.seat = s.seat ORDER BY c.seat_number DESC LIMIT 1) c
		CROSS JOIN LATERAL
			(SELECT FROM amoro_meta.task t WHERE t.process_id = seated_tasks.process_id AND t.task_id = c.task_id
				AND t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED') LIMIT 1) t
	$$;
COMMENT ON FUNCTION amoro_meta.seated_tasks(bigint) IS 'tasks of a process that are handed out, which are those in its seats';
REVOKE ALL ON FUNCTION amoro_meta.seated_tasks(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.first_planned(process_id bigint) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT t.position FROM amoro_meta.task t
	-- a subquery, since a volatile function is no index condition
	WHERE t.process_id = first_planned.process_id AND t.state = 'PLANNED' AND t.position >=
		coalesce((SELECT f.position FROM amoro_meta.task_floor f WHERE f.process_id = first_planned.process_id
				  ORDER BY f.position DESC LIMIT 1), 0)
	ORDER BY t.position LIMIT 1
	$$;
COMMENT ON FUNCTION amoro_meta.first_planned(bigint) IS
	'position of the first planned task of a process; one whose claim is not committed counts';
REVOKE ALL ON FUNCTION amoro_meta.first_planned(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.last_position(process_id bigint) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT t.position FROM amoro_meta.task t WHERE t.process_id = last_position.process_id ORDER BY t.position DESC LIMIT 1
	$$;
COMMENT ON FUNCTION amoro_meta.last_position(bigint) IS 'the end of the line of a process';
REVOKE ALL ON FUNCTION amoro_meta.last_position(bigint) FROM PUBLIC;

-- A return holds the row of the process and a start that of the queue, so no floor passes a task that is not committed yet. A
-- snapshot from before these locks would not do.
CREATE FUNCTION amoro_meta.raise_task_floor(process_id bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	first bigint;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RETURN true;
	END IF;
	PERFORM FROM amoro_meta.process p WHERE p.process_id = raise_task_floor.process_id FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN true;
	END IF;
	first := amoro_meta.first_planned(process_id);
	INSERT INTO amoro_meta.task_floor VALUES (process_id, coalesce(first, amoro_meta.last_position(process_id) + 1)) ON CONFLICT DO NOTHING;
	IF first IS NULL THEN
		UPDATE amoro_meta.process p SET waiting = false WHERE p.process_id = raise_task_floor.process_id AND p.waiting;
	END IF;
	RETURN first IS NOT NULL;
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_task_floor(bigint) IS
	'moves the floor of a process up to its first planned task, if nobody is in the way; false when there surely is none: the process then waits no longer';
REVOKE ALL ON FUNCTION amoro_meta.raise_task_floor(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_queue_floor(queue_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	lowest bigint;
	newest bigint;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RETURN;
	END IF;
	PERFORM FROM amoro_meta.task_queue q WHERE q.queue_id = raise_queue_floor.queue_id FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	lowest := amoro_meta.lowest_turn(queue_id);
	newest := amoro_meta.next_id();
	-- those that were passed by many others go to the end of the line, so that what is between is walked over no more
	UPDATE amoro_meta.process p SET turn = amoro_meta.next_id()
		FROM (SELECT p.process_id FROM amoro_meta.process p
			  WHERE p.queue_id = raise_queue_floor.queue_id AND p.waiting AND p.turn >= lowest AND p.turn < newest - 256
			  ORDER BY p.turn LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) passed
		WHERE p.process_id = passed.process_id;
	INSERT INTO amoro_meta.queue_floor
		VALUES (queue_id, coalesce((SELECT p.turn FROM amoro_meta.process p
									WHERE p.queue_id = raise_queue_floor.queue_id AND p.waiting AND p.turn >= lowest
									ORDER BY p.turn LIMIT 1), newest))
		ON CONFLICT DO NOTHING;
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_queue_floor(bigint) IS
	'moves the floor of a queue up to its first process that waits, if nobody is in the way';
REVOKE ALL ON FUNCTION amoro_meta.raise_queue_floor(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.lowest_turn(queue_id bigint) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce((SELECT f.turn FROM amoro_meta.queue_floor f WHERE f.queue_id = lowest_turn.queue_id ORDER BY f.turn DESC LIMIT 1), 0)
	$$;
COMMENT ON FUNCTION amoro_meta.lowest_turn(bigint) IS 'turn before which no process of a queue waits';
REVOKE ALL ON FUNCTION amoro_meta.lowest_turn(bigint) FROM PUBLIC;

-- Who holds the process may not wait for the runtime; one that somebody else has is left to settle_processes().
CREATE FUNCTION amoro_meta.commit_if_done(process_id bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target bigint := (SELECT p.table_id FROM amoro_meta.process p WHERE p.process_id = commit_if_done.process_id);
BEGIN
	IF amoro_meta.first_planned(process_id) IS NOT NULL
		OR EXISTS (SELECT FROM amoro_meta.seated_tasks(process_id)) THEN
		RETURN false;
	END IF;
	PERFORM FROM amoro_meta.table_runtime r WHERE r.table_id = target FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND AND EXISTS (SELECT FROM amoro_meta.table_runtime r WHERE r.table_id = target) THEN
		RETURN false;
	END IF;
	UPDATE amoro_meta.process p SET stage = 'committing', committing_at = clock_timestamp(), waiting = false
		WHERE p.process_id = commit_if_done.process_id AND p.ended_at IS NULL AND p.committing_at IS NULL;
	IF FOUND THEN
		PERFORM amoro_meta.set_runtime_status(target, 400, process_id);
	END IF;
	RETURN FOUND;
END;
$$;
COMMENT ON FUNCTION amoro_meta.commit_if_done(bigint) IS
	'makes a process, whose row is locked, ready to be committed once none of its tasks is left';
REVOKE ALL ON FUNCTION amoro_meta.commit_if_done(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.retire_process(process_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF NOT amoro_meta.raise_task_floor(process_id) THEN
		PERFORM amoro_meta.commit_if_done(process_id);
		PERFORM amoro_meta.raise_queue_floor((SELECT p.queue_id FROM amoro_meta.process p WHERE p.process_id = retire_process.process_id));
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.retire_process(bigint) IS
	'takes a process out of its queue where no task was found, if there surely is none';
REVOKE ALL ON FUNCTION amoro_meta.retire_process(bigint) FROM PUBLIC;

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
	IF thread_id IS NULL OR process_id IS NULL OR task_id IS NULL OR attempt IS NULL THEN
		RAISE EXCEPTION 'thread_id, process_id, task_id and attempt must not be null' USING ERRCODE = 'null_value_not_allowed';
	END IF;
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
	IF thread_id IS NULL OR process_id IS NULL OR task_id IS NULL OR attempt IS NULL THEN
		RAISE EXCEPTION 'thread_id, process_id, task_id and attempt must not be null' USING ERRCODE = 'null_value_not_allowed';
	END IF;
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

-- The plans of the three functions that follow are lookups, even where a table was empty when they were made.
CREATE FUNCTION poll_task(token uuid, thread_id integer, wait interval DEFAULT '0') RETURNS optimizing_task
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_bitmapscan = off
	AS 'MODULE_PATHNAME', 'amoro_meta_poll_task';
COMMENT ON FUNCTION poll_task(uuid, integer, interval) IS
	'hands out a task to a thread of an optimizer, or null: after wait (0 to 5 seconds) if there is none until then. A task that the thread '
	'still holds from before is reset: it works on it no longer. Errors: AM301 unknown token, 42501 token of another role, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION poll_task(uuid, integer, interval) FROM PUBLIC;

CREATE FUNCTION ack_task(token uuid, thread_id integer, process_id bigint, task_id integer, attempt integer) RETURNS text
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_bitmapscan = off
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
	SET enable_seqscan = off
	SET enable_bitmapscan = off
	AS 'MODULE_PATHNAME', 'amoro_meta_complete_task';
COMMENT ON FUNCTION complete_task(uuid, integer, bigint, integer, integer, bytea, text, jsonb) IS
	'reports the end of a task that was acknowledged; error: why it failed. Returns success, retry (it failed and is planned again), failed '
	'(it did more than amoro_meta.task_max_retries times, and so does its process), cancelled (its process is over), or ignored: that attempt '
	'is over or was not acknowledged, nothing has changed, drop it. Errors: AM301 unknown token, 42501 token of another role, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION complete_task(uuid, integer, bigint, integer, integer, bytea, text, jsonb) FROM PUBLIC;
