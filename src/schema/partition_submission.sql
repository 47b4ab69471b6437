/* Submissions of procedures on the partitions of databases: made, moved, balanced, altered, dropped, and repaired by a sweep. */

CREATE FUNCTION amoro_meta.check_replica_count(replica_count integer) RETURNS void
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.check_count('replica_count', replica_count, 16, 'A slot is on 1 to 16 nodes.')$$;
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
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('node_kind', node_kind);
	PERFORM amoro_meta.check_count('slot_count', slot_count, 10000, 'A database has 1 to 10000 slots.'), amoro_meta.check_replica_count(replica_count);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_partitions', catalog_name, database_name, NULL,
		jsonb_build_array(catalog_name, database_name, slot_count, replica_count, node_kind), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'partition', catalog_name, database_name, '');
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
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
	parent bigint := amoro_meta.require_parent_database(catalog_name, database_name);
	target amoro_meta.partition_set;
BEGIN
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
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
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
	PERFORM amoro_meta.check_database_names(catalog_name, database_name);
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

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k,
		unnest(ARRAY['create_partitions', 'move_partition', 'balance_partitions', 'alter_partitions', 'drop_partitions', 'repair_partitions']) n;
