-- Devices that change: by path and by pattern, in batches; what is in flight, and what it is in the way of.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
CREATE FUNCTION pg_temp.retyped(a text, b text, encoding text DEFAULT 'PLAIN') RETURNS jsonb LANGUAGE sql AS $$
	SELECT amoro_meta.altered_device(format('{"measurements": [{"name": "m", "type": "%s", "encoding": "%s"}]}', a, encoding)::jsonb, NULL,
		format('[{"op": "retype_measurement", "measurement": "m", "type": "%s"}]', b)::jsonb)->'measurements'->0
$$;
\set ECHO all
\pset format unaligned
\pset tuples_only on
SELECT create_catalog('lake');
CALL pg_temp.run($$create_database('lake', 'db')$$);
CALL pg_temp.run($$create_devices('lake', 'db', (SELECT jsonb_agg(jsonb_build_object('path', format('root.site%s.t%s', n % 3, n), 'measurements',
	'[{"name": "speed", "type": "INT32"}, {"name": "heat", "type": "FLOAT", "alias": "h"}]'::jsonb)) FROM generate_series(1, 9) n))$$);
CREATE VIEW pg_temp.schema AS SELECT device_path, string_agg(measurement || ' ' || type, ', ' ORDER BY ordinal) FROM measurements GROUP BY 1 ORDER BY 1;

-- every change
CALL pg_temp.run($$alter_device('lake', 'db', 'root.site1.t1', '[{"op": "add_measurement", "name": "x", "type": "TEXT", "alias": "y", "tags": {"a": "b"}, "attributes": {"c": "d"}},
	{"op": "add_measurement", "name": "x", "type": "INT32", "if_not_exists": true}, {"op": "drop_measurement", "measurement": "heat"}, {"op": "drop_measurement", "measurement": "nope", "if_exists": true},
	{"op": "rename_measurement", "measurement": "speed", "new_name": "`wind speed`"}, {"op": "retype_measurement", "measurement": "`wind speed`", "type": "DOUBLE"},
	{"op": "set_encoding", "measurement": "x", "encoding": "DICTIONARY", "compression": "ZSTD"}, {"op": "set_tags", "measurement": "x", "tags": {"a": "c", "k": "v"}},
	{"op": "remove_tags", "measurement": "y", "keys": ["k"]}, {"op": "set_attributes", "measurement": "x", "attributes": {"e": "f"}}, {"op": "remove_attributes", "measurement": "x", "keys": ["c", "nope"]},
	{"op": "set_alias", "measurement": "`wind speed`", "alias": "w"}, {"op": "remove_alias", "measurement": "w"}, {"op": "set_alias", "measurement": "x", "alias": "z"}]')$$);
SELECT definition FROM devices WHERE device_path = 'root.site1.t1';
-- which types become which; an encoding that the new type does not know becomes its default
SELECT a, string_agg(b, ' ') FROM unnest('{BOOLEAN,INT32,INT64,FLOAT,DOUBLE,TEXT,STRING,BLOB,TIMESTAMP,DATE}'::text[]) a, unnest('{BOOLEAN,INT32,INT64,FLOAT,DOUBLE,TEXT,STRING,BLOB,TIMESTAMP,DATE}'::text[]) b
	WHERE a <> b AND pg_temp.attempt(format('SELECT pg_temp.retyped(%L, %L)', a, b)) NOT LIKE '22023%' GROUP BY 1 ORDER BY 1;
SELECT pg_temp.retyped('INT32', 'TEXT', 'ZIGZAG')->>'encoding', pg_temp.retyped('INT32', 'INT64', 'ZIGZAG')->>'encoding';
-- what is refused, at once for a path
SELECT c, pg_temp.attempt(format($$SELECT alter_device('lake', 'db', 'root.site1.t4', %L)$$, c)) FROM unnest(ARRAY['null', '{}', '[]', '[7]', '[{"op": "explode"}]', '[{"op": "drop_measurement"}]',
	'[{"op": "drop_measurement", "measurement": "nope"}]', '[{"op": "drop_measurement", "measurement": "heat", "cascade": true}]', '[{"op": "add_measurement", "name": "speed", "type": "TEXT"}]',
	'[{"op": "add_measurement", "name": "n", "type": "TEXT", "alias": "heat"}]', '[{"op": "rename_measurement", "measurement": "speed", "new_name": "h"}]', '[{"op": "set_alias", "measurement": "speed", "alias": "heat"}]',
	'[{"op": "retype_measurement", "measurement": "heat", "type": "INT32"}]', '[{"op": "set_encoding", "measurement": "heat", "encoding": "DICTIONARY"}]', '[{"op": "set_tags", "measurement": "heat", "tags": 7}]',
	'[{"op": "rename_measurement", "measurement": "heat", "new_name": "a.b"}]']) c;
SELECT pg_temp.attempt($$SELECT alter_device('lake', 'db', 'root.nope.a', '[{"op": "drop_measurement", "measurement": "a"}]')$$), pg_temp.attempt($$SELECT alter_device('lake', 'db', 'root.nope.**', '[{"op": "drop_measurement", "measurement": "a"}]')$$),
	pg_temp.attempt($$SELECT alter_device('lake', 'db', 'root.site1.t4', NULL)$$), pg_temp.attempt($$SELECT alter_device('lake', 'db', 'site1.*', '[{"op": "drop_measurement", "measurement": "a"}]')$$),
	pg_temp.attempt($$SELECT alter_device('lake', 'nope', 'root.**', '[{"op": "drop_measurement", "measurement": "a"}]')$$), pg_temp.attempt($$SELECT alter_device('lake', 'db', NULL, '[]')$$);
SELECT pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.nope.a')$$), pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.nope.**')$$), pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root')$$),
	pg_temp.attempt($$SELECT drop_devices('lake', 'db', NULL)$$), pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.**', NULL)$$), pg_temp.attempt($$SELECT drop_devices('lake', 'nope', 'root.**')$$),
	pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.site1.*.**')$$);
