-- Buckets of services and partitions of databases, as one session sees them: what is accepted and refused, who gets what.
\set ECHO none
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
-- on a busy machine two seconds may pass between two statements; a lease is waited for once
ALTER SYSTEM SET amoro_meta.metadata_lease_fence_ms = '6s';
SELECT pg_reload_conf();
CREATE EXTENSION amoro_meta;
DO $$
BEGIN
	WHILE current_setting('amoro_meta.metadata_lease_fence_ms') <> '6s' OR (SELECT state FROM amoro_stat_coordinator WHERE datname = current_database()) IS DISTINCT FROM 'running'
			OR NOT EXISTS (SELECT FROM amoro_meta.identity) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SET statement_timeout = '60 s';
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
	hint text;
BEGIN
	EXECUTE 'SELECT ' || statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, regexp_replace(concat_ws(' | ', SQLERRM, nullif(detail, ''), nullif(hint, '')), '(procedure|node) \d+', '\1 N', 'gi'));
END;
$$;
-- Waits until nothing is in flight; heartbeats that know everything are sent meanwhile for every node that holds a lease.
CREATE PROCEDURE pg_temp.settle() LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		PERFORM node_heartbeat(s.node_id, s.incarnation, c.term, s.lease_epoch, s.metadata_version)
			FROM node_status s, amoro_stat_coordinator c
			WHERE s.current AND s.lease_owed_for IS NOT NULL AND c.datname = current_database();
		EXIT WHEN NOT EXISTS (SELECT FROM procedures WHERE outcome IS NULL);
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
-- submits, waits for the end, tells it
CREATE PROCEDURE pg_temp.run(statement text, INOUT result text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	EXECUTE 'SELECT ' || statement INTO id;
	COMMIT;
	CALL pg_temp.settle();
	SELECT concat_ws(' | ', p.outcome, p.error_code, p.error_message, p.error_detail) INTO result FROM procedure_status(id) p;
END;
$$;
CREATE PROCEDURE pg_temp.balance() LANGUAGE plpgsql AS $$
BEGIN
	-- the coordinator may be at it as well, and then one of the two has nothing to do
	LOOP
		PERFORM note_absent_nodes(), balance_buckets();
		COMMIT;
		CALL pg_temp.settle();
		EXIT WHEN NOT EXISTS (SELECT FROM amoro_meta.bucket_service s, amoro_meta.planned_buckets(s.service_id));
	END LOOP;
END;
$$;
-- a node that holds a lease; the incarnation is that of its name and a number
CREATE PROCEDURE pg_temp.node(name text, number integer DEFAULT 1, kind text DEFAULT 'worker') LANGUAGE plpgsql AS $$
BEGIN
	PERFORM register_node(name, md5(name || number)::uuid, kind);
	COMMIT;
	PERFORM activate_node(s.node_id, s.incarnation, c.term, s.lease_epoch, s.metadata_version)
		FROM node_status s, amoro_stat_coordinator c WHERE s.node_name = name AND s.current AND c.datname = current_database();
END;
$$;
CREATE FUNCTION pg_temp.owns(service text, bucket integer, name text, number integer DEFAULT 1) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.attempt(format('assert_bucket(%L, %L, %s, %L) > 0', service, bucket, (SELECT node_id FROM nodes WHERE node_name = name), md5(name || number)::uuid))
	$$;
CREATE TEMP VIEW shares AS
	SELECT service, coalesce(node_name, 'nobody') AS owner, count(*), array_agg(bucket ORDER BY bucket) AS buckets
	FROM service_buckets WHERE state = 'normal' GROUP BY 1, 2;
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- nobody is there who could own them
CALL pg_temp.run($$create_service_buckets('optimizing', 7, 'worker')$$);
SELECT * FROM shares;
SELECT * FROM bucket_services;
-- two are: equal shares
CALL pg_temp.node('n1');
CALL pg_temp.node('n2');
CALL pg_temp.node('other', kind => 'node');
CALL pg_temp.balance();
SELECT balance_buckets();
SELECT * FROM shares ORDER BY 1, 2;
SELECT * FROM bucket_services;
-- a third one: no more than its share moves
CREATE TEMP TABLE older AS SELECT bucket, node_name FROM service_buckets;
CALL pg_temp.node('n3');
CALL pg_temp.balance();
SELECT owner, count FROM shares ORDER BY 1;
SELECT count(*), min(b.node_name), max(b.node_name) FROM service_buckets b JOIN older o USING (bucket) WHERE b.node_name <> o.node_name;
-- a node that starts again is another process: the older one owns nothing any more, the newer one not before that is sure
SELECT bucket AS one FROM service_buckets WHERE node_name = 'n2' ORDER BY bucket LIMIT 1 \gset
SELECT pg_temp.owns('optimizing', :one, 'n2');
CALL pg_temp.node('n2', 2);
SELECT left(pg_temp.owns('optimizing', :one, 'n2', 2), 5);
CALL pg_temp.balance();
CALL pg_temp.settle();
SELECT pg_temp.owns('optimizing', :one, 'n2'), pg_temp.owns('optimizing', :one, 'n2', 2);
SELECT owner, count FROM shares ORDER BY 1;
-- what nodes load of it: the library reads its beginning
SELECT substr(document, 1, 61) = format('{"owner_incarnation" : "%s"', md5('n22')::uuid), state FROM metadata_lookup('bucket', 'optimizing', :'one');
SELECT regexp_replace(regexp_replace(document, '"owner_incarnation" : "[^"]*"', ''), '"version" : \d+', '') FROM metadata_lookup('bucket', 'optimizing', :'one');
SELECT found FROM metadata_lookup('bucket', 'optimizing', '07') UNION ALL SELECT found FROM metadata_lookup('bucket', 'optimizing', '8')
	UNION ALL SELECT found FROM metadata_lookup('bucket', 'another', '1');
SELECT count(*), count(DISTINCT database_name) FROM metadata_snapshot('bucket');
-- two owners cannot be written down
INSERT INTO amoro_meta.service_bucket SELECT (b).* FROM amoro_meta.service_bucket b LIMIT 1;
UPDATE amoro_meta.service_bucket SET incarnation = NULL;
-- a number that grows with every owner
SELECT b.version > 0, assert_bucket('optimizing', b.bucket, n.node_id, n.incarnation) = b.version FROM service_buckets b JOIN nodes n USING (node_name) WHERE bucket = :one;
-- a node that is out of touch keeps what it has, for a time; the others share what is free
SELECT count(*) AS kept FROM service_buckets WHERE node_name = 'n3' \gset
SELECT release_node(node_id, incarnation) FROM nodes WHERE node_name = 'n3';
CALL pg_temp.node('n4');
CALL pg_temp.balance();
SELECT count(*) = :kept AS kept, bool_and(absent_since IS NOT NULL) AS absent FROM service_buckets WHERE node_name = 'n3';
SELECT max(count) - min(count) <= 1 FROM shares WHERE owner <> 'n3';
-- then no more
UPDATE amoro_meta.absent_node SET absent_since = absent_since - interval '6 min';
CALL pg_temp.balance();
SELECT owner, count FROM shares ORDER BY 1;
-- it comes back: its share again
CALL pg_temp.node('n3', 2);
CALL pg_temp.balance();
SELECT owner, count FROM shares ORDER BY 1;
-- one that is removed loses all at once
CALL pg_temp.run($$remove_node('n4')$$);
CALL pg_temp.balance();
CALL pg_temp.settle();
SELECT owner, count FROM shares ORDER BY 1;
-- of another timeline: nobody owns it before the leases of then are over
SELECT min(bucket) AS one FROM service_buckets WHERE node_name = 'n2' \gset
UPDATE amoro_meta.service_bucket SET version = 0 WHERE bucket = :one;
SELECT pg_temp.owns('optimizing', :one, 'n2', 2);
SELECT substr(document, 1, 28) FROM metadata_lookup('bucket', 'optimizing', :'one');
CALL pg_temp.balance();
SELECT pg_temp.owns('optimizing', :one, 'n2', 2);

-- while it changes hands it is nobody's: neither its owner's, nor the next one's
BEGIN;
UPDATE amoro_meta.service_bucket b SET state = 'releasing', procedure_id = -1, next_node_id = n.node_id, next_incarnation = n.incarnation
	FROM amoro_meta.node n WHERE n.node_name = 'n1' AND b.bucket = :one;
SELECT pg_temp.owns('optimizing', :one, 'n2', 2);
SELECT substr(document, 1, 28), document LIKE '%"owner" : null, "previous_owner" : "n2", "next_owner" : "n1"%' FROM metadata_lookup('bucket', 'optimizing', :'one');
-- then the next one's; unless that process is no longer the node, or is about to go
SAVEPOINT released;
SELECT amoro_meta.hand_over_buckets(-1, 99);
SELECT state, node_name, version, owned_since <= clock_timestamp() FROM service_buckets WHERE bucket = :one;
ROLLBACK TO released;
UPDATE amoro_meta.node SET removing = true WHERE node_name = 'n1';
SELECT amoro_meta.hand_over_buckets(-1, 99);
SELECT state, node_name, incarnation, version FROM service_buckets WHERE bucket = :one;
ROLLBACK TO released;
UPDATE amoro_meta.node SET incarnation = md5('another')::uuid WHERE node_name = 'n1';
SELECT amoro_meta.hand_over_buckets(-1, 99);
SELECT state, node_name, incarnation, version FROM service_buckets WHERE bucket = :one;
ROLLBACK;

-- tables: each is in one bucket
SELECT create_catalog('lake') > 0;
CALL pg_temp.run($$create_database('lake', 'd')$$);
DO $$BEGIN FOR i IN 1 .. 40 LOOP PERFORM create_table('lake', 'd', 't' || i, '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}'); END LOOP; END$$;
CALL pg_temp.settle();
SELECT count(*), count(DISTINCT t.table_id), count(DISTINCT b) FROM generate_series(1, 7) b, tables_of_bucket('optimizing', b) t;

-- another number of buckets: who had one that is left has it again, under a new number; each table is in one bucket
CREATE TEMP TABLE earlier AS SELECT bucket, node_name, version FROM service_buckets;
CALL pg_temp.run($$alter_service_buckets('optimizing', 9)$$);
CALL pg_temp.balance();
CALL pg_temp.settle();
SELECT service, owned, releasing, unowned FROM bucket_services;
SELECT count(*) FILTER (WHERE b.node_name = e.node_name) >= 6 AS kept, bool_and(b.version > e.version) AS renumbered FROM service_buckets b JOIN earlier e USING (bucket);
SELECT max(count) - min(count) <= 1 AS equal FROM shares;
SELECT count(*), count(DISTINCT t.table_id), count(DISTINCT b) FROM generate_series(1, 9) b, tables_of_bucket('optimizing', b) t;
SELECT pg_temp.attempt($$tables_of_bucket('optimizing', 10)$$);
CALL pg_temp.run($$alter_service_buckets('optimizing', 7)$$);
CALL pg_temp.balance();
CALL pg_temp.settle();
SELECT service, bucket_count, owned, releasing, unowned FROM bucket_services;
SELECT array_agg(bucket ORDER BY bucket) FROM service_buckets;
SELECT found FROM metadata_lookup('bucket', 'optimizing', '8');

-- refusals; nothing is changed
SELECT count(*) AS procedures FROM procedures \gset
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[
	$$create_service_buckets('optimizing')$$,
	$$create_service_buckets(NULL)$$, $$create_service_buckets('')$$, $$create_service_buckets(repeat('x', 10000))$$, $$create_service_buckets(E'a\nb')$$,
	$$create_service_buckets('s', 0)$$, $$create_service_buckets('s', 10001)$$, $$create_service_buckets('s', NULL)$$, $$create_service_buckets('s', 1, '')$$,
	$$create_service_buckets('s', timeout => '-1 s')$$,
	$$drop_service_buckets('s')$$, $$drop_service_buckets(NULL)$$,
	$$alter_service_buckets('s', 1)$$, $$alter_service_buckets(NULL, 1)$$, $$alter_service_buckets('optimizing', NULL)$$, $$alter_service_buckets('optimizing', 0)$$,
	$$alter_partitions('lake', 'd', 1)$$, $$alter_partitions('lake', 'd', NULL)$$, $$alter_partitions('lake', 'd', 17)$$, $$alter_partitions('lake', NULL, 1)$$,
	$$tables_of_bucket('s', 1)$$, $$tables_of_bucket('optimizing', 0)$$, $$tables_of_bucket('optimizing', 8)$$, $$tables_of_bucket('optimizing', NULL)$$,
	$$assert_bucket('s', 1, 1, md5('')::uuid)$$, $$assert_bucket('optimizing', 8, 1, md5('')::uuid)$$, $$assert_bucket('optimizing', NULL, 1, md5('')::uuid)$$,
	$$assert_bucket('optimizing', 1, NULL, md5('')::uuid)$$, $$assert_bucket('optimizing', 1, 1, NULL)$$,
	$$metadata_lookup('bucket', 'optimizing')$$, $$metadata_lookup('bucket', 'optimizing', '1', 'x')$$,
	$$create_partitions('lake', 'none')$$, $$create_partitions('none', 'd')$$, $$create_partitions(NULL, 'd')$$, $$create_partitions('lake', '')$$,
	$$create_partitions('lake', 'd', 0)$$, $$create_partitions('lake', 'd', 10001)$$, $$create_partitions('lake', 'd', 1, 0)$$, $$create_partitions('lake', 'd', 1, 17)$$,
	$$create_partitions('lake', 'd', 1, 1, NULL)$$, $$move_partition('lake', 'd', 0, 'n1', 'n2')$$, $$balance_partitions('lake', 'd')$$,
	$$drop_partitions('lake', 'd')$$, $$partition_slot('lake', 'd', 'x')$$]) WITH ORDINALITY u (s, i) ORDER BY i;
