-- Procedures, as one session sees them: what submissions accept and refuse, what they return, what is left of them.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
\set definition '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "s3://bucket/path"}'
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- the machine: every state is reachable, has a way out, and leads to the end; there is a point of no return on the way, once
SELECT kind, state, action, next_state, undo, waits_for_verdict AS waits, irreversible FROM procedure_machine ORDER BY kind, state;
WITH RECURSIVE reached AS
	(SELECT kind, 'submitted' AS state FROM procedure_machine UNION
	 SELECT m.kind, m.next_state FROM reached r JOIN procedure_machine m USING (kind, state))
SELECT 'not reachable', kind, state FROM procedure_machine EXCEPT SELECT 'not reachable', kind, state FROM reached;
SELECT 'no way out', m.kind, m.next_state FROM procedure_machine m
	WHERE m.next_state <> 'done' AND NOT EXISTS (SELECT FROM procedure_machine n WHERE (n.kind, n.state) = (m.kind, m.next_state));
WITH RECURSIVE path AS
	(SELECT kind, state, ARRAY[state] AS states FROM procedure_machine WHERE state = 'submitted' UNION ALL
	 SELECT m.kind, m.next_state, p.states || m.next_state FROM path p JOIN procedure_machine m USING (kind, state)
	 WHERE m.next_state <> ALL (p.states))
SELECT 'does not end', kind FROM procedure_machine EXCEPT SELECT 'does not end', kind FROM path WHERE state = 'done';
SELECT 'point of no return', kind, count(*) FROM procedure_machine WHERE irreversible GROUP BY kind HAVING count(*) <> 1;
SELECT 'undo on the wrong side', m.kind, m.state FROM procedure_machine m
	WHERE (m.undo IS NULL) <> (m.state NOT IN ('submitted') AND NOT m.irreversible);

-- catalogs
SELECT create_catalog('lake', properties => '{"warehouse": "s3://bucket"}', auth_config => '{"secret": "hidden"}');
SELECT pg_temp.attempt($$SELECT create_catalog('lake')$$);
SELECT pg_temp.attempt($$SELECT create_catalog(NULL)$$), pg_temp.attempt($$SELECT create_catalog('')$$),
	pg_temp.attempt($$SELECT create_catalog(repeat('x', 256))$$), pg_temp.attempt($$SELECT create_catalog(E'a\nb')$$);
SELECT pg_temp.attempt($$SELECT create_catalog('x', 'hive')$$), pg_temp.attempt($$SELECT create_catalog('x', NULL)$$),
	pg_temp.attempt($$SELECT create_catalog('x', properties => '{"a": 1}')$$), pg_temp.attempt($$SELECT create_catalog('x', properties => NULL)$$),
	pg_temp.attempt($$SELECT create_catalog('x', storage_config => '[]')$$), pg_temp.attempt($$SELECT create_catalog('x', auth_config => 'null')$$),
	pg_temp.attempt($$SELECT create_catalog('x', auth_config => NULL)$$);
SELECT create_catalog('far away', 'iceberg_rest'), create_catalog(repeat('ü', 255), 'pushed') > 0;
SELECT alter_catalog('lake', storage_config => '{"region": "eu"}');
SELECT pg_temp.attempt($$SELECT alter_catalog('nope')$$), pg_temp.attempt($$SELECT alter_catalog('lake', properties => '7')$$);
SELECT to_jsonb(c) - 'created_at' - 'created_by' FROM catalogs c WHERE catalog_name = 'lake';
SELECT c::text LIKE '%hidden%' FROM catalogs c WHERE catalog_name = 'lake';
SELECT drop_catalog(repeat('ü', 255));
SELECT pg_temp.attempt($$SELECT drop_catalog('nope')$$), pg_temp.attempt($$SELECT drop_catalog(NULL)$$);

