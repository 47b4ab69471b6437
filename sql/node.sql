-- Nodes: registration, heartbeat, activation, release, and every way to get them wrong.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
DROP EXTENSION IF EXISTS amoro_meta CASCADE;
CREATE EXTENSION amoro_meta;
DO $$
BEGIN
	WHILE amoro_meta.current_term() = 0 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
DROP ROLE IF EXISTS regress_node_a, regress_node_b, regress_node_reader;
CREATE ROLE regress_node_a;
CREATE ROLE regress_node_b;
CREATE ROLE regress_node_reader;
SELECT grant_access('regress_node_a', 'node'), grant_access('regress_node_b', 'node'), grant_access('regress_node_reader', 'reader');
\set a '\'aaaaaaaa-0000-0000-0000-000000000001\''
\set b '\'aaaaaaaa-0000-0000-0000-000000000002\''
\set unknown '\'aaaaaaaa-0000-0000-0000-000000000009\''
-- what differs from run to run is compared, not printed
\set shown 'answer, g.term = :term AS current_term, lease_epoch, lease_ms, max_clock_drift_ppm, heartbeat_interval_ms, metadata_version, reason'
SET SESSION AUTHORIZATION regress_node_a;

-- the ordinary way: register, load, activate, heartbeat, release
SELECT node_id, term FROM register_node('n1', :a, endpoint => 'http://n1:8080') \gset
SELECT :shown FROM register_node('n1', :a, endpoint => 'http://n1:8080') g;
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 1, 0) g;
SELECT :shown FROM activate_node(:node_id, :a, :term, 1, 0) g;
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 1, 0, detail => 'all is well') g;
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 1, 0, wait => '10 ms') g;
-- a timeout that is set for the role or the database fences nobody
SET statement_timeout = '1 s';
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 1, 0, wait => '5 s') g;
RESET statement_timeout;
-- both forms of the answer are the same
SELECT h.text::node_grant = g AS same FROM
	node_heartbeat_text(:node_id, :a, :term, 1, 0) AS h(text), node_heartbeat(:node_id, :a, :term, 1, 0) g;
SELECT (node_heartbeat_text(:node_id, :a, :term, 7, 0)::node_grant).reason;
-- an old epoch, an old term, a version from nowhere
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 7, 0) g;
SELECT :shown FROM node_heartbeat(:node_id, :a, 1, 1, 0) g;
SELECT :shown FROM activate_node(:node_id, :a, :term, 7, 0) g;
SELECT :shown FROM node_heartbeat(:node_id, :a, :term, 1, 5) g;
-- activating again with the epoch that is active is harmless
SELECT :shown FROM activate_node(:node_id, :a, :term, 1, 0) g;
RESET SESSION AUTHORIZATION;
SELECT node_name, node_kind, endpoint, registered_by, current, state, lease_owed_for > '0' AND lease_owed_for <= '2.202 s' AS owed,
	applied_version, metadata_version, behind, behind_for, last_heard < '1 s' AS heard, lease_epoch, heartbeats, fences, reason, detail
	FROM node_status;
SELECT node_name, state, heartbeats, fences FROM amoro_stat_node;
SELECT * FROM broadcast_verdict(0);
SET SESSION AUTHORIZATION regress_node_a;
SELECT release_node(:node_id, :a), release_node(:node_id, :a);
RESET SESSION AUTHORIZATION;
SELECT state, lease_owed_for, reason FROM node_status;
SET SESSION AUTHORIZATION regress_node_a;
-- what was released stays so until it is registered again; the epoch has moved on
SELECT node_heartbeat(:node_id, :a, :term, 1, 0);
SELECT activate_node(:node_id, :a, :term, 2, 0);
SELECT :shown FROM register_node('n1', :a, endpoint => 'http://n1:8080') g;
SELECT answer, lease_epoch FROM activate_node(:node_id, :a, :term, 1, 0);
SELECT answer, lease_epoch FROM activate_node(:node_id, :a, :term, 2, 0);

-- a newer process takes over; the older one is refused for good, but may release what it holds
SELECT :shown FROM register_node('n1', :b) g;
SELECT node_heartbeat(:node_id, :a, :term, 2, 0);
SELECT activate_node(:node_id, :a, :term, 2, 0);
SELECT register_node('n1', :a);
RESET SESSION AUTHORIZATION;
SELECT incarnation, current, state, lease_owed_for > '0' AS owed, reason FROM node_status ORDER BY 1;
SET SESSION AUTHORIZATION regress_node_a;
SELECT release_node(:node_id, :a);

