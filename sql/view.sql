-- Views: what they may show, how they and their tables follow each other, what nodes are told, who else sees them.
\set ECHO none
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set head :abs_srcdir '/sql/include/procedure.psql'
\i :head
\set definition '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}, {"name": "c", "type": {"type": "struct", "fields": [{"name": "x", "type": "int"}]}}], "location": "s3://bucket/path"}'
\set ECHO all
\pset format unaligned
\pset tuples_only on

SET client_min_messages = warning;
SELECT create_catalog('lake') IS NOT NULL;
CALL pg_temp.run($$create_database('lake', 'd')$$);
CALL pg_temp.run($$create_database('lake', 'e')$$);
CALL pg_temp.run(format($$create_table('lake', 'd', 't', %L)$$, :'definition'));
CREATE FUNCTION pg_temp.document(database_name text, name text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT document::jsonb - 'version' - 'table_id' - 'catalog' #- '{definition,base,table_id}' #- '{definition,properties}'
		FROM metadata_lookup('table', 'lake', database_name, name)
$$;
-- what the last procedure has told the nodes
CREATE VIEW pg_temp.told AS SELECT string_agg(concat_ws(' ', object_kind, operation, database_name, table_name), ', ' ORDER BY version, ordinal)
	FROM amoro_meta.change WHERE procedure_id = (SELECT max(procedure_id) FROM amoro_meta.change);
CREATE VIEW pg_temp.shown AS SELECT database_name, view_name, base_database_name, base_table_name,
	(SELECT string_agg(concat_ws(' ', f->>'name', 'of', f->>'source', f->>'type', f->>'comment'), ', ' ORDER BY o) FROM jsonb_array_elements(columns) WITH ORDINALITY x (f, o)),
	comment, properties, ttl_ms FROM views;

-- all columns, some of them, under other names
CALL pg_temp.run($$create_view('lake', 'd', 'all', '{"base": {"table": "t"}}')$$);
SELECT * FROM pg_temp.told;
CALL pg_temp.run($$create_view('lake', 'e', 'some', '{"base": {"database": "d", "table": "t"}, "columns": ["b", {"name": "number", "source": "a", "comment": "how many"}],
	"comment": "a view", "properties": {"owner": "me"}}')$$);
SELECT * FROM pg_temp.shown ORDER BY 1, 2;
SELECT pg_temp.document('e', 'some');
SELECT state, version = (SELECT version FROM amoro_meta.metadata_version) FROM views WHERE view_name = 'some';
-- views are no tables, but have their names
SELECT table_name FROM tables;
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[
	format('SELECT create_table(%L, %L, %L, %L)', 'lake', 'd', 'all', :'definition'), format('SELECT create_table(%L, %L, %L, %L, if_not_exists => true)', 'lake', 'd', 'all', :'definition'),
	$$SELECT create_view('lake', 'd', 't', '{"base": {"table": "t"}}')$$, $$SELECT create_view('lake', 'd', 't', '{"base": {"table": "t"}}', if_not_exists => true)$$,
	$$SELECT create_view('lake', 'd', 'all', '{"base": {"table": "t"}}')$$, $$SELECT create_view('lake', 'd', 'x', '{"base": {"table": "all"}}')$$,
	$$SELECT alter_table('lake', 'd', 'all', '[{"op": "unset_ttl"}]')$$, $$SELECT rename_table('lake', 'd', 'all', 'd', 'x')$$, $$SELECT drop_table('lake', 'd', 'all')$$,
	$$SELECT drop_table('lake', 'd', 'all', if_exists => true)$$, $$SELECT alter_view('lake', 'd', 't', '[{"op": "unset_ttl"}]')$$,
	$$SELECT rename_view('lake', 'd', 't', 'd', 'x')$$, $$SELECT drop_view('lake', 'd', 't', if_exists => true)$$, $$SELECT drop_view('lake', 'd', 'nope')$$,
	$$SELECT alter_view('lake', 'd', 'nope', '[{"op": "unset_ttl"}]')$$, $$SELECT rename_view('lake', 'd', 'nope', 'd', 'x')$$]) s;
SELECT outcome FROM procedure_status(create_view('lake', 'd', 'all', '{"base": {"table": "t"}}', if_not_exists => true));
SELECT outcome FROM procedure_status(drop_view('lake', 'd', 'nope', if_exists => true));
-- definitions that are none
SELECT pg_temp.attempt(format('SELECT create_view(''lake'', ''d'', ''x'', %L)', s)) FROM unnest(ARRAY[NULL, '{}', '[]', '"t"', '{"base": "t"}', '{"base": {}}', '{"base": {"table": 5}}',
	'{"base": {"table": "nope"}}', '{"base": {"database": "nope", "table": "t"}}', '{"base": {"table": "t", "x": 1}}', '{"base": {"table": "t"}, "columns": []}',
	'{"base": {"table": "t"}, "columns": ["nope"]}', '{"base": {"table": "t"}, "columns": ["a", "a"]}', '{"base": {"table": "t"}, "columns": [{"source": "a"}]}',
	'{"base": {"table": "t"}, "columns": [{"name": "", "source": "a"}]}', '{"base": {"table": "t"}, "columns": [{"name": "x", "source": "a", "type": "int"}]}',
	'{"base": {"table": "t"}, "columns": [5]}', '{"base": {"table": "t"}, "ttl": 0}', '{"base": {"table": "t"}, "properties": {"a": 1}}', '{"base": {"table": "t"}, "format": "iceberg"}']) s;
SELECT left(pg_temp.attempt(format('SELECT create_view(''lake'', ''d'', %L, ''{"base": {"table": "t"}}'')', repeat('x', 10000))), 80), pg_temp.attempt($$SELECT create_view('lake', NULL, 'x', '{"base": {"table": "t"}}')$$);

-- the view alone: columns come, go and get other names
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "add_column", "column": "again", "source": "b"}, {"op": "rename_column", "column": "b", "new_name": "text"},
	{"op": "drop_column", "column": "number"}, {"op": "set_properties", "properties": {"k": "v"}}, {"op": "remove_properties", "keys": ["owner"]}]')$$);
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.shown WHERE view_name = 'some';
SELECT jsonb_array_length(definition->'columns') FROM tables;
SELECT pg_temp.attempt(format('SELECT alter_view(''lake'', ''e'', ''some'', %L)', s)) FROM unnest(ARRAY[NULL, '[]', '{}', '[{"op": "nope"}]', '[{"op": "add_column", "column": "new"}]',
	'[{"op": "add_column", "column": "new", "type": "date"}]', '[{"op": "add_column", "column": "text", "source": "a"}]', '[{"op": "add_column", "column": "n", "source": "a", "type": "long"}]',
	'[{"op": "drop_column", "column": "nope"}]', '[{"op": "drop_column", "column": "text"}, {"op": "drop_column", "column": "again"}]', '[{"op": "rename_column", "column": "text", "new_name": "again"}]',
	'[{"op": "rename_column", "column": "text", "new_name": ""}]', '[{"op": "retype_column", "column": "text", "type": "int"}]', '[{"op": "set_ttl"}]', '[{"op": "unset_ttl", "ttl": 5}]']) s;