-- databases
CALL pg_temp.run($$create_database('lake', 'db', '{"k": "v"}')$$);
CALL pg_temp.run($$create_database('lake', 'other')$$);
SELECT pg_temp.attempt($$SELECT create_database('lake', 'db')$$), pg_temp.attempt($$SELECT create_database('nope', 'db')$$),
	pg_temp.attempt($$SELECT create_database('far away', 'db')$$), pg_temp.attempt($$SELECT create_database('lake', '')$$),
	pg_temp.attempt($$SELECT create_database('lake', NULL)$$), pg_temp.attempt($$SELECT create_database('lake', 'x', NULL)$$),
	pg_temp.attempt($$SELECT create_database('lake', 'x', '{"k": []}')$$), pg_temp.attempt($$SELECT create_database('lake', repeat('x', 10000))$$);
SELECT * FROM databases ORDER BY database_name;
SELECT pg_temp.attempt($$SELECT drop_catalog('lake')$$);

-- tables
CALL pg_temp.run(format($$create_table('lake', 'db', 't', %L)$$, :'definition'));
SELECT state, format, location, definition, version FROM tables;
SELECT pg_temp.attempt(format($$SELECT create_table('lake', 'db', 't', %L)$$, :'definition'));
SELECT pg_temp.attempt(format($$SELECT create_table('lake', 'nope', 't', %L)$$, :'definition')), pg_temp.attempt(format($$SELECT create_table('nope', 'db', 't', %L)$$, :'definition'));
SELECT pg_temp.attempt($$SELECT create_table('lake', 'db', 'x', NULL)$$), pg_temp.attempt($$SELECT create_table('lake', 'db', 'x', '{}')$$),
	pg_temp.attempt(format($$SELECT create_table('lake', 'db', '', %L)$$, :'definition')), pg_temp.attempt(format($$SELECT create_table('lake', 'db', 'x', %L, NULL)$$, :'definition'));
SELECT create_table('lake', 'db', 't', :'definition', if_not_exists => true) AS id \gset
SELECT kind, state, outcome, object_id, ended_at IS NOT NULL FROM procedure_status(:id);
CALL pg_temp.run($$alter_table('lake', 'db', 't', '[{"op": "add_column", "column": "b", "type": "date"}]')$$);
SELECT pg_temp.attempt($$SELECT alter_table('lake', 'db', 't', '[{"op": "drop_column", "column": "nope"}]')$$), pg_temp.attempt($$SELECT alter_table('lake', 'db', 't', NULL)$$),
	pg_temp.attempt($$SELECT alter_table('lake', 'db', 'nope', '[{"op": "unset_ttl"}]')$$), pg_temp.attempt($$SELECT alter_table('lake', 'nope', 't', '[{"op": "unset_ttl"}]')$$);
CALL pg_temp.run($$rename_table('lake', 'db', 't', 'other', 'a "quoted"/name')$$);
SELECT database_name, table_name, state, definition->'columns'->1 FROM tables;
SELECT pg_temp.attempt($$SELECT rename_table('lake', 'db', 't', 'db', 't')$$), pg_temp.attempt($$SELECT rename_table('lake', 'db', 't', 'db', 'u')$$),
	pg_temp.attempt($$SELECT rename_table('lake', 'other', 'a "quoted"/name', 'nope', 'u')$$), pg_temp.attempt($$SELECT rename_table('lake', 'other', 'x', 'other', NULL)$$);
CALL pg_temp.run(format($$create_table('lake', 'other', 'u', %L)$$, :'definition'));
SELECT pg_temp.attempt($$SELECT rename_table('lake', 'other', 'u', 'other', 'a "quoted"/name')$$);
CALL pg_temp.run($$drop_table('lake', 'other', 'a "quoted"/name', purge => true)$$);
SELECT operation, table_name, detail FROM amoro_meta.change ORDER BY version DESC, ordinal DESC LIMIT 2;
SELECT pg_temp.attempt($$SELECT drop_table('lake', 'db', 't')$$), pg_temp.attempt($$SELECT drop_table('lake', 'nope', 't')$$), pg_temp.attempt($$SELECT drop_table('nope', 'db', 't')$$),
	pg_temp.attempt($$SELECT drop_table('lake', 'db', 't', purge => NULL)$$);