SELECT count(*) - :procedures FROM procedures;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.attempt('balance_buckets()'), pg_temp.attempt('repair_partitions()');
ROLLBACK;
-- a retry is the same; with other arguments it is refused
CREATE TEMP TABLE first AS SELECT create_service_buckets('s', 3, 'nobody', request_id => md5('r')::uuid) AS id;
SELECT create_service_buckets('s', 3, 'nobody', request_id => md5('r')::uuid) = id FROM first;
SELECT pg_temp.attempt($$create_service_buckets('s', 4, 'nobody', request_id => md5('r')::uuid)$$);
CALL pg_temp.settle();
-- one after the other
BEGIN;
SELECT drop_service_buckets('s') > 0;
SELECT pg_temp.attempt($$drop_service_buckets('s')$$) LIKE 'AM401 | bucket "s" is in transition%';
SELECT pg_temp.attempt($$create_service_buckets('s')$$) LIKE 'AM401%';
COMMIT;
CALL pg_temp.settle();
SELECT count(*) FROM service_buckets WHERE service = 's';
SELECT operation, database_name FROM amoro_meta.change WHERE object_kind = 'bucket' AND catalog_name = 's' ORDER BY version;

-- partitions: each slot on two of three nodes
CALL pg_temp.run($$create_partitions('lake', 'd', 6, 2, 'worker')$$);
SELECT slot, state, node_names FROM partitions ORDER BY slot;
SELECT * FROM partitioned_databases;
SELECT pg_temp.attempt($$create_partitions('lake', 'd')$$);
SELECT regexp_replace(document, '"version" : \d+', '') FROM metadata_lookup('partition', 'lake', 'd', '5');
SELECT found FROM metadata_lookup('partition', 'lake', 'd', '6') UNION ALL SELECT found FROM metadata_lookup('partition', 'lake', 'd', '05');
SELECT count(*) FROM metadata_snapshot('partition');
SELECT partition_slot('lake', 'd', 'root.site1.turbine7'), min(partition_slot('lake', 'd', i::text)), max(partition_slot('lake', 'd', i::text)) FROM generate_series(1, 100) i;
-- moves: what is refused at once, and what a step finds out
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[
	$$move_partition('lake', 'd', 6, 'n1', 'n2')$$, $$move_partition('lake', 'd', -1, 'n1', 'n2')$$, $$move_partition('lake', 'd', NULL, 'n1', 'n2')$$,
	$$move_partition('lake', 'd', 0, 'none', 'n2')$$, $$move_partition('lake', 'd', 0, 'n1', 'none')$$, $$move_partition('lake', 'd', 0, 'n1', 'other')$$,
	$$partition_slot('lake', 'd', NULL)$$]) WITH ORDINALITY u (s, i) ORDER BY i;
