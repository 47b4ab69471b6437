/* Services that still need one active instance: one node leads each, for as long as it holds its lease. */

CREATE TABLE amoro_meta.leadership
(
	service			text PRIMARY KEY,
	token			bigint NOT NULL,
	node_id			bigint NOT NULL,
	incarnation		uuid NOT NULL,
	term			bigint NOT NULL,
	lease_epoch		bigint NOT NULL,
	acquired_at		timestamptz NOT NULL,
	released_at		timestamptz
);
COMMENT ON TABLE amoro_meta.leadership IS
	'the newest tenure of every service. Whether it is held is in shared memory: it ends with the lease of the node, the epoch of which is here';
COMMENT ON COLUMN amoro_meta.leadership.released_at IS 'when the leader gave it back by itself; null also where its lease has ended';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.leadership', '');

-- Apart from the tenure: whoever asserts that holds the row, and must not be in the way of the news, nor they in his.
CREATE TABLE amoro_meta.leadership_news
(
	service			text NOT NULL,
	token			bigint NOT NULL,
	operation		text NOT NULL CHECK (operation IN ('gain', 'release')),
	PRIMARY KEY (token, operation)
);
COMMENT ON TABLE amoro_meta.leadership_news IS 'what observers of services are still to be told, see announce_leaders()';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.leadership_news', '');

CREATE FUNCTION amoro_meta.candidate_lease(node_id bigint, incarnation uuid, OUT term bigint, OUT lease_epoch bigint, OUT reason text)
	LANGUAGE c VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_candidate_lease';
COMMENT ON FUNCTION amoro_meta.candidate_lease(bigint, uuid) IS
	'the lease of a node of the calling role, and why the node may not begin to lead; null: it may. Errors as node_heartbeat';