SELECT outcome FROM procedure_status(drop_table('lake', 'db', 't', if_exists => true));
SELECT outcome FROM procedure_status(drop_table('nope', 'nope', 't', if_exists => true));

-- databases with tables in them
SELECT pg_temp.attempt($$SELECT drop_database('lake', 'other')$$), pg_temp.attempt($$SELECT drop_database('lake', 'nope')$$), pg_temp.attempt($$SELECT drop_database('lake', 'other', NULL)$$);
CALL pg_temp.run($$drop_database('lake', 'db')$$);
CALL pg_temp.run($$drop_database('lake', 'other', cascade => true)$$);
SELECT object_kind, operation, database_name, table_name, detail FROM amoro_meta.change ORDER BY version DESC, ordinal DESC LIMIT 3;
SELECT count(*) FROM databases;
-- more tables than one step deletes
CALL pg_temp.run($$create_database('lake', 'big')$$);
INSERT INTO amoro_meta.table_metadata (table_id, database_id, table_name, state, definition, version)
	SELECT amoro_meta.next_id(), d.database_id, 'table ' || n, 'normal', '{"location": "s3://x"}', 1 FROM databases d, generate_series(1, 2500) n;
CALL pg_temp.run($$drop_database('lake', 'big', cascade => true)$$);
SELECT object_kind, operation, count(*), count(DISTINCT version) AS steps FROM amoro_meta.change WHERE database_name = 'big' GROUP BY 1, 2 ORDER BY 1, 2;

-- the same request, made again
CALL pg_temp.run($$create_database('lake', 'db')$$);
\set request 'a0000000-0000-0000-0000-000000000001'
SELECT create_table('lake', 'db', 'once', :'definition', request_id => :'request') AS id \gset
SELECT create_table('lake', 'db', 'once', :'definition', request_id => :'request') = :id;
SELECT wait_for_procedure(:id, '30 s');
SELECT create_table('lake', 'db', 'once', :'definition', request_id => :'request', timeout => '1 h') = :id;
SELECT regexp_replace(pg_temp.attempt(format($$SELECT create_table('lake', 'db', 'twice', %L, request_id => %L)$$, :'definition', :'request')), 'procedure \d+', 'procedure N'),
	regexp_replace(pg_temp.attempt(format($$SELECT drop_table('lake', 'db', 'once', request_id => %L)$$, :'request')), 'procedure \d+', 'procedure N');
SELECT count(*) FROM procedures WHERE request_id = :'request';

-- timeouts that are none
SELECT t, pg_temp.attempt(format($$SELECT drop_table('lake', 'db', 'once', timeout => %L)$$, t)) FROM unnest(ARRAY['0', '-1 s', '2 years', '178000000 years']) t;

-- what is in flight: a silent node holds it up; the second procedure is refused, and told which one is in its way
CALL pg_temp.hold($$drop_table('lake', 'db', 'once')$$, 'pre_drop') \gset
SELECT state, procedure_id = :id FROM tables;
SELECT kind, state, outcome, waits_for, wait_reasons, waits_until > clock_timestamp(), deadline > clock_timestamp() + '1 min' FROM procedure_status(:id);
-- the marker, whose it is and what it waits for; found through the indexes of markers, whatever there is besides
SELECT m.object_kind, m.catalog_name, m.database_name, m.object_name, m.state, procedure_id = :id, procedure_kind, procedure_state, m.submitted_by = current_user::regrole,
	since BETWEEN p.submitted_at AND clock_timestamp(), age BETWEEN '0' AND '1 min', m.waits_for, m.wait_reasons, m.waits_until > clock_timestamp()
	FROM markers m JOIN procedures p USING (procedure_id);
