-- Templates of devices: made, appended to, set on paths, activated on devices, and back; what is refused, what is in flight.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
\set ECHO all
\pset format unaligned
\pset tuples_only on
SELECT create_catalog('lake');
CALL pg_temp.run($$create_database('lake', 'db')$$);
CALL pg_temp.run($$create_database('lake', 'other')$$);
CREATE VIEW pg_temp.schema AS SELECT device_path, string_agg(measurement || ' ' || type || coalesce(' (' || template_name || ')', ''), ', ' ORDER BY ordinal) FROM measurements GROUP BY 1;
CREATE VIEW pg_temp.overview AS SELECT database_name, template_name, state, measurement_count, set_paths, device_count FROM templates ORDER BY 1, 2;
\set own '{"measurements": [{"name": "own", "type": "TEXT", "alias": "o"}]}'

-- made, appended to, dropped
CALL pg_temp.run($$create_template('lake', 'db', 'turbine', '{"measurements": [{"name": "speed", "type": "INT32"}, {"name": "heat", "type": "FLOAT", "alias": "h"}]}')$$);
CALL pg_temp.run($$create_template('lake', 'db', 'pump', '{"aligned": true, "measurements": [{"name": "flow", "type": "DOUBLE", "tags": {"unit": "l"}}]}')$$);
CALL pg_temp.run($$create_template('lake', 'other', 'turbine', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$);
SELECT * FROM pg_temp.overview;
SELECT definition FROM templates WHERE template_name = 'pump';
SELECT pg_temp.attempt($$SELECT create_template('lake', 'db', 'turbine', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$), pg_temp.attempt($$SELECT create_template('lake', 'nope', 't', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$),
	pg_temp.attempt($$SELECT create_template('lake', 'db', '', '{"measurements": [{"name": "a", "type": "INT32"}]}')$$), pg_temp.attempt($$SELECT create_template('lake', 'db', NULL, '{"measurements": [{"name": "a", "type": "INT32"}]}')$$),
	pg_temp.attempt($$SELECT create_template('lake', 'db', 't', NULL)$$), pg_temp.attempt($$SELECT create_template('lake', 'db', 't', '{"measurements": []}')$$), pg_temp.attempt($$SELECT create_template('lake', 'db', 't', '{"measurements": [{"name": "a", "type": "x"}]}')$$);
SELECT outcome FROM procedure_status(create_template('lake', 'db', 'turbine', '{"measurements": [{"name": "a", "type": "INT32"}]}', if_not_exists => true));
CALL pg_temp.run($$alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "pressure", "type": "INT64"}]')$$);
SELECT c, pg_temp.attempt(format($$SELECT alter_template('lake', 'db', 'pump', %L)$$, c)) FROM unnest(ARRAY[NULL, '[]', '[{"op": "drop_measurement", "measurement": "flow"}]', '[{"op": "add_measurement", "name": "flow", "type": "INT64"}]',
	'[{"op": "add_measurement", "name": "x", "type": "y"}]']) c;
SELECT pg_temp.attempt($$SELECT alter_template('lake', 'db', 'nope', '[{"op": "add_measurement", "name": "x", "type": "INT32"}]')$$), pg_temp.attempt($$SELECT drop_template('lake', 'db', 'nope')$$), pg_temp.attempt($$SELECT drop_template('lake', 'db', 'nope', NULL)$$);
SELECT outcome FROM procedure_status(drop_template('lake', 'db', 'nope', if_exists => true));
CALL pg_temp.run($$drop_template('lake', 'other', 'turbine')$$);

-- set on paths, none of which is above another; activated at and below them alone
CALL pg_temp.run($$set_template('lake', 'db', 'turbine', 'root.site1')$$);
CALL pg_temp.run($$set_template('lake', 'db', 'turbine', 'root.site2.`wind`')$$);
CALL pg_temp.run($$set_template('lake', 'db', 'pump', 'root.site2.wind')$$);
CALL pg_temp.run($$set_template('lake', 'db', 'pump', 'root.site2')$$);
CALL pg_temp.run($$set_template('lake', 'db', 'pump', 'root.site1.a.b')$$);
CALL pg_temp.run($$set_template('lake', 'db', 'pump', 'root.site11')$$);
SELECT pg_temp.attempt($$SELECT set_template('lake', 'db', 'nope', 'root.x')$$), pg_temp.attempt($$SELECT set_template('lake', 'db', 'pump', 'root.*')$$), pg_temp.attempt($$SELECT set_template('lake', 'db', 'pump', NULL)$$),
	pg_temp.attempt($$SELECT unset_template('lake', 'db', 'pump', 'root.site1')$$), pg_temp.attempt($$SELECT unset_template('lake', 'db', 'pump', 'root.**')$$), pg_temp.attempt($$SELECT drop_template('lake', 'db', 'pump')$$);
CALL pg_temp.run(format($$create_device('lake', 'db', 'root.site1.old', %L)$$, :'own'));
CALL pg_temp.run($$activate_template('lake', 'db', 'turbine', '{root.site1.new,root.site1.old,root.site1,root.site2.wind.t1}')$$);
SELECT * FROM pg_temp.schema ORDER BY 1;
SELECT * FROM pg_temp.overview;
SELECT device_path, template_name, definition FROM devices ORDER BY 1;
SELECT operation, table_name FROM amoro_meta.change ORDER BY version DESC, ordinal LIMIT 8;
SELECT document::jsonb - 'device_id' - 'version' FROM metadata_lookup('device', 'lake', 'db', 'root.site1.old');
-- what is refused
CALL pg_temp.run($$activate_template('lake', 'db', 'turbine', '{root.site1.x,root.site3.x}')$$);
CALL pg_temp.run($$create_devices('lake', 'db', '[{"path": "root.site1.clash", "measurements": [{"name": "speed", "type": "TEXT"}]}, {"path": "root.site1.alias", "measurements": [{"name": "x", "type": "TEXT", "alias": "h"}]},
	{"path": "root.site1.aligned", "aligned": true, "measurements": [{"name": "x", "type": "TEXT"}]}]')$$);
CALL pg_temp.run($$activate_template('lake', 'db', 'turbine', '{root.site1.x,root.site1.clash}')$$);
CALL pg_temp.run($$activate_template('lake', 'db', 'turbine', '{root.site1.alias}')$$);
CALL pg_temp.run($$activate_template('lake', 'db', 'turbine', '{root.site1.aligned}')$$);
SELECT count(*) FROM devices WHERE device_path = 'root.site1.x';
SELECT pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', '{root.site1.old}')$$), pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', '{}')$$), pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', NULL)$$),
	pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', '{NULL}')$$), pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', '{root.a,root.`a`}')$$), pg_temp.attempt($$SELECT activate_template('lake', 'db', 'nope', '{root.a}')$$),
	pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', '{root.*}')$$), pg_temp.attempt($$SELECT activate_template('lake', 'db', 'turbine', array_fill('root.a'::text, ARRAY[1001]))$$);
