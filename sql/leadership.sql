-- Leadership: one node leads a service, for as long as it holds its lease; and every way to get it wrong.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
DROP EXTENSION IF EXISTS amoro_meta CASCADE;
-- however slow the machine is, no lease ends in here by itself (test/t has those that do)
ALTER SYSTEM SET amoro_meta.metadata_lease_fence_ms = '10 min';
SELECT pg_reload_conf();
CREATE EXTENSION amoro_meta;
DO $$
BEGIN
	WHILE amoro_meta.current_term() = 0 OR current_setting('amoro_meta.metadata_lease_fence_ms') <> '10min' LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
	-- leases are made of the settings that the coordinator has published
	WHILE (SELECT longest_lease_us FROM amoro_meta.coordinator) < 600000000 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
CREATE ROLE regress_leader_a;
CREATE ROLE regress_leader_b;
CREATE ROLE regress_leader_writer;
CREATE ROLE regress_leader_reader;
SELECT grant_access('regress_leader_a', 'node'), grant_access('regress_leader_a', 'writer'), grant_access('regress_leader_b', 'writer'), grant_access('regress_leader_b', 'node'), grant_access('regress_leader_writer', 'writer'),
	grant_access('regress_leader_reader', 'reader');
GRANT regress_leader_a TO regress_leader_writer;
\set a '\'aaaaaaaa-0000-0000-0000-000000000001\''
\set b '\'bbbbbbbb-0000-0000-0000-000000000001\''
\set b2 '\'bbbbbbbb-0000-0000-0000-000000000002\''
-- what differs from run to run is compared, not printed
\set shown 'leader, token IS NOT NULL AS token, g.term = :term AS term, lease_epoch, leader_name, leader_endpoint, retry_after > \'0\' AND retry_after < \'601 s\' AS retry, reason'
SET SESSION AUTHORIZATION regress_leader_a;
SELECT node_id AS node_a, term FROM register_node('a', :a, endpoint => 'http://a:1') \gset
-- who has registered only holds no lease yet
SELECT :shown FROM acquire_leadership('s', :node_a, :a) g;
SELECT answer FROM activate_node(:node_a, :a, :term, 1, (SELECT metadata_version FROM node_heartbeat(:node_a, :a, :term, 1, 0)));
SELECT :shown FROM acquire_leadership('s', :node_a, :a) g;
SELECT token AS token_a FROM acquire_leadership('s', :node_a, :a) \gset
-- asked again by its leader: the same
SELECT leader, token = :token_a AS same FROM acquire_leadership('s', :node_a, :a);
SELECT node_name, node_id = :node_a AS node, endpoint, incarnation, token = :token_a AS token, lease_owed_for BETWEEN '590 s' AND '601 s' AS owed FROM current_leader('s');
SELECT assert_leadership('s', :token_a) = :token_a AS asserted;
-- one node may lead several services, each with a token of its own
SELECT leader, token > :token_a AS greater FROM acquire_leadership('another', :node_a, :a);
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_leader_b;
SELECT node_id AS node_b FROM register_node('b', :b) \gset
SELECT answer FROM node_heartbeat(:node_b, :b, :term, 1, 0);
RESET SESSION AUTHORIZATION;
-- whatever the coordinator has announced meanwhile
CREATE FUNCTION pg_temp.activate(node_id bigint, incarnation uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer node_grant;
BEGIN
	FOR i IN 1..1000 LOOP
		answer := node_heartbeat(node_id, incarnation, amoro_meta.current_term(), 0, 0);
		answer := activate_node(node_id, incarnation, answer.term, answer.lease_epoch, answer.metadata_version);
		EXIT WHEN answer.answer = 'granted';
	END LOOP;
	RETURN answer.answer;
END;
$$;
GRANT EXECUTE ON FUNCTION amoro_meta.current_term() TO regress_leader_a, regress_leader_b;
GRANT USAGE ON SCHEMA amoro_meta TO regress_leader_a, regress_leader_b;
SET SESSION AUTHORIZATION regress_leader_b;
SELECT pg_temp.activate(:node_b, :b);
-- no pre-emption; a refusal says who leads
SELECT :shown FROM acquire_leadership('s', :node_b, :b) g;
SELECT release_leadership('s', :node_b, :b, :token_a);
-- not with somebody else's node, nor for its sake
SELECT acquire_leadership('s', :node_a, :a);
SELECT release_leadership('s', :node_a, :a, :token_a);
SELECT assert_leadership('s', :token_a);
RESET SESSION AUTHORIZATION;
SELECT acquire_leadership('s', :node_a, :a);
SET SESSION AUTHORIZATION regress_leader_writer;
-- who has the privileges of the node's role writes for its leader
SELECT assert_leadership('s', :token_a) = :token_a AS asserted;
\set VERBOSITY terse
SELECT assert_leadership('another', :token_a);
\set VERBOSITY default
SELECT assert_leadership('nobody', 1);
SELECT acquire_leadership('s', :node_a, :a);
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_leader_reader;
SELECT service, state, node_name, endpoint, released_at, lease_owed_for > '0' AS owed FROM leaders ORDER BY service;
SELECT node_name FROM current_leader('s');
SELECT assert_leadership('s', 1);
SELECT * FROM amoro_meta.leadership;
RESET SESSION AUTHORIZATION;
-- observers are told in the metadata log
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM amoro_meta.leadership_news) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SELECT object_kind, operation, catalog_name, database_name, table_name, object_id = :token_a AS first FROM metadata_changes(0) ORDER BY version;

