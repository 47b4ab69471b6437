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
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
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
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
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
	SELECT k, 'function', 'partition_slot' FROM unnest(ARRAY['reader', 'operator', 'admin', 'node']) k;
