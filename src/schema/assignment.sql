/* Which nodes may be given work: buckets of a service, slots of a database. */

CREATE FUNCTION amoro_meta.planned_assignment(slot_count integer, replica_count integer, slots integer[], nodes bigint[], fixed integer[],
											  receiving bigint[], keeping bigint[], move boolean)
	RETURNS TABLE (slot integer, node_ids bigint[])
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_planned_assignment';
COMMENT ON FUNCTION amoro_meta.planned_assignment(integer, integer, integer[], bigint[], integer[], bigint[], bigint[], boolean) IS
	'the slots (from 0 on) that are to have other nodes than they have, and which. slots and nodes say who has what, row by row; fixed ones '
	'stay as they are. Nodes that receive end with numbers that differ by at most one, as far as that goes without (move: with) taking '
	'slots from nodes that have them; those that keep are given none; all others lose theirs. Errors: 22004, 22023';
REVOKE ALL ON FUNCTION amoro_meta.planned_assignment(integer, integer, integer[], bigint[], integer[], bigint[], bigint[], boolean) FROM PUBLIC;

-- The time at which a sweep missed a node first. A term begins with every start of the server: nobody could be in touch before.
CREATE TABLE amoro_meta.absent_node
(
	node_id			bigint PRIMARY KEY,
	absent_since	timestamptz NOT NULL,
	term			bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.absent_node IS 'registered nodes that hold no lease, and since when that is known, in the term in which it was seen';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.absent_node', '');

CREATE FUNCTION amoro_meta.live_nodes() RETURNS TABLE (node_id bigint)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT n.node_id FROM amoro_meta.node_slots(0) s JOIN amoro_meta.node n ON n.node_id = s.node_id AND n.incarnation = s.incarnation
	WHERE s.is_current AND s.state = 'active' AND s.lease_owed_for IS NOT NULL
	$$;
COMMENT ON FUNCTION amoro_meta.live_nodes() IS 'registered nodes whose current process holds a lease';
REVOKE ALL ON FUNCTION amoro_meta.live_nodes() FROM PUBLIC;

-- A sweep of its own, which waits for no standby: were a note lost, the time of grace would begin anew.
CREATE FUNCTION note_absent_nodes() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	live bigint[];
	current_term bigint;
	gone bigint;
	missed bigint;
BEGIN
	PERFORM amoro_meta.require_read_committed('note absent nodes');
	-- one at a time, and nobody waits for the other; where no buckets are to be given to others nobody asks
	IF NOT EXISTS (SELECT FROM amoro_meta.bucket_service) OR NOT pg_try_advisory_xact_lock(1095565317, 0) THEN
		RETURN 0;
	END IF;
	live := coalesce((SELECT array_agg(l.node_id) FROM amoro_meta.live_nodes() l), '{}');
	current_term := amoro_meta.current_term();
	DELETE FROM amoro_meta.absent_node a
		WHERE a.node_id = ANY (live) OR NOT EXISTS (SELECT FROM amoro_meta.node n WHERE n.node_id = a.node_id);
	GET DIAGNOSTICS gone = ROW_COUNT;
	INSERT INTO amoro_meta.absent_node AS a (node_id, absent_since, term)
		SELECT n.node_id, clock_timestamp(), current_term FROM amoro_meta.node n
		WHERE n.node_id <> ALL (live)
			AND NOT EXISTS (SELECT FROM amoro_meta.absent_node a WHERE a.node_id = n.node_id AND a.term = current_term)
		ON CONFLICT (node_id) DO UPDATE SET absent_since = excluded.absent_since, term = excluded.term;
	GET DIAGNOSTICS missed = ROW_COUNT;
	RETURN gone + missed;
END;
$$;
COMMENT ON FUNCTION note_absent_nodes() IS
	'where services have buckets, writes down since when registered nodes hold no lease, for amoro_meta.node_offline_timeout, and returns how many notes '
	'came or went; the coordinator calls it every amoro_meta.assignment_interval. Errors: 25000 not READ COMMITTED, 25006';
REVOKE ALL ON FUNCTION note_absent_nodes() FROM PUBLIC;

CREATE FUNCTION amoro_meta.assignable_nodes(node_kind text) RETURNS TABLE (node_id bigint, incarnation uuid, receives boolean, offline boolean)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	-- first of all: this loads the library, which defines the setting
	current_term bigint := amoro_meta.current_term();
	latest timestamptz := clock_timestamp() - current_setting('amoro_meta.node_offline_timeout')::interval;
BEGIN
	RETURN QUERY
		SELECT n.node_id, n.incarnation, l.node_id IS NOT NULL,
			l.node_id IS NULL AND coalesce(a.term = current_term AND a.absent_since <= latest, false)
		FROM amoro_meta.node n LEFT JOIN amoro_meta.live_nodes() l USING (node_id) LEFT JOIN amoro_meta.absent_node a USING (node_id)
		WHERE n.node_kind = assignable_nodes.node_kind AND NOT n.removing;
END;
$$;
COMMENT ON FUNCTION amoro_meta.assignable_nodes(text) IS
	'registered nodes of a kind that are not being removed. receives: it holds a lease; offline: it has held none for amoro_meta.node_offline_timeout';
REVOKE ALL ON FUNCTION amoro_meta.assignable_nodes(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.slot_of_name(name text, slot_count integer) RETURNS integer
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT (((get_byte(h.digest, 0)::bigint << 24) + (get_byte(h.digest, 1) << 16) + (get_byte(h.digest, 2) << 8) + get_byte(h.digest, 3))
			% slot_count)::integer
	FROM (SELECT sha256(convert_to(name, 'UTF8'))) h (digest)
	$$;
COMMENT ON FUNCTION amoro_meta.slot_of_name(text, integer) IS
	'which of slot_count slots, from 0 on, a name belongs to: the first four bytes of the SHA-256 of its UTF-8, most significant first, modulo slot_count';
REVOKE ALL ON FUNCTION amoro_meta.slot_of_name(text, integer) FROM PUBLIC;
