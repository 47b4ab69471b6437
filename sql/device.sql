-- Devices of the tree model, as one session sees them: paths, schemas, what submissions accept and refuse, what nodes load.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- paths: one canonical form; what is none says why
SELECT path, pg_temp.attempt(format('SELECT amoro_meta.device_path(%L, %L, false)', 'device_path', path)) FROM unnest(ARRAY['root.a',
	'root.site1.turbine_7', 'root.`site1`.`a b`', 'root.`a.b`.`c``d`', 'root.`111`', 'root.`1e5`', 'root.1e', 'root.7up', U&'root.\00fc.\4e2d',
	'', 'root', 'a.b', 'Root.a', '`root`.a', 'root.', 'root..a', '.root.a', 'root.a b', 'root.a-b', 'root.111', 'root.1e5', 'root.``', 'root.`a', 'root.`a`b', 'root.a`b`',
	'root.*', 'root.**', 'root.a*', 'root.`a*`', E'root.a\tb', E'root.`a\nb`']) path;
SELECT length(path), pg_temp.attempt(format('SELECT length(amoro_meta.device_path(%L, %L, false))', 'device_path', path))
	FROM unnest(ARRAY['root.' || repeat('x', 250), 'root.' || repeat('x', 251), repeat('root.', 100000) || 'a']) path;
SELECT length(amoro_meta.device_path('p', 'root.' || repeat(U&'\00fc', 250), false)), pg_temp.attempt($$SELECT amoro_meta.device_path('p', 'root.' || repeat(U&'\00fc', 251), false)$$),
	pg_temp.attempt($$SELECT amoro_meta.device_path('p', NULL, false)$$);
SELECT path, pg_temp.attempt(format('SELECT amoro_meta.device_path(%L, %L, true)', 'pattern', path))
	FROM unnest(ARRAY['root.**', 'root.*.`a`.**', 'root.***', '**', '*.a', 'root.a**', 'root.**a', 'root.*']) path;
-- which patterns have a path in common; both ways round
SELECT a, b, amoro_meta.device_paths_overlap(a, b) AS overlap FROM (VALUES ('root.a', 'root.a'), ('root.a', 'root.b'), ('root.a', 'root.a.b'),
	('root.*', 'root.a'), ('root.*', 'root.a.b'), ('root.**', 'root.a'), ('root.**', 'root.a.b.c'), ('root.a.**', 'root.a'), ('root.a.**', 'root.ab.c'),
	('root.**.c', 'root.a.b.c'), ('root.**.c', 'root.c'), ('root.**.c', 'root.a.c.d'), ('root.*.b', 'root.a.*'), ('root.*.b', 'root.a.c'), ('root.**.b', 'root.a.**'),
	('root.a.**', 'root.b.**'), ('root.**.b.**', 'root.a.*.c'), ('root.**.b.**', 'root.a.x.y'), ('root.`a.b`.*', 'root.a.b.c'), ('root.`a.b`.*', 'root.`a.b`.c'),
	('root.**', 'root')) v (a, b)
	WHERE amoro_meta.device_paths_overlap(a, b) = amoro_meta.device_paths_overlap(b, a);

-- schemas: types and encodings are those of IoTDB, with their defaults
SELECT amoro_meta.device_definition(jsonb_build_object('measurements', jsonb_agg(jsonb_build_object('name', 'm' || n, 'type', t) ORDER BY n)))->'measurements'
	FROM unnest('{boolean,Int32,INT64,float,double,text,string,blob,timestamp,date}'::text[]) WITH ORDINALITY u (t, n);
SELECT amoro_meta.device_definition('{"aligned": true, "measurements": [{"name": "`a b`", "type": "DOUBLE", "encoding": "chimp", "compression": "zstd",
	"alias": "`ab`", "tags": {"unit": "K"}, "attributes": {"x": "y"}}]}');
SELECT d, pg_temp.attempt(format('SELECT amoro_meta.device_definition(%L)', d)) FROM unnest(ARRAY['{}', '[]', '7', '{"measurements": {}}', '{"measurements": []}',
	'{"measurements": [7]}', '{"measurements": [{"name": "a"}]}', '{"measurements": [{"type": "INT32"}]}', '{"measurements": [{"name": "a", "type": "int"}]}',
	'{"measurements": [{"name": "a", "type": 7}]}', '{"measurements": [{"name": "", "type": "INT32"}]}', '{"measurements": [{"name": "a.b", "type": "INT32"}]}',
	'{"measurements": [{"name": "*", "type": "INT32"}]}', '{"measurements": [{"name": "a", "type": "BOOLEAN", "encoding": "GORILLA"}]}',
	'{"measurements": [{"name": "a", "type": "BOOLEAN", "compression": "BZIP2"}]}', '{"measurements": [{"name": "a", "type": "INT32"}, {"name": "`a`", "type": "INT64"}]}',
	'{"measurements": [{"name": "a", "type": "INT32"}, {"name": "b", "type": "INT64", "alias": "a"}]}', '{"measurements": [{"name": "a", "type": "INT32", "tags": {"x": 1}}]}',
	'{"measurements": [{"name": "a", "type": "INT32", "color": "red"}]}', '{"aligned": 1, "measurements": [{"name": "a", "type": "INT32"}]}', '{"x": 1, "measurements": []}']) d;