SELECT node_names[1] AS has, node_names[2] AS also, (SELECT min(node_name) FROM nodes WHERE node_kind = 'worker' AND node_name <> ALL (node_names)) AS lacks
	FROM partitions WHERE slot = 0 \gset
CALL pg_temp.run(format($$move_partition('lake', 'd', 0, %L, %L)$$, :'lacks', :'has'));
CALL pg_temp.run(format($$move_partition('lake', 'd', 0, %L, %L)$$, :'has', :'also'));
CALL pg_temp.run(format($$move_partition('lake', 'd', 0, %L, %L)$$, :'has', :'lacks'));
SELECT node_names FROM partitions WHERE slot = 0;
-- that is unequal by one; by two after another one, and then balanced by moving one back
SELECT min(slot) AS slot FROM partitions WHERE slot > 0 AND :'has' = ANY (node_names) AND :'lacks' <> ALL (node_names) \gset
CALL pg_temp.run(format($$move_partition('lake', 'd', %s, %L, %L)$$, :slot, :'has', :'lacks'));
SELECT n, count(*) FROM partitions, unnest(node_names) n GROUP BY n ORDER BY n;
CREATE TEMP TABLE before AS SELECT slot, node_names FROM partitions;
CALL pg_temp.run($$balance_partitions('lake', 'd')$$);
SELECT n, count(*) FROM partitions, unnest(node_names) n GROUP BY n ORDER BY n;
SELECT count(*) AS moved FROM partitions p JOIN before b USING (slot) WHERE p.node_names <> b.node_names;
-- another number of nodes for each slot: more, as far as there are; fewer, and those keep it that have fewest
CREATE TEMP TABLE two AS SELECT slot, node_names, version FROM partitions;
CALL pg_temp.run($$alter_partitions('lake', 'd', 4)$$);
SELECT DISTINCT node_names FROM partitions;
SELECT slot_count, replica_count, releasing, lacking FROM partitioned_databases;
CALL pg_temp.run($$alter_partitions('lake', 'd', 1)$$);
SELECT n, count(*) FROM partitions, unnest(node_names) n GROUP BY n ORDER BY n;
CALL pg_temp.run($$alter_partitions('lake', 'd', 2)$$);
SELECT n, count(*) FROM partitions, unnest(node_names) n GROUP BY n ORDER BY n;
SELECT bool_and(p.version > t.version) FROM partitions p JOIN two t USING (slot);
-- nothing else moves; and it waits for whoever moves a slot
CREATE TEMP TABLE unmoved AS SELECT slot, node_names, version FROM partitions;
CALL pg_temp.run($$alter_partitions('lake', 'd', 2)$$);
SELECT count(*) FROM partitions p JOIN unmoved u USING (slot, node_names, version);
UPDATE amoro_meta.partition SET state = 'releasing', next_node_ids = node_ids, procedure_id = 1 WHERE slot = 3;
SELECT alter_partitions('lake', 'd', 3) AS refused \gset
CALL pg_temp.settle();
SELECT outcome, error_code, error_message, error_detail FROM procedure_status(:refused);
SELECT drop_partitions('lake', 'd') AS refused \gset
CALL pg_temp.settle();
SELECT outcome, error_code, error_message, error_detail FROM procedure_status(:refused);
UPDATE amoro_meta.partition SET state = 'normal', next_node_ids = NULL, procedure_id = NULL WHERE slot = 3;
SELECT replica_count, count(*) FROM partitioned_databases, partitions WHERE partitions.state = 'normal' GROUP BY 1;
-- what moves counts where it goes: one too many there, one too few here
SELECT count(*) FROM databases d, amoro_meta.planned_partitions(d.database_id, true);
BEGIN;
UPDATE amoro_meta.partition SET state = 'releasing', procedure_id = -1, next_node_ids = amoro_meta.without(node_ids, node_ids[1:1]) || n.node_id
	FROM amoro_meta.node n WHERE slot = 0 AND n.node_kind = 'worker' AND n.node_id <> ALL (node_ids);
