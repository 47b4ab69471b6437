/* The status of tables, which the leader of optimizing moves. */

-- What Amoro allows, but for the steps that belong to a process: those are taken by the functions of processes.
CREATE FUNCTION amoro_meta.check_status_step(target amoro_meta.table_runtime, status_code integer) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF target.process_id IS NOT NULL THEN
		RAISE EXCEPTION 'the status of table % is up to its process', target.table_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Process %s is running; the status is %s.', target.process_id, target.status_code),
			HINT = format('To end it: SELECT cancel_process(%s)', target.process_id);
	END IF;
	IF NOT (target.status_code, check_status_step.status_code) IN ((700, 600), (600, 500), (600, 700), (500, 600), (500, 700)) THEN
		RAISE EXCEPTION 'the status of table % cannot go from % to %', target.table_id, target.status_code, check_status_step.status_code
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'It goes from 700 (idle) to 600 (pending) and 500 (planning), and back; start_process leads on from there.';
	END IF;
	IF status_code <> 700 AND target.group_name IS NULL THEN
		RAISE EXCEPTION 'no group optimizes table %', target.table_id USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('There is no optimizer group "%s".', left(target.wanted_group, 100)),
			HINT = CASE WHEN target.wanted_group ~ '^[A-Za-z0-9_-]{1,50}$' THEN format('SELECT create_optimizer_group(%L);', target.wanted_group)
				ELSE 'A group of that name cannot exist: set self-optimizing.group of the table to another one.' END;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_status_step(amoro_meta.table_runtime, integer) IS 'raises 55000 unless a leader may set this status now';
REVOKE ALL ON FUNCTION amoro_meta.check_status_step(amoro_meta.table_runtime, integer) FROM PUBLIC;

CREATE FUNCTION set_table_status(table_id bigint, expected_version bigint, status_code integer, leader_term bigint, state jsonb DEFAULT NULL)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.table_runtime;
	new_version bigint;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_not_null('table_id', table_id IS NOT NULL),
		amoro_meta.check_not_null('expected_version', expected_version IS NOT NULL),
		amoro_meta.check_not_null('leader_term', leader_term IS NOT NULL),
		amoro_meta.check_configuration('state', coalesce(state, '{}'));
	IF status_code NOT IN (100, 200, 300, 400, 500, 600, 700) THEN
		RAISE EXCEPTION 'unknown status: %', status_code USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is 500 (planning), 600 (pending) or 700 (idle); 100 to 400 belong to processes.';
	END IF;
	SELECT * INTO target FROM amoro_meta.table_runtime r WHERE r.table_id = set_table_status.table_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'table % has no runtime', table_id USING ERRCODE = 'undefined_object',
			DETAIL = 'It was dropped, or its optimizing is disabled.';
	END IF;
	IF leader_term < target.leader_term THEN
		RAISE EXCEPTION 'leader term % is over', leader_term USING ERRCODE = 'AM004',
			DETAIL = format('A leader of term %s has written to table %s.', target.leader_term, table_id), HINT = 'Stop acting as the leader.';
	END IF;
	IF expected_version <> target.version THEN
		RAISE EXCEPTION 'the runtime of table % has changed', table_id USING ERRCODE = 'serialization_failure',
			DETAIL = format('Its version is %s, not %s; its status is %s since %s.', target.version, expected_version, target.status_code,
							target.status_changed_at),
			HINT = format('Decide anew: SELECT * FROM table_runtimes WHERE table_id = %s', table_id);
	END IF;
	IF status_code <> target.status_code THEN
		PERFORM amoro_meta.check_status_step(target, status_code);
	END IF;
	UPDATE amoro_meta.table_runtime r
		SET status_code = coalesce(set_table_status.status_code, r.status_code),
			status_changed_at = CASE WHEN set_table_status.status_code <> r.status_code THEN clock_timestamp() ELSE r.status_changed_at END,
			state = r.state || coalesce(set_table_status.state, '{}'), leader_term = set_table_status.leader_term,
			version = amoro_meta.next_runtime_version()
		WHERE r.table_id = set_table_status.table_id RETURNING r.version INTO new_version;
	RETURN new_version;
END;
$$;
COMMENT ON FUNCTION set_table_status(bigint, bigint, integer, bigint, jsonb) IS
	'for the leader of optimizing: moves the status of a table between idle (700), pending (600) and planning (500), null keeps it, and lays '
	'the keys of state over what is kept of the table, provided that the runtime still has the version expected; returns its new version. '
	'leader_term: grows with each leader; a smaller one than was seen here is refused. '
	'Errors: 40001 it has another version, AM004 the term is over, 42704 no runtime, 55000 no such step, a process is running, or no group, '
	'22004, 22023, 25006';
REVOKE ALL ON FUNCTION set_table_status(bigint, bigint, integer, bigint, jsonb) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'function', 'set_table_status' FROM unnest(ARRAY['operator', 'admin']) k;