CALL pg_temp.run($$unset_template('lake', 'db', 'turbine', 'root.site1')$$);
CALL pg_temp.run(format($$alter_device('lake', 'db', 'root.site1.old', %L)$$, '[{"op": "drop_measurement", "measurement": "speed", "if_exists": true}, {"op": "add_measurement", "name": "z", "type": "INT32"}]'));
SELECT pg_temp.attempt($$SELECT alter_device('lake', 'db', 'root.site1.old', '[{"op": "add_measurement", "name": "heat", "type": "INT32"}]')$$);
CALL pg_temp.run($$alter_device('lake', 'db', 'root.site1.*', '[{"op": "add_measurement", "name": "heat", "type": "INT32"}]')$$);
-- appended to while it is active: on all of its devices, unless one of them has such a measurement
CALL pg_temp.run($$alter_template('lake', 'db', 'turbine', '[{"op": "add_measurement", "name": "ok", "type": "BOOLEAN"}]')$$);
CALL pg_temp.run($$alter_template('lake', 'db', 'turbine', '[{"op": "add_measurement", "name": "new", "type": "BOOLEAN"}, {"op": "add_measurement", "name": "o", "type": "BOOLEAN"}]')$$);
SELECT * FROM pg_temp.schema ORDER BY 1;
SELECT v.version = t.version AS of_the_template FROM devices v JOIN templates t USING (template_name) WHERE device_path = 'root.site1.new';

-- back: a device that has nothing of its own goes
CALL pg_temp.run($$deactivate_template('lake', 'db', 'turbine', 'root.site1.old')$$);
CALL pg_temp.run($$deactivate_template('lake', 'db', 'turbine', 'root.site1.**')$$);
SELECT * FROM pg_temp.schema ORDER BY 1;
SELECT pg_temp.attempt($$SELECT deactivate_template('lake', 'db', 'turbine', 'root.site1.**')$$), pg_temp.attempt($$SELECT deactivate_template('lake', 'db', 'turbine', NULL)$$), pg_temp.attempt($$SELECT deactivate_template('lake', 'db', 'nope', 'root.**')$$),
	pg_temp.attempt($$SELECT deactivate_template('lake', 'db', 'turbine', 'root.**', NULL)$$);
