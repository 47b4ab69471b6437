-- Definitions of tables: what is accepted, in which form it is kept, and where it says what is wrong.
\set ECHO none
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
RESET client_min_messages;
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''));
END;
$$;
CREATE FUNCTION pg_temp.define(definition text) RETURNS text LANGUAGE sql AS
	$$SELECT pg_temp.attempt(format('SELECT amoro_meta.table_definition(%L)', definition))$$;
-- a table with one column of that type: the type as it is kept, or the error
CREATE FUNCTION pg_temp.type(type jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text := pg_temp.define(jsonb_build_object('format', 'iceberg', 'columns',
		jsonb_build_array(jsonb_build_object('name', 'c', 'type', type)))::text);
BEGIN
	RETURN CASE WHEN answer LIKE '{%' THEN answer::jsonb #>> '{columns,0,type}' ELSE answer END;
END;
$$;
CREATE FUNCTION pg_temp.alter(changes text, definition text DEFAULT '{"format": "iceberg", "columns": [
	{"name": "id", "type": "int", "required": true}, {"name": "price", "type": "decimal(10,2)"}, {"name": "note", "type": "string"},
	{"name": "address", "type": "struct<street: string, zip: int>"}, {"name": "tags", "type": "list<float>"},
	{"name": "counts", "type": "map<string, struct<n: int>>"}],
	"primary_key": ["id"], "partitioning": [{"column": ["address", "zip"], "transform": "bucket[16]"}],
	"properties": {"k": "v"}, "ttl": 1000}') RETURNS text LANGUAGE sql AS
	$$SELECT pg_temp.attempt(format('SELECT amoro_meta.altered_definition(amoro_meta.table_definition(%L), %L)', definition, changes))$$;
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- the smallest and a full one; ids are given in order, depth first, after the highest that is there
SELECT pg_temp.define('{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}');
SELECT pg_temp.define('{"format": "mixed_hive", "location": "hdfs://nn:8020/warehouse/t", "comment": "orders", "ttl": 86400000,
	"columns": [{"id": 7, "name": "id", "type": "long", "required": true, "doc": "the key"}, {"name": "at", "type": "timestamptz"},
		{"name": "lines", "type": "list<struct<sku: string, n: int>>"}],
	"partitioning": [{"column": "at", "transform": "day"}, {"column_id": 7, "transform": "bucket[8]"}], "primary_key": ["id"],
	"properties": {"write.format": "orc", "ünïcode \"key\"": ""}}');
-- the canonical form is a definition too, and is kept as it is
SELECT amoro_meta.table_definition(d) = d FROM amoro_meta.table_definition('{"format": "paimon", "ttl": 1, "primary_key": ["a"],
	"columns": [{"name": "a", "type": "int", "comment": ""}, {"name": "m", "type": "map<string, list<struct<x: decimal(38,38)>>>"}],
	"partitioning": [{"column": "a", "transform": "truncate[10]"}], "properties": {"p": "q"}, "location": "/a/b"}') d;

-- every type
SELECT t, pg_temp.type(to_jsonb(t)) = t FROM unnest(string_to_array('boolean int long float double date time timestamp timestamptz '
	'timestamp_ns timestamptz_ns string uuid binary variant unknown geometry geography decimal(1,0) decimal(38,38) fixed[1] '
	'fixed[2147483647]', ' ')) t WHERE pg_temp.type(to_jsonb(t)) IS DISTINCT FROM t;
SELECT pg_temp.type('" decimal( 10 , 2 ) "');
SELECT pg_temp.type('"struct<a: int, größe in m: list<map<string, struct<b: boolean>>>>"');
SELECT pg_temp.type('{"type": "list", "element": "int", "element-id": 5, "element-required": true}');
SELECT pg_temp.type('{"type": "map", "key-id": 9, "key": "string", "value-id": 8, "value": {"type": "list", "element": "uuid"}, "value-required": true}');
SELECT pg_temp.type('{"type": "struct", "fields": [{"id": 3, "name": "x", "required": true, "type": "int", "doc": "d"}, {"name": "y", "type": "list<int>"}]}');

-- types that are none
SELECT t, pg_temp.type(t) FROM unnest(ARRAY['"integer"', '""', '"INT"', '"decimal"', '"decimal(0,0)"', '"decimal(39,1)"', '"decimal(5,6)"',
	'"decimal(5)"', '"decimal(a,b)"', '"decimal(99999999999,1)"', '"fixed"', '"fixed[0]"', '"fixed[2147483648]"', '"fixed[-1]"', '"list<>"',
	'"list<int"', '"list<int>>"', '"int "', '"map<int>"', '"map<int, int, int>"', '"struct<>"', '"struct<a>"', '"struct<a: int,>"',
	'"struct<a: int, a: int>"', '"struct<: int>"', '7', 'null', '[]', '{}', '{"type": "int"}', '{"type": "list"}', '{"type": "list", "element": 1}',
	'{"type": "list", "element": "int", "element-id": 0}', '{"type": "list", "element": "int", "size": 3}', '{"type": "struct"}',
	'{"type": "struct", "fields": []}', '{"type": "struct", "fields": [{"name": "x"}]}', '{"type": "map", "key": "int"}',
	'{"type": "map", "key": "int", "value": "nope"}', '"nöööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööt"']::jsonb[]) t;