-- a definition that is none is not looked into
SELECT pg_temp.attempt(format('SELECT amoro_meta.altered_device(%L, NULL, %L)', d, '[]')) FROM unnest(ARRAY['[["measurements", []], 7]', '7', '{}']) d;

-- creating: one, and many by one procedure
\set measurements '{"measurements": [{"name": "temperature", "type": "FLOAT"}, {"name": "status", "type": "BOOLEAN", "alias": "s", "tags": {"unit": "none"}}]}'
SELECT create_catalog('lake');
CALL pg_temp.run($$create_database('lake', 'db')$$);
CALL pg_temp.run(format($$create_device('lake', 'db', 'root.site1.`turbine7`', %L)$$, :'measurements'));
CALL pg_temp.run($$create_devices('lake', 'db', (SELECT jsonb_agg(jsonb_build_object('path', format('root.site2.t%s', n), 'aligned', true, 'measurements',
	jsonb_build_array(jsonb_build_object('name', 'speed', 'type', 'INT64')))) FROM generate_series(1, 1000) n))$$);
SELECT device_path, state, procedure_id, definition, version FROM devices WHERE device_path !~ 'site2.t\d' OR device_path = 'root.site2.t1' ORDER BY 1;
SELECT count(*), count(DISTINCT version) FROM devices;
SELECT measurement, ordinal, type, encoding, compression, alias, tags, attributes, state FROM measurements WHERE device_path = 'root.site1.turbine7' ORDER BY ordinal;
-- the same again, and what is refused: nothing of it is done
SELECT pg_temp.attempt(format($$SELECT create_device('lake', 'db', 'root.site1.turbine7', %L)$$, :'measurements')),
	pg_temp.attempt(format($$SELECT create_device('lake', 'nope', 'root.x.y', %L)$$, :'measurements')), pg_temp.attempt(format($$SELECT create_device('nope', 'db', 'root.x.y', %L)$$, :'measurements')),
	pg_temp.attempt(format($$SELECT create_device(NULL, 'db', 'root.x.y', %L)$$, :'measurements')), pg_temp.attempt(format($$SELECT create_device('lake', '', 'root.x.y', %L)$$, :'measurements')),
	pg_temp.attempt($$SELECT create_device('lake', 'db', 'root.x.y', NULL)$$), pg_temp.attempt(format($$SELECT create_device('lake', 'db', NULL, %L)$$, :'measurements')),
	pg_temp.attempt(format($$SELECT create_device('lake', 'db', 'root.x.*', %L)$$, :'measurements')), pg_temp.attempt(format($$SELECT create_device('lake', 'db', 'root.x.y', %L, NULL)$$, :'measurements'));
SELECT pg_temp.attempt($$SELECT create_devices('lake', 'db', NULL)$$), pg_temp.attempt($$SELECT create_devices('lake', 'db', '[]')$$), pg_temp.attempt($$SELECT create_devices('lake', 'db', '{}')$$),
	pg_temp.attempt($$SELECT create_devices('lake', 'db', '[{"measurements": []}]')$$), pg_temp.attempt($$SELECT create_devices('lake', 'db', '[{"path": "x"}]')$$),
	pg_temp.attempt($$SELECT create_devices('lake', 'db', '[{"path": "root.x", "measurements": [{"name": "a", "type": "INT"}]}]')$$),
	pg_temp.attempt($$SELECT create_devices('lake', 'db', '[{"path": "root.x", "measurements": [{"name": "a", "type": "INT32"}]}, {"path": "root.`x`", "measurements": [{"name": "a", "type": "INT32"}]}]')$$),
	pg_temp.attempt($$SELECT create_devices('lake', 'db', '[{"path": "root.x", "measurements": [{"name": "a", "type": "INT32"}]}, {"path": "root.site1.turbine7", "measurements": [{"name": "a", "type": "INT32"}]}]')$$),
	pg_temp.attempt($$SELECT create_devices('lake', 'db', (SELECT jsonb_agg(n) FROM generate_series(1, 1001) n))$$);