-- released: another one leads at once, with a greater token; the old one has nothing to release any more
SET SESSION AUTHORIZATION regress_leader_a;
SELECT release_leadership('s', :node_a, :a, :token_a + 1), release_leadership('s', :node_a, :a, :token_a), release_leadership('s', :node_a, :a, :token_a),
	release_leadership('never', :node_a, :a, :token_a);
\set VERBOSITY terse
SELECT assert_leadership('s', :token_a);
SELECT current_leader('s');
SELECT current_leader('never');
\set VERBOSITY default
RESET SESSION AUTHORIZATION;
SELECT state, released_at IS NOT NULL AS released, lease_owed_for FROM leaders WHERE service = 's';
SET SESSION AUTHORIZATION regress_leader_b;
SELECT pg_temp.activate(:node_b, :b);
SELECT leader, token > :token_a AS greater FROM acquire_leadership('s', :node_b, :b);
SELECT token AS token_b FROM acquire_leadership('s', :node_b, :b) \gset
SELECT node_name FROM current_leader('s');
-- the node released its lease without a word about the service: it is free all the same
SELECT release_node(:node_b, :b);
SELECT leader, reason FROM acquire_leadership('s', :node_b, :b);
SELECT answer FROM register_node('b', :b);
SELECT :shown FROM acquire_leadership('s', :node_b, :b) g;
RESET SESSION AUTHORIZATION;
SELECT state, node_name FROM leaders WHERE service = 's';
SET SESSION AUTHORIZATION regress_leader_a;
SELECT pg_temp.activate(:node_a, :a);
SELECT token AS token_a2, token > :token_b AS greater FROM acquire_leadership('s', :node_a, :a) \gset
\echo :greater
RESET SESSION AUTHORIZATION;

-- a process that is gone leads until its lease is over, not its successor of the same name; then the name says nothing of it
SET SESSION AUTHORIZATION regress_leader_b;
SELECT pg_temp.activate(:node_b, :b);
SELECT leader AS led FROM acquire_leadership('b service', :node_b, :b);
SELECT answer FROM register_node('b', :b2);
SELECT pg_temp.activate(:node_b, :b2);
SELECT leader, leader_name, retry_after BETWEEN '1 ms' AND '601 s' AS retry, reason FROM acquire_leadership('b service', :node_b, :b2);
SELECT acquire_leadership('b service', :node_b, 'bbbbbbbb-0000-0000-0000-000000000009');
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_leader_a;

