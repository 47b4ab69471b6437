/* Buckets: the work of a service that runs on many nodes, in numbered parts, each of which one process owns. */

CREATE TABLE amoro_meta.bucket_service
(
	service_id		bigint PRIMARY KEY,
	service			text NOT NULL UNIQUE,
	node_kind		text NOT NULL,
	bucket_count	integer NOT NULL CHECK (bucket_count BETWEEN 1 AND 10000)
);
COMMENT ON TABLE amoro_meta.bucket_service IS 'services whose work is divided into buckets, and the kind of node that runs them';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.bucket_service', '');

-- One row a bucket: that two own one cannot be written down. The owner is a process: a node that starts again is another one.
CREATE TABLE amoro_meta.service_bucket
(
	service_id		bigint NOT NULL,
	bucket			integer NOT NULL,
	node_id			bigint,
	incarnation		uuid,
	next_node_id	bigint,
	next_incarnation uuid,
	state			text NOT NULL CHECK (state IN ('normal', 'releasing', 'pre_drop')),
	procedure_id	bigint,
	version			bigint NOT NULL,
	owned_since		timestamptz,
	PRIMARY KEY (service_id, bucket),
	CHECK ((state = 'normal') = (procedure_id IS NULL)),
	CHECK ((node_id IS NULL) = (incarnation IS NULL)),
	CHECK ((next_node_id IS NULL) = (next_incarnation IS NULL)),
	CHECK (next_node_id IS NULL OR state = 'releasing')
);
COMMENT ON TABLE amoro_meta.service_bucket IS
	'buckets and who owns them, null: nobody. releasing: whoever owned it is to let go, and next_node_id gets it once it surely has';
COMMENT ON COLUMN amoro_meta.service_bucket.version IS 'the change that gave the bucket to its owner: it grows with every owner';
CREATE INDEX service_bucket_procedure_id ON amoro_meta.service_bucket (procedure_id) WHERE procedure_id IS NOT NULL;
CREATE INDEX service_bucket_node_id ON amoro_meta.service_bucket (node_id);
-- nodes look a bucket up by its name
CREATE UNIQUE INDEX service_bucket_name ON amoro_meta.service_bucket (service_id, (bucket::text));
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.service_bucket', '');

-- A failover may have lost the change that gave a bucket to another process, which then still thinks that it owns it.
CREATE FUNCTION amoro_meta.is_owned(version bigint) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT version > (amoro_meta.timeline_id() - 1 + coalesce((SELECT i.timeline_offset FROM amoro_meta.identity AS i), 0))::bigint << 40
	$$;
COMMENT ON FUNCTION amoro_meta.is_owned(bigint) IS
	'whether the change that gave a bucket to its owner is of this timeline; who got it on an older one is no owner before the leases of then are over';
REVOKE ALL ON FUNCTION amoro_meta.is_owned(bigint) FROM PUBLIC;

-- What a node serves. Its library reads the process that owns the bucket, and nothing else, from the beginning.
CREATE VIEW amoro_meta.bucket_object AS
	SELECT 'bucket' AS kind, s.service AS catalog_name, b.bucket::text AS database_name, '' AS object_name, s.service_id AS object_id,
		b.state, b.version,
		json_build_object('owner_incarnation', CASE WHEN o.owned THEN b.incarnation END, 'service', s.service, 'bucket', b.bucket,
						  'state', b.state, 'owner', CASE WHEN o.owned THEN n.node_name END,
						  'previous_owner', CASE WHEN NOT o.owned THEN n.node_name END, 'next_owner', x.node_name,
						  'version', b.version)::text AS document
	FROM amoro_meta.bucket_service s JOIN amoro_meta.service_bucket b USING (service_id)
		LEFT JOIN amoro_meta.node n ON n.node_id = b.node_id LEFT JOIN amoro_meta.node x ON x.node_id = b.next_node_id,
		LATERAL (SELECT b.state = 'normal' AND b.node_id IS NOT NULL AND amoro_meta.is_owned(b.version)) o (owned);
