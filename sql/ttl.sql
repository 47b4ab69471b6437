-- Times to live: what can be set, what inherits it, what nodes are told.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
\set definition '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "s3://bucket/path"}'
\set ECHO all
\pset format unaligned
\pset tuples_only on

SET client_min_messages = warning;
SELECT create_catalog('lake') IS NOT NULL;
CALL pg_temp.run($$create_database('lake', 'db')$$);
CALL pg_temp.run($$create_database('lake', 'other')$$);
CALL pg_temp.run(format($$create_table('lake', 'db', 't', %L)$$, :'definition'));
CREATE FUNCTION pg_temp.document(kind text, VARIADIC names text[]) RETURNS jsonb LANGUAGE sql AS $$
	SELECT document::jsonb FROM metadata_lookup(kind, names[1], names[2], names[3])
$$;
-- none
SELECT * FROM effective_ttl('lake', 'db');
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT pg_temp.document('table', 'lake', 'db', 't')->'ttl_ms';
SELECT * FROM ttls;

-- of the database, of the table, and back
CALL pg_temp.run($$set_ttl('lake', 'db', '7 days')$$);
SELECT * FROM effective_ttl('lake', 'db');
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT pg_temp.document('table', 'lake', 'db', 't')->'ttl_ms', pg_temp.document('database', 'lake', 'db')->'ttl_ms';
CALL pg_temp.run($$set_ttl('lake', 'db', interval '1 hour', table_name => 't')$$);
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT pg_temp.document('table', 'lake', 'db', 't')->'ttl_ms', (SELECT definition->'ttl' FROM tables WHERE table_name = 't');
-- the runtime of the table follows its version, as after alter_table
SELECT t.version = r.table_version FROM tables t JOIN amoro_meta.table_runtime r USING (table_id);
SELECT t.version = (SELECT version FROM amoro_meta.metadata_version) FROM tables t;
SELECT * FROM ttls ORDER BY ttl_ms;
CALL pg_temp.run($$unset_ttl('lake', 'db', table_name => 't')$$);
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT definition ? 'ttl' FROM tables WHERE table_name = 't';
CALL pg_temp.run($$unset_ttl('lake', 'db', table_name => 't')$$);
CALL pg_temp.run($$unset_ttl('lake', 'db')$$);
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT count(*) FROM ttls;
-- that of alter_table is the same one
CALL pg_temp.run($$alter_table('lake', 'db', 't', '[{"op": "set_ttl", "ttl": 5000}]')$$);
SELECT * FROM effective_ttl('lake', 'db', 't');
SELECT * FROM ttls;

-- of devices, by path: the longest match, in whatever order they were set
CALL pg_temp.run($$set_ttl('lake', 'db', '1 day')$$);
SELECT * FROM effective_ttl('lake', 'db', device_path => 'root.site1.turbine7');
CALL pg_temp.run($$set_ttl('lake', 'db', '3 s', path_pattern => 'root.site1.turbine7')$$);
CALL pg_temp.run($$set_ttl('lake', 'db', '1 s', path_pattern => 'root.**')$$);
CALL pg_temp.run($$set_ttl('lake', 'db', '2 s', path_pattern => 'root.site1.**')$$);
CALL pg_temp.run($$set_ttl('lake', 'db', '4 s', path_pattern => 'root.`a.b`.**')$$);
SELECT p, (effective_ttl('lake', 'db', device_path => p)).* FROM unnest(ARRAY['root.site1.turbine7', 'root.site1.turbine7.x', 'root.site1.turbine70',
	'root.site10.t', 'root.site1', 'root.`site1`.t', 'root.`a.b`.c', 'root.`a.bc`.c', 'root.`a.b.c`']) p;
