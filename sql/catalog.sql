-- Catalogs: what they are made of, who sees their secrets, and how they go.
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
	context text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
	-- the context is for secrets to be looked for, but says where in the source it was
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''))
		|| CASE WHEN regexp_replace(context, 'SQL statement "SELECT (create|alter)_catalog.*', '') ~ 's3cr3t' THEN ' | A SECRET' ELSE '' END;
END;
$$;
\pset format unaligned
\pset tuples_only on
SELECT create_optimizer_group('default'), create_optimizer_group('g1');

-- each kind of metastore; which one it is stays
SELECT count(create_catalog('c ' || m, m, '{"owner": "me"}', '{"region": "eu"}', '{"password": "s3cr3t"}')) FROM unnest(ARRAY['internal', 'iceberg_rest', 'pushed']) m;
SELECT catalog_name, metastore, properties, storage_config, created_by = current_user::regrole FROM catalogs ORDER BY 1;
SELECT count(*) FROM pg_proc p, unnest(p.proargnames) a WHERE proname = 'alter_catalog' AND a = 'metastore';
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[$$SELECT create_catalog('c internal')$$, $$SELECT create_catalog('x', 'hive')$$, $$SELECT create_catalog('x', NULL)$$,
	$$SELECT create_catalog('')$$, $$SELECT create_catalog(NULL)$$, $$SELECT create_catalog(repeat('x', 256))$$, $$SELECT create_catalog(E'a\nb')$$,
	$$SELECT create_catalog('x', properties => '{"a": 1}')$$, $$SELECT create_catalog('x', properties => NULL)$$,
	$$SELECT alter_catalog('nope')$$, $$SELECT drop_catalog('nope')$$]) s;

-- filters are regular expressions, and bounded; so are the groups and shares
SELECT p, pg_temp.attempt(format('SELECT alter_catalog(%L, %L)', 'c pushed', p)) FROM unnest(ARRAY['{"database-filter": "sales|hr"}', '{"table-filter": "sales[.].*"}',
	'{"table-filter": "("}', '{"database-filter": "(a)\\1"}', '{"max-removed-share": "101"}', '{"table.self-optimizing.group": "g1"}', '{"table.self-optimizing.group": ""}']) p;
SELECT pg_temp.attempt(format('SELECT alter_catalog(%L, %L)', 'c pushed', jsonb_build_object('table-filter', repeat('x', 1001))));
-- what is null stays
SELECT alter_catalog('c pushed', storage_config => '{"a": {"b": 1}}'), alter_catalog('c pushed', auth_config => '{"token": "s3cr3t too"}');
SELECT properties, storage_config FROM catalogs WHERE catalog_name = 'c pushed';

-- secrets: in no view, in no message, whatever is wrong about them
SELECT pg_temp.attempt(s) FROM unnest(ARRAY[$$SELECT create_catalog('c internal', auth_config => '{"password": "s3cr3t"}')$$,
	$$SELECT create_catalog('x', auth_config => '["s3cr3t"]')$$, $$SELECT create_catalog('x', auth_config => '"s3cr3t"')$$,
	$$SELECT create_catalog('x', auth_config => jsonb_build_object('s3cr3t', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 50000) n)))$$,
	$$SELECT create_catalog('x', 'nope', auth_config => '{"password": "s3cr3t"}')$$,
	$$SELECT create_catalog('x', properties => '{"table.self-optimizing.group": "nope"}', auth_config => '{"password": "s3cr3t"}')$$,
	$$SELECT alter_catalog('nope', auth_config => '{"password": "s3cr3t"}')$$, $$SELECT alter_catalog('c internal', auth_config => '["s3cr3t"]')$$]) s;
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name ~ 'auth|secret|token|credential'
	AND data_type <> 'bigint'	-- a fencing token is a number
	AND table_name IN (SELECT object_name FROM amoro_meta.access_rule WHERE object_kind = 'view');
CREATE ROLE regress_amoro_owner;
CREATE ROLE regress_amoro_colleague IN ROLE regress_amoro_owner;
CREATE ROLE regress_amoro_other_admin;
SELECT count(grant_access(r, 'admin')) FROM unnest(ARRAY['regress_amoro_owner', 'regress_amoro_colleague', 'regress_amoro_other_admin']::name[]) r;
SET ROLE regress_amoro_owner;
SELECT create_catalog('owned', auth_config => '{"password": "s3cr3t"}', properties => '{"owner": "we", "jdbc.password": "s3cr3t"}',
	storage_config => '{"s3": {"region": "eu", "SECRET-access-key": "s3cr3t"}, "more": [1, null, {"token": {"of": "s3cr3t"}}]}') > 0;
SELECT catalog_auth_config('owned'), pg_temp.attempt($$SELECT catalog_auth_config('c internal')$$) ~ '^42501';
SET ROLE regress_amoro_colleague;
SELECT catalog_auth_config('owned');
SELECT properties, storage_config FROM catalogs WHERE catalog_name = 'owned';
SET ROLE regress_amoro_other_admin;
SELECT pg_temp.attempt($$SELECT catalog_auth_config('owned')$$);
SELECT properties, storage_config FROM catalogs WHERE catalog_name = 'owned';
-- what is nested however deep is no way to hide a secret, nor to fail the view
SELECT alter_catalog('owned', storage_config => (repeat('{"a": [', 1000) || '{"token": "s3cr3t"}' || repeat(']}', 1000))::jsonb);
SELECT storage_config::text ~ 's3cr3t', length(storage_config::text) FROM catalogs WHERE catalog_name = 'owned';
SELECT auth_config FROM amoro_meta.catalog;
-- to change is not to see
SELECT alter_catalog('owned', auth_config => '{"password": "another s3cr3t"}');
RESET ROLE;
SELECT catalog_auth_config('owned');
SELECT pg_temp.attempt($$SELECT catalog_auth_config('nope')$$), pg_temp.attempt($$SELECT catalog_auth_config(NULL)$$);
SELECT drop_catalog('owned');
SELECT count(revoke_access(r, 'admin')) FROM unnest(ARRAY['regress_amoro_owner', 'regress_amoro_colleague', 'regress_amoro_other_admin']::name[]) r;
DROP ROLE regress_amoro_owner, regress_amoro_colleague, regress_amoro_other_admin;

-- an internal catalog has to be empty, one that is kept elsewhere goes with what hangs on it
SELECT create_database('c internal', 'd') AS id \gset
SELECT wait_for_procedure(:id);
SELECT pg_temp.attempt($$SELECT drop_catalog('c internal')$$);
SELECT drop_database('c internal', 'd') AS id \gset
SELECT wait_for_procedure(:id);
SELECT drop_catalog('c internal');
SELECT added FROM report_listing('c pushed', 'd', '[{"name": "a"}, {"name": "b"}]', true);
SELECT count(*) FROM table_runtimes;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT pg_temp.attempt($$SELECT drop_catalog('c pushed')$$);
ROLLBACK;
SELECT drop_catalog('c pushed'), drop_catalog('c iceberg_rest');
SELECT count(*) FROM table_runtimes;
SELECT drop_optimizer_group('default'), drop_optimizer_group('g1');
DROP EXTENSION amoro_meta;
