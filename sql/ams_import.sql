-- import_ams: what comes over from the database of an Apache AMS, what does not, and why.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE ROLE regress_amoro_admin;
CREATE ROLE regress_amoro_ams;
SELECT grant_access('regress_amoro_admin', 'admin');

-- the tables of an AMS, as its own script makes them (columns that matter, and some that do not)
CREATE SCHEMA ams AUTHORIZATION regress_amoro_ams;
SET ROLE regress_amoro_ams;
SET search_path = ams;
CREATE TABLE catalog_metadata (catalog_id serial PRIMARY KEY, catalog_name varchar(64) UNIQUE, catalog_metastore varchar(64), storage_configs text,
	auth_configs text, catalog_properties text, database_count int DEFAULT 0, table_count int DEFAULT 0);
CREATE TABLE database_metadata (catalog_name varchar(64), db_name varchar(128), properties text, table_count int DEFAULT 0, PRIMARY KEY (catalog_name, db_name));
CREATE TABLE optimizer (token varchar(50) PRIMARY KEY, resource_id varchar(100), group_name varchar(50), container_name varchar(100), start_time timestamp,
	touch_time timestamp, thread_count int, total_memory bigint, properties text);
CREATE TABLE resource (resource_id varchar(100) PRIMARY KEY, resource_type smallint DEFAULT 0, container_name varchar(100), group_name varchar(50),
	thread_count int, total_memory bigint, start_time timestamp, properties text);
CREATE TABLE resource_group (group_name varchar(50) PRIMARY KEY, container_name varchar(100), properties text);
CREATE TABLE table_identifier (table_id bigserial PRIMARY KEY, catalog_name varchar(64), db_name varchar(128), table_name varchar(256), format varchar(32));
CREATE TABLE table_metadata (table_id bigint PRIMARY KEY, catalog_name varchar(256), db_name varchar(256), table_name varchar(256), primary_key varchar(256),
	sort_key varchar(256), table_location varchar(256), base_location varchar(256), change_location varchar(256), properties text, meta_store_site text,
	hdfs_site text, core_site text, auth_method varchar(32), hadoop_username varchar(64), current_schema_id int DEFAULT 0, meta_version bigint DEFAULT 0);
CREATE TABLE table_runtime (table_id bigint PRIMARY KEY, group_name varchar(64) NOT NULL, status_code int DEFAULT 700,
	status_code_update_time timestamptz DEFAULT now(), table_config text, table_summary text, bucket_id varchar(4));
CREATE TABLE table_runtime_state (state_id bigserial PRIMARY KEY, table_id bigint, state_key varchar(256), state_value text, state_version bigint DEFAULT 0);
CREATE TABLE table_process (process_id bigserial PRIMARY KEY, table_id bigint, status varchar(64), process_type varchar(64), process_stage varchar(64),
	execution_engine varchar(64), retry_number int NOT NULL DEFAULT 0, create_time timestamptz, finish_time timestamptz, fail_message text, summary text);
CREATE TABLE task_runtime (process_id bigint, task_id int, status varchar(16), PRIMARY KEY (process_id, task_id));
CREATE TABLE table_blocker (blocker_id bigserial PRIMARY KEY, catalog_name varchar(64) NOT NULL, db_name varchar(128) NOT NULL, table_name varchar(256) NOT NULL,
	operations varchar(128) NOT NULL, create_time timestamp, expiration_time timestamp, properties text, prev_blocker_id bigserial NOT NULL);
CREATE TABLE api_tokens (id serial PRIMARY KEY, apikey varchar(256), secret varchar(256), apply_time timestamp);
CREATE TABLE ha_lease (cluster_name varchar(64), service_name varchar(64), node_id varchar(256), PRIMARY KEY (cluster_name, service_name));

INSERT INTO catalog_metadata (catalog_name, catalog_metastore, storage_configs, auth_configs, catalog_properties) VALUES
	('local', 'ams', '{"storage.type": "Hadoop", "hadoop.core.site": "PGNvbmY+"}', '{"auth.type": "simple", "password": "hush"}',
		'{"warehouse": "/tmp/warehouse", "table.self-optimizing.group": "default", "n": 1, "none": null, "list": [1, 2]}'),
	('rest', 'rest', NULL, '', '{"uri": "http://catalog.example/rest", "table.self-optimizing.group": "gone"}'), ('hive', 'hive', '{}', '{}', '{}'),
	('broken', 'hive', '{}', '{}', '{"a": '), ('array', 'hive', '{}', '[]', '{}'), (E'bell\u0007', 'glue', '{}', '{}', '{}'), (NULL, 'hive', '{}', '{}', '{}'),
	('filtered', 'glue', '{}', '{}', '{"table-filter": "web\\.(a|b)"}'), ('regex', 'glue', '{}', '{}', '{"database-filter": "("}'), ('taken', 'hive', '{}', '{}', '{}'),
	('o"brien; --', 'custom', '{}', '{}', '{"k": "\"; drop schema ams; --"}');