SELECT outcome FROM procedure_status(drop_devices('lake', 'db', 'root.nope.**', if_exists => true));

-- by pattern: on all that match, or on none. t1 has no heat any more
CALL pg_temp.run($$alter_device('lake', 'db', 'root.**', '[{"op": "drop_measurement", "measurement": "heat"}]')$$);
SELECT count(*) FROM measurements WHERE measurement = 'heat';
CALL pg_temp.run($$alter_device('lake', 'db', 'root.site2.*', '[{"op": "retype_measurement", "measurement": "speed", "type": "INT64"}]')$$);
CALL pg_temp.run($$alter_device('lake', 'db', 'root.*.`t1`', '[{"op": "add_measurement", "name": "only", "type": "INT32"}]')$$);
SELECT * FROM pg_temp.schema;
-- one change a pattern, not one a device; the nodes forget the devices of the database
SELECT operation, table_name, object_id, detail FROM amoro_meta.change WHERE object_kind = 'device' ORDER BY version DESC, ordinal DESC LIMIT 4;
-- a device that has no measurement left is gone
CALL pg_temp.run($$alter_device('lake', 'db', 'root.site2.*', '[{"op": "drop_measurement", "measurement": "speed", "if_exists": true}, {"op": "drop_measurement", "measurement": "heat", "if_exists": true}]')$$);
SELECT device_path FROM devices ORDER BY 1;
CALL pg_temp.run($$drop_devices('lake', 'db', 'root.site1.t1')$$);
CALL pg_temp.run($$drop_devices('lake', 'db', 'root.*.t4')$$);
SELECT device_path FROM devices ORDER BY 1;
-- more devices than one step looks at, most of which do not match
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), d.database_id, format('root.big.s%s.t%s', n % 10, n), 'normal', '{"aligned": false, "measurements": [{"name": "a", "type": "INT32", "encoding": "RLE", "compression": "LZ4"}]}', 1
	FROM databases d, generate_series(1, 7000) n;
