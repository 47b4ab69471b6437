-- The longest names that there are: 255 characters of four bytes each, which do not get shorter when they are compressed.
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.longest(seed integer) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$SELECT string_agg(chr(131072 + (hashint4(seed * 1000 + i) & 32767)), '' ORDER BY i) FROM generate_series(1, 255) i$$;
CREATE FUNCTION pg_temp.longest_path() RETURNS text LANGUAGE sql IMMUTABLE AS
	$$SELECT format('root.`%s`', left(pg_temp.longest(7), 245))$$;
CREATE PROCEDURE pg_temp.run(call text) LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
	outcome text;
BEGIN
	EXECUTE 'SELECT ' || call INTO id;
	COMMIT;
	outcome := wait_for_procedure(id, '30 s');
	RAISE WARNING '% %', (SELECT p.kind FROM procedures p WHERE p.procedure_id = id), outcome;
END;
$$;
SET client_min_messages = error;
SELECT pg_temp.longest(1) AS c, pg_temp.longest(2) AS d, pg_temp.longest(3) AS t, pg_temp.longest(4) AS v, pg_temp.longest(5) AS other,
	pg_temp.longest(6) AS template, pg_temp.longest_path() AS path \gset
SELECT octet_length(:'c') + octet_length(:'d') + octet_length(:'t') AS bytes, pg_column_size(:'c' || :'d' || :'t') > 3000 AS "not compressed";
SET client_min_messages = warning;
\set columns '"columns": [{"name": "a", "type": "int"}]'
SELECT create_optimizer_group('default'), create_catalog(:'c') > 0;

CALL pg_temp.run(format('create_database(%L, %L)', :'c', :'d'));
CALL pg_temp.run(format('create_table(%L, %L, %L, ''{"format": "iceberg", %s}'')', :'c', :'d', :'t', :'columns'));
CALL pg_temp.run(format('create_view(%L, %L, %L, jsonb_build_object(''base'', jsonb_build_object(''table'', %L)))', :'c', :'d', :'v', :'t'));
CALL pg_temp.run(format('set_ttl(%L, %L, ''1 h'', %L)', :'c', :'d', :'v'));
CALL pg_temp.run(format('rename_view(%L, %L, %L, %L, %L)', :'c', :'d', :'v', :'d', :'other'));
CALL pg_temp.run(format('create_device(%L, %L, %L, ''{"measurements": [{"name": "m", "type": "INT32"}]}'')', :'c', :'d', :'path'));
CALL pg_temp.run(format('set_ttl(%L, %L, ''1 h'', path_pattern => %L)', :'c', :'d', :'path'));
CALL pg_temp.run(format('drop_devices(%L, %L, ''root.**'')', :'c', :'d'));
CALL pg_temp.run(format('create_template(%L, %L, %L, ''{"measurements": [{"name": "m", "type": "INT32"}]}'')', :'c', :'d', :'template'));
CALL pg_temp.run(format('drop_template(%L, %L, %L)', :'c', :'d', :'template'));
SELECT view_name = :'other', base_table_name = :'t', ttl_ms FROM views;

-- a claim is in the way of the same name, and of no other of that length
BEGIN;
SELECT drop_view(:'c', :'d', :'other') > 0;
SELECT create_table(:'c', :'d', :'v', ('{"format": "iceberg", ' || :'columns' || '}')::jsonb) > 0;
\set VERBOSITY sqlstate
SELECT drop_view(:'c', :'d', :'other');
\set VERBOSITY default
ROLLBACK;

-- what optimizers and writers do with the table
SELECT count(*) FROM table_runtimes WHERE (catalog_name, database_name, table_name) = (:'c', :'d', :'t');
SELECT (acquire_blocker(:'c', :'d', :'t', '{BATCH_WRITE}')).blocker_id AS blocker \gset
\set VERBOSITY sqlstate
SELECT acquire_blocker(:'c', :'d', :'t', '{BATCH_WRITE}');
\set VERBOSITY default
SELECT (acquire_blocker(:'c', :'d', :'other', '{BATCH_WRITE}')).blocker_id > :blocker AS "of another table";
SELECT blocker_id = :blocker FROM get_blockers(:'c', :'d', :'t');
SELECT release_blocker(:blocker);
SELECT start_process(:'c', :'d', :'t', 'MAJOR', '[{"n": 1}]') AS process \gset
SELECT table_id IS NOT NULL AS "has a runtime", group_name FROM processes WHERE process_id = :process;
SELECT cancel_process(:process);

SELECT count(*) FROM acquire_blocker(:'c', :'d', :'t', '{BATCH_WRITE}');
CALL pg_temp.run(format('drop_table(%L, %L, %L, cascade => true)', :'c', :'d', :'t'));
SELECT count(*) FROM get_blockers(:'c', :'d', :'t');
CALL pg_temp.run(format('drop_database(%L, %L, true)', :'c', :'d'));
SELECT drop_catalog(:'c');
DROP EXTENSION amoro_meta;