SELECT object_name, ttl_ms FROM ttls WHERE object_kind = 'device' ORDER BY 1;
CALL pg_temp.run($$set_ttl('lake', 'db', '9 s', path_pattern => 'root.`site1`.turbine7')$$);
SELECT * FROM effective_ttl('lake', 'db', device_path => 'root.site1.turbine7');
CALL pg_temp.run($$unset_ttl('lake', 'db', path_pattern => 'root.site1.turbine7')$$);
CALL pg_temp.run($$unset_ttl('lake', 'db', path_pattern => 'root.none')$$);
SELECT * FROM effective_ttl('lake', 'db', device_path => 'root.site1.turbine7');
-- documents of devices say it; one that has none of its own inherits it, now and later
CALL pg_temp.run($$create_devices('lake', 'db', '[{"path": "root.site1.turbine8", "measurements": [{"name": "speed", "type": "INT32"}]},
	{"path": "root.`a.b`.c", "measurements": [{"name": "speed", "type": "INT32"}]}, {"path": "root.site1", "measurements": [{"name": "speed", "type": "INT32"}]}]')$$);
SELECT device_path, pg_temp.document('device', 'lake', 'db', device_path)->'ttl_ms' FROM devices ORDER BY 1;
CALL pg_temp.run($$set_ttl('lake', 'db', '3 s', path_pattern => 'root.site1.turbine8')$$);
SELECT device_path, pg_temp.document('device', 'lake', 'db', device_path)->'ttl_ms' FROM devices ORDER BY 1;
CALL pg_temp.run($$unset_ttl('lake', 'db', path_pattern => 'root.**')$$);
CALL pg_temp.run($$unset_ttl('lake', 'db', path_pattern => 'root.site1.turbine8')$$);
SELECT device_path, pg_temp.document('device', 'lake', 'db', device_path)->'ttl_ms' FROM devices ORDER BY 1;
SELECT object_name, document::jsonb->'ttl_ms' FROM metadata_snapshot('device') ORDER BY 1;
CALL pg_temp.run($$drop_devices('lake', 'db', 'root.**')$$);
-- a path of the greatest length
CALL pg_temp.run(format($$set_ttl('lake', 'db', '5 s', path_pattern => 'root%s.**')$$, repeat('.a', 123)));
SELECT ttl_ms, length(set_on_name) FROM effective_ttl('lake', 'db', device_path => 'root' || repeat('.a', 125));
SELECT * FROM effective_ttl('lake', 'db', device_path => 'root' || repeat('.a', 123));
-- what one statement keeps from one device to the next is not what the next statement sees; more rules than are kept; two databases in turns
DO $$
DECLARE
	seen bigint[];
BEGIN
	FOR n IN 1 .. 5 LOOP
		seen := seen || amoro_meta.device_ttl_ms(-1, 'root.x.y');
		IF n % 2 = 0 THEN
			INSERT INTO amoro_meta.device_ttl VALUES (-1, CASE n WHEN 2 THEN 'root.**' ELSE 'root.x.**' END, n);
		END IF;
	END LOOP;
	RAISE WARNING 'seen: %', seen;
END;
$$;
SELECT n, amoro_meta.device_ttl_ms(-1 - n % 2, 'root.x.y' || n) FROM generate_series(1, 4) n;
INSERT INTO amoro_meta.device_ttl SELECT -1, 'root.x.y' || n, 1000 + n FROM generate_series(1, 1000) n;
SELECT n, (amoro_meta.device_ttl_rule(-1, 'root.x.y' || n)).* FROM (VALUES (1), (500), (1000), (1001)) v (n);
DELETE FROM amoro_meta.device_ttl WHERE database_id = -1;
-- another database has its own
SELECT * FROM effective_ttl('lake', 'other', device_path => 'root.site1.turbine7');

-- what the nodes are told: one row each, however many devices there are
SELECT object_kind, operation, database_name, table_name, detail->'path_pattern' FROM amoro_meta.change
	WHERE operation IN ('set_ttl', 'unset_ttl') ORDER BY version, ordinal;

-- what is refused
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[
	$$SELECT set_ttl('lake', 'db', NULL)$$, $$SELECT set_ttl('lake', 'db', '0')$$, $$SELECT set_ttl('lake', 'db', '-1 s')$$,
	$$SELECT set_ttl('lake', 'db', '999 us')$$, $$SELECT set_ttl('lake', 'db', '1 mon')$$, $$SELECT set_ttl('lake', 'db', '1 year')$$,
	$$SELECT set_ttl('lake', 'db', '100000001 days')$$, $$SELECT set_ttl('lake', 'db', '2400000001 hours')$$,
	$$SELECT set_ttl(NULL, 'db', '1 s')$$, $$SELECT set_ttl('lake', '', '1 s')$$, $$SELECT set_ttl('lake', 'db', '1 s', table_name => '')$$,
	$$SELECT set_ttl('lake', 'db', '1 s', table_name => 't', path_pattern => 'root.a')$$,
	$$SELECT set_ttl('lake', 'db', '1 s', table_name => 'nope')$$, $$SELECT set_ttl('lake', 'nope', '1 s')$$, $$SELECT set_ttl('nope', 'db', '1 s')$$,
	$$SELECT unset_ttl('lake', 'db', table_name => 'nope')$$,
	$$SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'root.*.a')$$, $$SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'root.a.*')$$,
	$$SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'root.**.a')$$, $$SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'root.**.**')$$,
	$$SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'site1')$$, $$SELECT set_ttl('lake', 'db', '1 s', path_pattern => '')$$,
	$$SELECT left(pg_temp.attempt(format('SELECT set_ttl(''lake'', ''db'', ''1 s'', path_pattern => %L)', 'root.' || repeat('x', 10000))), 80)$$,
	$$SELECT set_ttl('lake', 'db', '1 s', timeout => '0')$$,
	$$SELECT effective_ttl('lake', 'nope')$$, $$SELECT effective_ttl('lake', 'db', 'nope')$$, $$SELECT effective_ttl('lake', 'db', '')$$,
	$$SELECT left(pg_temp.attempt(format('SELECT effective_ttl(''lake'', ''db'', %L)', repeat('x', 10000))), 80)$$, $$SELECT effective_ttl('lake', NULL)$$,
	$$SELECT effective_ttl('lake', 'db', 't', 'root.a')$$, $$SELECT effective_ttl('lake', 'db', device_path => 'root.**')$$]) s;