SELECT count(*) > 0 AS unequal, bool_and(slot <> 0) AS others FROM databases d, amoro_meta.planned_partitions(d.database_id, true);
-- meanwhile only those have it that had it before and keep it
SELECT json_array_length(document::json->'nodes'), json_array_length(document::json->'leaving'), json_array_length(document::json->'joining'), state
	FROM metadata_lookup('partition', 'lake', 'd', '0');
-- a next node that is about to go gets nothing
UPDATE amoro_meta.node n SET removing = true FROM amoro_meta.partition p WHERE p.slot = 0 AND n.node_id = ANY (p.next_node_ids) AND n.node_id <> ALL (p.node_ids);
SELECT amoro_meta.hand_over_partitions(-1, 99);
SELECT state, cardinality(node_ids), next_node_ids, version FROM amoro_meta.partition WHERE slot = 0;
ROLLBACK;
-- a node out of touch keeps its slots; one that is removed does not
SELECT release_node(node_id, incarnation) FROM nodes WHERE node_name = 'n3';
SELECT repair_partitions();
CALL pg_temp.run($$remove_node('n3')$$);
SELECT repair_partitions() >= 0;
CALL pg_temp.settle();
SELECT node_names, count(*) FROM partitions GROUP BY 1;
-- nodes that have a document with its name forget it
SELECT p.object_name, c.object_kind, c.catalog_name, c.database_name, c.table_name FROM amoro_meta.change c JOIN amoro_meta.procedure p USING (procedure_id)
	WHERE c.operation = 'leave' ORDER BY version, ordinal;
