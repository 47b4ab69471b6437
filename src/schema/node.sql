/* The node registry, and what nodes call. */

CREATE TABLE amoro_meta.node
(
	node_id			bigint PRIMARY KEY,
	node_name		text NOT NULL UNIQUE,
	node_kind		text NOT NULL,
	incarnation		uuid NOT NULL,
	endpoint		text,
	protocol_version integer NOT NULL,
	registered_by	regrole NOT NULL,
	registered_at	timestamptz NOT NULL,
	removing		boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE amoro_meta.node IS 'nodes that have registered; whether they live is in shared memory, see node_status';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.node', '');

-- Rule 9: a verdict counts incarnations, not names, and has to do so even after a restart of the server.
CREATE TABLE amoro_meta.superseded_incarnation
(
	node_id			bigint NOT NULL,
	incarnation		uuid NOT NULL,
	registered_by	regrole NOT NULL,
	superseded_at	timestamptz NOT NULL,
	lease_owed		boolean NOT NULL,
	PRIMARY KEY (incarnation, node_id)
);
COMMENT ON TABLE amoro_meta.superseded_incarnation IS
	'older processes of the nodes, and those of removed nodes: they never become current again, and those that may hold a lease count until it is over; '
	'node 0 stands for nodes that were lost in a failover';
CREATE INDEX superseded_incarnation_lease_owed ON amoro_meta.superseded_incarnation (node_id) WHERE lease_owed;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.superseded_incarnation', '');

CREATE TYPE node_grant AS
(
	answer			text,
	node_id			bigint,
	term			bigint,
	lease_epoch		bigint,
	lease_ms		integer,
	max_clock_drift_ppm integer,
	heartbeat_interval_ms integer,
	metadata_version bigint,
	reason			text
);
COMMENT ON TYPE node_grant IS
	'what the server answers a node: granted (a lease of lease_ms from the moment the request was sent), reload (clear, load, activate), '
	'behind (fetch the changes, activate again), held (apply the changes, no lease before that), leave (stop, release)';

CREATE FUNCTION amoro_meta.require_coordinator() RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_require_coordinator';
COMMENT ON FUNCTION amoro_meta.require_coordinator() IS
	'raises AM005 unless a coordinator has begun a term in this database, 25006 on a standby';
REVOKE ALL ON FUNCTION amoro_meta.require_coordinator() FROM PUBLIC;

CREATE FUNCTION amoro_meta.attach_node(node_id bigint, incarnation uuid) RETURNS node_grant
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_attach_node';
COMMENT ON FUNCTION amoro_meta.attach_node(bigint, uuid) IS
	'makes the place in shared memory for a registration whose row this transaction holds';
REVOKE ALL ON FUNCTION amoro_meta.attach_node(bigint, uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.may_hold_lease(node_id bigint, incarnation uuid) RETURNS boolean
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_may_hold_lease';
COMMENT ON FUNCTION amoro_meta.may_hold_lease(bigint, uuid) IS 'false when this incarnation of a node surely holds no lease';
REVOKE ALL ON FUNCTION amoro_meta.may_hold_lease(bigint, uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_registration(node_name text, incarnation uuid, node_kind text, endpoint text,
											  protocol_version integer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.require_coordinator();
	PERFORM amoro_meta.check_name('node_name', node_name), amoro_meta.check_name('node_kind', node_kind);
	IF length(endpoint) NOT BETWEEN 1 AND 1024 OR endpoint ~ '[[:cntrl:]]' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'endpoint is not valid',
			DETAIL = format('It has %s characters; 1 to 1024 are allowed, control characters are not.', length(endpoint));
	END IF;
	IF incarnation IS NULL OR protocol_version IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
			MESSAGE = 'incarnation and protocol_version must not be null';
	END IF;
	IF protocol_version <> 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('protocol version %s is not supported', protocol_version),
			DETAIL = 'This server speaks protocol version 1.',
			HINT = 'Install the version of the node that belongs to the server.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_registration(text, uuid, text, text, integer) IS 'checks the arguments of register_node';
REVOKE ALL ON FUNCTION amoro_meta.check_registration(text, uuid, text, text, integer) FROM PUBLIC;

-- The row lock makes the registrations of one name come one after the other.
CREATE FUNCTION amoro_meta.lock_node(node_name text, incarnation uuid, node_kind text, endpoint text,
									 protocol_version integer) RETURNS amoro_meta.node
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	node amoro_meta.node;
BEGIN
	LOOP
		SELECT * INTO node FROM amoro_meta.node n WHERE n.node_name = lock_node.node_name FOR UPDATE;
		IF FOUND THEN
			RETURN node;
		END IF;
		INSERT INTO amoro_meta.node AS n
				(node_id, node_name, node_kind, incarnation, endpoint, protocol_version, registered_by, registered_at)
			VALUES (amoro_meta.next_id(), lock_node.node_name, lock_node.node_kind, lock_node.incarnation, lock_node.endpoint,
					lock_node.protocol_version, amoro_meta.calling_role(), clock_timestamp())
			ON CONFLICT ON CONSTRAINT node_node_name_key DO NOTHING
			RETURNING n.* INTO node;
		IF FOUND THEN
			RETURN node;
		END IF;
	END LOOP;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_node(text, uuid, text, text, integer) IS 'finds or makes the row of a node, and locks it';
REVOKE ALL ON FUNCTION amoro_meta.lock_node(text, uuid, text, text, integer) FROM PUBLIC;

-- Whatever the node is called now: a process that was out of touch when its node was removed must not oust the one that came after.
CREATE FUNCTION amoro_meta.refuse_superseded(node_name text, incarnation uuid) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	removed boolean := (SELECT bool_and(n.node_id IS NULL)
						FROM amoro_meta.superseded_incarnation s LEFT JOIN amoro_meta.node n ON n.node_id = s.node_id
						WHERE s.incarnation = refuse_superseded.incarnation);
BEGIN
	IF removed IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'AM003',
			MESSAGE = format('incarnation %s of node "%s" is not the current one', incarnation, node_name),
			DETAIL = CASE WHEN removed THEN 'The node was removed.'
				ELSE 'A newer process has registered under the name of this node.' END,
			HINT = 'Stop this process, or register it under a name of its own.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_superseded(text, uuid) IS
	'raises AM003 for a process that has given way to another, or whose node was removed';
REVOKE ALL ON FUNCTION amoro_meta.refuse_superseded(text, uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.supersede_incarnation(node amoro_meta.node, incarnation uuid) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	INSERT INTO amoro_meta.superseded_incarnation (node_id, incarnation, registered_by, superseded_at, lease_owed)
		VALUES (node.node_id, node.incarnation, node.registered_by, clock_timestamp(),
				amoro_meta.may_hold_lease(node.node_id, node.incarnation));
END;
$$;
COMMENT ON FUNCTION amoro_meta.supersede_incarnation(amoro_meta.node, uuid) IS
	'records that the current incarnation of a node gives way to another';
REVOKE ALL ON FUNCTION amoro_meta.supersede_incarnation(amoro_meta.node, uuid) FROM PUBLIC;

CREATE FUNCTION register_node(node_name text, incarnation uuid, node_kind text DEFAULT 'node', endpoint text DEFAULT NULL,
							  protocol_version integer DEFAULT 1) RETURNS node_grant
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	node amoro_meta.node;
BEGIN
	PERFORM amoro_meta.check_registration(node_name, incarnation, node_kind, endpoint, protocol_version);
	node := amoro_meta.lock_node(node_name, incarnation, node_kind, endpoint, protocol_version);
	IF node.registered_by <> amoro_meta.calling_role() THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('node "%s" belongs to another role', node_name),
			DETAIL = format('It was registered by role %s.', node.registered_by),
			HINT = format('Choose another name, or have the node removed: SELECT remove_node(%L);', node_name);
	END IF;
	IF node.removing THEN
		RAISE EXCEPTION USING ERRCODE = 'AM401',
			MESSAGE = format('node "%s" is being removed', node_name),
			HINT = 'Register it again when the removal has ended, see the view procedures.';
	END IF;
	PERFORM amoro_meta.refuse_superseded(node_name, incarnation);
	IF node.incarnation <> register_node.incarnation THEN
		PERFORM amoro_meta.supersede_incarnation(node, register_node.incarnation);
	END IF;
	IF (node.incarnation, node.node_kind, node.endpoint, node.protocol_version)
			IS DISTINCT FROM (register_node.incarnation, register_node.node_kind, register_node.endpoint, register_node.protocol_version) THEN
		UPDATE amoro_meta.node n
			SET (incarnation, node_kind, endpoint, protocol_version, registered_at) =
				(register_node.incarnation, register_node.node_kind, register_node.endpoint, register_node.protocol_version, clock_timestamp())
			WHERE n.node_id = node.node_id;
	END IF;
	IF EXISTS (SELECT FROM amoro_meta.service_bucket b WHERE b.node_id = node.node_id AND b.incarnation <> register_node.incarnation) THEN
		-- what an older process of the node owned is given to this one
		PERFORM amoro_meta.request_sweep('balance_buckets');
	END IF;
	RETURN amoro_meta.attach_node(node.node_id, register_node.incarnation);
END;
$$;
COMMENT ON FUNCTION register_node(text, uuid, text, text, integer) IS
	'registers a process as the node of that name, in place of an older process; it starts fenced: load, then activate_node. '
	'incarnation: a new one with every start of a process. endpoint: where others reach it, shown in node_status and called by call_leader. '
	'Errors: AM003 this process was superseded or its node removed, AM005 no coordinator, AM401 being removed, 42501 name of another role, '
	'0A000 unknown protocol version, 53400 no room (amoro_meta.max_nodes), 22004 and 22023 bad arguments, 25006 on a standby';
REVOKE ALL ON FUNCTION register_node(text, uuid, text, text, integer) FROM PUBLIC;

CREATE FUNCTION node_heartbeat(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, applied_version bigint,
							   wait interval DEFAULT '0', detail text DEFAULT NULL) RETURNS node_grant
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_node_heartbeat';
COMMENT ON FUNCTION node_heartbeat(bigint, uuid, bigint, bigint, bigint, interval, text) IS
	'extends the lease of an active node and takes applied_version as its ack, then waits for up to wait (0 to 5 seconds, and half of statement_timeout) '
	'for a newer version. Touches shared memory alone. detail is shown in node_status. Errors: AM002 unknown node, AM003 superseded, AM004 the '
	'node has seen a newer term, AM005 no coordinator, 42501 node of another role, 22004 and 22023 bad arguments, 25006 on a standby';
REVOKE ALL ON FUNCTION node_heartbeat(bigint, uuid, bigint, bigint, bigint, interval, text) FROM PUBLIC;

CREATE FUNCTION node_heartbeat_text(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, applied_version bigint,
									wait interval DEFAULT '0', detail text DEFAULT NULL, with_changes boolean DEFAULT false)
	RETURNS text
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_node_heartbeat_text';
COMMENT ON FUNCTION node_heartbeat_text(bigint, uuid, bigint, bigint, bigint, interval, text, boolean) IS
	'as node_heartbeat, the answer being one value, the text form of node_grant: the cheapest heartbeat there is. with_changes: the changes after '
	'applied_version up to the metadata version of the answer follow, a line each, with the columns of metadata_changes in the text format of COPY; '
	'none when they are not at hand: then ask metadata_changes. Errors as node_heartbeat, 25006 among them';
REVOKE ALL ON FUNCTION node_heartbeat_text(bigint, uuid, bigint, bigint, bigint, interval, text, boolean) FROM PUBLIC;

CREATE FUNCTION activate_node(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, loaded_version bigint)
	RETURNS node_grant
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_activate_node';
COMMENT ON FUNCTION activate_node(bigint, uuid, bigint, bigint, bigint) IS
	'gives a node its first lease once it has loaded the metadata at the current version; else answers behind or reload. Errors as node_heartbeat, 25006 among them';
REVOKE ALL ON FUNCTION activate_node(bigint, uuid, bigint, bigint, bigint) FROM PUBLIC;

CREATE FUNCTION release_node(node_id bigint, incarnation uuid) RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_release_node';
COMMENT ON FUNCTION release_node(bigint, uuid) IS
	'ends the lease of a node that has stopped serving, so that no change waits for it; false when it was released before. Errors as node_heartbeat, 25006 among them';
REVOKE ALL ON FUNCTION release_node(bigint, uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.node_slots(committed_version bigint, OUT node_id bigint, OUT incarnation uuid, OUT is_current boolean,
									  OUT state text, OUT lease_owed_for interval, OUT applied_version bigint,
									  OUT metadata_version bigint, OUT behind_for interval, OUT last_heard interval,
									  OUT lease_epoch bigint, OUT heartbeats bigint, OUT fences bigint,
									  OUT reason text, OUT detail text) RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100
	AS 'MODULE_PATHNAME', 'amoro_meta_node_slots';
COMMENT ON FUNCTION amoro_meta.node_slots(bigint) IS
	'every incarnation of a node that shared memory knows; lease_owed_for is null when it surely serves nothing. '
	'The argument is a version known to be committed, 0 for none';
REVOKE ALL ON FUNCTION amoro_meta.node_slots(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION amoro_meta.node_slots(bigint) TO pg_monitor;

CREATE VIEW nodes AS
	SELECT n.node_name, n.node_id, n.node_kind, n.endpoint, n.incarnation, n.protocol_version, n.registered_by, n.registered_at,
		n.removing
	FROM amoro_meta.node n;
COMMENT ON VIEW nodes IS 'the registered nodes; how they are is in node_status';

CREATE VIEW node_status AS
	WITH slot AS MATERIALIZED (SELECT * FROM amoro_meta.node_slots(0))
	SELECT coalesce(n.node_name, '(unregistered)') AS node_name, s.node_id, n.node_kind, n.endpoint, n.registered_by, s.incarnation,
		s.is_current AND n.incarnation IS NOT DISTINCT FROM s.incarnation AS current,
		s.state, s.lease_owed_for, s.applied_version, s.metadata_version,
		greatest(s.metadata_version - s.applied_version, 0) AS behind, s.behind_for, s.last_heard, s.lease_epoch, s.heartbeats,
		s.fences, s.reason, s.detail
	FROM slot s LEFT JOIN amoro_meta.node n ON n.node_id = s.node_id
	UNION ALL
	SELECT n.node_name, n.node_id, n.node_kind, n.endpoint, n.registered_by, n.incarnation, true, 'unknown', NULL, NULL, NULL, NULL, NULL,
		NULL, NULL, NULL, NULL, 'no coordinator has begun a term, or there was no place for the node', NULL
	FROM amoro_meta.node n
	WHERE NOT EXISTS (SELECT FROM slot s WHERE s.node_id = n.node_id AND s.incarnation = n.incarnation);
COMMENT ON VIEW node_status IS
	'how every node is: its state, for how long it is owed a lease (null: it serves nothing), what it has applied, how far and for how long '
	'it is behind, and why it gets no lease; a row that is not current is an older process of the node';
GRANT SELECT ON node_status TO pg_monitor;

CREATE VIEW amoro_stat_node AS
	SELECT s.node_name, s.node_id, s.incarnation, s.current, s.state, s.heartbeats, s.fences, s.behind, s.last_heard
	FROM node_status s;
COMMENT ON VIEW amoro_stat_node IS 'counters of the nodes since the server has started';
GRANT SELECT ON amoro_stat_node TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('node', 'function', 'register_node'),
	('node', 'function', 'node_heartbeat'),
	('node', 'function', 'node_heartbeat_text'),
	('node', 'function', 'activate_node'),
	('node', 'function', 'release_node'),
	('reader', 'function', 'amoro_meta.node_slots'),
	('reader', 'view', 'nodes'),
	('reader', 'view', 'node_status'),
	('operator', 'function', 'amoro_meta.node_slots'),
	('operator', 'view', 'nodes'),
	('operator', 'view', 'node_status'),
	('operator', 'view', 'amoro_stat_node'),
	('admin', 'function', 'amoro_meta.node_slots'),
	('admin', 'view', 'nodes'),
	('admin', 'view', 'node_status'),
	('admin', 'view', 'amoro_stat_node');
