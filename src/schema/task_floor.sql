/* What a claim need not look at: floors of processes and of queues; and the end of a process whose tasks are done. */

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