-- a database does not go while something is on with its partitions; then it takes them along
BEGIN;
SELECT move_partition('lake', 'd', 1, 'n1', 'n2') > 0;
SELECT pg_temp.attempt($$drop_database('lake', 'd', true)$$) LIKE 'AM401 | database "lake"."d" is in transition%';
SELECT pg_temp.attempt($$balance_partitions('lake', 'd')$$) ~ '^\d+$';
ROLLBACK;
BEGIN;
SELECT drop_database('lake', 'd', true) > 0;
SELECT pg_temp.attempt($$drop_partitions('lake', 'd')$$) LIKE 'AM401 | database "lake"."d" is in transition%';
COMMIT;
CALL pg_temp.settle();
SELECT (SELECT count(*) FROM amoro_meta.partition) AS slots, (SELECT count(*) FROM amoro_meta.partition_set) AS sets;
CALL pg_temp.run($$create_database('lake', 'd')$$);
CALL pg_temp.run($$create_partitions('lake', 'd', 3000, 1, 'nobody')$$);
SELECT * FROM partitioned_databases;
CALL pg_temp.run($$drop_partitions('lake', 'd')$$);
SELECT count(*) FROM partitions;

-- nothing is taken from anybody when there is nobody to give it to
SELECT count(*) FROM nodes n, release_node(n.node_id, n.incarnation);
SELECT note_absent_nodes() >= 0;
UPDATE amoro_meta.absent_node SET absent_since = absent_since - interval '6 min';
SELECT s.service, count(p.bucket) FROM amoro_meta.bucket_service s LEFT JOIN LATERAL amoro_meta.planned_buckets(s.service_id) p ON true GROUP BY 1;