SELECT outcome FROM procedure_status(create_device('lake', 'db', 'root.site1.turbine7', :'measurements', if_not_exists => true));
CALL pg_temp.run($$create_devices('lake', 'db', '[{"path": "root.site3.a", "measurements": [{"name": "a", "type": "INT32"}]}, {"path": "root.site1.turbine7", "measurements": [{"name": "a", "type": "INT32"}]}]', if_not_exists => true)$$);
SELECT device_path, definition->'measurements'->0->>'name' FROM devices WHERE device_path !~ 'site2' ORDER BY 1;
-- one request, made again
\set request 'b0000000-0000-0000-0000-000000000001'
SELECT create_device('lake', 'db', 'root.once.a', :'measurements', request_id => :'request') AS id \gset
SELECT create_device('lake', 'db', 'root.once.a', :'measurements', request_id => :'request') = :id;
SELECT wait_for_procedure(:id, '30 s');
SELECT create_device('lake', 'db', 'root.once.a', :'measurements', request_id => :'request') = :id;
SELECT regexp_replace(pg_temp.attempt(format($$SELECT create_device('lake', 'db', 'root.twice.a', %L, request_id => %L)$$, :'measurements', :'request')), 'procedure \d+', 'procedure N');
-- what it logs: two changes each, under the names of the nodes' caches
SELECT object_kind, operation, catalog_name, database_name, table_name FROM amoro_meta.change WHERE procedure_id = :id ORDER BY version, ordinal;

-- what nodes load; only the canonical form is a name
SELECT found, state, document::jsonb - 'device_id' - 'version' FROM metadata_lookup('device', 'lake', 'db', 'root.site1.turbine7');
SELECT document LIKE E'%\n%' FROM metadata_lookup('device', 'lake', 'db', 'root.site1.turbine7');
SELECT found, state, document FROM metadata_lookup('device', 'lake', 'db', 'root.site1.`turbine7`');
SELECT found FROM metadata_lookup('device', 'lake', 'db', 'root.nope.a');
SELECT pg_temp.attempt($$SELECT metadata_lookup('device', 'lake', 'db')$$);
SELECT count(*), count(DISTINCT metadata_version) FROM metadata_snapshot('device');
-- a lookup finds it by the index, with a plan that was made while there were few as well
PREPARE lookup AS SELECT document FROM amoro_meta.metadata_object o WHERE o.kind = 'device' AND o.catalog_name = $1 AND o.database_name = $2 AND o.object_name = $3;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
CREATE FUNCTION pg_temp.plan_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS off) ' || statement;
END;
$$;
SELECT trim(line) FROM pg_temp.plan_of($$EXECUTE lookup('lake', 'db', 'root.site1.turbine7')$$) line WHERE line ~ ' on device |Index Cond.*device_path' AND line !~ 'pattern';
SELECT 'enable_seqscan=off' = ANY (proconfig) FROM pg_proc WHERE proname = 'metadata_lookup';
RESET enable_seqscan;
RESET plan_cache_mode;

-- texts of definitions are kept within a statement: of as many as have one place, of alike and of large ones, each has its own
CALL pg_temp.run($$create_devices('lake', 'db', (SELECT jsonb_agg(jsonb_build_object('path', format('root.many.t%s', n), 'measurements',
	(SELECT jsonb_agg(jsonb_build_object('name', format('m%s_%s', n % 200, m), 'type', 'INT32')) FROM generate_series(1, CASE WHEN n > 390 THEN 60 ELSE 2 END) m)))
	FROM generate_series(1, 400) n))$$);
SELECT count(*), count(DISTINCT d.definition), count(*) FILTER (WHERE (c.document::json->'measurements')::text <> (d.definition->'measurements')::text) AS wrong
FROM metadata_snapshot_chunk('device', max_rows => 10000) c JOIN devices d ON d.device_path = c.object_name WHERE d.device_path ~ 'many';

-- what a submission costs does not grow with the devices that others create meanwhile
BEGIN;
CREATE FUNCTION pg_temp.time_to_claim(procedure_id bigint) RETURNS interval LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	PERFORM amoro_meta.claim_devices(procedure_id, 'lake', 'db', ARRAY(SELECT format('root.p%s.t%s', procedure_id, n) FROM generate_series(1, 1000) n));
	RETURN clock_timestamp() - began;
END;
$$;
SELECT pg_temp.time_to_claim(-1) AS alone \gset
INSERT INTO amoro_meta.procedure_claim SELECT 'device', 'lake', 'db', 'root.other.t' || n, -2 FROM generate_series(1, 40000) n;
SELECT pg_temp.time_to_claim(-3) < 5 * interval :'alone' + interval '1 s' AS grows_not;
ROLLBACK;

-- a database with devices in it
SELECT pg_temp.attempt($$SELECT drop_database('lake', 'db')$$) ~ '^2BP01 .* It has the device "root.';
CALL pg_temp.run($$drop_database('lake', 'db', cascade => true)$$);
SELECT count(*) FROM amoro_meta.device;
SELECT object_kind, operation, count(*) FROM amoro_meta.change GROUP BY 1, 2 ORDER BY 1, 2;
SELECT drop_catalog('lake');
DROP EXTENSION amoro_meta;