COMMENT ON VIEW amoro_meta.bucket_object IS 'buckets as nodes load them';

CREATE FUNCTION amoro_meta.planned_buckets(service_id bigint) RETURNS TABLE (bucket integer, node_id bigint, incarnation uuid)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	service amoro_meta.bucket_service := (SELECT s FROM amoro_meta.bucket_service s WHERE s.service_id = planned_buckets.service_id);
	slots integer[];
	nodes bigint[];
BEGIN
	SELECT coalesce(array_agg(b.bucket - 1), '{}'), coalesce(array_agg(b.node_id), '{}') INTO slots, nodes
		FROM amoro_meta.service_bucket b WHERE b.service_id = planned_buckets.service_id AND b.node_id IS NOT NULL;
	RETURN QUERY
		WITH candidate AS MATERIALIZED (SELECT * FROM amoro_meta.assignable_nodes(service.node_kind)),
		part AS MATERIALIZED
			(SELECT coalesce(array_agg(c.node_id) FILTER (WHERE c.receives), '{}') AS receiving,
				coalesce(array_agg(c.node_id) FILTER (WHERE NOT c.receives AND NOT c.offline), '{}') AS keeping
			 FROM candidate c),
		-- nothing is taken from anybody when there is nobody to give it to
		moved AS MATERIALIZED
			(SELECT m.slot + 1 AS bucket, m.node_ids[1] AS node_id
			 FROM part p, LATERAL amoro_meta.planned_assignment(service.bucket_count, 1, slots, nodes, '{}', p.receiving, p.keeping, true) m
			 WHERE cardinality(p.receiving) > 0)
		SELECT m.bucket, c.node_id, c.incarnation FROM moved m LEFT JOIN candidate c ON c.node_id = m.node_id
		UNION ALL
		-- a node that has started again owns nothing yet: what it had belongs to a process that may still run
		SELECT b.bucket, c.node_id, c.incarnation FROM amoro_meta.service_bucket b JOIN candidate c USING (node_id)
		WHERE b.service_id = planned_buckets.service_id AND (b.incarnation <> c.incarnation OR NOT amoro_meta.is_owned(b.version))
			AND NOT EXISTS (SELECT FROM moved m WHERE m.bucket = b.bucket);
END;
$$;
COMMENT ON FUNCTION amoro_meta.planned_buckets(bigint) IS
	'buckets of a service that are to have another owner, and which: the numbers of live nodes differ by at most one, and no plan moves fewer; '
	'a node that is out of touch keeps its buckets for amoro_meta.node_offline_timeout';
REVOKE ALL ON FUNCTION amoro_meta.planned_buckets(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_bucket_count(bucket_count integer) RETURNS void
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.check_count('bucket_count', bucket_count, 10000, 'A service has 1 to 10000 buckets.')$$;
COMMENT ON FUNCTION amoro_meta.check_bucket_count(integer) IS 'raises 22004 or 22023 unless a service may have so many buckets';
REVOKE ALL ON FUNCTION amoro_meta.check_bucket_count(integer) FROM PUBLIC;

CREATE FUNCTION create_service_buckets(service text, bucket_count integer DEFAULT 100, node_kind text DEFAULT 'node',
									   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.check_name('node_kind', node_kind), amoro_meta.check_bucket_count(bucket_count);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_service_buckets', service, NULL, NULL,
		jsonb_build_array(service, bucket_count, node_kind), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'bucket', service, '', '');
	IF EXISTS (SELECT FROM amoro_meta.bucket_service s WHERE s.service = create_service_buckets.service) THEN
		RAISE EXCEPTION 'service "%" has buckets already', service USING ERRCODE = 'duplicate_object';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(),
		jsonb_build_object('bucket_count', bucket_count, 'node_kind', node_kind));
END;
$$;
COMMENT ON FUNCTION create_service_buckets(text, integer, text, uuid, interval) IS
	'submits the division of a service into buckets 1 to bucket_count, owned by live nodes of a kind in equal shares, and returns the procedure''s id. '
	'request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42710 it has buckets, AM401 a procedure works on them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_service_buckets(text, integer, text, uuid, interval) FROM PUBLIC;