-- whatever there is of it, a lookup reads one row through an index
INSERT INTO amoro_meta.bucket_service VALUES (1, 'many', 'nobody', 10000);
INSERT INTO amoro_meta.service_bucket (service_id, bucket, state, version) SELECT 1, i, 'normal', 1 FROM generate_series(1, 10000) i;
INSERT INTO amoro_meta.partition_set SELECT database_id, 10000, 1, 'nobody' FROM databases;
INSERT INTO amoro_meta.partition SELECT database_id, i, '{}', NULL, 'normal', NULL, 1 FROM databases, generate_series(0, 9999) i;
ANALYZE amoro_meta.service_bucket, amoro_meta.partition, amoro_meta.bucket_service, amoro_meta.partition_set;
CREATE FUNCTION pg_temp.scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'on (service_bucket|partition) ' THEN
			RETURN NEXT regexp_replace(line, '^[ >-]*', '');
		END IF;
	END LOOP;
END;
$$;
SELECT pg_temp.scans($$SELECT * FROM amoro_meta.bucket_object WHERE catalog_name = 'many' AND database_name = '77' AND object_name = ''$$);
SELECT pg_temp.scans($$SELECT * FROM amoro_meta.partition_object WHERE catalog_name = 'lake' AND database_name = 'd' AND object_name = '77'$$);
SELECT count(*), count(DISTINCT object_name) FROM metadata_snapshot_chunk('partition', max_rows => 10000) WHERE object_name IS NOT NULL;
DROP VIEW shares;
DROP EXTENSION amoro_meta;
ALTER SYSTEM RESET amoro_meta.metadata_lease_fence_ms;
SELECT pg_reload_conf();