-- who one is not
SELECT node_heartbeat(999999, :a, :term, 1, 0);
SELECT node_heartbeat(:node_id, :unknown, :term, 1, 0);
SELECT node_heartbeat(:node_id, :b, 4611686018427387904, 1, 0);
SELECT release_node(999999, :a);
SELECT release_node(:node_id, :unknown);
SET SESSION AUTHORIZATION regress_node_b;
SELECT node_heartbeat(:node_id, :b, :term, 1, 0);
SELECT activate_node(:node_id, :b, :term, 1, 0);
SELECT release_node(:node_id, :b);
SELECT register_node('n1', :unknown);
SELECT * FROM node_status;
SELECT broadcast_verdict(0);
SELECT * FROM amoro_meta.node;
SET SESSION AUTHORIZATION regress_node_reader;
SELECT count(*) FROM node_status;
SELECT verdict FROM broadcast_verdict(0);
SELECT register_node('n2', :unknown);
SELECT node_heartbeat(:node_id, :b, :term, 1, 0);
SELECT amoro_meta.attach_node(:node_id, :b);
RESET SESSION AUTHORIZATION;
-- the owner of the database is no node either, and a definer function lends nobody its owner's nodes
SELECT node_heartbeat(:node_id, :b, :term, 1, 0);
CREATE FUNCTION lend(bigint, uuid, bigint) RETURNS text SECURITY DEFINER LANGUAGE sql
	AS 'SELECT answer FROM node_heartbeat($1, $2, $3, 1, 0)';
ALTER FUNCTION lend OWNER TO regress_node_a;
SET SESSION AUTHORIZATION regress_node_b;
SELECT lend(:node_id, :b, :term);
RESET SESSION AUTHORIZATION;
DROP FUNCTION lend;
SET ROLE regress_node_a;
SELECT answer FROM activate_node(:node_id, :b, :term, 1, 0);
SELECT answer FROM node_heartbeat(:node_id, :b, :term, 1, 0);

-- nulls
\set VERBOSITY sqlstate
SELECT node_heartbeat(NULL, :b, :term, 1, 0);
SELECT node_heartbeat(:node_id, NULL, :term, 1, 0);
SELECT node_heartbeat(:node_id, :b, NULL, 1, 0);
SELECT node_heartbeat(:node_id, :b, :term, NULL, 0);
SELECT node_heartbeat(:node_id, :b, :term, 1, NULL);
SELECT node_heartbeat(:node_id, :b, :term, 1, 0, NULL);
SELECT activate_node(:node_id, :b, :term, 1, NULL);
SELECT release_node(:node_id, NULL);
SELECT register_node(NULL, :b);
SELECT register_node('n2', NULL);
SELECT register_node('n2', :b, NULL);
SELECT register_node('n2', :b, protocol_version => NULL);

-- values out of place
SELECT node_heartbeat(:node_id, :b, :term, 1, 0, '-1 ms');
SELECT node_heartbeat(:node_id, :b, :term, 1, 0, '5.000001 s');
SELECT node_heartbeat(:node_id, :b, :term, 1, 0, '1 month');
SELECT node_heartbeat(:node_id, :b, :term, 1, 0, '-178000000 years');
SELECT node_heartbeat(:node_id, :b, :term, 1, -1);
SELECT activate_node(:node_id, :b, :term, 1, -1);
SELECT answer, reason FROM activate_node(:node_id, :b, :term, 1, 9223372036854775807);
SELECT answer, reason FROM node_heartbeat(:node_id, :b, -9223372036854775808, -9223372036854775808, 0);
SELECT register_node('', :b);
SELECT register_node(repeat('x', 256), :b);
SELECT register_node(E'line\nfeed', :b);
SELECT register_node('n2', :b, '');
SELECT register_node('n2', :b, endpoint => repeat('x', 1025));
SELECT register_node('n2', :b, protocol_version => 2);
SELECT register_node('n2', :b, protocol_version => 2147483647);
RESET ROLE;
SELECT broadcast_verdict(-1);
SELECT broadcast_verdict(1);
SELECT broadcast_verdict(NULL);
\set VERBOSITY default

-- nobody publishes a version that is not committed, whatever it is said to be
SELECT count(*) FROM amoro_meta.node_slots(999999);
BEGIN;
UPDATE amoro_meta.metadata_version SET version = version + 1;
-- nor where a query could have parallel workers, which are not told of new snapshots
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SELECT count(*) > 0 AS answers FROM pg_class CROSS JOIN amoro_meta.node_slots((SELECT version FROM amoro_meta.metadata_version));
SELECT verdict FROM broadcast_verdict((SELECT version FROM amoro_meta.metadata_version));
ROLLBACK;
SELECT published_version = (SELECT version FROM amoro_meta.metadata_version) AS as_committed FROM amoro_stat_coordinator
	WHERE datname = current_database();

-- nothing of all that left a trace
SELECT node_name, incarnation FROM nodes;
SELECT count(*) FROM amoro_meta.superseded_incarnation;