-- types are those of the table: what reaches other views is refused, or they follow
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "add_column", "column": "number", "source": "a", "type": "int"}]')$$);
SELECT pg_temp.attempt($$SELECT alter_view('lake', 'e', 'some', '[{"op": "retype_column", "column": "number", "type": "long"}]')$$);
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "retype_column", "column": "number", "type": "long"}]', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.shown ORDER BY 1, 2;
SELECT definition->'columns'->0->>'type', t.version = r.table_version FROM tables t JOIN amoro_meta.table_runtime r USING (table_id);
SELECT count(DISTINCT version) FROM (SELECT version FROM views UNION SELECT version FROM tables) v;
-- a column that the table has not: added to it with cascade only
SELECT pg_temp.attempt($$SELECT alter_view('lake', 'e', 'some', '[{"op": "add_column", "column": "day", "type": "date"}]')$$),
	pg_temp.attempt($$SELECT alter_view('lake', 'e', 'some', '[{"op": "add_column", "column": "day"}]', cascade => true)$$);
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "add_column", "column": "day", "source": "the day", "type": "date"}]', cascade => true)$$);
-- the other view says nothing of it
SELECT * FROM pg_temp.told;
SELECT pg_temp.document('e', 'some')->'definition'->'columns'->3, definition->'columns'->3 FROM tables;
-- and dropped from it
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "drop_column", "column": "day"}]', cascade => true)$$);
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "drop_column", "column": "again"}]', cascade => true)$$);
SELECT jsonb_array_length(definition->'columns') FROM tables;
-- times to live: of the view alone, or of its table as well; a view without one has that of its table
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "set_ttl", "ttl": 1000}]')$$);
SELECT v, (effective_ttl('lake', d, v)).* FROM (VALUES ('d', 't'), ('d', 'all'), ('e', 'some')) x (d, v);
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "set_ttl", "ttl": 2000}]', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT v, (effective_ttl('lake', d, v)).* FROM (VALUES ('d', 't'), ('d', 'all'), ('e', 'some')) x (d, v);
SELECT pg_temp.document('d', 'all')->'ttl_ms', pg_temp.document('e', 'some')->'ttl_ms';
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "unset_ttl"}]', cascade => true)$$);
CALL pg_temp.run($$set_ttl('lake', 'd', '1 min')$$);
SELECT * FROM pg_temp.told;
SELECT v, (effective_ttl('lake', d, v)).* FROM (VALUES ('d', 't'), ('d', 'all'), ('e', 'some')) x (d, v);
CALL pg_temp.run($$set_ttl('lake', 'd', '1 h', table_name => 't')$$);
SELECT * FROM pg_temp.told;
CALL pg_temp.run($$set_ttl('lake', 'e', '5 s', table_name => 'some')$$);
SELECT v, (effective_ttl('lake', d, v)).* FROM (VALUES ('d', 't'), ('d', 'all'), ('e', 'some')) x (d, v);
SELECT pg_temp.document('d', 'all')->'ttl_ms', pg_temp.document('e', 'some')->'ttl_ms';

