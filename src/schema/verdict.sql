/* The verdict over a version, for people and for front ends. */

CREATE FUNCTION broadcast_verdict(version bigint, OUT verdict text, OUT earliest timestamptz, OUT waits_for text[],
								  OUT reasons text[])
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	newest bigint;
	soonest interval;
BEGIN
	PERFORM amoro_meta.require_coordinator();
	SELECT m.version INTO STRICT newest FROM amoro_meta.metadata_version m;
	IF version IS NULL OR version NOT BETWEEN 0 AND newest THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('there is no metadata version %s', coalesce(version::text, 'null')),
			DETAIL = format('The newest version is %s.', newest);
	END IF;
	-- who may still serve something older; a row that is committed was seen, so the newest version may be published here
	SELECT min(s.lease_owed_for), coalesce(array_agg(coalesce(n.node_name, '(unregistered)') ORDER BY n.node_name, s.node_id), '{}'),
			coalesce(array_agg(coalesce(s.reason, 'has not applied it yet') ORDER BY n.node_name, s.node_id), '{}')
		INTO soonest, waits_for, reasons
		FROM amoro_meta.node_slots(newest) s LEFT JOIN amoro_meta.node n ON n.node_id = s.node_id
		WHERE s.lease_owed_for IS NOT NULL AND s.applied_version < broadcast_verdict.version;
	IF soonest IS NULL THEN
		verdict := 'PROCEED';
	ELSIF EXISTS (SELECT FROM amoro_meta.procedure p
				  WHERE p.outcome IS NULL AND p.wait_version = broadcast_verdict.version
					AND (p.cancel_requested OR p.deadline <= clock_timestamp())) THEN
		verdict := 'FAIL';
	ELSE
		verdict := 'WAIT';
		earliest := clock_timestamp() + soonest;
	END IF;
END;
$$;
COMMENT ON FUNCTION broadcast_verdict(bigint) IS
	'PROCEED when every node has applied the version or surely serves nothing; WAIT with the nodes that are waited for, why, and the earliest moment '
	'at which one of their leases ends; FAIL when the procedure that waits for the version has run out of time or is cancelled. '
	'It may be polled in one transaction, but in REPEATABLE READ knows no version newer than the snapshot. '
	'Errors: 22023 no such version, AM005 no coordinator, 25006 on a standby';
REVOKE ALL ON FUNCTION broadcast_verdict(bigint) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('reader', 'function', 'broadcast_verdict'),
	('operator', 'function', 'broadcast_verdict'),
	('admin', 'function', 'broadcast_verdict');
