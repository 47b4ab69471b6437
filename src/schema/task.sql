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

CREATE FUNCTION amoro_meta.task_announcements(group_name text) RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_task_announcements';
COMMENT ON FUNCTION amoro_meta.task_announcements(text) IS 'grows with every announcement of tasks of the group; 0 without preload';
REVOKE ALL ON FUNCTION amoro_meta.task_announcements(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.wait_for_tasks(group_name text, seen bigint, wait_ms integer) RETURNS boolean
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_wait_for_tasks';
COMMENT ON FUNCTION amoro_meta.wait_for_tasks(text, bigint, integer) IS
	'waits until task_announcements is beyond seen, for up to a second, or wait_ms if that is less; false when the time ended first';
REVOKE ALL ON FUNCTION amoro_meta.wait_for_tasks(text, bigint, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.count_task_event(event text) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_count_task_event';
COMMENT ON FUNCTION amoro_meta.count_task_event(text) IS 'counts something for amoro_stat_task, in shared memory';
REVOKE ALL ON FUNCTION amoro_meta.count_task_event(text) FROM PUBLIC;

-- The newest claim of each seat. Nested loops whatever the statistics say: LIMIT keeps the lookups from becoming joins.
CREATE FUNCTION amoro_meta.seats(process_id bigint, first_seat integer, last_seat integer)
	RETURNS TABLE (seat integer, seat_number integer, task_id integer, attempt integer, taken boolean)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 16
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT s.seat, coalesce(c.seat_number, 0), c.task_id, c.attempt,
		coalesce(t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED'), false)
	FROM generate_series(seats.first_seat, seats.last_seat) s (seat)
		LEFT JOIN LATERAL
			(SELECT c.seat_number, c.task_id, c.attempt FROM amoro_meta.task_claim c
			 WHERE c.process_id = seats.process_id AND c.seat = s.seat ORDER BY c.seat_number DESC LIMIT 1) c ON true
		LEFT JOIN LATERAL
			(SELECT t.attempt, t.state FROM amoro_meta.task t
			 WHERE t.process_id = seats.process_id AND t.task_id = c.task_id LIMIT 1) t ON true
	$$;
COMMENT ON FUNCTION amoro_meta.seats(bigint, integer, integer) IS
	'seats of a process: each is taken by the task that its newest claim handed out, or free';
REVOKE ALL ON FUNCTION amoro_meta.seats(bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.highest_seat(process_id bigint) RETURNS integer
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce((SELECT c.seat FROM amoro_meta.task_claim c WHERE c.process_id = highest_seat.process_id
					 ORDER BY c.seat DESC LIMIT 1), 0)
	$$;
COMMENT ON FUNCTION amoro_meta.highest_seat(bigint) IS 'the highest seat of a process that a task ever took, 0 when none did';
REVOKE ALL ON FUNCTION amoro_meta.highest_seat(bigint) FROM PUBLIC;

-- Whoever takes a seat holds its advisory lock to the end of the transaction, so that no two take it.
CREATE FUNCTION amoro_meta.take_seat(process_id bigint, quota_limit integer, own_seat integer,
									 OUT seat integer, OUT seat_number integer)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	highest integer := amoro_meta.highest_seat(process_id);
	candidate integer;
BEGIN
	-- seats above the limit: it was higher once, or it was ignored where nothing else was to be had
	IF highest > quota_limit AND quota_limit <=
		(SELECT count(*) FROM (SELECT FROM amoro_meta.seats(process_id, 1, highest) s WHERE s.taken LIMIT quota_limit) s) THEN
		RETURN;
	END IF;
	FOR candidate IN
		SELECT s.seat FROM amoro_meta.seats(process_id, 1, least(highest + 1, quota_limit)) s
		WHERE NOT s.taken ORDER BY s.seat = own_seat DESC, s.seat
	LOOP
		CONTINUE WHEN NOT pg_try_advisory_xact_lock(1095565315, hashint8(process_id) # candidate);
		-- somebody may have taken it before the lock was got
		SELECT s.seat, s.seat_number + 1 INTO seat, seat_number FROM amoro_meta.seats(process_id, candidate, candidate) s WHERE NOT s.taken;
		EXIT WHEN FOUND;
	END LOOP;
END;
$$;
COMMENT ON FUNCTION amoro_meta.take_seat(bigint, integer, integer) IS
	'a free seat of a process for the caller''s claim, own_seat if possible; null when as many tasks are handed out as the limit allows';
REVOKE ALL ON FUNCTION amoro_meta.take_seat(bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.lowest_position(process_id bigint) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce((SELECT f.position FROM amoro_meta.task_floor f WHERE f.process_id = lowest_position.process_id
					 ORDER BY f.position DESC LIMIT 1), 0)
	$$;
COMMENT ON FUNCTION amoro_meta.lowest_position(bigint) IS 'position before which no task of a process is planned';
REVOKE ALL ON FUNCTION amoro_meta.lowest_position(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.first_planned(process_id bigint) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT t.position FROM amoro_meta.task t
	WHERE t.process_id = first_planned.process_id AND t.position >= amoro_meta.lowest_position(first_planned.process_id) AND t.state = 'PLANNED'
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

-- The window serves the policy, the ring fairness: every other poll of a thread goes on where the last but one stopped.
CREATE FUNCTION amoro_meta.claimable_processes(queue_id bigint, by_policy boolean, ring_turn bigint) RETURNS SETOF amoro_meta.process
	LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH floor (turn) AS (SELECT amoro_meta.lowest_turn(claimable_processes.queue_id))
	(SELECT w.* FROM (SELECT p.* FROM amoro_meta.process p
					  WHERE by_policy AND p.queue_id = claimable_processes.queue_id AND p.waiting AND p.turn >= (SELECT f.turn FROM floor f)
					  ORDER BY p.turn LIMIT 32) w
	 ORDER BY w.rank, w.turn)
	UNION ALL
	(SELECT p.* FROM amoro_meta.process p
	 WHERE p.queue_id = claimable_processes.queue_id AND p.waiting AND p.turn > greatest(ring_turn, (SELECT f.turn - 1 FROM floor f))
	 ORDER BY p.turn LIMIT 64)
	UNION ALL
	(SELECT p.* FROM amoro_meta.process p
	 WHERE p.queue_id = claimable_processes.queue_id AND p.waiting AND p.turn >= (SELECT f.turn FROM floor f) AND p.turn <= ring_turn
	 ORDER BY p.turn LIMIT 64)
	$$;
COMMENT ON FUNCTION amoro_meta.claimable_processes(bigint, boolean, bigint) IS
	'processes of a queue that may have tasks waiting, in the order in which a thread tries them';
REVOKE ALL ON FUNCTION amoro_meta.claimable_processes(bigint, boolean, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.claim_from(process amoro_meta.process, optimizer_id bigint, thread_id integer, apart integer,
									  OUT task_id integer, OUT attempt integer)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	lowest bigint := amoro_meta.lowest_position(process.process_id);
	position bigint;
BEGIN
	LOOP
		UPDATE amoro_meta.task t
			SET state = 'SCHEDULED', attempt = t.attempt + 1, optimizer_id = claim_from.optimizer_id, thread_id = claim_from.thread_id,
				claimed_at = clock_timestamp()
			FROM (SELECT t.task_id FROM amoro_meta.task t
				  WHERE t.process_id = process.process_id AND t.position >= lowest + apart AND t.state = 'PLANNED'
				  ORDER BY t.position LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) first
			WHERE t.process_id = process.process_id AND t.task_id = first.task_id
				-- once more, now that the task is ours: whoever blocks the table from now on does so after this claim
				AND NOT amoro_meta.table_is_blocked(process.catalog_name, process.database_name, process.table_name, 'OPTIMIZE')
			RETURNING t.task_id, t.attempt, t.position INTO task_id, attempt, position;
		EXIT WHEN FOUND OR apart = 0;
		apart := 0;
	END LOOP;
	IF position >= lowest + 128 OR
		(position IS NULL AND NOT amoro_meta.table_is_blocked(process.catalog_name, process.database_name, process.table_name, 'OPTIMIZE')) THEN
		IF NOT amoro_meta.raise_task_floor(process.process_id) THEN
			PERFORM amoro_meta.raise_queue_floor(process.queue_id);
		END IF;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_from(amoro_meta.process, bigint, integer, integer) IS
	'claims a task of a process for a thread, null when there is none or the table is blocked; apart: how far from the first to begin to look';
REVOKE ALL ON FUNCTION amoro_meta.claim_from(amoro_meta.process, bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.may_break_quota(group_name text) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT lower(coalesce(g.properties->>'break-quota-limit-enabled', 'true')) = 'true' FROM amoro_meta.optimizer_group g
	WHERE g.group_name = may_break_quota.group_name
	$$;
COMMENT ON FUNCTION amoro_meta.may_break_quota(text) IS
	'whether a thread that finds nothing else takes a task of a table whose quota is used up: property break-quota-limit-enabled of the group';
REVOKE ALL ON FUNCTION amoro_meta.may_break_quota(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.claim_task(optimizer amoro_meta.optimizer, thread_id integer) RETURNS optimizing_task
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	last amoro_meta.task_claim;
	queue amoro_meta.task_queue;
	process amoro_meta.process;
	over_quota amoro_meta.process[] := '{}';
	seat record;
	claim record;
	ring boolean;
BEGIN
	SELECT c.* INTO last FROM amoro_meta.task_claim c
		WHERE c.optimizer_id = optimizer.optimizer_id AND c.thread_id = claim_task.thread_id ORDER BY c.number DESC LIMIT 1;
	IF FOUND THEN
		PERFORM amoro_meta.return_task(last.process_id, last.task_id, last.attempt, false);
	END IF;
	IF optimizer.draining THEN
		RETURN NULL;
	END IF;
	ring := coalesce(last.number, 0) % 2 = 1;
	FOR queue IN SELECT q.* FROM amoro_meta.task_queue q WHERE q.group_name = optimizer.group_name ORDER BY q.priority DESC LOOP
		FOR process IN SELECT * FROM amoro_meta.claimable_processes(queue.queue_id, NOT ring, coalesce(last.ring_turn, 0)) LOOP
			SELECT * INTO seat FROM amoro_meta.take_seat(process.process_id,
				amoro_meta.quota_limit(process.quota, process.group_name), CASE WHEN last.process_id = process.process_id THEN last.seat END);
			IF seat.seat IS NULL THEN
				over_quota := over_quota || process;
				CONTINUE;
			END IF;
			SELECT * INTO claim FROM amoro_meta.claim_from(process, optimizer.optimizer_id, thread_id, 0);
			CONTINUE WHEN claim.task_id IS NULL;
			INSERT INTO amoro_meta.task_claim (optimizer_id, process_id, claimed_at, ring_turn, thread_id, number, task_id, attempt, seat, seat_number)
				VALUES (optimizer.optimizer_id, process.process_id, clock_timestamp(), CASE WHEN ring THEN process.turn ELSE coalesce(last.ring_turn, 0) END,
						claim_task.thread_id, coalesce(last.number, 0) + 1, claim.task_id, claim.attempt, seat.seat, seat.seat_number);
			RETURN ROW(process.process_id, claim.task_id, claim.attempt, process.catalog_name, process.database_name, process.table_name,
					   process.process_type, (SELECT i.input FROM amoro_meta.task_input i
											  WHERE i.process_id = process.process_id AND i.task_id = claim.task_id));
		END LOOP;
	END LOOP;
	RETURN NULL;
END;
$$;
