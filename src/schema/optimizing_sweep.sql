/* What becomes of optimizers, tasks and processes with time: they expire, are reset, settled and purged. */

-- The newest claim of each thread: nothing older can still be held.
CREATE FUNCTION amoro_meta.held_tasks(optimizer_id bigint, thread_count integer)
	RETURNS TABLE (thread_id integer, process_id bigint, task_id integer, attempt integer, state amoro_meta.task_state,
				   claimed_at timestamptz, acked_at timestamptz, process_ended boolean)
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 16
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT c.thread_id, c.process_id, c.task_id, c.attempt, t.state, t.claimed_at, t.acked_at, t.process_ended
	FROM generate_series(0, least(thread_count, 65536) - 1) thread (id)
		CROSS JOIN LATERAL
			(SELECT c.thread_id, c.process_id, c.task_id, c.attempt FROM amoro_meta.task_claim c
			 WHERE c.optimizer_id = held_tasks.optimizer_id AND c.thread_id = thread.id ORDER BY c.number DESC LIMIT 1) c
		CROSS JOIN LATERAL
			(SELECT t.state, t.claimed_at, t.acked_at, p.ended_at IS NOT NULL AS process_ended
			 FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id)
			 WHERE t.process_id = c.process_id AND t.task_id = c.task_id AND t.attempt = c.attempt AND t.optimizer_id = held_tasks.optimizer_id
				AND t.state IN ('SCHEDULED', 'ACKED', 'CANCELED') LIMIT 1) t
	$$;
COMMENT ON FUNCTION amoro_meta.held_tasks(bigint, integer) IS
	'what the threads of an optimizer are handed out, with what was cancelled since';
REVOKE ALL ON FUNCTION amoro_meta.held_tasks(bigint, integer) FROM PUBLIC;

-- One that cannot be reset stands in the way of no other, and is tried again.
CREATE FUNCTION amoro_meta.reset_task(process_id bigint, task_id integer, attempt integer) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET lock_timeout = '100ms'
	AS $$
BEGIN
	PERFORM FROM amoro_meta.process p WHERE p.process_id = reset_task.process_id FOR NO KEY UPDATE;
	PERFORM FROM amoro_meta.task t WHERE t.process_id = reset_task.process_id AND t.task_id = reset_task.task_id FOR NO KEY UPDATE SKIP LOCKED;
	IF FOUND THEN
		PERFORM amoro_meta.return_task(process_id, task_id, attempt, false);
	END IF;
	-- else its thread is just reporting on it
	RETURN FOUND;
EXCEPTION WHEN OTHERS THEN
	RAISE LOG 'task % of process % could not be reset: %: %', task_id, process_id, SQLSTATE, SQLERRM;
	PERFORM amoro_meta.count_row_error('reset_tasks', SQLSTATE, SQLERRM);
	RETURN CASE WHEN SQLSTATE <> '55P03' THEN false END;
END;
$$;
COMMENT ON FUNCTION amoro_meta.reset_task(bigint, integer, integer) IS
	'return_task for a sweep: does not wait long, and an error is logged; false then, and null where somebody else has the process locked: there may be '
	'a thousand tasks of it, so the others are not tried';
