-- Tables that catalogs keep elsewhere: what a listing adds, changes and removes, and when it waits for an operator.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
SELECT create_catalog('hive', 'pushed') > 0 AS created;
-- names t<first> to t<last>
CREATE FUNCTION listing(first integer, last integer) RETURNS jsonb LANGUAGE sql
	RETURN coalesce((SELECT jsonb_agg(jsonb_build_object('name', 't' || i)) FROM generate_series(first, last) i), '[]');

SELECT * FROM report_listing('hive', 'sales', listing(1, 10), true);
SELECT * FROM report_listing('hive', 'stock', listing(1, 10), true);
SELECT database_name, count(*), count(DISTINCT table_id) AS ids, min(format) AS format, bool_and(supported) AS supported
	FROM external_tables WHERE catalog_name = 'hive' GROUP BY 1 ORDER BY 1;

-- nothing new: no row is touched, and no transaction id taken
BEGIN;
SELECT * FROM report_listing('hive', 'sales', listing(1, 10), true);
SELECT pg_current_xact_id_if_assigned() IS NULL AS wrote_nothing;
COMMIT;

-- only what was listed completely may disappear
SELECT * FROM report_listing('hive', 'sales', listing(1, 8), false);
SELECT * FROM report_listing('hive', 'sales', listing(1, 8), true);
SELECT count(*) FROM external_tables WHERE database_name = 'sales';
-- what goes within one interval goes at once: 2 were removed, 3 more are a quarter of 20
SELECT * FROM report_listing('hive', 'stock', listing(4, 10), true);
SELECT table_name, missing_since IS NOT NULL AS missing FROM held_tables ORDER BY 1;
-- one of them is there again: what is missing still is removed, as it is no longer too much
SELECT * FROM report_listing('hive', 'stock', listing(3, 10), true);
SELECT * FROM held_tables;
SELECT * FROM report_listing('hive', 'stock', '[]', true);
SELECT confirm_removal('hive'), confirm_removal('hive') AS again;
SELECT database_name, count(*) FROM external_tables GROUP BY 1;
-- a share of its own; 100: never held
SELECT alter_catalog('hive', properties => '{"max-removed-share": "100"}');
SELECT * FROM report_listing('hive', 'sales', listing(1, 1), true);

-- formats, uuids and properties; a table of the same name with another uuid is another table
SELECT * FROM report_listing('hive', 'lake', '[{"name": "a", "format": "HUDI"}, {"name": "b", "uuid": "u1"}, {"name": "c", "properties": {"k": "v"}}]', true);
SELECT table_id AS old_id FROM external_tables WHERE database_name = 'lake' AND table_name = 'b' \gset
SELECT table_name, format, supported, table_uuid, properties FROM external_tables WHERE database_name = 'lake' ORDER BY 1;
SELECT * FROM report_listing('hive', 'lake', '[{"name": "a"}, {"name": "b", "uuid": "u2"}, {"name": "c", "properties": {}}]', true);
SELECT table_name, format, supported, table_uuid, properties, table_id = :old_id AS same_table
	FROM external_tables WHERE database_name = 'lake' ORDER BY 1;
-- twice in one listing
SELECT * FROM report_listing('hive', 'lake', '[{"name": "d"}, {"name": "d"}]', false);

-- names that cannot be kept are skipped; everything else is a name
SELECT * FROM report_listing('hive', 'odd', jsonb_build_array(jsonb_build_object('name', ''), jsonb_build_object('name', repeat('x', 256)),
	jsonb_build_object('name', E'a\tb'), jsonb_build_object('name', 'a.b/c "d"'), jsonb_build_object('name', 'ü')), true);
SELECT table_name FROM external_tables WHERE database_name = 'odd' ORDER BY table_name COLLATE "C";

-- filters; what they hide leaves like what is gone
SELECT alter_catalog('hive', properties => '{"max-removed-share": "100", "database-filter": "la.*|odd", "table-filter": "lake\\.[ab]|odd\\..*"}');
SELECT * FROM report_listing('hive', 'lake', '[{"name": "a"}, {"name": "b"}, {"name": "c"}]', true);
SELECT * FROM report_listing('hive', 'flake', '[{"name": "a"}]', true);
SELECT * FROM report_listing('hive', 'sales', listing(1, 1), true);
SELECT database_name, table_name FROM external_tables WHERE database_name <> 'odd' ORDER BY 1, 2;
SELECT alter_catalog('hive', properties => '{"database-filter": "("}');
SELECT alter_catalog('hive', properties => '{"table-filter": "(a)\\1"}');
SELECT alter_catalog('hive', properties => jsonb_build_object('table-filter', repeat('a', 1001)));
SELECT alter_catalog('hive', properties => '{"max-removed-share": "101"}');
SELECT create_catalog('other', 'pushed', '{"max-removed-share": "a"}');