SELECT pg_temp.type(to_jsonb(repeat('list<', 31) || 'int' || repeat('>', 31))) LIKE '{%' AS "31 deep",
	pg_temp.type(to_jsonb(repeat('list<', 32) || 'int' || repeat('>', 32))) AS "32 deep",
	pg_temp.type(to_jsonb(repeat('list<', 100000) || 'int' || repeat('>', 100000))) AS "100,000 deep";
SELECT pg_temp.type((repeat('{"type": "list", "element": ', 40) || '"int"' || repeat('}', 40))::jsonb);

-- definitions that are none
SELECT d, pg_temp.define(d) FROM unnest(ARRAY['7', '"x"', '[]', 'null', '{}', '{"format": "iceberg"}', '{"format": "parquet", "columns": []}', '{"format": 1}',
	'{"format": "iceberg", "columns": []}', '{"format": "iceberg", "columns": {}}', '{"format": "iceberg", "columns": [1]}',
	'{"format": "iceberg", "columns": [{"type": "int"}]}', '{"format": "iceberg", "columns": [{"name": 1, "type": "int"}]}',
	'{"format": "iceberg", "columns": [{"name": "", "type": "int"}]}', '{"format": "iceberg", "columns": [{"name": "a\nb", "type": "int"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}, {"name": "a", "type": "long"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int", "id": 1}, {"name": "b", "type": "int", "id": 1}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int", "id": 1.5}]}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int", "id": 1e30}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int", "id": 2147483647}, {"name": "b", "type": "int"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int", "required": "yes"}]}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int", "nullable": true}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "owner": "me"}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": []}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"k": 1}}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"": ""}}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"a b": {"x": null}}}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "ttl": 0}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "ttl": "1 day"}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "primary_key": ["b"]}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "primary_key": ["a", 1]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "list<int>"}], "primary_key": ["a"]}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "primary_key": [[]]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"column": "a"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"transform": "identity"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"column": "a", "transform": "week"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"column": "a", "transform": "day"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "date"}], "partitioning": [{"column": "a", "transform": "hour"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"column": "a", "transform": "bucket[0]"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "partitioning": [{"column": "a", "transform": "void"}, {"column_id": 1, "transform": "void"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "list<int>"}], "partitioning": [{"column": ["a", "element"], "transform": "identity"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "map<string, int>"}], "partitioning": [{"column": ["a", "key"], "transform": "identity"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "map<string, int>"}], "partitioning": [{"column_id": 3, "transform": "void"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "struct<b: list<struct<c: int>>>"}], "partitioning": [{"column": ["a", "b", "element", "c"], "transform": "bucket[4]"}]}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": ""}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "bucket"}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "s3:"}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "3s://a"}',
	'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "location": "s3://a b"}', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "comment": 3}']) d;

-- sizes
SELECT length(pg_temp.define(jsonb_build_object('format', 'iceberg', 'columns', (SELECT jsonb_agg(jsonb_build_object('name', n::text, 'type', 'int'))
	FROM generate_series(1, 10000) n))::text)) > 100000 AS "10,000 columns",
	pg_temp.define(jsonb_build_object('format', 'iceberg', 'columns', (SELECT jsonb_agg(jsonb_build_object('name', n::text, 'type', 'int'))
	FROM generate_series(1, 10001) n))::text) AS "10,001",
	pg_temp.define(jsonb_build_object('format', 'iceberg', 'columns', (SELECT jsonb_agg(jsonb_build_object('name', n::text, 'type', 'list<int>'))
	FROM generate_series(1, 5001) n))::text) AS "10,002, nested ones counted";
SELECT pg_temp.define(format('{"format": "iceberg", "columns": [{"name": "%s", "type": "int"}]}', repeat('ü', 255))) LIKE '{%' AS "255 characters",
	pg_temp.define(format('{"format": "iceberg", "columns": [{"name": "%s", "type": "int"}]}', repeat('ü', 256))) AS "256";
SELECT pg_temp.define(format('{"format": "iceberg", "columns": [{"name": "a", "type": "int"}], "properties": {"k": "%s"}}', repeat('x', 17000000)));

SELECT pg_temp.define(jsonb_build_object('format', 'iceberg', 'columns', '[{"name": "a", "type": "int"}]'::jsonb, 'properties',
	(SELECT jsonb_object_agg(n, '') FROM generate_series(1, 1001) n))::text);
SELECT pg_temp.alter(jsonb_build_array(jsonb_build_object('op', 'remove_properties', 'keys', jsonb_build_array(repeat('x', 1100000))))::text);

-- names that are odd, and kept
SELECT pg_temp.define(jsonb_build_object('format', 'hudi', 'columns', (SELECT jsonb_agg(jsonb_build_object('name', n, 'type', 'int'))
	FROM unnest(ARRAY['a.b', 'a/b', '"', '''', '\', '%s %n', '$1', ' ', '日本', 'NULL', 'a', 'A', '; DROP TABLE x --']) n))::text)::jsonb #> '{columns}' @>
	'[{"name": "%s %n"}, {"name": "; DROP TABLE x --"}, {"name": "日本"}, {"name": "\\"}]';

-- changes
SELECT pg_temp.alter('[{"op": "add_column", "column": "new", "type": "list<int>", "comment": "c"},
	{"op": "add_column", "column": ["address", "city"], "type": "string"}, {"op": "add_column", "column": ["counts", "value", "m"], "type": "int"},
	{"op": "drop_column", "column": "note"}, {"op": "drop_column", "column": ["address", "street"]},
	{"op": "rename_column", "column": "id", "new_name": "key"}, {"op": "rename_column", "column": ["address", "zip"], "new_name": "post code"},
	{"op": "retype_column", "column": "key", "type": "long"}, {"op": "retype_column", "column": "price", "type": "decimal(12,2)"},
	{"op": "retype_column", "column": ["tags", "element"], "type": "double"}, {"op": "retype_column", "column": ["counts", "value", "n"], "type": "long"},
	{"op": "set_properties", "properties": {"k": "w", "l": "x"}}, {"op": "remove_properties", "keys": ["l", "absent"]}, {"op": "set_ttl", "ttl": 5}]');
SELECT pg_temp.alter('[{"op": "unset_ttl"}, {"op": "remove_properties", "keys": ["k"]}]')::jsonb - 'columns';
-- an id is never used again, not even when the newest column was dropped
SELECT pg_temp.alter('[{"op": "add_column", "column": "x", "type": "int"}, {"op": "drop_column", "column": "x"}, {"op": "add_column", "column": "x", "type": "int"}]')::jsonb
	#> '{columns,6,id}';
-- two columns exchange their names
SELECT pg_temp.alter('[{"op": "rename_column", "column": "id", "new_name": "x"}, {"op": "rename_column", "column": "note", "new_name": "id"},
	{"op": "rename_column", "column": "x", "new_name": "note"}]')::jsonb #>> '{columns,0,name}';

-- changes that are none
SELECT c, pg_temp.alter(c) FROM unnest(ARRAY['{}', '[]', '[1]', '[{}]', '[{"op": "truncate"}]', '[{"op": "add_column"}]', '[{"op": "add_column", "column": "x"}]',
	'[{"op": "add_column", "column": "id", "type": "int"}]', '[{"op": "add_column", "column": "x", "type": "int", "required": true}]',
	'[{"op": "add_column", "column": "x", "type": "int", "after": "id"}]', '[{"op": "add_column", "column": ["nope", "x"], "type": "int"}]',
	'[{"op": "add_column", "column": ["tags", "x"], "type": "int"}]', '[{"op": "add_column", "column": ["id", "x"], "type": "int"}]', '[{"op": "add_column", "column": [], "type": "int"}]',
	'[{"op": "add_column", "column": ["address", 1], "type": "int"}]', '[{"op": "add_column", "column": "", "type": "int"}]',
	'[{"op": "drop_column", "column": "nope"}]', '[{"op": "drop_column", "column": "id"}]', '[{"op": "drop_column", "column": ["address", "zip"]}]', '[{"op": "drop_column", "column": "address"}]',
	'[{"op": "drop_column", "column": ["tags", "element"]}]', '[{"op": "drop_column", "column": ["counts", "value", "n"]}]',
	'[{"op": "rename_column", "column": "id", "new_name": "note"}]', '[{"op": "rename_column", "column": "id", "new_name": "id"}]', '[{"op": "rename_column", "column": ["tags", "element"], "new_name": "e"}]',
	'[{"op": "rename_column", "column": "id", "new_name": "a\u0007"}]', '[{"op": "retype_column", "column": "id", "type": "string"}]', '[{"op": "retype_column", "column": "note", "type": "int"}]',
	'[{"op": "retype_column", "column": "price", "type": "decimal(9,2)"}]', '[{"op": "retype_column", "column": "price", "type": "decimal(12,3)"}]',
	'[{"op": "retype_column", "column": "price", "type": "double"}]', '[{"op": "retype_column", "column": "tags", "type": "list<double>"}]',
	'[{"op": "retype_column", "column": ["counts", "key"], "type": "string"}]', '[{"op": "set_properties", "properties": {"k": null}}]', '[{"op": "set_properties"}]',
	'[{"op": "remove_properties", "keys": "k"}]', '[{"op": "remove_properties", "keys": [1]}]', '[{"op": "set_ttl", "ttl": -1}]', '[{"op": "unset_ttl", "ttl": 1}]',
	'[{"op": "unset_ttl"}, {"op": "drop_column", "column": "nope"}]']) c;
SELECT pg_temp.alter('[{"op": "drop_column", "column": "only"}]', '{"format": "iceberg", "columns": [{"name": "only", "type": "int"}]}');
SELECT pg_temp.alter((SELECT jsonb_agg('{"op": "unset_ttl"}'::jsonb) FROM generate_series(1, 1001))::text);
\set ECHO none
SET client_min_messages = warning;
DROP EXTENSION amoro_meta;
