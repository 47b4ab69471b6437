/* Partitions: the slots of a database, and the nodes that have each. */

CREATE TABLE amoro_meta.partition_set
(
	database_id		bigint PRIMARY KEY,
	slot_count		integer NOT NULL CHECK (slot_count BETWEEN 1 AND 10000),
	replica_count	integer NOT NULL CHECK (replica_count BETWEEN 1 AND 16),
	node_kind		text NOT NULL
);
COMMENT ON TABLE amoro_meta.partition_set IS 'databases that are divided into slots: how many, on how many nodes each, of which kind';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.partition_set', '');

CREATE TABLE amoro_meta.partition
(
	database_id		bigint NOT NULL,
	slot			integer NOT NULL,
	node_ids		bigint[] NOT NULL,		-- in their order
	next_node_ids	bigint[],
	state			text NOT NULL CHECK (state IN ('normal', 'releasing', 'pre_drop')),
	procedure_id	bigint,
	version			bigint NOT NULL,
	PRIMARY KEY (database_id, slot),
	CHECK ((state = 'normal') = (procedure_id IS NULL)),
	CHECK ((next_node_ids IS NOT NULL) = (state = 'releasing'))
);
COMMENT ON TABLE amoro_meta.partition IS
	'slots and the nodes that have them. releasing: those that are not among next_node_ids let go, those that are new there get it once they surely have';
CREATE INDEX partition_procedure_id ON amoro_meta.partition (procedure_id) WHERE procedure_id IS NOT NULL;
-- nodes look a slot up by its name
CREATE UNIQUE INDEX partition_name ON amoro_meta.partition (database_id, (slot::text));
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.partition', '');