CREATE FUNCTION pg_temp.plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS off) ' || statement; END$$;
SET enable_seqscan = off;
SELECT DISTINCT m[1] FROM pg_temp.plan('SELECT * FROM markers') p, regexp_match(p, '(\w+_procedure_id|procedure_in_flight)') m ORDER BY 1;
RESET enable_seqscan;
SELECT replace(pg_temp.attempt(s), :'id', 'N') FROM unnest(ARRAY[$$SELECT drop_table('lake', 'db', 'once')$$, $$SELECT drop_table('lake', 'db', 'once', if_exists => true)$$,
	$$SELECT alter_table('lake', 'db', 'once', '[{"op": "unset_ttl"}]')$$, $$SELECT rename_table('lake', 'db', 'once', 'db', 'x')$$, $$SELECT rename_table('lake', 'db', 'x', 'db', 'once')$$,
	$$SELECT create_table('lake', 'db', 'once', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}', if_not_exists => true)$$,
	$$SELECT drop_database('lake', 'db')$$, $$SELECT drop_database('lake', 'db', cascade => true)$$, $$SELECT drop_catalog('lake')$$]) s;
SELECT wait_for_procedure(:id, '1 ms');
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT outcome, error_code, error_message, error_detail ~ '^It was in state "pre_drop" and waited for version \d+ on "silent".$' FROM procedure_status(:id);
SELECT state, procedure_id FROM tables;
SELECT cancel_procedure(:id);
SELECT operation FROM amoro_meta.change ORDER BY version DESC, ordinal DESC LIMIT 1;
-- the same with its own timeout
CALL pg_temp.hold($$drop_table('lake', 'db', 'once', timeout => '3 s')$$, 'pre_drop') \gset
SELECT wait_for_procedure(:id, '30 s');
SELECT outcome, error_code, error_message FROM procedure_status(:id);
-- names that are being made: nobody can take them, and they are gone again when the procedure is rolled back
CALL pg_temp.hold($$rename_table('lake', 'db', 'once', 'db', 'new name')$$, 'pre_alter') \gset
SELECT table_name, state, procedure_id = :id, definition = '{}' FROM tables ORDER BY 1;
SELECT table_name, operation FROM amoro_meta.change WHERE procedure_id = :id ORDER BY version, ordinal;
SELECT replace(pg_temp.attempt($$SELECT create_table('lake', 'db', 'new name', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}')$$), :'id', 'N');
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT table_name, state FROM tables;
CALL pg_temp.hold($$create_database('lake', 'made')$$, 'pre_create') \gset
SELECT state FROM databases WHERE database_name = 'made';
SELECT replace(pg_temp.attempt($$SELECT create_table('lake', 'made', 't', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}')$$), :'id', 'N');
-- the lease ends: forward
SELECT release_node(node_id, incarnation) FROM nodes;
SELECT wait_for_procedure(:id, '30 s');
-- a database that is being dropped: its tables share its marker; and back
CALL pg_temp.hold($$drop_database('lake', 'db', cascade => true)$$, 'pre_drop') \gset
SELECT database_name, table_name, state, procedure_id = :id FROM tables;
SELECT replace(pg_temp.attempt($$SELECT drop_table('lake', 'db', 'once')$$), :'id', 'N');
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT table_name, state FROM tables;

-- removing a node: waits for its lease, or for its release
CALL pg_temp.hold($$remove_node('silent')$$, 'leaving') \gset
SELECT removing FROM nodes;
SELECT replace(pg_temp.attempt($$SELECT remove_node('silent')$$), :'id', 'N');
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT removing FROM nodes;
CALL pg_temp.hold($$remove_node('silent')$$, 'leaving') \gset
SELECT release_node(node_id, incarnation) FROM nodes;
SELECT wait_for_procedure(:id, '30 s');
SELECT count(*) FROM node_status;
SELECT pg_temp.attempt($$SELECT remove_node('silent')$$), pg_temp.attempt($$SELECT remove_node(NULL)$$);

-- transactions: nothing happens before the commit, and nothing at all without one
BEGIN;
SELECT drop_table('lake', 'db', 'once') AS id \gset
SELECT pg_temp.attempt(format('SELECT wait_for_procedure(%s)', :id)) = format('25001 | cannot wait for procedure %s in the transaction that submitted or cancelled it | COMMIT first.', :id);
SELECT state FROM procedure_status(:id);
ROLLBACK;
SELECT pg_temp.attempt(format('SELECT state FROM procedure_status(%s)', :id)) LIKE '42704%', pg_temp.attempt(format('SELECT wait_for_procedure(%s)', :id)) LIKE '42704%';
BEGIN;
SAVEPOINT s;
SELECT drop_table('lake', 'db', 'once') AS id \gset
ROLLBACK TO s;
SELECT alter_table('lake', 'db', 'once', '[{"op": "set_ttl", "ttl": 60000}]') AS id \gset
COMMIT;
SELECT wait_for_procedure(:id, '30 s');
SELECT definition->'ttl' FROM tables;
BEGIN;
SELECT drop_table('lake', 'db', 'once') > 0;
PREPARE TRANSACTION 'never';
SELECT count(*) FROM pg_prepared_xacts;
-- two of one object in one transaction
BEGIN;
SELECT alter_table('lake', 'db', 'once', '[{"op": "unset_ttl"}]') AS id \gset
SELECT replace(pg_temp.attempt($$SELECT drop_table('lake', 'db', 'once')$$), :'id', 'N');
ROLLBACK;
-- other isolation levels, and a transaction that may not write
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT alter_table('lake', 'db', 'once', '[{"op": "set_ttl", "ttl": 1}]') AS id \gset
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM tables;
SELECT wait_for_procedure(:id, '30 s');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT alter_table('lake', 'db', 'once', '[{"op": "set_ttl", "ttl": 2}]') AS id \gset
COMMIT;
SELECT wait_for_procedure(:id, '30 s');
SELECT definition->'ttl' FROM tables;
-- procedures on a user or a service of its name are not in a catalog
BEGIN;
SELECT create_catalog('name') > 0, create_user('name') > 0, create_service_buckets('name') > 0;
SELECT drop_catalog('name');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT drop_catalog('lake');
ROLLBACK;
BEGIN READ ONLY;
SELECT drop_table('lake', 'db', 'once');
ROLLBACK;

-- waiting
SELECT pg_temp.attempt('SELECT wait_for_procedure(NULL)'), pg_temp.attempt('SELECT wait_for_procedure(-1)'), pg_temp.attempt($$SELECT wait_for_procedure(1, '-1 s')$$),
	pg_temp.attempt('SELECT procedure_status(NULL)'), pg_temp.attempt('SELECT cancel_procedure(NULL)'), pg_temp.attempt('SELECT cancel_procedure(9223372036854775807)');

-- what is left: no marker, no claim, nothing in flight; every version once, without gaps
SELECT count(*) FROM amoro_meta.procedure_claim;
SELECT count(*) FROM procedures WHERE outcome IS NULL;
SELECT count(*) FROM tables WHERE state <> 'normal';
SELECT count(*) = max(version) AND min(version) = 1 FROM (SELECT DISTINCT version FROM amoro_meta.change) v;
SELECT kind, in_flight, done > 0, rolled_back, quarantined, mean_time <= max_time FROM amoro_stat_procedure ORDER BY kind;
-- and what the time went on: no state that the machine has not, all of it in the states, and what held whom up
SELECT s.kind, k FROM amoro_stat_procedure s, jsonb_object_keys(state_seconds) k WHERE (s.kind, k) NOT IN (SELECT kind, state FROM procedure_machine);
SELECT kind FROM amoro_stat_procedure s WHERE abs((SELECT coalesce(sum(v::numeric), 0) FROM jsonb_each(state_seconds) v (k, v))
	- (SELECT coalesce(sum(extract(epoch FROM ended_at - submitted_at)), 0) FROM procedures p WHERE p.kind = s.kind AND last_step_at IS NOT NULL)) > 0.5;
SELECT k, sum(v::bigint) > 0 FROM amoro_stat_procedure, jsonb_each(wait_counts) v (k, v) WHERE k NOT IN ('retry', 'lease') GROUP BY 1 ORDER BY 1;

-- who may: the functions of a kind, nothing else
CREATE ROLE regress_amoro_reader;
CREATE ROLE regress_amoro_operator;
SELECT grant_access('regress_amoro_reader', 'reader'), grant_access('regress_amoro_operator', 'operator');
SET ROLE regress_amoro_reader;
SELECT count(*) > 0, count(DISTINCT kind) > 3 FROM procedures;
SELECT count(*) > 0 FROM procedure_machine;
SELECT wait_for_procedure(min(procedure_id)) FROM procedures;
SELECT p.kind FROM procedures q, procedure_status(q.procedure_id) p ORDER BY q.procedure_id LIMIT 1;
SELECT count(*) FROM catalogs;
SELECT drop_table('lake', 'db', 'once');
SELECT cancel_procedure(1);
SELECT count(*) FROM amoro_meta.procedure;
SELECT amoro_meta.claim_name(1, 'table', 'lake', 'db', 't');
SET ROLE regress_amoro_operator;
SELECT drop_table('lake', 'db', 'once') AS id \gset
SELECT wait_for_procedure(:id, '30 s');
SELECT submitted_by FROM procedure_status(:id);
SELECT create_catalog('mine');
SELECT auth_config FROM amoro_meta.catalog;
RESET ROLE;
-- the drop of a database does not walk over the tables of the others
CREATE PROCEDURE pg_temp.add_tables(name text, count integer) LANGUAGE sql AS $$
	INSERT INTO amoro_meta.table_metadata (table_id, database_id, table_name, state, definition, version)
		SELECT amoro_meta.next_id(), database_id, 'many' || n, 'normal', '{"columns": []}', 1
		FROM amoro_meta.database, generate_series(1, count) n WHERE database_name = name
	$$;
CALL pg_temp.add_tables('db', 40000);
CALL pg_temp.run($$create_database('lake', 'small')$$);
CALL pg_temp.add_tables('small', 3000);
ANALYZE amoro_meta.table_metadata;
CALL pg_temp.run($$drop_database('lake', 'small', cascade => true)$$);
DO $$
BEGIN
	-- until the coordinator has reported what it did
	WHILE (SELECT n_tup_del < 3000 FROM pg_stat_user_tables WHERE relid = 'amoro_meta.table_metadata'::regclass) LOOP
		PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
	END LOOP;
END;
$$;
SELECT idx_tup_read < 40000 FROM pg_stat_user_indexes WHERE indexrelid = 'amoro_meta.table_metadata_pkey'::regclass;
DELETE FROM amoro_meta.table_metadata WHERE table_name LIKE 'many%';
-- names of a temporary schema do not catch what definer functions look for
CREATE TEMPORARY TABLE procedure_claim (object_kind text);
CREATE TEMPORARY TABLE pg_class (relname name);
CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT NULL::timestamptz$$;
CALL pg_temp.run(format($$create_table('lake', 'db', 't', %L)$$, :'definition'));
\set ECHO none
SET client_min_messages = warning;
SELECT revoke_access('regress_amoro_reader', 'reader'), revoke_access('regress_amoro_operator', 'operator') \gset
DROP EXTENSION amoro_meta;
DROP OWNED BY regress_amoro_reader, regress_amoro_operator;
DROP ROLE regress_amoro_reader, regress_amoro_operator;