INSERT INTO database_metadata VALUES ('local', 'sales', '{"owner": "ops"}', 1), ('local', 'bad', 'x', 0), ('local', E'tab\t', NULL, 0), ('local', 'plain', NULL, 0),
	('hive', 'web', '{}', 0), ('nowhere', 'd', '{}', 0), ('taken', 'd', '{}', 0);
INSERT INTO resource_group VALUES ('default', 'localContainer', '{"memory-size": "1024"}'), ('outside', 'external', NULL), ('bad name', 'external', '{}'),
	('dynamic', 'localContainer', '{"dynamic-allocation.enabled": "true"}'), ('json', 'external', '{'), ('none', NULL, '{}');
INSERT INTO table_identifier (table_id, catalog_name, db_name, table_name, format) VALUES (1, 'local', 'sales', 'orders', 'MIXED_ICEBERG'),
	(2, 'hive', 'web', 'clicks', 'MIXED_HIVE'), (3, 'hive', 'web', 'views', 'PAIMON'), (4, 'rest', 'r', 't', 'ICEBERG'), (5, 'broken', 'b', 't', 'ICEBERG'),
	(6, 'hive', '', 't', 'ICEBERG'), (7, 'hive', 'web', E'esc\u001b[2J', 'ICEBERG'), (8, 'hive', 'web', NULL, 'ICEBERG'), (9, 'filtered', 'web', 'a', 'ICEBERG'),
	(10, 'filtered', 'web', 'c', 'ICEBERG'), (11, 'hive', 'web', 'clicks', 'ICEBERG'), (12, 'hive', 'web', 'noformat', NULL);
INSERT INTO table_metadata (table_id, table_location) VALUES (1, 's3://lake/sales/orders');
INSERT INTO table_runtime (table_id, group_name, status_code, table_config) VALUES (1, 'default', 100, '{}'),
	(2, 'default', 600, '{"self-optimizing.group": "default", "self-optimizing.quota": 0.5}'), (3, 'gone', 700, 'not json');
INSERT INTO table_runtime_state (table_id, state_key, state_value) VALUES (2, 'optimizing_state', '{"currentSnapshotId": 7, "lastMinorOptimizingTime": 1700000000000}'),
	(2, 'process_id', '99'), (2, 'pending_input', '{"dataFileCount": 3}'), (2, 'cleanup_state', 'not json'), (3, 'optimizing_state', '{}'), (777, 'optimizing_state', '{}'), (NULL, NULL, NULL);
INSERT INTO table_process (table_id, status, process_type, process_stage, create_time, finish_time, fail_message) VALUES
	(2, 'RUNNING', 'MINOR', 'MINOR_OPTIMIZING', now(), NULL, NULL), (2, 'SUCCESS', 'MAJOR', 'SUCCESS', now() - interval '2 hours', now() - interval '1 hour', NULL),
	(2, 'FAILED', 'FULL', 'FAILED', now() - interval '3 hours', now() - interval '2 hours', E'no\x1b[31m luck'), (777, 'SUCCESS', 'FULL', 'SUCCESS', now(), now(), NULL),
	(2, 'SUCCESS', 'MINOR', 'SUCCESS', now() - interval '1 year', now() - interval '1 year', NULL), (2, 'SUCCESS', 'MINOR', NULL, now(), NULL, NULL),
	(2, 'DANCING', 'MINOR', NULL, now(), now(), NULL), (1, 'SUCCESS', 'MINOR', NULL, now(), now(), NULL), (2, NULL, NULL, NULL, NULL, 'infinity', NULL);
INSERT INTO optimizer (token, group_name) VALUES ('11111111-1111-1111-1111-111111111111', 'default');
SET timezone = 'Asia/Tokyo';
INSERT INTO table_blocker (catalog_name, db_name, table_name, operations, create_time, expiration_time, properties) VALUES
	('hive', 'web', 'clicks', 'OPTIMIZE,BATCH_WRITE', now(), now() + interval '1 hour', '{"blocker.timeout": "60000", "writer": "spark"}'),
	('hive', 'web', 'views', 'OPTIMIZE', now(), now() - interval '1 hour', NULL), ('hive', 'web', 'odd', 'DANCE', now(), now() + interval '1 hour', '{}'),
	('hive', 'web', 'never', 'OPTIMIZE', NULL, NULL, '{'), ('hive', 'web', 'far', 'OPTIMIZE', now(), 'infinity', '{}'),
	('hive', 'web', 'clicks', 'OPTIMIZE', now(), now() + interval '1 hour', '{}');
