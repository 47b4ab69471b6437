-- The metadata log: what may append to it, what readers get, and what they may not ask.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
DROP EXTENSION IF EXISTS amoro_meta CASCADE;
CREATE EXTENSION amoro_meta;
\set append 'SELECT amoro_meta.append_change(''table'', ''alter'', ''c'', ''d'', ''t'', 1)'
:append;
-- rolled back, the number is free again
BEGIN;
:append;
ROLLBACK;
:append;
-- several in one transaction
BEGIN;
:append;
:append;
COMMIT;
SELECT version, ordinal, object_kind, operation, catalog_name, database_name, table_name, object_id, detail FROM metadata_changes(0);
-- what a subtransaction rolled back would be published at commit, and a prepared transaction is committed where nobody publishes
BEGIN;
SAVEPOINT s;
:append;
ROLLBACK;
DO $$
BEGIN
	PERFORM amoro_meta.append_change('table', 'alter', 'c', 'd', 't', 1);
EXCEPTION WHEN division_by_zero THEN
	NULL;
END;
$$;
BEGIN;
:append;
PREPARE TRANSACTION 'change';
BEGIN READ ONLY;
:append;
ROLLBACK;
\set VERBOSITY sqlstate
SELECT amoro_meta.append_change(NULL, 'alter', 'c', 'd', 't', 1);
\set VERBOSITY default
SELECT version FROM amoro_meta.metadata_version;
-- a version is never torn apart
SELECT version FROM metadata_changes(1, 2);
SELECT version FROM metadata_changes(4);
UPDATE amoro_meta.change SET version = 4, ordinal = 1 WHERE version = 3;
SELECT version, ordinal FROM metadata_changes(0, 3);
SELECT version, ordinal FROM metadata_changes(2, 1);
-- out of range
SELECT * FROM metadata_changes(5);
SELECT * FROM metadata_changes(-1);
SELECT * FROM metadata_changes(9223372036854775807);
SELECT * FROM metadata_changes(NULL);
SELECT * FROM metadata_changes(0, NULL);
SELECT * FROM metadata_changes(0, 0);
SELECT * FROM metadata_changes(0, 100001);
UPDATE amoro_meta.metadata_version SET pruned_version = 2;
SELECT * FROM metadata_changes(1);
SELECT count(*) FROM metadata_changes(2);
-- snapshots and lookups
SELECT create_catalog('c', auth_config => '{"token": "secret"}') IS NOT NULL AS created;
INSERT INTO amoro_meta.database SELECT 100 + i, c.catalog_id, 'd' || i, state, CASE WHEN state <> 'normal' THEN 1 END, '{"a": "b"}', i
	FROM amoro_meta.catalog c, unnest(ARRAY['normal', 'pre_create', 'pre_alter', 'pre_drop']) WITH ORDINALITY AS s(state, i);
INSERT INTO amoro_meta.table_metadata SELECT 1000 + 10 * d.database_id + i, d.database_id, 't' || i, s.state,
		CASE WHEN s.state <> 'normal' THEN 1 END, '{"columns": []}', i
	FROM amoro_meta.database d, unnest(ARRAY['normal', 'pre_create', 'pre_alter', 'pre_drop']) WITH ORDINALITY AS s(state, i);
SELECT metadata_version, found, state, object_id, object_version, document FROM metadata_lookup('table', 'c', 'd1', 't1');
SELECT metadata_version, found, state, object_version, document FROM metadata_lookup('database', 'c', 'd1');
SELECT found, state, document LIKE '%secret%' AS told FROM metadata_lookup('catalog', 'c');
-- the marker of a table, unless its database comes or goes
SELECT d, t, l.state FROM generate_series(1, 4) d, generate_series(1, 4) t, metadata_lookup('table', 'c', 'd' || d, 't' || t) l ORDER BY 1, 2;
SELECT metadata_version, found, state, object_id, document FROM metadata_lookup('table', 'c', 'd1', 'none');
SELECT found FROM metadata_lookup('table', 'c', 'none', 't1');
SELECT found FROM metadata_lookup('database', 'none', 'd1');
SELECT found FROM metadata_lookup('table', '', '', '');
SELECT count(*), count(DISTINCT metadata_version), min(document::jsonb ->> 'database') FROM metadata_snapshot('table');
SELECT object_id, catalog_name, database_name, object_name, state, object_version FROM metadata_snapshot('database') ORDER BY 1;
SELECT catalog_name, database_name, object_name, state FROM metadata_snapshot('catalog');
SELECT * FROM metadata_snapshot('view');
SELECT * FROM metadata_snapshot(NULL);
SELECT * FROM metadata_lookup('table', 'c', 'd1');
SELECT * FROM metadata_lookup('database', 'c', 'd1', 't1');
SELECT * FROM metadata_lookup('catalog', NULL);
SELECT * FROM metadata_lookup('column', 'c', 'd1', 't1');
DROP EXTENSION amoro_meta;