-- one that matches in many ways takes no longer for it
SELECT alter_catalog('hive', properties => '{"max-removed-share": "100", "table-filter": "hard\\.((a|aa|aaa)*)*b|odd\\..*|lake\\..*"}');
SET statement_timeout = '20 s';
SELECT * FROM report_listing('hive', 'hard', (SELECT jsonb_agg(jsonb_build_object('name', repeat('a', 240) || i)) FROM generate_series(1, 100) i), true);
RESET statement_timeout;

-- bad input
SELECT report_listing('no such', 'd', '[]', true);
SELECT report_listing(NULL, 'd', '[]', true);
SELECT report_listing('hive', '', '[]', true);
SELECT report_listing('hive', 'd', NULL, true);
SELECT report_listing('hive', 'd', '[]', NULL);
SELECT report_listing('hive', 'd', '{}', true);
SELECT report_listing('hive', 'd', '["t"]', true);
SELECT report_listing('hive', 'd', '[{"name": "t"}, {"name": 1}]', true);
SELECT report_listing('hive', 'd', '[{"name": "t", "properties": []}]', true);
SELECT confirm_removal('no such');
SELECT create_catalog('lake') > 0 AS created;
SELECT report_listing('lake', 'd', '[]', true);

-- runtimes come and go with their tables; one that cannot go keeps its table and hinders no other
SELECT create_optimizer_group('default');
SELECT create_catalog('glue', 'pushed', '{"max-removed-share": "100", "table.self-optimizing.group": "default"}') > 0 AS created;
SELECT * FROM report_listing('glue', 'd', '[{"name": "a"}, {"name": "b", "format": "hudi"}, {"name": "c"},
	{"name": "e", "properties": {"self-optimizing.enabled": "false"}}, {"name": "f", "properties": {"self-optimizing.group": "other"}}]', true);
SELECT table_name, group_name, wanted_group FROM amoro_meta.table_runtime WHERE catalog_name = 'glue' ORDER BY 1;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF OLD.table_name = 'c' THEN RAISE 'not this one'; END IF; RETURN OLD; END$$;
CREATE TRIGGER refuse BEFORE DELETE ON amoro_meta.table_runtime FOR EACH ROW EXECUTE FUNCTION refuse();
SET client_min_messages = error;
SELECT * FROM report_listing('glue', 'd', '[{"name": "e"}]', true);
SET client_min_messages = warning;
SELECT t.table_name, r.table_id IS NOT NULL AS runtime FROM external_tables t LEFT JOIN amoro_meta.table_runtime r USING (table_id)
	WHERE t.catalog_name = 'glue' ORDER BY 1;
DROP TRIGGER refuse ON amoro_meta.table_runtime;
DROP FUNCTION refuse;
SELECT * FROM report_listing('glue', 'd', '[{"name": "e"}]', true);
SELECT count(*) FROM amoro_meta.table_runtime WHERE catalog_name = 'glue';

-- many tables in one database, and many databases
SELECT create_catalog('large', 'pushed', '{"self-optimizing.enabled": "false"}') AS large \gset
SELECT added FROM report_listing('large', 'd', listing(1, 30000), true);
SET statement_timeout = '20 s';
SELECT * FROM report_listing('large', 'd', listing(1, 30000), true);
SELECT removed FROM report_listing('large', 'd', listing(1, 29990), true);
SELECT cardinality(amoro_meta.missing_databases(:large, ARRAY(SELECT 'x' || i FROM generate_series(1, 30000) i))) AS missing,
	cardinality(amoro_meta.missing_databases(:large, ARRAY(SELECT 'x' || i FROM generate_series(1, 30000) i) || '{d}'::text[])) AS none,
	cardinality(amoro_meta.missing_databases(:large, '{}')) AS missing;
RESET statement_timeout;
SELECT drop_catalog('large');

-- it goes with its tables
SELECT drop_catalog('hive'), drop_catalog('glue');
SELECT count(*) FROM external_tables;
SELECT count(*) FROM amoro_meta.exploration;
DROP FUNCTION listing;
DROP EXTENSION amoro_meta;