RESET timezone;
RESET search_path;
RESET ROLE;
SELECT create_catalog('taken', 'internal') > 0;

-- as where there is much to import: queries have parallel workers
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;

-- whoever may not read the schema, or a table in it, imports nothing
SET ROLE regress_amoro_admin;
SELECT * FROM import_ams('ams');
RESET ROLE;
GRANT USAGE ON SCHEMA ams TO regress_amoro_admin;
GRANT SELECT ON ALL TABLES IN SCHEMA ams TO regress_amoro_admin;
REVOKE SELECT ON ams.table_blocker FROM regress_amoro_admin;
SET ROLE regress_amoro_admin;
SELECT * FROM import_ams('ams');
RESET ROLE;
GRANT SELECT ON ams.table_blocker TO regress_amoro_admin;

SET ROLE regress_amoro_admin;
SET timezone = 'Asia/Tokyo';
SELECT object_kind, name, outcome, regexp_replace(reason, 'until .*;', 'until …;') AS reason FROM import_ams('ams');
SELECT catalog_name, metastore, properties, storage_config, created_by FROM catalogs ORDER BY catalog_name COLLATE "C";
RESET ROLE;
SELECT catalog_name, auth_config FROM amoro_meta.catalog WHERE auth_config <> '{}';
SELECT catalog_name, database_name, state, properties, version > 0 AS versioned FROM databases ORDER BY 1, 2;
SELECT object_kind, operation, catalog_name, database_name FROM amoro_meta.change;
SELECT catalog_name, database_name, table_name, format, supported, properties FROM external_tables ORDER BY 1, 2, 3;
SELECT table_name, group_name, wanted_group, status, process_id, state, config FROM table_runtimes ORDER BY catalog_name, table_name;
SELECT catalog_name, table_name, group_name, process_type, status, ended_at - started_at AS took, reason FROM processes ORDER BY ended_at;
SELECT group_name, container_name, properties FROM optimizer_groups ORDER BY 1;
SELECT container_name, implementation FROM optimizer_containers ORDER BY 1;
SELECT table_name, operations, expires_at BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes' AS hour, properties->>'writer' AS writer FROM blockers;
SELECT count(*) FROM amoro_meta.ams_row;

-- again: nothing changes, also where it was changed here since
SELECT alter_catalog('hive', properties => '{"mine": "yes"}');
CREATE TEMP TABLE before AS SELECT 'catalog' AS kind, c::text FROM amoro_meta.catalog c UNION ALL SELECT 'database', d::text FROM amoro_meta.database d
	UNION ALL SELECT 'listed', l::text FROM amoro_meta.listed_table l UNION ALL SELECT 'group', g::text FROM amoro_meta.optimizer_group g
	UNION ALL SELECT 'container', c::text FROM amoro_meta.optimizer_container c UNION ALL SELECT 'change', c::text FROM amoro_meta.change c
	UNION ALL SELECT 'blocker', b::text FROM amoro_meta.blocker b UNION ALL SELECT 'runtime', r::text FROM amoro_meta.table_runtime r UNION ALL SELECT 'process', p::text FROM amoro_meta.process p;
SET ROLE regress_amoro_admin;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SELECT object_kind, outcome, count(*) FROM import_ams('ams') GROUP BY 1, 2 ORDER BY 1, 2;
RESET ROLE;
SELECT kind, count(*) FROM (SELECT * FROM before EXCEPT ALL (SELECT 'catalog' AS kind, c::text FROM amoro_meta.catalog c UNION ALL SELECT 'database', d::text FROM amoro_meta.database d
	UNION ALL SELECT 'listed', l::text FROM amoro_meta.listed_table l UNION ALL SELECT 'group', g::text FROM amoro_meta.optimizer_group g
	UNION ALL SELECT 'container', c::text FROM amoro_meta.optimizer_container c UNION ALL SELECT 'change', c::text FROM amoro_meta.change c
	UNION ALL SELECT 'blocker', b::text FROM amoro_meta.blocker b UNION ALL SELECT 'runtime', r::text FROM amoro_meta.table_runtime r UNION ALL SELECT 'process', p::text FROM amoro_meta.process p)) changed GROUP BY 1;
