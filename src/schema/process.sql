/* Optimizing processes: what is done to one table at a time, made of tasks. */

CREATE TABLE amoro_meta.process
(
	process_id		bigint PRIMARY KEY,
	table_key		bytea NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	table_name		text NOT NULL,
	table_id		bigint,
	group_name		text NOT NULL,
	queue_id		bigint NOT NULL,
	-- place in the queue; a later one where it was found in the way, see amoro_meta.raise_queue_floor
	turn			bigint NOT NULL,
	-- tasks may be waiting: false only while there surely are none
	waiting			boolean NOT NULL,
	process_type	text NOT NULL,
	status			text NOT NULL CHECK (status IN ('UNKNOWN', 'PENDING', 'SUBMITTED', 'RUNNING', 'CANCELING', 'SUCCESS',
											   'CANCELED', 'CLOSED', 'KILLED', 'FAILED')),
	stage			text NOT NULL,
	quota			double precision NOT NULL CHECK (quota > 0),
	-- smaller comes first, by the scheduling policy of the group
	rank			double precision NOT NULL,
	task_count		integer NOT NULL,
	started_by		regrole NOT NULL,
	started_at		timestamptz NOT NULL,
	committing_at	timestamptz,
	ended_at		timestamptz,
	reason			text,
	-- since the end: are its tasks cancelled and summed up?
	settled			boolean NOT NULL DEFAULT false,
	busy_ms			bigint,
	-- whose leader runs it, see delegate_process(); null: optimizers do
	runner_service	text,
	CHECK ((ended_at IS NULL) = (status IN ('PENDING', 'SUBMITTED', 'RUNNING', 'CANCELING')))
) WITH (fillfactor = 70);
COMMENT ON TABLE amoro_meta.process IS 'optimizing processes, those that have ended for amoro_meta.history_retention';
CREATE UNIQUE INDEX process_alive ON amoro_meta.process (table_key) WHERE ended_at IS NULL;
CREATE INDEX process_table ON amoro_meta.process (table_key, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX process_waiting ON amoro_meta.process (queue_id, turn) WHERE waiting;
CREATE INDEX process_alive_group ON amoro_meta.process (group_name) WHERE ended_at IS NULL;
CREATE INDEX process_handed_out ON amoro_meta.process (process_id) WHERE ended_at IS NULL AND committing_at IS NULL AND NOT waiting;
CREATE INDEX process_ended ON amoro_meta.process (ended_at) WHERE settled;
CREATE INDEX process_unsettled ON amoro_meta.process (ended_at) WHERE ended_at IS NOT NULL AND NOT settled;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.process', '');

CREATE FUNCTION amoro_meta.table_key(catalog_name text, database_name text, table_name text) RETURNS bytea
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT sha256(convert_to(jsonb_build_array(catalog_name, database_name, table_name)::text, 'UTF8'))$$;
COMMENT ON FUNCTION amoro_meta.table_key(text, text, text) IS
	'the three names of a table as one value that fits into an index, however long they are';
REVOKE ALL ON FUNCTION amoro_meta.table_key(text, text, text) FROM PUBLIC;

-- A table without a runtime (of a catalog kept elsewhere, or not known at all) is optimized by the group that its catalog names.
CREATE FUNCTION amoro_meta.optimizing_target(catalog_name text, database_name text, table_name text,
											 OUT table_id bigint, OUT group_name text, OUT quota double precision)
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	properties jsonb;
BEGIN
	SELECT r.table_id, r.wanted_group, r.config INTO table_id, group_name, properties FROM amoro_meta.table_runtime r
		WHERE r.catalog_name = optimizing_target.catalog_name AND r.database_name = optimizing_target.database_name
			AND hashtextextended(r.table_name, 0) = hashtextextended(optimizing_target.table_name, 0) AND r.table_name = optimizing_target.table_name;
	IF NOT FOUND THEN
		SELECT amoro_meta.merged_properties(c.properties, '{}') INTO properties FROM amoro_meta.catalog c
			WHERE c.catalog_name = optimizing_target.catalog_name;
		group_name := coalesce(properties->>'self-optimizing.group', 'default');
	END IF;
	quota := CASE WHEN properties->>'self-optimizing.quota' ~ '^[0-9]{1,9}([.][0-9]{1,9})?$'
		THEN nullif((properties->>'self-optimizing.quota')::double precision, 0) END;
END;
$$;
COMMENT ON FUNCTION amoro_meta.optimizing_target(text, text, text) IS
	'the runtime of a table, if it has one, its group, which need not exist, and its quota, if that is set';
REVOKE ALL ON FUNCTION amoro_meta.optimizing_target(text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_tasks(tasks jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('tasks', tasks IS NOT NULL);
	IF jsonb_typeof(tasks) <> 'array' OR EXISTS (SELECT FROM jsonb_array_elements(tasks) t WHERE jsonb_typeof(t) <> 'object') THEN
		RAISE EXCEPTION 'tasks is not an array of objects' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Such as [{"partition": "day=2026-01-01", "files": [1, 2]}]: an optimizer is given one of the objects at a time.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_tasks(jsonb) IS 'raises 22004 or 22023 unless it is an array of objects';
REVOKE ALL ON FUNCTION amoro_meta.check_tasks(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.set_runtime_status(table_id bigint, status_code integer, process_id bigint) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.table_runtime r
		SET status_code = set_runtime_status.status_code, status_changed_at = clock_timestamp(),
			process_id = CASE WHEN set_runtime_status.status_code < 500 THEN set_runtime_status.process_id END,
			version = amoro_meta.next_runtime_version()
		WHERE r.table_id = set_runtime_status.table_id
			-- an end must not undo what a newer process has begun; one without tasks begins at 400
			AND (set_runtime_status.status_code < 400 OR r.process_id = set_runtime_status.process_id
				 OR (set_runtime_status.status_code = 400 AND r.process_id IS NULL))
	$$;
COMMENT ON FUNCTION amoro_meta.set_runtime_status(bigint, integer, bigint) IS 'the status of a table, if it has a runtime, after what its process did';
REVOKE ALL ON FUNCTION amoro_meta.set_runtime_status(bigint, integer, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.lock_process(process_id bigint) RETURNS amoro_meta.process
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	-- the order of locks: the runtime of the table before the process
	PERFORM FROM amoro_meta.table_runtime r
		WHERE r.table_id = (SELECT p.table_id FROM amoro_meta.process p WHERE p.process_id = lock_process.process_id)
		FOR NO KEY UPDATE;
	SELECT p.* INTO process FROM amoro_meta.process p WHERE p.process_id = lock_process.process_id FOR NO KEY UPDATE;
	RETURN process;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_process(bigint) IS 'a process and the runtime of its table, locked; null when there is no such process';
REVOKE ALL ON FUNCTION amoro_meta.lock_process(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.end_process(process amoro_meta.process, status text, reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	UPDATE amoro_meta.process p
		SET status = end_process.status, reason = amoro_meta.printable_text(end_process.reason, 4000), ended_at = clock_timestamp(), waiting = false
		WHERE p.process_id = process.process_id;
	PERFORM amoro_meta.set_runtime_status(process.table_id, 700, process.process_id);
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_process(amoro_meta.process, text, text) IS
	'ends a process that lock_process has locked; what is left of its tasks counts as cancelled from now on';
REVOKE ALL ON FUNCTION amoro_meta.end_process(amoro_meta.process, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.hold_optimizing_target(catalog_name text, database_name text, table_name text, OUT table_id bigint,
												  OUT optimizer_group amoro_meta.optimizer_group, OUT quota double precision)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	SELECT * INTO target FROM amoro_meta.optimizing_target(catalog_name, database_name, table_name);
	table_id := target.table_id;
	quota := target.quota;
	IF table_id IS NULL THEN
		PERFORM amoro_meta.refuse_view(catalog_name, database_name, table_name);
	END IF;
	optimizer_group := amoro_meta.hold_optimizer_group(target.group_name);
	IF amoro_meta.table_is_blocked(catalog_name, database_name, table_name, 'OPTIMIZE') THEN
		RAISE EXCEPTION 'table "%"."%"."%" is blocked for OPTIMIZE', catalog_name, database_name, table_name USING ERRCODE = 'AM101',
			HINT = format('SELECT * FROM get_blockers(%L, %L, %L);', catalog_name, database_name, table_name);
	END IF;
	-- what was read before the locks may have changed: another group, another name, no table any more
	PERFORM FROM amoro_meta.table_runtime r
		WHERE r.table_id = target.table_id AND r.wanted_group = target.group_name AND (r.catalog_name, r.database_name, r.table_name) =
			(hold_optimizing_target.catalog_name, hold_optimizing_target.database_name, hold_optimizing_target.table_name)
		FOR NO KEY UPDATE;
	IF NOT FOUND AND target.table_id IS NOT NULL THEN
		RAISE EXCEPTION 'table "%"."%"."%" has just been changed', catalog_name, database_name, table_name
			USING ERRCODE = 'serialization_failure', HINT = 'Look at the table and try again.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_optimizing_target(text, text, text) IS
	'optimizing_target with the group, and with the runtime locked to the end of the transaction. Errors: 42704 no such group, 42809 it is a view, '
	'AM101 the table is blocked for OPTIMIZE, 40001 it was changed meanwhile';
REVOKE ALL ON FUNCTION amoro_meta.hold_optimizing_target(text, text, text) FROM PUBLIC;

CREATE FUNCTION start_process(catalog_name text, database_name text, table_name text, process_type text, tasks jsonb,
							  priority integer DEFAULT 0, quota double precision DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	new_id bigint;
	kind text := upper(process_type);
	key bytea := amoro_meta.table_key(catalog_name, database_name, table_name);
	target record;
	optimizer_group amoro_meta.optimizer_group;
	task_count integer;
	queue_id bigint;
	started_at timestamptz;
	other record;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_table_names(catalog_name, database_name, table_name), amoro_meta.check_group_name('process_type', process_type),
		amoro_meta.check_tasks(tasks);
	IF priority IS NULL OR priority NOT BETWEEN -100 AND 100 OR quota <= 0 OR quota = 'NaN' THEN
		RAISE EXCEPTION 'priority or quota is out of range' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'A priority is -100 to 100, a greater one comes first; a quota is more than 0.';
	END IF;
	SELECT * INTO target FROM amoro_meta.hold_optimizing_target(catalog_name, database_name, table_name);
	optimizer_group := target.optimizer_group;
	task_count := jsonb_array_length(tasks);
	quota := coalesce(quota, target.quota, 0.5);
	queue_id := amoro_meta.hold_task_queue(optimizer_group.group_name, priority);
	-- after the queue is held: no floor is beyond this turn
	new_id := amoro_meta.next_id();
	started_at := clock_timestamp();
	INSERT INTO amoro_meta.process
		VALUES (new_id, key, catalog_name, database_name, table_name, target.table_id, optimizer_group.group_name, queue_id, new_id,
				task_count > 0, kind, 'RUNNING',
				CASE WHEN task_count = 0 THEN 'committing' WHEN kind IN ('MINOR', 'MAJOR', 'FULL') THEN lower(kind) || '_optimizing'
					ELSE lower(kind) END,
				quota, amoro_meta.scheduling_rank(optimizer_group, key, quota), task_count, amoro_meta.calling_role(), started_at,
				CASE WHEN task_count = 0 THEN started_at END, NULL, NULL)
		ON CONFLICT (table_key) WHERE ended_at IS NULL DO NOTHING;
	IF NOT FOUND THEN
		SELECT p.process_id, p.process_type, p.started_at INTO other FROM amoro_meta.process p WHERE p.table_key = key AND p.ended_at IS NULL;
		RAISE EXCEPTION 'table "%"."%"."%" has a process already', catalog_name, database_name, table_name USING ERRCODE = 'duplicate_object',
			DETAIL = format('Process %s (%s) runs since %s.', other.process_id, other.process_type, other.started_at),
			HINT = format('Wait for its end, or SELECT cancel_process(%s);', other.process_id);
	END IF;
	INSERT INTO amoro_meta.task (process_id, position, task_id, state)
		SELECT new_id, n, n, 'PLANNED' FROM generate_series(1, task_count) n;
	INSERT INTO amoro_meta.task_input SELECT new_id, t.ordinality, t.value FROM jsonb_array_elements(tasks) WITH ORDINALITY t;
	PERFORM amoro_meta.set_runtime_status(target.table_id, CASE WHEN task_count = 0 THEN 400 WHEN kind = 'FULL' THEN 100
		WHEN kind = 'MAJOR' THEN 200 ELSE 300 END, new_id), amoro_meta.announce_tasks(optimizer_group.group_name, task_count);
	RETURN new_id;
END;
$$;
COMMENT ON FUNCTION start_process(text, text, text, text, jsonb, integer, double precision) IS
	'starts a process on a table with a task for each object of the array tasks, numbered from 1, and returns its id. process_type: MINOR, '
	'MAJOR, FULL or the name of another action. The table need not be known here; its group is that of its runtime, else the one that its '
	'catalog names, else default. priority: tasks of a greater one are handed out first (-100 to 100). quota: as the property '
	'self-optimizing.quota of the table, which it overrides; 0.5 if neither is set. Without tasks it is ready to be committed. '
	'Errors: 42710 the table has a process, 42704 no such group, 42809 it is a view, AM101 the table is blocked for OPTIMIZE, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION start_process(text, text, text, text, jsonb, integer, double precision) FROM PUBLIC;

CREATE FUNCTION finish_process(process_id bigint, error text DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
	outcome text := CASE WHEN error IS NULL THEN 'SUCCESS' ELSE 'FAILED' END;
BEGIN
	IF process.process_id IS NULL THEN
		RAISE EXCEPTION 'process % does not exist', coalesce(process_id::text, 'null') USING ERRCODE = 'undefined_object';
	ELSIF process.ended_at IS NOT NULL THEN
		RAISE EXCEPTION 'process % has ended already', process_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('It is %s since %s.', process.status, process.ended_at);
	ELSIF error IS NULL AND process.committing_at IS NULL AND NOT amoro_meta.commit_if_done(process_id) THEN
		RAISE EXCEPTION 'process % is not ready to be committed', process_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Some of its tasks are not finished.', HINT = format('SELECT * FROM tasks WHERE process_id = %s;', process_id);
	END IF;
	PERFORM amoro_meta.end_process(process, outcome, error);
	RETURN outcome;
END;
$$;
COMMENT ON FUNCTION finish_process(bigint, text) IS
	'records how a process ended: SUCCESS, once all of its tasks have succeeded and their results are committed, or FAILED with that error, '
	'at any time; returns the one it is. Errors: 42704 no such process, 55000 it has ended or has unfinished tasks, 25006';
REVOKE ALL ON FUNCTION finish_process(bigint, text) FROM PUBLIC;

CREATE FUNCTION delegate_process(process_id bigint, service text) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
BEGIN
	PERFORM amoro_meta.check_name('service', service);
	IF process.process_id IS NULL THEN
		RAISE EXCEPTION 'process % does not exist', coalesce(process_id::text, 'null') USING ERRCODE = 'undefined_object';
	ELSIF process.ended_at IS NOT NULL THEN
		RAISE EXCEPTION 'process % has ended already', process_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('It is %s since %s.', process.status, process.ended_at);
	END IF;
	UPDATE amoro_meta.process p SET runner_service = service WHERE p.process_id = delegate_process.process_id;
END;
$$;
COMMENT ON FUNCTION delegate_process(bigint, text) IS
	'says that the leader of a service runs a process: cancel_process asks it, from now on. Errors: 42704 no such process, 55000 it has ended, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION delegate_process(bigint, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.ask_to_cancel(process amoro_meta.process, reason text, timeout interval) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	path CONSTANT text := format('/v1/processes/%s/cancel', process.process_id);
	body CONSTANT text := json_build_object('process_id', process.process_id, 'catalog', process.catalog_name, 'database', process.database_name,
		'table', process.table_name, 'process_type', process.process_type, 'reason', reason)::text;
	call bigint;
BEGIN
	PERFORM amoro_meta.check_call('POST', path, body, 'application/json', timeout);
	-- one that waits already, of which the caller may see the answer
	SELECT min(c.call_id) INTO call FROM amoro_meta.call c
		WHERE c.service = process.runner_service AND c.ended_at IS NULL AND c.process_id = process.process_id
			AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.requested_by AND pg_has_role(amoro_meta.calling_role(), r.oid, 'USAGE'));
	IF call IS NULL THEN
		call := amoro_meta.record_request(process.runner_service, 'POST', path, body, 'application/json', timeout, NULL, process.process_id);
	END IF;
	RETURN format('asked: call %s', call);
END;
$$;
COMMENT ON FUNCTION amoro_meta.ask_to_cancel(amoro_meta.process, text, interval) IS
	'records the call by which the leader that runs a process is asked to cancel it';
REVOKE ALL ON FUNCTION amoro_meta.ask_to_cancel(amoro_meta.process, text, interval) FROM PUBLIC;

-- Whoever runs it may have ended it, in whatever way, meanwhile. The caller holds the runtime of the table, if it has one.
CREATE FUNCTION amoro_meta.end_running_process(process_id bigint, status text, reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
BEGIN
	IF process.process_id IS NOT NULL AND process.ended_at IS NULL THEN
		PERFORM amoro_meta.end_process(process, status, reason);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_running_process(bigint, text, text) IS 'ends a process without a commit, if it still runs';
REVOKE ALL ON FUNCTION amoro_meta.end_running_process(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION cancel_process(process_id bigint, reason text DEFAULT NULL, timeout interval DEFAULT '1 min') RETURNS text
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	process amoro_meta.process := amoro_meta.lock_process(process_id);
BEGIN
	PERFORM amoro_meta.check_call_timeout(timeout);
	IF process.process_id IS NULL THEN
		-- an older snapshot does not show what was started since
		PERFORM amoro_meta.require_read_committed('tell whether there is such a process');
		RETURN 'unknown';
	ELSIF process.ended_at IS NOT NULL THEN
		RETURN 'already finished: ' || process.status;
	ELSIF process.runner_service IS NOT NULL THEN
		RETURN amoro_meta.ask_to_cancel(process, reason, timeout);
	END IF;
	PERFORM amoro_meta.end_process(process, 'CANCELED', coalesce(reason, format('cancelled by %s', amoro_meta.calling_role())));
	RETURN 'cancelled';
END;
$$;
COMMENT ON FUNCTION cancel_process(bigint, text, interval) IS
	'cancels a process and answers definitely: cancelled, already finished: with its status, or unknown. No task of it is handed out any '
	'more; optimizers that work on one are told when they touch, ack or complete. One that the leader of a service runs (delegate_process) is not decided here: the answer is '
	'asked: call N, the leader is sent POST /v1/processes/ID/cancel once this transaction is committed, for at most timeout, call_result(N) has its answer, and one of 2xx ends '
	'the process; cancel_process_and_wait returns what the leader has decided. Errors: 25000 not found, and not READ COMMITTED, 53400 too many calls wait, 54000 the reason is larger than 1 MB, '
	'AM005 the library is not preloaded, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION cancel_process(bigint, text, interval) FROM PUBLIC;

-- In C, and with the rights of its caller: a procedure that sets something, or runs with other rights, may not commit.
CREATE PROCEDURE cancel_process_and_wait(process_id bigint, reason text DEFAULT NULL, timeout interval DEFAULT '1 min', INOUT answer text DEFAULT NULL,
										 INOUT call_id bigint DEFAULT NULL, INOUT status integer DEFAULT NULL, INOUT body text DEFAULT NULL)
	LANGUAGE c
	AS 'MODULE_PATHNAME', 'amoro_meta_cancel_process_and_wait';
COMMENT ON PROCEDURE cancel_process_and_wait(bigint, text, interval, text, bigint, integer, text) IS
	'cancels a process, asks the leader that runs it where there is one, and waits for what it decides, for at most timeout (and a moment in which the end of that is noticed). answer: '
	'cancelled; already finished: with its status; unknown; refused: status N (the leader has answered something else than 2xx, and the process goes on); no answer: why (nobody leads, or nobody has answered; '
	'a leader that has heard of it may still cancel); asked: call N (somebody else asks already, for longer than timeout). call_id, status and body: of the call to the leader. It commits before it waits, so it '
	'is called by itself, outside of transactions; a wait that is interrupted takes nothing back. Errors: 25001 in a transaction block, and those of cancel_process and call_result, 25006 among them';
REVOKE ALL ON PROCEDURE cancel_process_and_wait(bigint, text, interval, text, bigint, integer, text) FROM PUBLIC;