CALL pg_temp.run($$alter_device('lake', 'db', 'root.big.**', '[{"op": "set_alias", "measurement": "a", "alias": "b"}]')$$);
SELECT count(*), count(*) FILTER (WHERE alias = 'b'), count(DISTINCT version) FROM measurements JOIN devices USING (device_path) WHERE device_path LIKE 'root.big.%';
CALL pg_temp.run($$drop_devices('lake', 'db', 'root.*.s7.*')$$);
SELECT count(*) FROM devices WHERE device_path LIKE 'root.big.%';
-- the last one cannot be changed so: nothing is
UPDATE amoro_meta.device SET definition = jsonb_set(definition, '{measurements,0,name}', '"z"') WHERE device_path = (SELECT max(device_path) FROM amoro_meta.device WHERE device_path LIKE 'root.big.%');
CALL pg_temp.run($$alter_device('lake', 'db', 'root.big.**', '[{"op": "remove_alias", "measurement": "a"}]')$$);
SELECT count(*) FILTER (WHERE alias = 'b') FROM measurements WHERE device_path LIKE 'root.big.%';
CALL pg_temp.run($$drop_devices('lake', 'db', 'root.big.**')$$);
SELECT detail FROM amoro_meta.change ORDER BY version DESC, ordinal DESC LIMIT 1;
SELECT device_path FROM devices ORDER BY 1;

-- in flight: a silent node holds it up. Readers of all that match see the marker; who wants one of them is told who is in the way
CALL pg_temp.hold($$drop_devices('lake', 'db', 'root.site0.**')$$, 'pre_drop') \gset
SELECT device_path, state, procedure_id = :id FROM devices ORDER BY 1;
SELECT found, state, document IS NOT NULL FROM metadata_lookup('device', 'lake', 'db', 'root.site0.t3');
SELECT found, state FROM metadata_lookup('device', 'lake', 'db', 'root.site1.t7');
SELECT s, replace(pg_temp.attempt(s), :'id', 'N') FROM unnest(ARRAY[$$SELECT drop_devices('lake', 'db', 'root.site0.t3')$$, $$SELECT drop_devices('lake', 'db', 'root.site0.t3', if_exists => true)$$,
	$$SELECT drop_devices('lake', 'db', 'root.site0.**')$$, $$SELECT drop_devices('lake', 'db', 'root.*.t3')$$,
	$$SELECT alter_device('lake', 'db', 'root.site0.t3', '[{"op": "drop_measurement", "measurement": "heat"}]')$$, $$SELECT alter_device('lake', 'db', 'root.**', '[{"op": "drop_measurement", "measurement": "heat"}]')$$,
	$$SELECT create_device('lake', 'db', 'root.site0.new', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$, $$SELECT drop_database('lake', 'db', cascade => true)$$]) s;
-- what does not match goes on
SELECT create_device('lake', 'db', 'root.site0', '{"measurements": [{"name": "a", "type": "INT32"}]}') AS other \gset
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT device_path, state FROM devices WHERE device_path <> 'root.site0' ORDER BY 1;
SELECT count(*) FROM amoro_meta.device_pattern;
SELECT release_node(node_id, incarnation) FROM nodes;
SELECT wait_for_procedure(:other, '30 s');
-- the other way round: a device that is being made is in the way of a pattern
CALL pg_temp.hold($$create_device('lake', 'db', 'root.site3.new', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$, 'pre_create') \gset
SELECT replace(pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.site3.**')$$), :'id', 'N'), pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.site4.**')$$);
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT count(*) FROM devices WHERE device_path = 'root.site3.new';
-- one device: the marker is its own
CALL pg_temp.hold($$alter_device('lake', 'db', 'root.site1.t7', '[{"op": "remove_alias", "measurement": "heat"}]')$$, 'pre_alter') \gset
SELECT device_path, state FROM devices WHERE state <> 'normal';
SELECT count(*) FROM amoro_meta.device_pattern;
SELECT replace(pg_temp.attempt($$SELECT drop_devices('lake', 'db', 'root.site1.**')$$), :'id', 'N');
SELECT release_node(node_id, incarnation) FROM nodes;
SELECT wait_for_procedure(:id, '30 s');
SELECT alias, state FROM measurements WHERE device_path = 'root.site1.t7' AND measurement = 'heat';
SELECT count(*) FROM amoro_meta.procedure_claim;
DROP EXTENSION amoro_meta CASCADE;