REVOKE ALL ON FUNCTION amoro_meta.reset_task(bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.remove_optimizer(optimizer amoro_meta.optimizer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	held record;
	locked_process bigint;
	was_reset boolean;
	done boolean := true;
BEGIN
	-- first of all the token is good for nothing more: what is reset is not reported on by this optimizer any more
	UPDATE amoro_meta.optimizer o SET expired_at = clock_timestamp()
		WHERE o.optimizer_id = optimizer.optimizer_id AND o.expired_at IS NULL;
	FOR held IN
		SELECT h.process_id, h.task_id, h.attempt FROM amoro_meta.held_tasks(optimizer.optimizer_id, optimizer.thread_count) h
		WHERE h.state <> 'CANCELED' ORDER BY h.process_id, h.task_id
	LOOP
		CONTINUE WHEN held.process_id = locked_process;
		was_reset := amoro_meta.reset_task(held.process_id, held.task_id, held.attempt);
		IF was_reset IS NULL THEN
			locked_process := held.process_id;
		END IF;
		done := done AND coalesce(was_reset, false);
	END LOOP;
	IF done THEN
		DELETE FROM amoro_meta.optimizer o WHERE o.optimizer_id = optimizer.optimizer_id;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.remove_optimizer(amoro_meta.optimizer) IS
	'ends an optimizer whose advisory lock the caller holds, and gives what it worked on to others';
REVOKE ALL ON FUNCTION amoro_meta.remove_optimizer(amoro_meta.optimizer) FROM PUBLIC;

CREATE FUNCTION touch_optimizer(token uuid) RETURNS TABLE (thread_id integer, process_id bigint, task_id integer, attempt integer)
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	UPDATE amoro_meta.optimizer o SET touched_at = clock_timestamp()
		WHERE o.token = touch_optimizer.token AND o.registered_by = amoro_meta.calling_role() AND o.expired_at IS NULL
		RETURNING o.* INTO optimizer;
	IF NOT FOUND THEN
		PERFORM amoro_meta.timeline_id(), amoro_meta.raise_unknown_optimizer(token);
	END IF;
	RETURN QUERY SELECT h.thread_id, h.process_id, h.task_id, h.attempt
		FROM amoro_meta.held_tasks(optimizer.optimizer_id, optimizer.thread_count) h WHERE h.process_ended;
END;
$$;
COMMENT ON FUNCTION touch_optimizer(uuid) IS
	'says that an optimizer is alive, which it has to within amoro_meta.optimizer_heartbeat_timeout, and returns the tasks that its threads '
	'were handed out and whose processes are over since, cancelled or failed: it drops them. '
	'Errors: AM301 unknown token, register again; 42501 token of another role, 22004, 25006';
REVOKE ALL ON FUNCTION touch_optimizer(uuid) FROM PUBLIC;

CREATE FUNCTION unregister_optimizer(token uuid) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer;
BEGIN
	PERFORM amoro_meta.check_not_null('token', token IS NOT NULL);
	-- against polls that are under way
	PERFORM amoro_meta.timeline_id(), pg_advisory_xact_lock(1095565313, uuid_hash(token));
	SELECT o.* INTO optimizer FROM amoro_meta.optimizer o WHERE o.token = unregister_optimizer.token AND o.expired_at IS NULL FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF optimizer.registered_by <> amoro_meta.calling_role() THEN
		PERFORM amoro_meta.raise_unknown_optimizer(token);
	END IF;
	PERFORM amoro_meta.remove_optimizer(optimizer);
	RETURN true;
END;
$$;
COMMENT ON FUNCTION unregister_optimizer(uuid) IS
	'ends an optimizer; what it worked on is given to others. False when there is no such token, as after the first of two calls. '
	'Errors: 42501 token of another role, 22004, 25006';
REVOKE ALL ON FUNCTION unregister_optimizer(uuid) FROM PUBLIC;

CREATE FUNCTION drain_optimizer(optimizer_id bigint, draining boolean DEFAULT true) RETURNS integer
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_not_null('draining', draining IS NOT NULL);	-- refuses on a standby
	SELECT o.* INTO optimizer FROM amoro_meta.optimizer o WHERE o.optimizer_id = drain_optimizer.optimizer_id AND o.expired_at IS NULL;
	IF FOUND THEN
		-- waits for polls that are under way: from then on it is handed out nothing
		PERFORM pg_advisory_xact_lock(1095565313, uuid_hash(optimizer.token));
		UPDATE amoro_meta.optimizer o SET draining = drain_optimizer.draining
			WHERE o.optimizer_id = drain_optimizer.optimizer_id AND o.expired_at IS NULL;
	END IF;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer % does not exist', coalesce(optimizer_id::text, 'null') USING ERRCODE = 'undefined_object';
	END IF;
	RETURN (SELECT count(*) FROM amoro_meta.held_tasks(optimizer.optimizer_id, optimizer.thread_count) h WHERE NOT h.process_ended);
END;
$$;
COMMENT ON FUNCTION drain_optimizer(bigint, boolean) IS
	'lets an optimizer finish what it works on and hands out nothing more to it, or, draining => false, goes on to do so. Returns how many '
	'tasks it still works on: at 0 it can be stopped. Errors: 42704 no such optimizer, 22004, 25006';
REVOKE ALL ON FUNCTION drain_optimizer(bigint, boolean) FROM PUBLIC;

CREATE FUNCTION expire_optimizers() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	timeout interval := amoro_meta.duration_setting('optimizer_heartbeat_timeout');
	optimizer amoro_meta.optimizer;
	expired bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id();
	-- the clock was set back: who was touched "later" counts as touched now, and expires in due time
	UPDATE amoro_meta.optimizer o SET touched_at = clock_timestamp()
		WHERE o.optimizer_id IN (SELECT f.optimizer_id FROM amoro_meta.optimizer f
								 WHERE f.touched_at > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED)
			AND o.touched_at > clock_timestamp();
	FOR optimizer IN
		SELECT o.* FROM amoro_meta.optimizer o
		WHERE o.expired_at IS NOT NULL OR (timeout > interval '0' AND o.touched_at <= clock_timestamp() - timeout)
		ORDER BY o.touched_at LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED
	LOOP
		-- one whose poll is under way is not out of touch
		CONTINUE WHEN NOT pg_try_advisory_xact_lock(1095565313, uuid_hash(optimizer.token));
		PERFORM amoro_meta.remove_optimizer(optimizer);
		IF optimizer.expired_at IS NULL THEN
			expired := expired + 1;
			PERFORM amoro_meta.count_task_event('expired_optimizer');
		END IF;
	END LOOP;
	RETURN expired;
END;
$$;
COMMENT ON FUNCTION expire_optimizers() IS
	'sweep: unregisters optimizers that were not touched within amoro_meta.optimizer_heartbeat_timeout, gives what they worked on to others, '
	'and returns how many. Errors: 25006';
REVOKE ALL ON FUNCTION expire_optimizers() FROM PUBLIC;

-- The clock was set back: what was claimed or acknowledged "later" counts as that now, and is late in due time.
CREATE FUNCTION amoro_meta.redate_task(process_id bigint, task_id integer, attempt integer) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.task t SET claimed_at = least(t.claimed_at, clock_timestamp()), acked_at = least(t.acked_at, clock_timestamp())
		FROM (SELECT l.process_id, l.task_id FROM amoro_meta.task l
			  WHERE l.process_id = redate_task.process_id AND l.task_id = redate_task.task_id AND l.attempt = redate_task.attempt
			  FOR NO KEY UPDATE SKIP LOCKED) free
		WHERE t.process_id = free.process_id AND t.task_id = free.task_id
	$$;
COMMENT ON FUNCTION amoro_meta.redate_task(bigint, integer, integer) IS
	'sets the times of a task that is handed out to now where they are in the future; does nothing when somebody else is at it';
REVOKE ALL ON FUNCTION amoro_meta.redate_task(bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION reset_tasks() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	ack_timeout interval := amoro_meta.duration_setting('task_ack_timeout');
	execute_timeout interval := amoro_meta.duration_setting('task_execute_timeout');
	target record;
	locked_process bigint;
	was_reset boolean;
	reset bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id();
	FOR target IN
		SELECT h.process_id, h.task_id, h.attempt, greatest(h.claimed_at, h.acked_at) > clock_timestamp() AS is_ahead
		FROM amoro_meta.optimizer o CROSS JOIN LATERAL amoro_meta.held_tasks(o.optimizer_id, o.thread_count) h
		WHERE (h.state = 'SCHEDULED' AND ack_timeout > interval '0' AND h.claimed_at <= clock_timestamp() - ack_timeout)
			OR (h.state = 'ACKED' AND execute_timeout > interval '0' AND h.acked_at <= clock_timestamp() - execute_timeout)
			OR greatest(h.claimed_at, h.acked_at) > clock_timestamp()
		ORDER BY h.process_id, h.task_id LIMIT amoro_meta.sweep_batch()
	LOOP
		IF target.is_ahead THEN
			PERFORM amoro_meta.redate_task(target.process_id, target.task_id, target.attempt);
		ELSIF target.process_id IS DISTINCT FROM locked_process THEN
			was_reset := amoro_meta.reset_task(target.process_id, target.task_id, target.attempt);
			IF was_reset THEN
				reset := reset + 1;
			ELSIF was_reset IS NULL THEN
				locked_process := target.process_id;
			END IF;
		END IF;
	END LOOP;
	RETURN reset;
END;
$$;
COMMENT ON FUNCTION reset_tasks() IS
	'sweep: gives tasks to others that were not acknowledged within amoro_meta.task_ack_timeout, or not completed within '
	'amoro_meta.task_execute_timeout of their last acknowledgement, and returns how many. Errors: 25006';
REVOKE ALL ON FUNCTION reset_tasks() FROM PUBLIC;

-- Planned ones from the floor on, which follows; then those that are handed out, by their seats.
-- A batch is small and its process may be most of the table, which the planner takes for a reason to read all of it.
CREATE FUNCTION amoro_meta.cancel_tasks(process_id bigint, task_limit integer) RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
	AS $$
DECLARE
	cancelled integer;
	reached bigint;
BEGIN
	WITH planned AS
	(
		SELECT t.task_id FROM amoro_meta.task t
		WHERE t.process_id = cancel_tasks.process_id AND t.state = 'PLANNED' AND t.position >=
			coalesce((SELECT f.position FROM amoro_meta.task_floor f WHERE f.process_id = cancel_tasks.process_id
					  ORDER BY f.position DESC LIMIT 1), 0)
		ORDER BY t.position LIMIT task_limit FOR NO KEY UPDATE NOWAIT
	),
	changed AS
	(
		UPDATE amoro_meta.task t SET state = 'CANCELED', ended_at = clock_timestamp() FROM planned p
			WHERE t.process_id = cancel_tasks.process_id AND t.task_id = p.task_id RETURNING t.position
	)
	SELECT count(*), max(c.position) INTO cancelled, reached FROM changed c;
	IF cancelled > 0 THEN
		INSERT INTO amoro_meta.task_floor VALUES (process_id, reached + 1) ON CONFLICT DO NOTHING;
	ELSE
		UPDATE amoro_meta.task t SET state = 'CANCELED', ended_at = clock_timestamp()
			FROM amoro_meta.seated_tasks(cancel_tasks.process_id) s
			WHERE t.process_id = cancel_tasks.process_id AND t.task_id = s.task_id AND t.attempt = s.attempt
				AND t.state IN ('SCHEDULED', 'ACKED');
	END IF;
	RETURN cancelled;
END;
$$;
COMMENT ON FUNCTION amoro_meta.cancel_tasks(bigint, integer) IS
	'cancels so many planned tasks of a process that is over, and returns how many it were; once there are none, those that are handed out. '
	'55P03 where a claim is not committed, or (after lock_timeout) a report';
REVOKE ALL ON FUNCTION amoro_meta.cancel_tasks(bigint, integer) FROM PUBLIC;

CREATE FUNCTION settle_processes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET lock_timeout = '100ms'
	AS $$
DECLARE
	target bigint;
	first bigint;
	cancelled integer;
	treated bigint := 0;
	batch integer := amoro_meta.sweep_batch();
BEGIN
	PERFORM amoro_meta.timeline_id();
	-- the last tasks of a process may have ended without seeing each other; begins anywhere, since most are just at work
	SELECT min(p.process_id) + floor(random() * (max(p.process_id) - min(p.process_id) + 1)) INTO first
		FROM amoro_meta.process p WHERE p.ended_at IS NULL AND p.committing_at IS NULL AND NOT p.waiting;
	FOR target IN
		(SELECT p.process_id FROM amoro_meta.process p
		 WHERE p.ended_at IS NULL AND p.committing_at IS NULL AND NOT p.waiting AND p.process_id >= first ORDER BY p.process_id LIMIT 100)
		UNION ALL
		(SELECT p.process_id FROM amoro_meta.process p
		 WHERE p.ended_at IS NULL AND p.committing_at IS NULL AND NOT p.waiting AND p.process_id < first ORDER BY p.process_id LIMIT 100)
	LOOP
		PERFORM FROM amoro_meta.process p WHERE p.process_id = target AND p.ended_at IS NULL FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND AND amoro_meta.commit_if_done(target) THEN
			treated := treated + 1;
		END IF;
	END LOOP;
	FOR target IN
		SELECT p.process_id FROM amoro_meta.process p WHERE p.ended_at IS NOT NULL AND NOT p.settled
		ORDER BY p.ended_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		EXIT WHEN treated >= batch;
		BEGIN
			cancelled := amoro_meta.cancel_tasks(target, batch);
			IF amoro_meta.first_planned(target) IS NULL THEN
				PERFORM amoro_meta.cancel_tasks(target, batch);
				UPDATE amoro_meta.process p
					SET settled = true, busy_ms = (SELECT coalesce(sum(t.cost_ms), 0) FROM amoro_meta.task t WHERE t.process_id = target)
					WHERE p.process_id = target;
			END IF;
			-- as much work as so many rows: where as many as are looked at have ended, there may be more, which is said by a full batch
			treated := treated + batch / 100 + cancelled;
		EXCEPTION WHEN lock_not_available THEN
			-- a claim or a report that is not committed: the next call tries again, and the others are none the worse for it
			CONTINUE;
		END;
	END LOOP;
	RETURN treated;
END;
$$;
COMMENT ON FUNCTION settle_processes() IS
	'sweep: marks what is left of the tasks of processes that have ended as cancelled, sums up the time they took, and looks after processes '
	'whose last tasks have ended; returns how much it did. Errors: 25006';
REVOKE ALL ON FUNCTION settle_processes() FROM PUBLIC;

-- Task ids have no gaps, so each call knows where the one before has stopped.
CREATE FUNCTION amoro_meta.purge_process(process amoro_meta.process, task_limit integer) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	rest integer := greatest(process.task_count - task_limit, 0);
	claims integer;
BEGIN
	DELETE FROM amoro_meta.task_result r WHERE r.process_id = process.process_id AND r.task_id > rest;
	DELETE FROM amoro_meta.task_input i WHERE i.process_id = process.process_id AND i.task_id > rest;
	DELETE FROM amoro_meta.task t WHERE t.process_id = process.process_id AND t.task_id > rest;
	DELETE FROM amoro_meta.task_claim c
		WHERE c.ctid = ANY (ARRAY(SELECT c.ctid FROM amoro_meta.task_claim c WHERE c.process_id = process.process_id LIMIT 2 * task_limit));
	GET DIAGNOSTICS claims = ROW_COUNT;
	IF rest > 0 OR claims = 2 * task_limit THEN
		UPDATE amoro_meta.process p SET task_count = rest WHERE p.process_id = process.process_id;
		RETURN false;
	END IF;
	DELETE FROM amoro_meta.task_floor f WHERE f.process_id = process.process_id;
	DELETE FROM amoro_meta.process p WHERE p.process_id = process.process_id;
	RETURN true;
END;
$$;
COMMENT ON FUNCTION amoro_meta.purge_process(amoro_meta.process, integer) IS
	'deletes so many tasks of a process from the end, and with the last one the process: true then';
REVOKE ALL ON FUNCTION amoro_meta.purge_process(amoro_meta.process, integer) FROM PUBLIC;

-- A batch is small, whatever share of the table it is.
CREATE FUNCTION purge_history() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
DECLARE
	batch integer := amoro_meta.sweep_batch();
	retention interval := amoro_meta.duration_setting('history_retention');
	process amoro_meta.process;
	treated bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id();
	FOR process IN
		SELECT p.* FROM amoro_meta.process p WHERE p.settled AND p.ended_at <= clock_timestamp() - retention
		ORDER BY p.ended_at LIMIT batch FOR UPDATE SKIP LOCKED
	LOOP
		EXIT WHEN treated >= batch;
		treated := treated + 1 + least(process.task_count, batch);
		PERFORM amoro_meta.purge_process(process, batch);
	END LOOP;
	-- all but the newest floors
	DELETE FROM amoro_meta.queue_floor f
		WHERE (f.queue_id, f.turn) IN
			(SELECT f.queue_id, f.turn FROM amoro_meta.task_queue q CROSS JOIN LATERAL
				(SELECT f.queue_id, f.turn FROM amoro_meta.queue_floor f WHERE f.queue_id = q.queue_id ORDER BY f.turn DESC OFFSET 1 LIMIT batch) f);
	RETURN least(treated, batch);
END;
$$;
COMMENT ON FUNCTION purge_history() IS
	'sweep: deletes processes that ended longer than amoro_meta.history_retention ago, with their tasks, a batch at a time; returns how many '
	'rows it treated. Errors: 25006';
REVOKE ALL ON FUNCTION purge_history() FROM PUBLIC;