REVOKE ALL ON FUNCTION amoro_meta.candidate_lease(bigint, uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.tenure_lease(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, OUT held boolean, OUT owed_for interval)
	LANGUAGE c VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_tenure_lease';
COMMENT ON FUNCTION amoro_meta.tenure_lease(bigint, uuid, bigint, bigint) IS
	'whether a tenure is held (null: nothing is known on a standby, nor without a coordinator), and for how long it may still be; owed_for is null when it is surely over. '
	'Without arguments: how long until the leases of nodes that this server does not know of are over';
REVOKE ALL ON FUNCTION amoro_meta.tenure_lease(bigint, uuid, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION amoro_meta.tenure_lease(bigint, uuid, bigint, bigint) TO pg_monitor;

CREATE FUNCTION amoro_meta.commit_durably() RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_commit_durably';
COMMENT ON FUNCTION amoro_meta.commit_durably() IS 'has the commit of this transaction wait for the disk, whatever synchronous_commit says';
REVOKE ALL ON FUNCTION amoro_meta.commit_durably() FROM PUBLIC;

CREATE VIEW leaders AS
	SELECT l.service,
		CASE WHEN t.held IS NULL THEN 'unknown' WHEN t.held THEN 'led' WHEN t.owed_for IS NOT NULL THEN 'ending' ELSE 'vacant' END AS state,
		n.node_name, l.node_id, n.node_kind, n.endpoint, l.incarnation, l.token, l.acquired_at, l.released_at, t.owed_for AS lease_owed_for
	FROM amoro_meta.leadership l LEFT JOIN amoro_meta.node n ON n.node_id = l.node_id AND n.incarnation = l.incarnation,
		LATERAL amoro_meta.tenure_lease(CASE WHEN l.released_at IS NULL THEN l.node_id END, l.incarnation, l.term, l.lease_epoch) t;
COMMENT ON VIEW leaders IS
	'the newest leader of every service. state: led; ending (nobody leads, but the old leader may not know it yet, for lease_owed_for); vacant; '
	'unknown (on a standby, without a coordinator). The columns of the node are null when a newer process has its name';
GRANT SELECT ON leaders TO pg_monitor;

CREATE FUNCTION amoro_meta.judge_candidate(service text, node_id bigint, incarnation uuid, OUT leader boolean, OUT newest_token bigint,
										   OUT term bigint, OUT lease_epoch bigint, OUT leader_name text, OUT leader_endpoint text,
										   OUT retry_after interval, OUT reason text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	own record;
	present record;
BEGIN
	leader := false;
	own := amoro_meta.candidate_lease(node_id, incarnation);
	term := own.term;
	lease_epoch := own.lease_epoch;
	SELECT l.*, t.held, t.owed_for, n.node_name, n.endpoint INTO present
		FROM (VALUES (judge_candidate.service)) v (service) LEFT JOIN amoro_meta.leadership l USING (service)
			LEFT JOIN amoro_meta.node n ON n.node_id = l.node_id AND n.incarnation = l.incarnation,
			LATERAL amoro_meta.tenure_lease(CASE WHEN l.released_at IS NULL THEN l.node_id END, l.incarnation, l.term, l.lease_epoch) t;
	newest_token := present.token;
	-- who asks has stopped what it led in an older term; of others there may be tenures that nobody knows of
	IF NOT present.held AND (present.node_id, present.incarnation) = (judge_candidate.node_id, judge_candidate.incarnation) THEN
		present.owed_for := (SELECT u.owed_for FROM amoro_meta.tenure_lease(NULL, NULL, NULL, NULL) u);
	END IF;
	IF present.held AND (present.node_id, present.incarnation) = (judge_candidate.node_id, judge_candidate.incarnation) THEN
		-- an old snapshot may show a tenure that was given back since
		IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
			PERFORM FROM amoro_meta.leadership l WHERE l.service = judge_candidate.service FOR SHARE;
		END IF;
		leader := true;
	ELSIF present.owed_for IS NOT NULL THEN
		leader_name := CASE WHEN present.held THEN present.node_name END;
		leader_endpoint := CASE WHEN present.held THEN present.endpoint END;
		retry_after := present.owed_for;
		reason := CASE WHEN present.held THEN 'another node leads the service' ELSE 'the lease of an older leader may not be over' END;
	ELSIF own.reason IS NOT NULL THEN
		reason := own.reason;
		retry_after := interval '1 s';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.judge_candidate(text, bigint, uuid) IS
	'whether a node leads a service, or why it may not come to lead it; reason null: it may, as far as can be seen. newest_token: of whatever tenure, null: there '
	'was none. Errors: as node_heartbeat; 40001';
REVOKE ALL ON FUNCTION amoro_meta.judge_candidate(text, bigint, uuid) FROM PUBLIC;

-- A refusal writes nothing, locks nothing and waits for nobody: candidates may ask as often as they like.
CREATE FUNCTION acquire_leadership(service text, node_id bigint, incarnation uuid, OUT leader boolean, OUT token bigint, OUT term bigint,
								   OUT lease_epoch bigint, OUT leader_name text, OUT leader_endpoint text, OUT retry_after interval, OUT reason text)
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	newest_token bigint;
	locked boolean := false;
BEGIN
	PERFORM amoro_meta.check_name('service', service);
	LOOP
		-- after the locks, the second time: the clock is read last
		SELECT j.leader, CASE WHEN j.leader THEN j.newest_token END, j.newest_token, j.term, j.lease_epoch, j.leader_name, j.leader_endpoint, j.retry_after, j.reason
			INTO leader, token, newest_token, term, lease_epoch, leader_name, leader_endpoint, retry_after, reason
			FROM amoro_meta.judge_candidate(service, node_id, incarnation) j;
		EXIT WHEN locked OR leader OR reason IS NOT NULL;
		IF NOT pg_try_advisory_xact_lock(1095565316, hashtext(service)) THEN
			reason := 'another node is just taking the lead';
			retry_after := interval '100 ms';
			RETURN;
		END IF;
		-- nor as long as somebody who has asserted the old tenure is not done
		PERFORM FROM amoro_meta.leadership l WHERE l.service = acquire_leadership.service FOR UPDATE SKIP LOCKED;
		IF NOT FOUND AND newest_token IS NOT NULL THEN
			reason := 'a transaction that has asserted the old leadership is not over';
			retry_after := interval '100 ms';
			RETURN;
		END IF;
		locked := true;
	END LOOP;
	IF leader OR reason IS NOT NULL THEN
		RETURN;
	END IF;
	leader := true;
	token := amoro_meta.next_id();
	INSERT INTO amoro_meta.leadership AS l
		VALUES (service, token, node_id, incarnation, term, lease_epoch, clock_timestamp(), NULL)
		ON CONFLICT ON CONSTRAINT leadership_pkey DO UPDATE
			SET (token, node_id, incarnation, term, lease_epoch, acquired_at, released_at) =
				(EXCLUDED.token, EXCLUDED.node_id, EXCLUDED.incarnation, EXCLUDED.term, EXCLUDED.lease_epoch, EXCLUDED.acquired_at, NULL);
	INSERT INTO amoro_meta.leadership_news VALUES (service, token, 'gain');
	-- a leader must never be older than the record of it
	PERFORM amoro_meta.commit_durably(), amoro_meta.request_sweep('announce_leaders'), amoro_meta.wake_explorer();
END;
$$;
COMMENT ON FUNCTION acquire_leadership(text, bigint, uuid) IS
	'makes a node the leader of a service if nobody else leads it or may still believe so. leader: the node leads from the commit on, until its lease of that '
	'term and lease_epoch ends; token grows with every tenure. Else: who leads, why the node does not, and when to ask again at the latest. '
	'Asked again by its leader: the same token. A node that asks has stopped whatever it led in an older lease. Errors: as node_heartbeat, 25006 among them; 22004, 22023 bad name, 40001';
REVOKE ALL ON FUNCTION acquire_leadership(text, bigint, uuid) FROM PUBLIC;

CREATE FUNCTION release_leadership(service text, node_id bigint, incarnation uuid, token bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.check_not_null('token', token IS NOT NULL),
		amoro_meta.candidate_lease(node_id, incarnation);
	UPDATE amoro_meta.leadership l SET released_at = clock_timestamp()
		WHERE l.service = release_leadership.service AND l.node_id = release_leadership.node_id
			AND l.incarnation = release_leadership.incarnation AND l.token = release_leadership.token AND l.released_at IS NULL;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO amoro_meta.leadership_news VALUES (service, token, 'release');
	PERFORM amoro_meta.request_sweep('announce_leaders');
	RETURN true;
END;
$$;
COMMENT ON FUNCTION release_leadership(text, bigint, uuid, bigint) IS
	'a leader that has stopped to lead says so, and another may lead at once; false when that tenure was over. Waits for transactions that have asserted it. '
	'Errors: as node_heartbeat, 25006 among them; 22004, 22023 bad name, 40001';
REVOKE ALL ON FUNCTION release_leadership(text, bigint, uuid, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_no_leader(message text, service text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	last record;
BEGIN
	SELECT l.node_id, n.node_name, l.token, l.acquired_at, t.held, t.owed_for INTO last
		FROM amoro_meta.leadership l LEFT JOIN amoro_meta.node n ON n.node_id = l.node_id AND n.incarnation = l.incarnation,
			LATERAL amoro_meta.tenure_lease(CASE WHEN l.released_at IS NULL THEN l.node_id END, l.incarnation, l.term, l.lease_epoch) t
		WHERE l.service = raise_no_leader.service;
	RAISE EXCEPTION USING ERRCODE = 'AM601', MESSAGE = message,
		DETAIL = CASE WHEN last.token IS NULL THEN format('No node has led %s yet.', amoro_meta.shown_text(service))
			ELSE format('%s %s since %s with token %s.', CASE WHEN last.node_name IS NULL THEN 'A process that is gone' ELSE format('Node "%s"', last.node_name) END,
				CASE WHEN last.held THEN 'leads it' WHEN last.owed_for IS NOT NULL THEN format('may believe for another %s ms that it leads it,',
					ceil(extract(epoch FROM last.owed_for) * 1000)) ELSE 'has led it' END, last.acquired_at, last.token) END,
		HINT = 'SELECT * FROM leaders;';
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_no_leader(text, text) IS 'raises AM601 with what is known of the service';
REVOKE ALL ON FUNCTION amoro_meta.raise_no_leader(text, text) FROM PUBLIC;

CREATE FUNCTION current_leader(service text, OUT node_name text, OUT node_id bigint, OUT endpoint text, OUT incarnation uuid, OUT token bigint,
							   OUT acquired_at timestamptz, OUT lease_owed_for interval)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.require_coordinator();
	SELECT l.node_name, l.node_id, l.endpoint, l.incarnation, l.token, l.acquired_at, l.lease_owed_for
		INTO node_name, node_id, endpoint, incarnation, token, acquired_at, lease_owed_for
		FROM @extschema@.leaders l WHERE l.service = current_leader.service AND l.state = 'led';
	IF NOT FOUND THEN
		PERFORM amoro_meta.raise_no_leader(format('nobody leads service %s', amoro_meta.shown_text(service)), service);
	END IF;
END;
$$;
COMMENT ON FUNCTION current_leader(text) IS
	'the node that leads a service now, and for how long its lease is owed. Errors: AM601 nobody leads it, AM005 no coordinator, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION current_leader(text) FROM PUBLIC;

CREATE FUNCTION assert_leadership(service text, token bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	present record;
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.check_not_null('token', token IS NOT NULL), amoro_meta.require_coordinator();
	-- held to the commit: nobody else comes to lead before
	SELECT l.*, (SELECT n.registered_by FROM amoro_meta.node n WHERE n.node_id = l.node_id) AS role INTO present FROM amoro_meta.leadership l
		WHERE l.service = assert_leadership.service AND l.token = assert_leadership.token AND l.released_at IS NULL FOR SHARE OF l;
	IF NOT pg_has_role(amoro_meta.calling_role(), present.role, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('the leader of service %s belongs to another role', amoro_meta.shown_text(service)),
			DETAIL = format('Its node was registered by role %s.', present.role);
	ELSIF (SELECT t.held FROM amoro_meta.tenure_lease(present.node_id, present.incarnation, present.term, present.lease_epoch) t) IS NOT TRUE THEN
		PERFORM amoro_meta.raise_no_leader(format('the leadership of service %s is not held with token %s', amoro_meta.shown_text(service), token), service);
	END IF;
	RETURN token;
END;
$$;
COMMENT ON FUNCTION assert_leadership(text, bigint) IS
	'for what the leader of a service writes into this database: returns the token if it is that of the leader now; nobody else comes to lead before the caller''s transaction ends. '
	'Errors: AM601 it is not, 42501 the leader''s node belongs to another role, AM005, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION assert_leadership(text, bigint) FROM PUBLIC;

CREATE FUNCTION announce_leaders() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	news record;
	told bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	-- of services that nobody has led for long; tokens go on growing all the same
	DELETE FROM amoro_meta.leadership l USING
		(SELECT o.service FROM amoro_meta.leadership o
		 WHERE coalesce(o.released_at, o.acquired_at) < clock_timestamp() - amoro_meta.duration_setting('history_retention')
			AND (SELECT t.owed_for IS NULL AND NOT t.held
				 FROM amoro_meta.tenure_lease(CASE WHEN o.released_at IS NULL THEN o.node_id END, o.incarnation, o.term, o.lease_epoch) t)
		 LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED) gone
		WHERE l.service = gone.service;
	FOR news IN
		WITH due AS (
			SELECT n.token, n.operation FROM amoro_meta.leadership_news n ORDER BY n.token, n.operation
				LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED),
		taken AS (
			DELETE FROM amoro_meta.leadership_news n USING due d WHERE (n.token, n.operation) = (d.token, d.operation) RETURNING n.*)
		SELECT * FROM taken t ORDER BY t.token, t.operation
	LOOP
		PERFORM amoro_meta.append_change('service', news.operation, '', '', news.service, news.token);
		told := told + 1;
	END LOOP;
	RETURN told;
END;
$$;
COMMENT ON FUNCTION announce_leaders() IS
	'tells nodes, in the metadata log, who has come to lead a service or given it back, and forgets services that nobody has led for amoro_meta.history_retention; '
	'returns how many changes it has appended. The coordinator does it by itself. Errors: 0A000 in a subtransaction, 25006';
REVOKE ALL ON FUNCTION announce_leaders() FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT 'node', 'function', n FROM unnest(ARRAY['acquire_leadership', 'release_leadership']) n
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['node', 'reader', 'writer', 'operator', 'admin']) k, unnest(ARRAY['current_leader', 'amoro_meta.tenure_lease']) n
	UNION ALL
	SELECT k, 'view', 'leaders' FROM unnest(ARRAY['node', 'reader', 'writer', 'operator', 'admin']) k
	UNION ALL
	SELECT 'writer', 'function', 'assert_leadership'
	UNION ALL
	SELECT k, 'function', 'announce_leaders' FROM unnest(ARRAY['operator', 'admin']) k;