-- what has come since is imported
INSERT INTO ams.table_identifier VALUES (20, 'hive', 'web', 'later', 'HUDI');
SET ROLE regress_amoro_admin;
SELECT object_kind, name FROM import_ams('ams') WHERE outcome = 'imported';
-- a rollback takes all of it back
BEGIN;
RESET ROLE;
INSERT INTO ams.table_identifier VALUES (21, 'hive', 'web', 'rolled back', 'HUDI');
INSERT INTO ams.database_metadata VALUES ('local', 'rolled back', '{}');
SELECT count(*) FROM import_ams('ams') WHERE outcome = 'imported';
ROLLBACK;
SELECT count(*) FROM external_tables WHERE table_name = 'rolled back';
SELECT count(*) FROM databases WHERE database_name = 'rolled back';
RESET timezone;

-- nothing in that schema is ever executed, whoever calls: neither views, policies, casts nor expressions
RESET ROLE;
CREATE TABLE hits (who text);
GRANT INSERT ON hits TO PUBLIC;
SET ROLE regress_amoro_ams;
CREATE FUNCTION ams.note() RETURNS void LANGUAGE sql AS $$INSERT INTO public.hits VALUES (current_user)$$;
CREATE FUNCTION ams.spring(anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM ams.note(); RETURN $1; END$$;
ALTER TABLE ams.resource_group RENAME TO real_group;
CREATE VIEW ams.resource_group AS SELECT ams.spring(group_name::text) AS group_name, container_name, properties FROM ams.real_group;
ALTER TABLE ams.database_metadata ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON ams.database_metadata USING (ams.spring(true));
CREATE TYPE ams.mood AS ENUM ('happy');
CREATE FUNCTION ams.mood_text(ams.mood) RETURNS text LANGUAGE sql AS $$SELECT ams.spring('x'::text)$$;
CREATE CAST (ams.mood AS text) WITH FUNCTION ams.mood_text(ams.mood);
ALTER TABLE ams.table_blocker DROP COLUMN properties, ADD COLUMN properties ams.mood DEFAULT 'happy';
ALTER TABLE ams.table_metadata DROP COLUMN table_location, ADD COLUMN table_location text GENERATED ALWAYS AS (hdfs_site) STORED;
CREATE INDEX ON ams.table_identifier ((ams.spring(table_name::text)));
CREATE INDEX ON ams.catalog_metadata ((ams.spring('constant'::text)));
ALTER TABLE ams.table_runtime DROP COLUMN table_config;
ALTER TABLE ams.catalog_metadata ADD CHECK (ams.spring(true));
RESET ROLE;
TRUNCATE hits;
GRANT SELECT ON ALL TABLES IN SCHEMA ams TO regress_amoro_admin;
SELECT name, outcome, reason FROM import_ams('ams') WHERE object_kind = 'relation' AND outcome <> 'skipped';
SELECT count(*) FROM hits;
-- a query would have done so
SELECT count(*) >= 0 AS read FROM ams.catalog_metadata WHERE catalog_id > 0;
SELECT count(*) > 0 AS sprung FROM hits;
DROP TABLE ams.table_blocker, ams.table_metadata, ams.table_runtime, ams.table_identifier, ams.database_metadata;
SELECT name, reason FROM import_ams('ams') WHERE object_kind = 'relation' AND outcome = 'refused';
SELECT count(*) FROM import_ams('ams') WHERE object_kind NOT IN ('relation', 'catalog');

-- bad input
SELECT * FROM import_ams('nowhere');
SELECT * FROM import_ams('public');
SELECT * FROM import_ams('amoro_meta');
SELECT * FROM import_ams(NULL);
SELECT * FROM import_ams('');
SELECT * FROM import_ams('ams"; DROP SCHEMA ams CASCADE; --');
SELECT * FROM import_ams(repeat('x', 10000));
DROP TABLE ams.catalog_metadata CASCADE;
CREATE VIEW ams.catalog_metadata AS SELECT 1 AS catalog_name;
SELECT name, outcome, reason FROM import_ams('ams') WHERE name = 'catalog_metadata';
BEGIN READ ONLY;
SELECT * FROM import_ams('ams');
ROLLBACK;

DROP SCHEMA ams CASCADE;
DROP TABLE hits;
DROP EXTENSION amoro_meta;
DROP ROLE regress_amoro_admin, regress_amoro_ams;