-- the table changes: names follow, types and columns are refused or follow
CALL pg_temp.run($$alter_table('lake', 'd', 't', '[{"op": "rename_column", "column": "a", "new_name": "amount"}, {"op": "add_column", "column": "z", "type": "int"}]')$$);
SELECT * FROM pg_temp.told;
CALL pg_temp.run($$alter_table('lake', 'd', 't', '[{"op": "set_properties", "properties": {"k": "v"}}]')$$);
SELECT * FROM pg_temp.told;
CALL pg_temp.run($$rename_table('lake', 'd', 't', 'd', 'u')$$);
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.shown ORDER BY 1, 2;
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[$$SELECT alter_table('lake', 'd', 'u', '[{"op": "drop_column", "column": "b"}]')$$,
	$$SELECT alter_table('lake', 'd', 'u', '[{"op": "rename_column", "column": ["c", "x"], "new_name": "y"}]')$$, $$SELECT drop_table('lake', 'd', 'u')$$,
	$$SELECT alter_table('lake', 'd', 'u', '[{"op": "unset_ttl"}]', NULL)$$, $$SELECT drop_table('lake', 'd', 'u', cascade => NULL)$$]) s;
CALL pg_temp.run($$alter_view('lake', 'e', 'some', '[{"op": "drop_column", "column": "number"}]')$$);
-- a view that loses its last column goes
CALL pg_temp.run($$alter_table('lake', 'd', 'u', '[{"op": "drop_column", "column": "b"}]', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.shown ORDER BY 1, 2;
SELECT found FROM metadata_lookup('table', 'lake', 'e', 'some');

-- renamed, over databases; a name that is taken
CALL pg_temp.run($$rename_view('lake', 'd', 'all', 'e', 'everything')$$);
SELECT * FROM pg_temp.told;
SELECT pg_temp.attempt($$SELECT rename_view('lake', 'e', 'everything', 'd', 'u')$$), pg_temp.attempt($$SELECT rename_view('lake', 'e', 'everything', 'e', 'everything')$$);
SELECT database_name, view_name, base_table_name FROM views;
-- a database whose tables are shown elsewhere stays; with all that is in it goes what shows others
SELECT pg_temp.attempt($$SELECT drop_database('lake', 'd', cascade => true)$$);
SELECT pg_temp.attempt($$SELECT drop_database('lake', 'e')$$);
CALL pg_temp.run($$drop_database('lake', 'e', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT count(*) FROM views;

-- dropped: the table stays, or goes along with a view of all its columns, unless others show it
CALL pg_temp.run($$create_view('lake', 'd', 'part', '{"base": {"table": "u"}, "columns": ["z"]}')$$);
CALL pg_temp.run($$create_view('lake', 'd', 'whole', '{"base": {"table": "u"}}')$$);
CALL pg_temp.run($$drop_view('lake', 'd', 'whole', cascade => true)$$);
CALL pg_temp.run($$drop_view('lake', 'd', 'part', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT table_name FROM tables;
CALL pg_temp.run($$drop_view('lake', 'd', 'whole')$$);
SELECT table_name FROM tables;
CALL pg_temp.run($$create_view('lake', 'd', 'whole', '{"base": {"table": "u"}}')$$);
CALL pg_temp.run($$drop_view('lake', 'd', 'whole', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT count(*) FROM amoro_meta.table_metadata;
-- with the table go its views
CALL pg_temp.run(format($$create_table('lake', 'd', 't', %L)$$, :'definition'));
CALL pg_temp.run($$create_view('lake', 'd', 'v', '{"base": {"table": "t"}}')$$);
CALL pg_temp.run($$create_view('lake', 'd', 'w', '{"base": {"table": "t"}, "columns": ["a"]}')$$);
CALL pg_temp.run($$drop_table('lake', 'd', 't', cascade => true)$$);
SELECT * FROM pg_temp.told;
SELECT count(*) FROM amoro_meta.table_metadata;

-- what works on a view holds its table, and the other way round
CALL pg_temp.run(format($$create_table('lake', 'd', 't', %L)$$, :'definition'));
CALL pg_temp.run($$create_view('lake', 'd', 'v', '{"base": {"table": "t"}}')$$);
CREATE FUNCTION pg_temp.conflict(holder text, other text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT ' || holder;
	result := left(pg_temp.attempt('SELECT ' || other), 40);
	RAISE SQLSTATE 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN result;
END;
$$;
SELECT h, o, pg_temp.conflict(h, o) FROM unnest(ARRAY[$$alter_view('lake', 'd', 'v', '[{"op": "unset_ttl"}]')$$, $$rename_view('lake', 'd', 'v', 'd', 'w')$$,
		$$drop_view('lake', 'd', 'v')$$, $$create_view('lake', 'd', 'x', '{"base": {"table": "t"}}')$$]) h,
	unnest(ARRAY[$$alter_table('lake', 'd', 't', '[{"op": "unset_ttl"}]')$$, $$rename_table('lake', 'd', 't', 'd', 'x')$$, $$drop_table('lake', 'd', 't', cascade => true)$$,
		$$drop_database('lake', 'd', cascade => true)$$, $$create_view('lake', 'd', 'y', '{"base": {"table": "t"}}')$$]) o WHERE pg_temp.conflict(h, o) NOT LIKE 'AM401%';
SELECT h, o, pg_temp.conflict(h, o) FROM unnest(ARRAY[$$rename_table('lake', 'd', 't', 'd', 'x')$$, $$drop_table('lake', 'd', 't', cascade => true)$$,
		$$alter_table('lake', 'd', 't', '[{"op": "rename_column", "column": "a", "new_name": "n"}]')$$]) h,
	unnest(ARRAY[$$alter_view('lake', 'd', 'v', '[{"op": "unset_ttl"}]')$$, $$drop_view('lake', 'd', 'v')$$, $$set_ttl('lake', 'd', '1 s', table_name => 'v')$$]) o
	WHERE pg_temp.conflict(h, o) NOT LIKE 'AM401%';

-- who else sees tables: views have no runtime and are not optimized; terminals list and describe them
SELECT count(*) FROM table_runtimes;
SELECT count(*) FROM amoro_meta.runtime_source;
SELECT table_ids FROM amoro_meta.stale_runtimes(0, 100);
SELECT pg_temp.attempt($$SELECT start_process('lake', 'd', 'v', 'MINOR', '[{}]')$$);
SELECT rows FROM amoro_meta.show_tables('lake', 'd');
SELECT rows FROM amoro_meta.describe_table('lake', 'd', 'v');
SELECT object_name, state FROM metadata_snapshot('table') ORDER BY 1;
SELECT document::jsonb #- '{tables,0,version}' #- '{tables,1,version}' FROM metadata_listing('table', 'lake', 'd');
-- a table with thousands of views: to mark them takes about as long as to change them
INSERT INTO amoro_meta.table_metadata (table_id, database_id, table_name, state, definition, version, relation_kind, base_id)
	SELECT amoro_meta.next_id(), t.database_id, 'many' || n, 'normal', '{"columns": [{"name": "a", "column_id": 1}]}', 1, 'view', t.table_id
	FROM amoro_meta.table_metadata t, generate_series(1, 6000) n WHERE t.relation_kind = 'table';
ANALYZE amoro_meta.table_metadata;
CALL pg_temp.run($$alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 123}]')$$);
SELECT count(*) FROM views WHERE version = (SELECT version FROM amoro_meta.metadata_version) AND view_name LIKE 'many%';
SELECT (times->'submitted'->0)::numeric < 6 * (times->'pre_alter'->0)::numeric + 2 FROM amoro_meta.procedure ORDER BY procedure_id DESC LIMIT 1;
CALL pg_temp.run($$drop_database('lake', 'd', cascade => true)$$);
-- nothing is left
SELECT (SELECT count(*) FROM amoro_meta.table_metadata), (SELECT count(*) FROM amoro_meta.procedure_claim);
SET client_min_messages = warning;
DROP VIEW pg_temp.told, pg_temp.shown;
DROP EXTENSION amoro_meta;