-- names that only look odd, and two that differ after their 63rd byte
SELECT count(DISTINCT r.node_id) FROM unnest(ARRAY['a/b', E'it''s "q" %2F \\ {}', 'Ünïcödé 節点', '../..', '; DROP TABLE x; --',
	repeat('x', 63) || 'y', repeat('x', 63) || 'z', repeat('é', 255)]) WITH ORDINALITY AS n(name, i),
	LATERAL register_node(n.name, ('bbbbbbbb-0000-0000-0000-00000000000' || n.i)::uuid) r;
SELECT count(*), max(length(node_name)) FROM nodes;
-- what a node says of itself is cut between characters
SELECT node_id AS other FROM nodes WHERE node_name = 'a/b' \gset
SELECT answer FROM node_heartbeat(:other, 'bbbbbbbb-0000-0000-0000-000000000001', :term, 1, 0, detail => repeat('é', 10000));
SELECT length(detail), octet_length(detail) FROM node_status WHERE node_id = :other;
SELECT answer FROM node_heartbeat(:other, 'bbbbbbbb-0000-0000-0000-000000000001', :term, 1, 0);
SELECT detail IS NULL AS says_nothing FROM node_status WHERE node_id = :other;

-- transactions: rolled back, in a subtransaction, prepared, in any isolation level
BEGIN;
SELECT answer, reason FROM register_node('gone', 'cccccccc-0000-0000-0000-000000000001');
SELECT state, reason, current FROM node_status s WHERE incarnation = 'cccccccc-0000-0000-0000-000000000001';
-- a lease that only an uncommitted row speaks of could not be counted after a crash
SELECT a.answer, a.reason FROM nodes n, activate_node(n.node_id, n.incarnation, :term, 1, 0) a WHERE node_name = 'gone';
ROLLBACK;
SELECT count(*) FROM amoro_meta.node_slots(0) WHERE incarnation = 'cccccccc-0000-0000-0000-000000000001';
BEGIN;
SAVEPOINT s;
SELECT answer FROM register_node('gone', 'cccccccc-0000-0000-0000-000000000001');
ROLLBACK TO s;
SELECT count(*) FROM amoro_meta.node_slots(0) WHERE incarnation = 'cccccccc-0000-0000-0000-000000000001';
SAVEPOINT s;
SELECT answer FROM register_node('stays', 'cccccccc-0000-0000-0000-000000000002');
RELEASE s;
COMMIT;
SELECT state, current FROM node_status WHERE node_name = 'stays';
-- two in one transaction: the last one is current
BEGIN;
SELECT answer FROM register_node('twice', 'cccccccc-0000-0000-0000-000000000003');
SELECT answer FROM register_node('twice', 'cccccccc-0000-0000-0000-000000000004');
COMMIT;
SELECT incarnation FROM node_status WHERE node_name = 'twice' AND current;
SELECT n.node_id AS twice FROM nodes n WHERE node_name = 'twice' \gset
SELECT node_heartbeat(:twice, 'cccccccc-0000-0000-0000-000000000003', :term, 1, 0);
-- the older incarnation comes back when the newer one is rolled back
BEGIN;
SELECT answer FROM register_node('twice', 'cccccccc-0000-0000-0000-000000000005');
ROLLBACK;
SELECT answer FROM activate_node(:twice, 'cccccccc-0000-0000-0000-000000000004', :term, 1, 0);
BEGIN;
SELECT answer FROM register_node('prepared', 'cccccccc-0000-0000-0000-000000000006');
PREPARE TRANSACTION 'node';
SELECT count(*) FROM node_status WHERE node_name = 'prepared';
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT answer FROM register_node('serializable', 'cccccccc-0000-0000-0000-000000000007');
SELECT verdict FROM broadcast_verdict(0);
COMMIT;
SELECT state FROM node_status WHERE node_name = 'serializable';
BEGIN READ ONLY;
SELECT register_node('readonly', 'cccccccc-0000-0000-0000-000000000008');
ROLLBACK;
-- a heartbeat writes nothing, so it may be sent from any transaction
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT answer FROM node_heartbeat(:twice, 'cccccccc-0000-0000-0000-000000000004', :term, 1, 0);
COMMIT;
-- a snapshot of somebody else's objects in the way changes nothing
CREATE TEMP TABLE node (node_name text);
CREATE TEMP TABLE metadata_version (version bigint);
SELECT answer FROM register_node('shadow', 'cccccccc-0000-0000-0000-000000000009');
DROP TABLE pg_temp.node, pg_temp.metadata_version;

DROP EXTENSION amoro_meta;
DROP OWNED BY regress_node_a, regress_node_b, regress_node_reader;
DROP ROLE regress_node_a, regress_node_b, regress_node_reader;