-- rolled back: nothing of it
BEGIN;
SELECT leader FROM acquire_leadership('rolled back', :node_a, :a);
SELECT assert_leadership('rolled back', token) > 0 AS asserted FROM current_leader('rolled back');
ROLLBACK;
SELECT count(*) FROM leaders WHERE service = 'rolled back';
-- in a subtransaction, and in all levels of isolation
BEGIN ISOLATION LEVEL SERIALIZABLE;
SAVEPOINT one;
SELECT leader FROM acquire_leadership('serial', :node_a, :a);
ROLLBACK TO one;
SELECT leader FROM acquire_leadership('serial', :node_a, :a);
SELECT leader FROM acquire_leadership('serial', :node_a, :a);
SELECT node_name FROM current_leader('serial');
SELECT release_leadership('serial', :node_a, :a, token) FROM current_leader('serial');
COMMIT;
BEGIN READ ONLY;
SELECT acquire_leadership('read only', :node_a, :a);
ROLLBACK;
BEGIN;
SELECT leader FROM acquire_leadership('prepared', :node_a, :a);
PREPARE TRANSACTION 'leader';
ROLLBACK PREPARED 'leader';

-- bad input changes nothing; any name that a person can read is a name
\set VERBOSITY sqlstate
SELECT acquire_leadership(NULL, :node_a, :a);
SELECT acquire_leadership('', :node_a, :a);
SELECT acquire_leadership(repeat('x', 256), :node_a, :a);
SELECT acquire_leadership(E'line\nfeed', :node_a, :a);
SELECT acquire_leadership('s', NULL, :a);
SELECT acquire_leadership('s', :node_a, NULL);
SELECT acquire_leadership('s', -1, :a);
SELECT acquire_leadership('s', :node_a, 'bbbbbbbb-0000-0000-0000-000000000009');
SELECT release_leadership(NULL, :node_a, :a, 1);
SELECT release_leadership('s', NULL, :a, 1);
SELECT release_leadership('s', :node_a, :a, NULL);
SELECT current_leader(NULL);
SELECT current_leader('');
SELECT current_leader(repeat('x', 10000));
SELECT assert_leadership(NULL, 1);
SELECT assert_leadership('s', NULL);
SELECT assert_leadership('s', -9223372036854775808);
SELECT assert_leadership('''; DROP TABLE x; --', 1);
\set VERBOSITY default
SELECT leader FROM acquire_leadership(repeat('ä', 255), :node_a, :a);
SELECT leader FROM acquire_leadership('a/b ''quoted'' "twice" \ 日本', :node_a, :a);
RESET SESSION AUTHORIZATION;
SELECT service, state FROM leaders WHERE service !~ '^s$' AND length(service) < 100 ORDER BY service COLLATE "C";

-- a node that is being removed takes no lead, and keeps what it has until its lease is over
SELECT remove_node('a') AS procedure \gset
DO $$
BEGIN
	WHILE (SELECT s.state FROM node_status s WHERE s.node_name = 'a') <> 'leaving' LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SET SESSION AUTHORIZATION regress_leader_a;
SELECT leader, reason FROM acquire_leadership('new', :node_a, :a);
SELECT leader FROM acquire_leadership('s', :node_a, :a);
SELECT release_node(:node_a, :a);
RESET SESSION AUTHORIZATION;
SELECT wait_for_procedure(:procedure);
SELECT state, node_name, node_id = :node_a AS node FROM leaders WHERE service = 's';
\set VERBOSITY terse
SELECT current_leader('s');
\set VERBOSITY default
-- those that nobody has led for long are forgotten
SELECT announce_leaders() >= 0 AS told;
SELECT count(*) > 0 AS there FROM amoro_meta.leadership;
UPDATE amoro_meta.leadership SET acquired_at = '2020-01-01', released_at = CASE WHEN released_at IS NOT NULL THEN timestamptz '2020-01-01' END;
SELECT announce_leaders() >= 0 AS told;
SELECT service, state FROM leaders ORDER BY service;
DROP EXTENSION amoro_meta CASCADE;
ALTER SYSTEM RESET amoro_meta.metadata_lease_fence_ms;
SELECT pg_reload_conf();
DROP ROLE regress_leader_a, regress_leader_b, regress_leader_writer, regress_leader_reader;
