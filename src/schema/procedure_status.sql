/* Procedures as people see them, with the nodes that they wait for. */

CREATE VIEW amoro_meta.owed_slot AS
	SELECT coalesce(n.node_name, '(unregistered)') AS node_name, s.applied_version, s.lease_owed_for,
		coalesce(s.reason, 'has not applied it yet') AS reason
	FROM amoro_meta.node_slots(0) s LEFT JOIN amoro_meta.node n ON n.node_id = s.node_id
	WHERE s.lease_owed_for IS NOT NULL;
COMMENT ON VIEW amoro_meta.owed_slot IS 'nodes that may serve something, up to which version, and why not a newer one';

CREATE VIEW procedures AS
	WITH slot AS MATERIALIZED (SELECT * FROM amoro_meta.owed_slot)
	SELECT p.procedure_id, p.kind, p.state, p.outcome, p.catalog_name, p.database_name, p.object_name, p.object_id, p.request_id,
		p.submitted_by, p.submitted_at, p.deadline, p.cancel_requested, p.wait_version,
		w.waits_for, w.reasons AS wait_reasons, clock_timestamp() + w.soonest AS waits_until,
		p.attempts, p.not_before, p.error_code, p.error_message, p.error_detail, p.last_step_at, p.ended_at
	FROM amoro_meta.procedure p LEFT JOIN LATERAL
		(SELECT array_agg(s.node_name ORDER BY s.node_name) AS waits_for, array_agg(s.reason ORDER BY s.node_name) AS reasons,
			min(s.lease_owed_for) AS soonest
		 FROM slot s WHERE p.outcome IS NULL AND s.applied_version < p.wait_version) w ON true;
COMMENT ON VIEW procedures IS
	'procedures in flight and ended. In flight, waits_for names the nodes that may still serve what was before wait_version, with the reasons, '
	'and waits_until is the earliest moment at which one of their leases ends; outcome is null';
GRANT SELECT ON procedures TO pg_monitor;

CREATE FUNCTION procedure_status(procedure_id bigint) RETURNS SETOF procedures
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 1
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('procedure_id', procedure_id IS NOT NULL);
	RETURN QUERY SELECT * FROM @extschema@.procedures p WHERE p.procedure_id = procedure_status.procedure_id;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'procedure % does not exist', procedure_id USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION procedure_status(bigint) IS
	'the row of the view procedures for one procedure. Errors: 42704 no such procedure, 22004';
REVOKE ALL ON FUNCTION procedure_status(bigint) FROM PUBLIC;

CREATE FUNCTION remove_node(node_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	node_id bigint;
BEGIN
	PERFORM amoro_meta.check_name('node_name', node_name);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('remove_node', NULL, NULL, node_name,
		jsonb_build_object('node_name', node_name), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'node', '', '', node_name);
	SELECT n.node_id INTO node_id FROM amoro_meta.node n WHERE n.node_name = remove_node.node_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'node "%" is unknown', node_name USING ERRCODE = 'AM002';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, node_id, '{}');
END;
$$;
COMMENT ON FUNCTION remove_node(text, uuid, interval) IS
	'submits the removal of a node and returns the procedure''s id. The node is refused further leases at once, and forgotten once its lease '
	'is released or over; done: no other node names it as one that has a slot or owns a bucket. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: AM002 unknown node, AM401 it is being removed, AM005, 22023, 25006';
REVOKE ALL ON FUNCTION remove_node(text, uuid, interval) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, o, n FROM unnest(ARRAY['reader', 'operator', 'admin']) k,
		(VALUES ('function', 'procedure_status'), ('view', 'procedures')) v (o, n)
	UNION ALL
	SELECT k, 'function', 'remove_node' FROM unnest(ARRAY['operator', 'admin']) k;