SELECT outcome FROM procedure_status(deactivate_template('lake', 'db', 'turbine', 'root.site1.**', if_exists => true));
CALL pg_temp.run($$unset_template('lake', 'db', 'turbine', 'root.site1')$$);
CALL pg_temp.run($$deactivate_template('lake', 'db', 'turbine', 'root.**')$$);
CALL pg_temp.run($$unset_template('lake', 'db', 'turbine', 'root.site1')$$);
CALL pg_temp.run($$unset_template('lake', 'db', 'turbine', 'root.site2.wind')$$);
CALL pg_temp.run($$drop_template('lake', 'db', 'turbine')$$);
SELECT * FROM pg_temp.overview;
SELECT operation, table_name FROM amoro_meta.change WHERE object_kind = 'template' AND table_name = 'turbine' AND database_name = 'db' ORDER BY version;
-- many devices
CALL pg_temp.run($$activate_template('lake', 'db', 'pump', (SELECT array_agg('root.site11.p' || n) FROM generate_series(1, 1000) n))$$);
SELECT device_count FROM templates WHERE template_name = 'pump';
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, template_id, version)
	SELECT amoro_meta.next_id(), database_id, 'root.site11.q' || n, 'normal', '{"aligned": true, "measurements": []}', template_id, 1 FROM amoro_meta.template, generate_series(1, 5000) n WHERE template_name = 'pump';
CALL pg_temp.run($$alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "heat", "type": "FLOAT"}]')$$);
SELECT count(*) FROM measurements WHERE measurement = 'heat';
CALL pg_temp.run($$deactivate_template('lake', 'db', 'pump', 'root.*.*')$$);
SELECT detail FROM amoro_meta.change ORDER BY version DESC, ordinal DESC LIMIT 1;
SELECT device_path FROM devices ORDER BY 1;

-- in flight: a silent node holds it up
CALL pg_temp.run($$activate_template('lake', 'db', 'pump', '{root.site11.a,root.site11.b}')$$);
CALL pg_temp.hold($$alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "late", "type": "FLOAT"}]')$$, 'pre_alter') \gset
SELECT device_path, state, procedure_id = :id FROM devices WHERE device_path LIKE '%site11%' ORDER BY 1;
SELECT state FROM templates WHERE template_name = 'pump';
SELECT s, replace(pg_temp.attempt(s), :'id', 'N') FROM unnest(ARRAY[$$SELECT alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "x", "type": "FLOAT"}]')$$, $$SELECT activate_template('lake', 'db', 'pump', '{root.site11.c}')$$,
	$$SELECT deactivate_template('lake', 'db', 'pump', 'root.site11.a')$$, $$SELECT unset_template('lake', 'db', 'pump', 'root.site11')$$, $$SELECT drop_database('lake', 'db', cascade => true)$$]) s;
-- the step sees what the submission cannot: nothing happens to a device whose template is being appended to
SELECT alter_device('lake', 'db', 'root.**', '[{"op": "add_measurement", "name": "late", "type": "INT32"}]') AS other \gset
SELECT wait_for_procedure(:other, '30 s');
SELECT error_code FROM procedure_status(:other);
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT device_path, state FROM devices WHERE device_path LIKE '%site11%' ORDER BY 1;
-- and the other way round
CALL pg_temp.hold($$alter_device('lake', 'db', 'root.site11.*', '[{"op": "add_measurement", "name": "late", "type": "INT32"}]')$$, 'pre_alter') \gset
SELECT alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "late", "type": "FLOAT"}]') AS other \gset
SELECT wait_for_procedure(:other, '30 s');
SELECT error_code, error_message FROM procedure_status(:other);
SELECT release_node(node_id, incarnation) FROM nodes;
SELECT wait_for_procedure(:id, '30 s');
CALL pg_temp.hold($$activate_template('lake', 'db', 'pump', '{root.site11.c}')$$, 'pre_alter') \gset
SELECT device_path, state FROM devices WHERE state <> 'normal' ORDER BY 1;
SELECT unset_template('lake', 'db', 'pump', 'root.site11') AS other \gset
SELECT wait_for_procedure(:other, '30 s');
SELECT error_code, error_message FROM procedure_status(:other);
SELECT alter_template('lake', 'db', 'pump', '[{"op": "add_measurement", "name": "late", "type": "FLOAT"}]') AS other \gset
SELECT wait_for_procedure(:other, '30 s');
SELECT error_code, error_message FROM procedure_status(:other);
SELECT cancel_procedure(:id);
SELECT wait_for_procedure(:id, '30 s');
SELECT device_path, template_name, state FROM devices WHERE device_path LIKE '%site11%' ORDER BY 1;
SELECT release_node(node_id, incarnation) FROM nodes;

-- with its database
SELECT pg_temp.attempt($$SELECT drop_database('lake', 'db')$$) LIKE '2BP01%';
CALL pg_temp.run($$drop_database('lake', 'db', cascade => true)$$);
SELECT (SELECT count(*) FROM amoro_meta.template), (SELECT count(*) FROM amoro_meta.template_path), (SELECT count(*) FROM amoro_meta.device), (SELECT count(*) FROM amoro_meta.procedure_claim);
DROP EXTENSION amoro_meta CASCADE;