CREATE FUNCTION amoro_meta.node_names(node_ids bigint[]) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT coalesce(array_agg(n.node_name ORDER BY n.node_name), '{}') FROM amoro_meta.node n WHERE n.node_id = ANY (node_ids)$$;
COMMENT ON FUNCTION amoro_meta.node_names(bigint[]) IS 'names of those of the nodes that are registered';
REVOKE ALL ON FUNCTION amoro_meta.node_names(bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.without(left_ids bigint[], right_ids bigint[]) RETURNS bigint[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT coalesce(array_agg(i ORDER BY i), '{}') FROM unnest(left_ids) i WHERE i <> ALL (coalesce(right_ids, '{}'))$$;
COMMENT ON FUNCTION amoro_meta.without(bigint[], bigint[]) IS 'the first ids without the second ones, in their order';
REVOKE ALL ON FUNCTION amoro_meta.without(bigint[], bigint[]) FROM PUBLIC;

-- While a slot moves only those nodes have it that had it before and keep it.
CREATE VIEW amoro_meta.partition_object AS
	SELECT 'partition' AS kind, c.catalog_name, d.database_name, p.slot::text AS object_name, p.database_id AS object_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE p.state END AS state, p.version,
		json_build_object('catalog', c.catalog_name, 'database', d.database_name, 'slot', p.slot, 'slot_count', s.slot_count, 'state', p.state,
			'nodes', amoro_meta.node_names(amoro_meta.without(p.node_ids,
				CASE WHEN p.state = 'releasing' THEN amoro_meta.without(p.node_ids, p.next_node_ids) END)),
			'leaving', amoro_meta.node_names(CASE WHEN p.state = 'releasing' THEN amoro_meta.without(p.node_ids, p.next_node_ids) END),
			'joining', amoro_meta.node_names(amoro_meta.without(p.next_node_ids, p.node_ids)), 'version', p.version)::text AS document
	FROM amoro_meta.catalog c JOIN amoro_meta.database d USING (catalog_id) JOIN amoro_meta.partition_set s USING (database_id)
		JOIN amoro_meta.partition p USING (database_id);
COMMENT ON VIEW amoro_meta.partition_object IS 'slots as nodes load them';

CREATE FUNCTION amoro_meta.planned_partitions(database_id bigint, move boolean, replica_count integer DEFAULT NULL)
	RETURNS TABLE (slot integer, node_ids bigint[])
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.partition_set := (SELECT s FROM amoro_meta.partition_set s WHERE s.database_id = planned_partitions.database_id);
	placed record;
	receiving bigint[];
	keeping bigint[];
BEGIN
	-- what is moving counts where it goes
	SELECT coalesce(array_agg(p.slot) FILTER (WHERE i.node_id IS NOT NULL), '{}') AS slots,
			coalesce(array_agg(i.node_id) FILTER (WHERE i.node_id IS NOT NULL), '{}') AS nodes,
			coalesce(array_agg(DISTINCT p.slot) FILTER (WHERE p.state <> 'normal'), '{}') AS fixed INTO placed
		FROM amoro_meta.partition p LEFT JOIN LATERAL unnest(coalesce(p.next_node_ids, p.node_ids)) i (node_id) ON true
		WHERE p.database_id = planned_partitions.database_id;
	SELECT coalesce(array_agg(n.node_id) FILTER (WHERE n.receives), '{}'), coalesce(array_agg(n.node_id) FILTER (WHERE NOT n.receives), '{}')
		INTO receiving, keeping FROM amoro_meta.assignable_nodes(target.node_kind) n;
	RETURN QUERY SELECT m.slot, m.node_ids
		FROM amoro_meta.planned_assignment(target.slot_count, coalesce(planned_partitions.replica_count, target.replica_count), placed.slots,
			placed.nodes, placed.fixed, receiving, keeping, move) m
		WHERE target.database_id IS NOT NULL;
END;
$$;
COMMENT ON FUNCTION amoro_meta.planned_partitions(bigint, boolean, integer) IS
	'slots of a database that are to have other nodes: without move only those that lack some, have too many, or have one that was removed; '
	'replica_count: as if they should have so many';
REVOKE ALL ON FUNCTION amoro_meta.planned_partitions(bigint, boolean, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_replica_count(replica_count integer) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('replica_count', replica_count IS NOT NULL);
	IF replica_count NOT BETWEEN 1 AND 16 THEN
		RAISE EXCEPTION 'replica_count is out of range: %', replica_count USING ERRCODE = 'invalid_parameter_value',
			HINT = 'A slot is on 1 to 16 nodes.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_replica_count(integer) IS 'raises 22004 or 22023 unless a slot may be on so many nodes';
REVOKE ALL ON FUNCTION amoro_meta.check_replica_count(integer) FROM PUBLIC;

CREATE FUNCTION create_partitions(catalog_name text, database_name text, slot_count integer DEFAULT 1000, replica_count integer DEFAULT 1,
								  node_kind text DEFAULT 'node', request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_name('database_name', database_name),
		amoro_meta.check_name('node_kind', node_kind), amoro_meta.check_not_null('slot_count', slot_count IS NOT NULL);
	IF slot_count NOT BETWEEN 1 AND 10000 THEN
		RAISE EXCEPTION 'slot_count is out of range: %', slot_count USING ERRCODE = 'invalid_parameter_value',
			HINT = 'A database has 1 to 10000 slots.';
	END IF;
	PERFORM amoro_meta.check_replica_count(replica_count);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_partitions', catalog_name, database_name, NULL,
		jsonb_build_array(catalog_name, database_name, slot_count, replica_count, node_kind), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'partition', catalog_name, database_name, '');
	parent := amoro_meta.lock_parent_database(catalog_name, database_name);
	PERFORM amoro_meta.require_database(parent, catalog_name, database_name);
	IF EXISTS (SELECT FROM amoro_meta.partition_set s WHERE s.database_id = parent) THEN
		RAISE EXCEPTION 'database "%"."%" has partitions already', catalog_name, database_name USING ERRCODE = 'duplicate_object';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, parent,
		jsonb_build_object('slot_count', slot_count, 'replica_count', replica_count, 'node_kind', node_kind));
END;
$$;
COMMENT ON FUNCTION create_partitions(text, text, integer, integer, text, uuid, interval) IS
	'submits the division of a database into slots 0 to slot_count - 1, each on replica_count nodes of a kind, in equal shares of those that are live, '
	'and returns the procedure''s id. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, 42710 it has partitions, AM401 a procedure works on them or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_partitions(text, text, integer, integer, text, uuid, interval) FROM PUBLIC;

-- Shared by those who move single slots; repair_partitions locks it for itself before it claims, so that neither waits for the other.
CREATE FUNCTION amoro_meta.lock_partitions(catalog_name text, database_name text, whole boolean) RETURNS amoro_meta.partition_set
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	parent bigint := amoro_meta.lock_parent_database(catalog_name, database_name);
	target amoro_meta.partition_set;
BEGIN
	PERFORM amoro_meta.require_database(parent, catalog_name, database_name);
	IF whole THEN
		SELECT * INTO target FROM amoro_meta.partition_set s WHERE s.database_id = parent FOR NO KEY UPDATE;
	ELSE
		SELECT * INTO target FROM amoro_meta.partition_set s WHERE s.database_id = parent FOR KEY SHARE;
	END IF;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'database "%"."%" has no partitions', catalog_name, database_name USING ERRCODE = 'undefined_object';
	END IF;
	RETURN target;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_partitions(text, text, boolean) IS
	'the partitions of a database, locked to the end of the transaction; raises 42704 where there are none, AM401 when a procedure works on the database';
REVOKE ALL ON FUNCTION amoro_meta.lock_partitions(text, text, boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_node(node_name text) RETURNS amoro_meta.node
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	node amoro_meta.node;
BEGIN
	SELECT * INTO node FROM amoro_meta.node n WHERE n.node_name = require_node.node_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'node "%" is unknown', node_name USING ERRCODE = 'AM002';
	END IF;
	RETURN node;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_node(text) IS 'the node of a name; raises AM002 when there is none';
REVOKE ALL ON FUNCTION amoro_meta.require_node(text) FROM PUBLIC;

CREATE FUNCTION move_partition(catalog_name text, database_name text, slot integer, from_node_name text, to_node_name text,
							   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target amoro_meta.partition_set;
	from_node amoro_meta.node;
	to_node amoro_meta.node;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_name('database_name', database_name),
		amoro_meta.check_not_null('slot', slot IS NOT NULL), amoro_meta.check_name('from_node_name', from_node_name),
		amoro_meta.check_name('to_node_name', to_node_name);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('move_partition', catalog_name, database_name, slot::text,
		jsonb_build_array(catalog_name, database_name, slot, from_node_name, to_node_name), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'partition', catalog_name, database_name, slot::text);
	target := amoro_meta.lock_partitions(catalog_name, database_name, false);
	IF slot NOT BETWEEN 0 AND target.slot_count - 1 THEN
		RAISE EXCEPTION 'database "%"."%" has no slot %', catalog_name, database_name, slot USING ERRCODE = 'undefined_object',
			DETAIL = format('Its slots are numbered from 0 to %s.', target.slot_count - 1);
	END IF;
	from_node := amoro_meta.require_node(from_node_name);
	to_node := amoro_meta.require_node(to_node_name);
	IF to_node.node_kind <> target.node_kind THEN
		RAISE EXCEPTION 'node "%" is not of kind "%"', to_node_name, target.node_kind USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('It is of kind "%s".', to_node.node_kind);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.database_id,
		jsonb_build_object('slot', slot, 'from_node_id', from_node.node_id, 'to_node_id', to_node.node_id, 'from_node_name', from_node_name,
						   'to_node_name', to_node_name));
END;
$$;
COMMENT ON FUNCTION move_partition(text, text, integer, text, text, uuid, interval) IS
	'submits the move of a slot of a database from one node to another and returns the procedure''s id. The new node gets it once every node has heard '
	'that the old one lets go, or surely serves nothing. request_id: a retry with the same one returns the same procedure. timeout: rolled back after '
	'it, as it is when from_node_name does not have the slot, or to_node_name has it. '
	'Errors: 42704 no such database or slot, or no partitions, AM002 unknown node, AM401 a procedure works on the slot or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION move_partition(text, text, integer, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_partitions(kind text, catalog_name text, database_name text, given jsonb, request_id uuid, timeout interval)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target amoro_meta.partition_set;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_name('database_name', database_name);
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, catalog_name, database_name, NULL,
		jsonb_build_array(catalog_name, database_name, given), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	target := amoro_meta.lock_partitions(catalog_name, database_name, true);
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'partition', catalog_name, database_name, '');
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.database_id, given);
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_partitions(text, text, text, jsonb, uuid, interval) IS
	'what the submissions on all slots of a database have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_partitions(text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION balance_partitions(catalog_name text, database_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_partitions('balance_partitions', catalog_name, database_name, '{"move": true}', request_id, timeout)$$;
COMMENT ON FUNCTION balance_partitions(text, text, uuid, interval) IS
	'submits moves of slots of a database, as few as possible, after which the numbers of live nodes differ by at most one, and returns the procedure''s id. '
	'Slots that are being moved stay as they are. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, or no partitions, AM401 a procedure works on them or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION balance_partitions(text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION alter_partitions(catalog_name text, database_name text, replica_count integer, request_id uuid DEFAULT NULL,
								 timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_replica_count(replica_count);
	RETURN amoro_meta.submit_partitions('alter_partitions', catalog_name, database_name,
		jsonb_build_object('move', false, 'replica_count', replica_count), request_id, timeout);
END;
$$;
COMMENT ON FUNCTION alter_partitions(text, text, integer, uuid, interval) IS
	'submits that each slot of a database is on another number of nodes and returns the procedure''s id. Slots that get a node get one of those that '
	'have fewest; where one has to go it is the one that has most; nothing else moves. The number of slots stays: which slot a name belongs to follows '
	'from it. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it, as it is when a slot is being moved. '
	'Errors: 42704 no such database, or no partitions, AM401 a procedure works on them or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION alter_partitions(text, text, integer, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_partitions(catalog_name text, database_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_partitions('drop_partitions', catalog_name, database_name, '{}', request_id, timeout)$$;
COMMENT ON FUNCTION drop_partitions(text, text, uuid, interval) IS
	'submits the end of the division of a database into slots and returns the procedure''s id. request_id: a retry with the same one returns the same '
	'procedure. timeout: rolled back after it, as it is when a slot is being moved. '
	'Errors: 42704 no such database, or no partitions, AM401 a procedure works on them or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_partitions(text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION repair_partitions() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	submission record;
	submitted bigint := 0;
BEGIN
	PERFORM amoro_meta.require_read_committed('repair partitions');
	FOR target IN SELECT s.database_id, c.catalog_name, d.database_name
		FROM amoro_meta.partition_set s JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		ORDER BY s.database_id
	LOOP
		CONTINUE WHEN NOT EXISTS (SELECT FROM amoro_meta.planned_partitions(target.database_id, false));
		PERFORM FROM amoro_meta.database d WHERE d.database_id = target.database_id AND d.state = 'normal' FOR KEY SHARE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		PERFORM FROM amoro_meta.partition_set s WHERE s.database_id = target.database_id FOR NO KEY UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND OR EXISTS
			(SELECT FROM amoro_meta.procedure_claim c WHERE c.object_kind IN ('partition', 'database')
				AND c.catalog_name = target.catalog_name AND c.database_name = target.database_name AND c.object_name = '');
		SELECT * INTO submission FROM amoro_meta.begin_procedure('balance_partitions', target.catalog_name, target.database_name, NULL, '[]', NULL, NULL);
		PERFORM amoro_meta.claim_name(submission.procedure_id, 'partition', target.catalog_name, target.database_name, '');
		PERFORM amoro_meta.set_procedure_object(submission.procedure_id, target.database_id, '{"move": false}');
		submitted := submitted + 1;
	END LOOP;
	RETURN submitted;
END;
$$;
COMMENT ON FUNCTION repair_partitions() IS
	'submits a procedure for every database with slots that have fewer nodes than they should and could, or one that was removed: only these slots get other '
	'nodes. Returns how many; the coordinator calls it every amoro_meta.assignment_interval. Errors: AM005, 25000 not READ COMMITTED, 25006';
REVOKE ALL ON FUNCTION repair_partitions() FROM PUBLIC;

-- The steps; src/extension/partition/partition_action.c logs what they return.
CREATE FUNCTION amoro_meta.release_partition(procedure_id bigint, database_id bigint, slot integer, from_node_id bigint,
											 from_node_name text, to_node_id bigint, to_node_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.partition;
BEGIN
	SELECT * INTO target FROM amoro_meta.partition p
		WHERE p.database_id = release_partition.database_id AND p.slot = release_partition.slot FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there are no partitions any more' USING ERRCODE = 'undefined_object';
	ELSIF target.state <> 'normal' THEN
		PERFORM amoro_meta.raise_in_transition('partition', format('"%s"', slot), target.procedure_id);
	ELSIF NOT from_node_id = ANY (target.node_ids) THEN
		RAISE EXCEPTION 'node "%" does not have slot %', from_node_name, slot USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Nodes %s have it.', amoro_meta.node_names(target.node_ids));
	ELSIF to_node_id = ANY (target.node_ids) THEN
		RAISE EXCEPTION 'node "%" has slot % already', to_node_name, slot USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Nodes %s have it.', amoro_meta.node_names(target.node_ids));
	ELSIF NOT EXISTS (SELECT FROM amoro_meta.node n WHERE n.node_id = release_partition.to_node_id AND NOT n.removing) THEN
		RAISE EXCEPTION 'node "%" does not exist any more, or is being removed', to_node_name USING ERRCODE = 'undefined_object';
	END IF;
	UPDATE amoro_meta.partition p
		SET state = 'releasing', procedure_id = release_partition.procedure_id,
			next_node_ids = amoro_meta.without(target.node_ids || to_node_id, ARRAY[from_node_id])
		WHERE p.database_id = release_partition.database_id AND p.slot = release_partition.slot;
END;
$$;
COMMENT ON FUNCTION amoro_meta.release_partition(bigint, bigint, integer, bigint, text, bigint, text) IS
	'marks a slot that is to go from one node to another';
REVOKE ALL ON FUNCTION amoro_meta.release_partition(bigint, bigint, integer, bigint, text, bigint, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.release_partitions(procedure_id bigint, database_id bigint, move boolean, replica_count integer) RETURNS SETOF integer
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH planned AS MATERIALIZED (SELECT * FROM amoro_meta.planned_partitions(database_id, move, replica_count))
	UPDATE amoro_meta.partition p
		SET state = 'releasing', procedure_id = release_partitions.procedure_id, next_node_ids = l.node_ids
		FROM planned l WHERE p.database_id = release_partitions.database_id AND p.slot = l.slot AND p.state = 'normal'
		RETURNING p.slot
	$$;
COMMENT ON FUNCTION amoro_meta.release_partitions(bigint, bigint, boolean, integer) IS 'marks the slots that are to have other nodes, and returns them';
REVOKE ALL ON FUNCTION amoro_meta.release_partitions(bigint, bigint, boolean, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.hand_over_partitions(procedure_id bigint, version bigint) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH handed AS
		(UPDATE amoro_meta.partition p
		 SET node_ids = amoro_meta.without(p.next_node_ids, g.ids), next_node_ids = NULL, state = 'normal', procedure_id = NULL,
			version = hand_over_partitions.version
		 FROM (SELECT coalesce(array_agg(i.id), '{}') FROM
				(SELECT DISTINCT unnest(m.next_node_ids) AS id FROM amoro_meta.partition m WHERE m.procedure_id = hand_over_partitions.procedure_id) i
			   WHERE NOT EXISTS (SELECT FROM amoro_meta.node n WHERE n.node_id = i.id AND NOT n.removing)) g (ids)
		 WHERE p.procedure_id = hand_over_partitions.procedure_id AND p.state = 'releasing'
		 RETURNING g.ids = '{}' AS complete)
	SELECT coalesce(bool_and(h.complete), true) FROM handed h
	$$;
COMMENT ON FUNCTION amoro_meta.hand_over_partitions(bigint, bigint) IS
	'gives the slots that a procedure has marked to their next nodes; false when one of these was removed meanwhile, and is left out';
REVOKE ALL ON FUNCTION amoro_meta.hand_over_partitions(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION partition_slot(catalog_name text, database_name text, name text) RETURNS integer
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	slot_count integer;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_name('database_name', database_name),
		amoro_meta.check_not_null('name', name IS NOT NULL);
	SELECT s.slot_count INTO slot_count
		FROM amoro_meta.partition_set s JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE c.catalog_name = partition_slot.catalog_name AND d.database_name = partition_slot.database_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'database "%"."%" has no partitions', catalog_name, database_name USING ERRCODE = 'undefined_object';
	END IF;
	RETURN amoro_meta.slot_of_name(name, slot_count);
END;
$$;
COMMENT ON FUNCTION partition_slot(text, text, text) IS
	'the slot of a database that a name, say the path of a device, belongs to: the first four bytes of the SHA-256 of its UTF-8, most significant first, '
	'modulo slot_count. Errors: 42704 no partitions, 22004, 22023';
REVOKE ALL ON FUNCTION partition_slot(text, text, text) FROM PUBLIC;

CREATE VIEW partitions AS
	SELECT c.catalog_name, d.database_name, p.slot, p.state,
		ARRAY(SELECT n.node_name FROM amoro_meta.node n WHERE n.node_id = ANY (p.node_ids) ORDER BY 1) AS node_names,
		CASE WHEN p.state = 'releasing'
			THEN ARRAY(SELECT n.node_name FROM amoro_meta.node n WHERE n.node_id = ANY (p.next_node_ids) ORDER BY 1) END AS next_node_names,
		p.version, p.procedure_id
	FROM amoro_meta.catalog c JOIN amoro_meta.database d USING (catalog_id) JOIN amoro_meta.partition p USING (database_id);
COMMENT ON VIEW partitions IS
	'slots of databases and the nodes that have them. releasing: nodes that are not among next_node_names let go, those that are new there get it when they surely have';

CREATE VIEW partitioned_databases AS
	SELECT c.catalog_name, d.database_name, s.slot_count, s.replica_count, s.node_kind,
		(SELECT count(*) FROM amoro_meta.partition p WHERE p.database_id = s.database_id AND p.state = 'releasing') AS releasing,
		(SELECT count(*) FROM amoro_meta.partition p
		 WHERE p.database_id = s.database_id AND cardinality(p.node_ids) < s.replica_count) AS lacking
	FROM amoro_meta.partition_set s JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW partitioned_databases IS
	'databases that are divided into slots, how many of these are moving, and how many lack nodes: there were not enough live ones';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest(ARRAY['reader', 'operator', 'admin']) k, unnest(ARRAY['partitions', 'partitioned_databases']) n
	UNION ALL
	SELECT k, 'function', 'partition_slot' FROM unnest(ARRAY['reader', 'operator', 'admin', 'node']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k,
		unnest(ARRAY['create_partitions', 'move_partition', 'balance_partitions', 'alter_partitions', 'drop_partitions', 'repair_partitions']) n;
