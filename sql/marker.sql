-- Markers: every object in transition, whose procedure it is, since when, and what that waits for.
\set ECHO none
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
DO $$
BEGIN
	WHILE (SELECT state FROM amoro_stat_coordinator WHERE datname = current_database()) IS DISTINCT FROM 'running'
			OR NOT EXISTS (SELECT FROM amoro_meta.identity) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
-- a test that waits for something that never comes fails
SET statement_timeout = '60 s';
CREATE PROCEDURE pg_temp.run(VARIADIC statements text[]) LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	id bigint;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		EXECUTE 'SELECT ' || statement INTO id;
		COMMIT;
		IF wait_for_procedure(id, '30 s') <> 'done' THEN RAISE 'not done: %', statement; END IF;
		COMMIT;
	END LOOP;
END;
$$;
\set definition '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}'
\set measurements '{"measurements": [{"name": "m", "type": "INT32"}]}'
\set ECHO all
\pset format unaligned
\pset tuples_only on
SELECT create_catalog('lake') IS NOT NULL;
CALL pg_temp.run($$create_database('lake', 'd')$$, $$create_database('lake', 'whole')$$, $$create_database('lake', 'slots')$$,
	format($$create_table('lake', 'd', 'moved', %L)$$, :'definition'), format($$create_table('lake', 'd', 'base', %L)$$, :'definition'),
	format($$create_table('lake', 'whole', 't', %L)$$, :'definition'), $$create_view('lake', 'd', 'v', '{"base": {"table": "base"}}')$$,
	format($$create_device('lake', 'd', 'root.a.one', %L)$$, :'measurements'), format($$create_device('lake', 'd', 'root.b.one', %L)$$, :'measurements'),
	format($$create_template('lake', 'd', 'pump', %L)$$, :'measurements'));
-- a node that holds a lease for a minute, by a clock that is so much ahead, and says nothing
SELECT (register_node('silent', gen_random_uuid())).answer;
BEGIN;
SET LOCAL amoro_meta.debug_clock_offset_ms = 60000;
SELECT (activate_node(s.node_id, s.incarnation, (SELECT term FROM amoro_stat_coordinator WHERE datname = current_database()),
	s.lease_epoch, s.metadata_version)).answer FROM node_status s WHERE s.current;
COMMIT;
SELECT count(*) FROM markers;
-- their buckets and slots are there once they are committed, whoever has heard of it
SELECT create_service_buckets('planning', 2, 'nobody') IS NOT NULL, create_partitions('lake', 'slots', 2) IS NOT NULL;
DO $$BEGIN
	WHILE (SELECT count(*) FROM amoro_meta.procedure WHERE state = 'committed' AND outcome IS NULL) < 2 LOOP PERFORM pg_sleep(0.01); END LOOP;
END$$;
SELECT (register_node('other', gen_random_uuid())).answer;

-- one procedure for each kind of object, all in flight; those that wait for their second broadcast have no marker
CREATE TABLE pg_temp.submitted (procedure_id bigint, kind text);
INSERT INTO pg_temp.submitted SELECT p, k FROM (VALUES
	(create_database('lake', 'new'), 'database'), (drop_database('lake', 'whole', cascade => true), 'whole database'),
	(rename_table('lake', 'd', 'moved', 'slots', 'moved'), 'table'), (drop_view('lake', 'd', 'v', cascade => true), 'view'),
	(drop_devices('lake', 'd', 'root.a.*'), 'pattern'), (alter_device('lake', 'd', 'root.b.one', '[{"op": "set_alias", "measurement": "m", "alias": "n"}]'), 'device'),
	(alter_template('lake', 'd', 'pump', '[{"op": "add_measurement", "name": "n", "type": "INT32"}]'), 'template'), (remove_node('silent'), 'node')) v (p, k);
DO $$BEGIN
	WHILE EXISTS (SELECT FROM procedures p JOIN pg_temp.submitted USING (procedure_id) WHERE p.state = 'submitted') LOOP PERFORM pg_sleep(0.01); END LOOP;
END$$;
SELECT m.object_kind, m.catalog_name, m.database_name, m.object_name, m.state, s.kind, m.procedure_kind, m.procedure_state, m.submitted_by = current_user::regrole,
	m.since <= clock_timestamp(), m.age BETWEEN '0' AND '1 min', m.waits_for, m.wait_reasons IS NOT NULL, m.waits_until > clock_timestamp(), m.error_message
	FROM markers m JOIN pg_temp.submitted s USING (procedure_id) ORDER BY 1, 2, 3, 4;
-- the views of each kind say the same
SELECT count(*) FROM markers m FULL JOIN (SELECT procedure_id FROM tables WHERE database_name <> 'whole' AND state <> 'normal' UNION ALL SELECT procedure_id FROM views WHERE state <> 'normal') o
	USING (procedure_id) WHERE (m.procedure_id IS NULL OR o.procedure_id IS NULL) AND coalesce(m.object_kind, 'table') IN ('table', 'view');
-- who may look
CREATE ROLE regress_amoro_watcher;
GRANT pg_monitor TO regress_amoro_watcher;
SET ROLE regress_amoro_watcher;
SELECT count(*) > 8 FROM markers;
RESET ROLE;

-- all of them end, and take their markers along
SELECT release_node(node_id, incarnation) FROM nodes WHERE node_name = 'silent';
SELECT kind, wait_for_procedure(procedure_id, '30 s') FROM pg_temp.submitted ORDER BY 1;
SELECT count(*) FROM markers;
-- buckets and slots
SELECT (activate_node(s.node_id, s.incarnation, (SELECT term FROM amoro_stat_coordinator WHERE datname = current_database()),
	s.lease_epoch, s.metadata_version)).answer FROM node_status s WHERE s.current AND node_name = 'other';
TRUNCATE pg_temp.submitted;
INSERT INTO pg_temp.submitted SELECT p, k FROM (VALUES (drop_service_buckets('planning'), 'buckets'), (drop_partitions('lake', 'slots'), 'partitions')) v (p, k);
DO $$BEGIN
	WHILE EXISTS (SELECT FROM procedures p JOIN pg_temp.submitted USING (procedure_id) WHERE p.state = 'submitted') LOOP PERFORM pg_sleep(0.01); END LOOP;
END$$;
SELECT object_kind, catalog_name, database_name, object_name, m.state, s.kind, waits_for FROM markers m JOIN pg_temp.submitted s USING (procedure_id) ORDER BY 1, 2, 3, 4;
-- a marker whose procedure is gone is not hidden by that
SELECT min(procedure_id) AS orphan FROM pg_temp.submitted \gset
DELETE FROM amoro_meta.procedure WHERE procedure_id = :orphan;
SELECT DISTINCT procedure_id = :orphan, procedure_kind, since, waits_for FROM markers m WHERE procedure_id = :orphan;
SELECT release_node(node_id, incarnation) FROM nodes WHERE node_name = 'other';
SET client_min_messages = warning;
DROP ROLE regress_amoro_watcher;
DROP EXTENSION amoro_meta;
