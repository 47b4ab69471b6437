-- Optimizer groups and containers: names, settings, references, and what may not be dropped.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''));
END;
$$;
\pset format unaligned
\pset tuples_only on

-- names: exact, case matters, and nothing else than letters of ASCII, digits, underscores and hyphens
SELECT create_optimizer_group('default'), create_optimizer_group('Default'), create_optimizer_group('a-b_c9'),
	create_optimizer_group(repeat('x', 50));
SELECT n.name IS NULL AS is_null, pg_temp.attempt(format('SELECT create_optimizer_group(%L)', n.name)) FROM unnest(ARRAY['default', '', ' ', 'a b', 'a@b', 'a.b',
	E'a\tb', E'a\n', E'\nb', 'größe', '😀', E'a\u200Fb', repeat('x', 51), 'a";drop table x;--', repeat('y', 10000), NULL]) n (name);
SELECT group_name, container_name, scheduling_policy, properties, created_by = current_user::regrole FROM optimizer_groups ORDER BY group_name COLLATE "C";

-- containers
SELECT create_optimizer_container('k8s', 'org.apache.amoro.server.manager.KubernetesOptimizerContainer', '{"namespace": "lake"}');
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[$$SELECT create_optimizer_container('k8s', 'x')$$, $$SELECT create_optimizer_container('external', 'x')$$,
	$$SELECT create_optimizer_container('a b', 'x')$$, $$SELECT create_optimizer_container('y', '')$$, $$SELECT create_optimizer_container('y', NULL)$$,
	$$SELECT create_optimizer_container('y', 'x', '{"a": 1}')$$, $$SELECT create_optimizer_container('y', 'x', NULL)$$,
	$$SELECT alter_optimizer_container('nope')$$, $$SELECT alter_optimizer_container('external', 'x')$$,
	$$SELECT drop_optimizer_container('nope')$$, $$SELECT drop_optimizer_container('external')$$,
	$$SELECT create_optimizer_group('g', 'nope')$$, $$SELECT alter_optimizer_group('default', 'nope')$$]) s;
SELECT create_optimizer_group('on k8s', 'k8s');
SELECT create_optimizer_group('on-k8s', 'k8s', '{"scheduling-policy": "balanced", "memory-size": "1g"}');
SELECT alter_optimizer_container('k8s', properties => '{"namespace": "other"}');
SELECT container_name, implementation, properties FROM optimizer_containers ORDER BY 1;
SELECT pg_temp.attempt($$SELECT drop_optimizer_container('k8s')$$);
SELECT alter_optimizer_group('on-k8s', 'external');
SELECT drop_optimizer_container('k8s');
SELECT create_optimizer_container('k8s', 'x');

-- altering is not creating
SELECT pg_temp.attempt($$SELECT alter_optimizer_group('nope', properties => '{}')$$), pg_temp.attempt($$SELECT alter_optimizer_group(NULL)$$);
SELECT alter_optimizer_group('default', properties => '{"owner": "x"}'), alter_optimizer_group('default');
SELECT properties FROM optimizer_groups WHERE group_name = 'default';

-- settings: what they are, and where they do not fit together
SELECT p.properties, pg_temp.attempt(format('SELECT alter_optimizer_group(''a-b_c9'', ''k8s'', %L)', p.properties)) FROM unnest(ARRAY[
	'{"scheduling-policy": "quota"}', '{"scheduling-policy": "fair"}', '{"scheduling-policy": ""}', '[]', '"x"', '{"a": null}', '{"a": {}}',
	'{"min-parallelism": "4"}', '{"min-parallelism": "x"}', '{"min-parallelism": "1.5"}', '{"min-parallelism": "99999999999"}',
	'{"dynamic-allocation.min-parallelism": "-1"}', '{"dynamic-allocation.enabled": "maybe"}',
	'{"dynamic-allocation.enabled": "true"}', '{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "2048"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "0"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "1024"}',
	'{"dynamic-allocation.enabled": "TRUE", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.min-parallelism": "9"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "min-parallelism": "9"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.executor-parallelism": "0"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.executor-parallelism": "9"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.executor-parallelism": "5", "dynamic-allocation.min-parallelism": "6"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.executor-idle-timeout": "29s"}',
	'{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8", "dynamic-allocation.executor-idle-timeout": "1 min", "dynamic-allocation.sustained-backlog-timeout": "31000"}',
	'{"dynamic-allocation.drain-timeout": "0s"}', '{"dynamic-allocation.scale-down-cooldown": "soon"}', '{"dynamic-allocation.scheduler-backlog-timeout": "-1s"}'
	]) p (properties);
SELECT properties FROM optimizer_groups WHERE group_name = 'a-b_c9';
SELECT pg_temp.attempt($$SELECT alter_optimizer_group('a-b_c9', 'external', '{"dynamic-allocation.enabled": "true", "dynamic-allocation.max-parallelism": "8"}')$$),
	pg_temp.attempt($$SELECT alter_optimizer_group('a-b_c9', 'external')$$);