-- the same request is the same procedure; another one with its id is refused
SELECT set_ttl('lake', 'db', '1 s', request_id => '00000000-0000-0000-0000-000000000001') AS first \gset
SELECT set_ttl('lake', 'db', '1 s', request_id => '00000000-0000-0000-0000-000000000001') = :first;
SELECT replace(pg_temp.attempt($$SELECT set_ttl('lake', 'db', '2 s', request_id => '00000000-0000-0000-0000-000000000001')$$), :'first', 'N');
SELECT wait_for_procedure(:first, '30 s');
-- conflicts: of one target two at a time are refused, others are not in the way
BEGIN;
SELECT set_ttl('lake', 'db', '1 s', table_name => 't') IS NOT NULL;
SELECT left(pg_temp.attempt($$SELECT alter_table('lake', 'db', 't', '[{"op": "unset_ttl"}]')$$), 48);
SELECT left(pg_temp.attempt($$SELECT drop_database('lake', 'db', cascade => true)$$), 48);
SELECT set_ttl('lake', 'db', '1 s') IS NOT NULL;
SELECT left(pg_temp.attempt($$SELECT unset_ttl('lake', 'db')$$), 48);
SELECT set_ttl('lake', 'db', '1 s', path_pattern => 'root.a') IS NOT NULL;
ROLLBACK;

-- they go with the database, and keep nobody from dropping it
CALL pg_temp.run($$drop_table('lake', 'db', 't')$$);
CALL pg_temp.run($$drop_database('lake', 'db')$$);
SELECT count(*) FROM amoro_meta.device_ttl;
SET client_min_messages = warning;
DROP EXTENSION amoro_meta;