-- Locked before it is claimed, as balance_buckets does: neither waits for the other.
CREATE FUNCTION amoro_meta.lock_service(service text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	service_id bigint;
BEGIN
	SELECT s.service_id INTO service_id FROM amoro_meta.bucket_service s WHERE s.service = lock_service.service FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'service "%" has no buckets', service USING ERRCODE = 'undefined_object';
	END IF;
	RETURN service_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_service(text) IS 'id of a service that has buckets, locked; raises 42704 for any other';
REVOKE ALL ON FUNCTION amoro_meta.lock_service(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_service_buckets(kind text, service text, given jsonb, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target bigint;
BEGIN
	PERFORM amoro_meta.check_name('service', service);
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, service, NULL, NULL, jsonb_build_array(service, given), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	target := amoro_meta.lock_service(service);
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'bucket', service, '', '');
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target, given);
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_service_buckets(text, text, jsonb, uuid, interval) IS
	'what the submissions on all buckets of a service have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_service_buckets(text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION alter_service_buckets(service text, bucket_count integer, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_bucket_count(bucket_count);
	RETURN amoro_meta.submit_service_buckets('alter_service_buckets', service, jsonb_build_object('bucket_count', bucket_count), request_id, timeout);
END;
$$;
COMMENT ON FUNCTION alter_service_buckets(text, integer, uuid, interval) IS
	'submits another division of a service, into buckets 1 to bucket_count, and returns the procedure''s id. A table belongs to another bucket then: nobody '
	'owns any until all have let go; after that the old owners have what is left of theirs, under new versions, and the sweep gives the others away. '
	'request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 it has none, AM401 a procedure works on them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION alter_service_buckets(text, integer, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_service_buckets(service text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_service_buckets('drop_service_buckets', service, '{}', request_id, timeout)$$;
COMMENT ON FUNCTION drop_service_buckets(text, uuid, interval) IS
	'submits the end of the buckets of a service and returns the procedure''s id; it is done when nobody thinks any more that he owns one. '
	'request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 it has none, AM401 a procedure works on them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_service_buckets(text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION balance_buckets() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	submission record;
	submitted bigint := 0;
BEGIN
	PERFORM amoro_meta.require_read_committed('balance buckets');
	-- where there is nothing to give away nothing is written: its commit would wait for a standby that is gone
	FOR target IN SELECT s.service_id, s.service FROM amoro_meta.bucket_service s ORDER BY s.service_id LOOP
		CONTINUE WHEN NOT EXISTS (SELECT FROM amoro_meta.planned_buckets(target.service_id));
		PERFORM FROM amoro_meta.bucket_service s WHERE s.service_id = target.service_id FOR NO KEY UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND OR EXISTS
			(SELECT FROM amoro_meta.procedure_claim c WHERE c.object_kind = 'bucket' AND c.catalog_name = target.service);
		SELECT * INTO submission FROM amoro_meta.begin_procedure('balance_buckets', target.service, NULL, NULL, '[]', NULL, NULL);
		PERFORM amoro_meta.claim_name(submission.procedure_id, 'bucket', target.service, '', '');
		PERFORM amoro_meta.set_procedure_object(submission.procedure_id, target.service_id, '{}');
		submitted := submitted + 1;
	END LOOP;
	RETURN submitted;
END;
$$;
COMMENT ON FUNCTION balance_buckets() IS
	'submits a procedure for every service some buckets of which should have another owner: nobody owns them, the owner was removed, has been out of touch '
	'for amoro_meta.node_offline_timeout or has started again, or live nodes have numbers that differ by more than one. Returns how many; '
	'the coordinator calls it every amoro_meta.assignment_interval. Errors: AM005, 25000 not READ COMMITTED, 25006';
REVOKE ALL ON FUNCTION balance_buckets() FROM PUBLIC;

-- The steps; src/extension/partition/bucket_action.c logs what they return. Who asserts a bucket just now keeps it for the time being.
CREATE FUNCTION amoro_meta.release_buckets(procedure_id bigint, service_id bigint) RETURNS SETOF integer
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH planned AS MATERIALIZED (SELECT * FROM amoro_meta.planned_buckets(service_id)),
	free AS MATERIALIZED
		(SELECT b.bucket, p.node_id, p.incarnation FROM planned p JOIN amoro_meta.service_bucket b ON b.bucket = p.bucket
		 WHERE b.service_id = release_buckets.service_id AND b.state = 'normal' FOR NO KEY UPDATE OF b SKIP LOCKED)
	UPDATE amoro_meta.service_bucket b
		SET state = 'releasing', procedure_id = release_buckets.procedure_id, next_node_id = f.node_id, next_incarnation = f.incarnation
		FROM free f WHERE b.service_id = release_buckets.service_id AND b.bucket = f.bucket
		RETURNING b.bucket
	$$;
COMMENT ON FUNCTION amoro_meta.release_buckets(bigint, bigint) IS 'marks the buckets that are to have another owner, and returns them';
REVOKE ALL ON FUNCTION amoro_meta.release_buckets(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.hand_over_buckets(procedure_id bigint, version bigint) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
	handed AS
		(UPDATE amoro_meta.service_bucket b
		 SET (node_id, incarnation) = (SELECT n.node_id, n.incarnation FROM amoro_meta.node n
									   WHERE n.node_id = b.next_node_id AND n.incarnation = b.next_incarnation AND NOT n.removing),
			next_node_id = NULL, next_incarnation = NULL, state = 'normal', procedure_id = NULL,
			version = hand_over_buckets.version, owned_since = t.now
		 FROM t
		 WHERE b.procedure_id = hand_over_buckets.procedure_id AND b.state = 'releasing'
		 RETURNING b.node_id)
	SELECT coalesce(bool_and(h.node_id IS NOT NULL), true) FROM handed h
	$$;
COMMENT ON FUNCTION amoro_meta.hand_over_buckets(bigint, bigint) IS
	'gives the buckets that a procedure has marked to their next owners; to nobody, and false then, where that process is no longer the node';
REVOKE ALL ON FUNCTION amoro_meta.hand_over_buckets(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION assert_bucket(service text, bucket integer, node_id bigint, incarnation uuid) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	present record;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('service', service), amoro_meta.check_not_null('bucket', bucket IS NOT NULL),
		amoro_meta.check_not_null('node_id', node_id IS NOT NULL), amoro_meta.check_not_null('incarnation', incarnation IS NOT NULL);
	IF EXISTS (SELECT FROM amoro_meta.node n WHERE n.node_id = assert_bucket.node_id AND n.registered_by <> amoro_meta.calling_role()) THEN
		RAISE EXCEPTION 'node % belongs to another role', node_id USING ERRCODE = 'insufficient_privilege';
	END IF;
	SELECT b.node_id, b.incarnation, b.state, b.version INTO present
		FROM amoro_meta.bucket_service s JOIN amoro_meta.service_bucket b USING (service_id)
		WHERE s.service = assert_bucket.service AND b.bucket = assert_bucket.bucket FOR SHARE OF b;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'service "%" has no bucket %', service, bucket USING ERRCODE = 'undefined_object';
	END IF;
	IF present.state <> 'normal' OR (present.node_id, present.incarnation) IS DISTINCT FROM (assert_bucket.node_id, assert_bucket.incarnation)
			OR NOT amoro_meta.is_owned(present.version) THEN
		RAISE EXCEPTION 'process % of node % does not own bucket % of service "%"', incarnation, node_id, bucket, service USING ERRCODE = 'AM602',
			DETAIL = CASE WHEN present.state <> 'normal' THEN format('Its state is "%s".', present.state)
				WHEN present.node_id IS NOT NULL AND NOT amoro_meta.is_owned(present.version)
					THEN 'Its owner is from before a failover; the leases of then may not be over.'
				ELSE coalesce((SELECT format('Node "%s" owns it.', n.node_name) FROM amoro_meta.node n WHERE n.node_id = present.node_id),
							  'Nobody owns it.') END,
			HINT = format('SELECT * FROM service_buckets WHERE service = %L AND bucket = %s', service, bucket);
	END IF;
	RETURN present.version;
END;
$$;
COMMENT ON FUNCTION assert_bucket(text, integer, bigint, uuid) IS
	'raises AM602 unless this process owns the bucket, and holds it to the end of the caller''s transaction; returns a number that grows with every '
	'owner of the bucket. Errors: AM602, 42704 no such bucket, 42501 node of another role, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION assert_bucket(text, integer, bigint, uuid) FROM PUBLIC;

-- The bucket of a table follows from its id: a table that is new, renamed or moved needs no step of its own.
CREATE FUNCTION tables_of_bucket(service text, bucket integer)
	RETURNS TABLE (catalog_name text, database_name text, table_name text, table_id bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	bucket_count integer;
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.check_not_null('bucket', bucket IS NOT NULL);
	SELECT s.bucket_count INTO bucket_count FROM amoro_meta.bucket_service s WHERE s.service = tables_of_bucket.service;
	IF NOT FOUND OR bucket NOT BETWEEN 1 AND bucket_count THEN
		RAISE EXCEPTION 'service "%" has no bucket %', service, bucket USING ERRCODE = 'undefined_object';
	END IF;
	RETURN QUERY
		SELECT t.catalog_name, t.database_name, t.table_name, t.table_id FROM @extschema@.tables t
		WHERE t.state <> 'pre_create' AND amoro_meta.slot_of_name(t.table_id::text, bucket_count) = bucket - 1;
END;
$$;
COMMENT ON FUNCTION tables_of_bucket(text, integer) IS
	'the tables whose optimizing belongs to a bucket of a service: that many in each, about, and each in one. Errors: 42704 no such bucket, 22004, 22023';
REVOKE ALL ON FUNCTION tables_of_bucket(text, integer) FROM PUBLIC;

CREATE VIEW service_buckets AS
	SELECT s.service, b.bucket, b.state, n.node_name, b.incarnation, x.node_name AS next_node_name, b.owned_since, b.version,
		CASE WHEN n.incarnation = b.incarnation THEN a.absent_since END AS absent_since, b.procedure_id
	FROM amoro_meta.bucket_service s JOIN amoro_meta.service_bucket b USING (service_id)
		LEFT JOIN amoro_meta.node n ON n.node_id = b.node_id LEFT JOIN amoro_meta.node x ON x.node_id = b.next_node_id
		LEFT JOIN amoro_meta.absent_node a ON a.node_id = b.node_id;
COMMENT ON VIEW service_buckets IS
	'buckets of services and the process that owns each; null: nobody. releasing: nobody owns it until node_name has surely let go, then next_node_name. '
	'absent_since: since when the owner holds no lease; it loses the bucket after amoro_meta.node_offline_timeout';

CREATE VIEW bucket_services AS
	SELECT s.service, s.node_kind, s.bucket_count, count(b.node_id) FILTER (WHERE b.state = 'normal') AS owned,
		count(*) FILTER (WHERE b.state = 'releasing') AS releasing, count(*) FILTER (WHERE b.state = 'normal' AND b.node_id IS NULL) AS unowned,
		count(DISTINCT b.node_id) AS owners
	FROM amoro_meta.bucket_service s JOIN amoro_meta.service_bucket b USING (service_id)
	GROUP BY s.service_id;
COMMENT ON VIEW bucket_services IS 'services whose work is divided into buckets, and how many of these have an owner';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest(ARRAY['reader', 'operator', 'admin', 'node']) k, unnest(ARRAY['service_buckets', 'bucket_services']) n
	UNION ALL
	SELECT k, 'function', 'tables_of_bucket' FROM unnest(ARRAY['reader', 'operator', 'admin', 'node']) k
	UNION ALL
	SELECT 'node', 'function', 'assert_bucket'
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k,
		unnest(ARRAY['create_service_buckets', 'alter_service_buckets', 'drop_service_buckets', 'balance_buckets', 'note_absent_nodes']) n;