SELECT pg_temp.attempt(format('SELECT create_optimizer_group(%L, NULL, %L)', 'large', jsonb_build_object('a', repeat('x', 10 * 1024 * 1024)))) LIKE '22023 |%';
SELECT d.duration, amoro_meta.duration_ms(d.duration) FROM unnest(ARRAY['1', '15', '15ms', '2 s', '3min', '4h', '1d', ' 7 Minutes ', '', 's', '1.5s', '1 fortnight',
	'-1s', '9999999999999']) d (duration);

-- the default group of a catalog must exist; unset stands for "default"
SELECT pg_temp.attempt($$SELECT create_catalog('c', properties => '{"table.self-optimizing.group": "nope"}')$$),
	pg_temp.attempt($$SELECT create_catalog('c', properties => '{"table.self-optimizing.group": "a";drop"}')$$);
SELECT create_catalog('by name', properties => '{"table.self-optimizing.group": "on-k8s"}') > 0, create_catalog('unset') > 0;
SELECT pg_temp.attempt($$SELECT alter_catalog('unset', '{"table.self-optimizing.group": "nope"}')$$);
SELECT * FROM optimizer_group_references('on-k8s');
SELECT * FROM optimizer_group_references('default');
SELECT * FROM optimizer_group_references('Default');
SELECT pg_temp.attempt(format('SELECT drop_optimizer_group(%L)', n.name)) FROM unnest(ARRAY['on-k8s', 'default', 'Default', 'nope', '', NULL]) n (name);
SELECT pg_temp.attempt(format('SELECT optimizer_group_references(%L, %L)', g, m)) FROM (VALUES ('nope', 1), ('', 1), ('default', -1), ('default', NULL)) v (g, m);
SELECT alter_catalog('unset', '{"table.self-optimizing.group": "on-k8s"}');
SELECT drop_optimizer_group('default');
SELECT alter_catalog('unset', '{}');
SELECT create_optimizer_group('default');

-- all reasons at once, and of each so many that a message can hold; the first three here, as many as one asks for there
SELECT create_database('unset', 'd') AS id \gset
SELECT wait_for_procedure(:id);
SELECT max(create_table('unset', 'd', 't' || n, '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}')) AS id FROM generate_series(1, 5) n \gset
SELECT wait_for_procedure(:id);
INSERT INTO amoro_meta.optimizer (optimizer_id, token, group_name, thread_count, memory_mb, properties, registered_by, registered_at, touched_at)
	VALUES (1000001, gen_random_uuid(), 'default', 1, 0, '{}', current_user::regrole, clock_timestamp(), clock_timestamp()),
		(1000002, gen_random_uuid(), 'default', 1, 0, '{}', current_user::regrole, clock_timestamp(), clock_timestamp());
SELECT pg_temp.attempt($$SELECT drop_optimizer_group('default')$$);
SELECT reason, count(*) FROM optimizer_group_references('default') GROUP BY 1 ORDER BY 1;
SELECT reason, count(*) FROM optimizer_group_references('default', 2) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM optimizer_group_references('default', 0);
-- a snapshot from before the references were written could miss them
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.attempt($$SELECT drop_optimizer_group('Default')$$);
ROLLBACK;

-- plans: lookups in indexes
CREATE FUNCTION pg_temp.plan_has(statement text, index_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found boolean := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		found := found OR line ~ ('(using|on) ' || index_name);
	END LOOP;
	RETURN found;
END;
$$;
SET enable_seqscan = off;
SELECT pg_temp.plan_has($$SELECT FROM amoro_meta.table_runtime WHERE group_name = 'x' LIMIT 3$$, 'table_runtime_group_name'),
	pg_temp.plan_has($$SELECT FROM amoro_meta.catalog c WHERE coalesce(c.properties->>'table.self-optimizing.group', 'default') = 'x' LIMIT 3$$, 'catalog_default_group'),
	pg_temp.plan_has($$SELECT FROM amoro_meta.optimizer o WHERE o.group_name = 'x' LIMIT 3$$, 'optimizer_group_name'),
	pg_temp.plan_has($$SELECT FROM amoro_meta.process p WHERE p.group_name = 'x' AND p.ended_at IS NULL LIMIT 3$$, 'process_alive_group'),
	pg_temp.plan_has($$SELECT FROM amoro_meta.table_runtime r WHERE r.wanted_group = 'x' AND r.group_name IS NULL LIMIT 3$$, 'table_runtime_wanted_group');
RESET enable_seqscan;

-- who may
CREATE ROLE regress_amoro_group_reader;
SELECT grant_access('regress_amoro_group_reader', 'reader');
SET ROLE regress_amoro_group_reader;
SELECT count(*) FROM optimizer_groups;
SELECT count(*) FROM optimizer_containers;
SELECT create_optimizer_group('mine');
SELECT drop_optimizer_group('Default');
RESET ROLE;
SELECT revoke_access('regress_amoro_group_reader', 'reader');
DROP ROLE regress_amoro_group_reader;
DROP EXTENSION amoro_meta;
