-- Terminal sessions: where a user of SQL stands, the same for every front end.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE ROLE regress_amoro_ann;
CREATE ROLE regress_amoro_bob;
CREATE ROLE regress_amoro_operator;
SELECT grant_access('regress_amoro_ann', 'writer'), grant_access('regress_amoro_bob', 'writer'),
	grant_access('regress_amoro_operator', 'operator');
SELECT create_catalog('lake') > 0, create_catalog('hive', 'pushed') > 0, create_catalog('Ünï.cödé "x"') > 0;
DO $$
BEGIN
	WHILE amoro_meta.identity_key() IS NULL OR amoro_meta.current_term() = 0 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SELECT create_database('lake', 'sales') AS id \gset
SELECT wait_for_procedure(:id);
SELECT create_table('lake', 'sales', 'orders', '{"format": "iceberg", "columns": [
	{"name": "id", "type": "long", "required": true, "comment": "the number"}, {"name": "placed", "type": "timestamptz"},
	{"name": "items", "type": "list<string>"}], "partitioning": [{"column": "placed", "transform": "day"}]}') AS id \gset
SELECT wait_for_procedure(:id);
SELECT count(*) FROM report_listing('hive', 'web', '[{"name": "clicks", "format": "iceberg"}]', true);

-- an id has 64 hexadecimal digits, all different; nothing of it is kept
SET ROLE regress_amoro_ann;
SELECT open_terminal_session('lake') AS ann \gset
SELECT open_terminal_session(catalog_name => 'lake', properties => '{"spark.sql.shuffle.partitions": "8"}') AS ann2 \gset
SELECT :'ann' ~ '^[0-9a-f]{64}$' AS hexadecimal, :'ann' <> :'ann2' AS different;
SELECT terminal_context(:'ann') - '{session_number,expires_at}'::text[], terminal_context(:'ann2') - '{session_number,expires_at}'::text[];
RESET ROLE;
SELECT count(*) FROM amoro_meta.terminal_session s WHERE position(:'ann' IN s::text) > 0 OR position(left(:'ann', 16) IN s::text) > 0;

-- a script: each statement with the context as of it
SET ROLE regress_amoro_ann;
\pset null '(null)'
SELECT command, state, context, columns, rows, message FROM execute_in_terminal(:'ann', $$
	use sales; set k = v;
	select * from orders where note = 'a;b';	-- a comment; with
	set k = other; insert into x values (1); set k; reset k; set k; set;
	$$);
SELECT terminal_context(:'ann') - '{session_number,expires_at}'::text[];
-- two statements on a line, quotes of every kind, comments of every kind
SELECT statement FROM execute_in_terminal(:'ann', $$select 'it''s; one';select "a;b", `c;d` from t;/* ; /* ; */ ; */ select 2 -- ;
; select 'back\'slash; still' ; # ; at the start of a line of its own, or not
   # so; is this
select 3;;  ; -- nothing$$);
-- who does not escape by backslashes says so
SELECT statement FROM execute_in_terminal(:'ann', $$set terminal.backslash-escapes = false$$);
SELECT statement FROM execute_in_terminal(:'ann', $$select 'C:\'; select 2$$);
SELECT state FROM execute_in_terminal(:'ann', $$reset$$);
-- what does not end is nothing, all of it
SELECT * FROM execute_in_terminal(:'ann', $$set a = 1; select 'it;s$$);
SELECT * FROM execute_in_terminal(:'ann', $$set a = 1; select 1 /* /* */ $$);
SELECT * FROM execute_in_terminal(:'ann', $$set a = 1; select "a\"$$);
SELECT * FROM execute_in_terminal(:'ann', $$set a = 1; select `a\``$$);
SELECT terminal_context(:'ann')->'properties';
SELECT * FROM execute_in_terminal(:'ann', '');
SELECT * FROM execute_in_terminal(:'ann', ' -- nothing');

-- what is answered here
SELECT command, state, columns, rows, message FROM execute_in_terminal(:'ann', $$
	show catalogs; show databases; show databases in hive; show schemas from nowhere; show tables; show tables in lake.sales;
	show tables in hive.web; show tables in nothing; describe orders; desc table lake.sales.orders; describe lake.sales.nothing;
	describe nothing.orders; show optimizers; show optimizers in nothing$$);
RESET ROLE;
SELECT blocker_id > 0 AS acquired FROM acquire_blocker('lake', 'sales', 'orders', '{OPTIMIZE,BATCH_WRITE}', '1 hour');
SET ROLE regress_amoro_ann;
RESET ROLE;
SELECT create_optimizer_group('g');
SELECT register_optimizer('g', 4, 1024, resource_id => 'r') AS token \gset
SET ROLE regress_amoro_ann;
SELECT e.state, jsonb_array_length(e.rows) AS rows, (e.rows->0) - 0 - 6 - 5 AS optimizer, position(:'token' IN e.rows::text) AS token
	FROM execute_in_terminal(:'ann', 'show optimizers; show optimizers in g; show optimizers in other') e;
SELECT e.statement, e.state, e.columns, jsonb_array_length(e.rows) AS rows, e.rows->0->>0 AS "table", e.rows->0->>1 AS operations, e.rows->0->>2 AS by
	FROM execute_in_terminal(:'ann', 'show blockers; show blockers in orders; show blockers from lake.sales.others; show blockers in hive.web.clicks; show blockers in nothing.x') e;
-- and what is the engine's after all
SELECT command, state, statement, message FROM execute_in_terminal(:'ann', $$
	show tables like 'o*'; describe orders extended; describe history x; set time zone local; show create table orders; describe hive.web.clicks;
	SHOW FUNCTIONS; describe$$);
-- where the session stands changes only by use
SELECT statement, state, message, context->>'catalog' AS catalog, context->>'database' AS database FROM execute_in_terminal(:'ann', $$
	use lake.sales; use nothing; use nowhere.sales; use hive.whatever; use lake.sales.orders; use; use ""; use a b; USE "lake" . `sales`;
	use "Ünï.cödé ""x""".d; use hive."a""; drop schema amoro_meta cascade; --"; use lake.sales -- done
	$$);
SELECT count(*) FROM execute_in_terminal(:'ann', 'use ' || quote_ident(repeat('x', 300))) e WHERE e.state = 'Failed';

-- values are data: they go round as they are, and no setting of this server sees them
SHOW search_path;
SELECT e.state, e.rows FROM (VALUES ('search_path', 'evil'), ('role', 'postgres'), ('statement_timeout', '1'), ('amoro_meta.databases', 'x'),
	('a "b" c', E'line\nline\ttab; ''quoted'' -- no comment'), ('empty', ''), ('blank', '  '), ('sql', '''; drop table x; --'),
	('backslash', 'C:\dir\''x'), ('unicode', 'smörgås 🐘 ' || chr(8238) || 'rtl')) v (key, value),
	execute_in_terminal(:'ann', format('set "%s" = ''%s''', replace(v.key, '"', '""'), replace(replace(v.value, '\', '\\'), '''', ''''''))) e
	WHERE e.rows->0 IS DISTINCT FROM jsonb_build_array(v.key, v.value);
SELECT string_agg(key, ', ' ORDER BY key) FROM jsonb_each_text(terminal_context(:'ann')->'properties');
SHOW search_path;
SHOW role;
SHOW statement_timeout;
SELECT state, context->'properties'->>'empty' FROM execute_in_terminal(:'ann', 'reset; set a = x /* c */ y  ; set b =  # no ');

-- a failure does not stop a script, unless the session says so
SELECT statement, state, message FROM execute_in_terminal(:'ann', 'use nothing; select 1; set terminal.stop-on-error = true; use nothing; set a = 2; select 2');
SELECT terminal_context(:'ann')->'properties'->>'a' AS unchanged;
SELECT count(*) FROM execute_in_terminal(:'ann', 'reset terminal.stop-on-error');

-- the engine reports what became of its statements
SELECT statement_id AS id, state FROM execute_in_terminal(:'ann', 'select 42') \gset
SELECT report_terminal_statement(:'ann', :id, 'Running'), report_terminal_statement(:'ann', :id, 'Running') AS again;
SELECT state, statement, started_at >= created_at AS started, ended_at, duration >= '0' AS takes FROM terminal_statements WHERE statement_id = :id;
SELECT report_terminal_statement(:'ann', :id, 'Failed', E'no such\n\ttable\x1b[31m \u0001' || chr(155) || repeat('x', 5000));
SELECT report_terminal_statement(:'ann', :id) AS had_ended;
SELECT state, left(message, 30), length(message), ended_at >= started_at AS ended FROM terminal_statements WHERE statement_id = :id;
SELECT statement_id AS id FROM execute_in_terminal(:'ann', 'select 43') \gset
SELECT report_terminal_statement(:'ann', :id), state, message FROM terminal_statements WHERE statement_id = :id;
SELECT state, message, duration >= '0' AS took FROM terminal_statements WHERE statement_id = :id;
SELECT report_terminal_statement(:'ann', :id, 'Created');
SELECT report_terminal_statement(:'ann', :id, NULL);
SELECT report_terminal_statement(:'ann', NULL);
SELECT report_terminal_statement(:'ann', 0);
\set VERBOSITY sqlstate
SELECT report_terminal_statement(:'ann2', :id);
\set VERBOSITY default

-- an id is of use to the role that opened the session alone; that it exists is not told
RESET ROLE;
SET ROLE regress_amoro_bob;
SELECT terminal_context(:'ann');
SELECT * FROM execute_in_terminal(:'ann', 'select 1');
SELECT report_terminal_statement(:'ann', :id);
SELECT close_terminal_session(:'ann');
SELECT terminal_context(repeat('0', 64));
SELECT count(*) AS of_ann FROM terminal_sessions;
SELECT count(*) AS of_ann FROM terminal_statements;
SELECT end_terminal_session(1);
SELECT purge_terminal_sessions();
SELECT * FROM amoro_meta.terminal_session;
SELECT open_terminal_session('hive') AS bob \gset
RESET ROLE;

-- secrets: of sensitive keys neither the log nor others see the values
SET ROLE regress_amoro_ann;
SELECT count(*) FROM execute_in_terminal(:'ann2', $$set fs.s3a.Secret.key = "hush"; set my.PASSWORD = hush; set harmless = 1; select 'hush'$$);
SELECT properties, state, statements, open_statements, expires_at - last_used_at AS timeout FROM terminal_sessions ORDER BY session_number;
SELECT command, statement, state FROM terminal_statements ORDER BY statement_id DESC LIMIT 4;
RESET ROLE;
SELECT count(*) FROM amoro_meta.terminal_statement s WHERE s::text LIKE '%hush%' AND command <> 'other';
-- nor is more kept of them than of others
BEGIN;
SET ROLE regress_amoro_ann;
SELECT count(*) FROM execute_in_terminal(:'ann2', 'set ' || repeat('secret', 1000) || ' = 1');
SELECT max(length(statement)) FROM terminal_statements;
ROLLBACK;
SET ROLE regress_amoro_operator;
SELECT opened_by, catalog_name, properties, statements FROM terminal_sessions ORDER BY session_number;
SELECT command, statement, state, message FROM terminal_statements ORDER BY statement_id DESC LIMIT 4;
SELECT command, statements > 0 AS some, failed > 0 AS failed FROM amoro_stat_terminal ORDER BY command;
SELECT terminal_context(:'ann');
SELECT open_terminal_session('lake');
-- an operator ends a session by its number
SELECT session_number AS number FROM terminal_sessions WHERE opened_by = 'regress_amoro_bob'::regrole \gset
SELECT end_terminal_session(:number), end_terminal_session(:number) AS again;
RESET ROLE;
SET ROLE regress_amoro_bob;
SELECT terminal_context(:'bob');
RESET ROLE;

-- expiry: what was not used for long enough is gone at once, and removed by the sweep (the coordinator may come first)
SET ROLE regress_amoro_ann;
SELECT statement_id AS id FROM execute_in_terminal(:'ann', 'select 44') \gset
RESET ROLE;
BEGIN;
UPDATE amoro_meta.terminal_session SET last_used_at = clock_timestamp() - interval '31 minutes'
	WHERE id_digest = amoro_meta.terminal_session_digest(:'ann');
SET LOCAL ROLE regress_amoro_ann;
SELECT state FROM terminal_sessions ORDER BY session_number;
COMMIT;
SET ROLE regress_amoro_ann;
\set VERBOSITY terse
SELECT terminal_context(:'ann');
SELECT * FROM execute_in_terminal(:'ann', 'select 1');
SELECT report_terminal_statement(:'ann', :id);
\set VERBOSITY default
RESET ROLE;
SELECT purge_terminal_sessions() IS NOT NULL AS purged, purge_terminal_sessions() AS again;
SET ROLE regress_amoro_ann;
SELECT state, message FROM terminal_statements WHERE statement_id = :id;
SELECT terminal_context(:'ann');
SELECT close_terminal_session(:'ann');
-- looking is no use, everything else is
RESET ROLE;
UPDATE amoro_meta.terminal_session SET last_used_at = clock_timestamp() - interval '29 minutes';
SET ROLE regress_amoro_ann;
SELECT (terminal_context(:'ann2')->>'expires_at')::timestamptz < clock_timestamp() + interval '2 minutes' AS soon;
SELECT state FROM execute_in_terminal(:'ann2', 'set');
SELECT (terminal_context(:'ann2')->>'expires_at')::timestamptz > clock_timestamp() + interval '29 minutes' AS later;
SELECT statement_id AS id FROM execute_in_terminal(:'ann2', 'select 46') \gset
RESET ROLE;
UPDATE amoro_meta.terminal_session SET last_used_at = clock_timestamp() - interval '29 minutes';
SET ROLE regress_amoro_ann;
SELECT report_terminal_statement(:'ann2', :id, 'Running'), report_terminal_statement(:'ann2', :id);
SELECT (terminal_context(:'ann2')->>'expires_at')::timestamptz > clock_timestamp() + interval '29 minutes' AS later;
-- a clock that is set back ends nothing, and keeps nothing for ever
RESET ROLE;
UPDATE amoro_meta.terminal_session SET last_used_at = clock_timestamp() + interval '1 year';
SELECT purge_terminal_sessions();
SELECT last_used_at <= clock_timestamp() AS now FROM amoro_meta.terminal_session;
SET ROLE regress_amoro_ann;
SELECT state FROM execute_in_terminal(:'ann2', 'set');

-- the end: what had not ended is canceled
SELECT statement_id AS id FROM execute_in_terminal(:'ann2', 'select 45') \gset
SELECT close_terminal_session(:'ann2'), close_terminal_session(:'ann2') AS again;
SELECT state, message FROM terminal_statements WHERE statement_id = :id;
RESET ROLE;

-- a catalog that is gone
SELECT create_catalog('short') > 0;
SET ROLE regress_amoro_ann;
SELECT open_terminal_session('short') AS short \gset
RESET ROLE;
SELECT drop_catalog('short');
SET ROLE regress_amoro_ann;
SELECT statement, state, message FROM execute_in_terminal(:'short', 'select 1; show databases; show catalogs; set a = 1; use lake.sales; select 2');
SELECT close_terminal_session(:'short');

-- limits
SELECT open_terminal_session('lake') AS ann \gset
SELECT state, message FROM execute_in_terminal(:'ann', 'set big = ' || repeat('x', 60000) || '; set more = ' || repeat('x', 6000) || '; reset; set ' || repeat('k', 256) || ' = 1');
SELECT string_agg(DISTINCT e.state || coalesce(': ' || e.message, ''), '; ') FROM generate_series(0, 1) g,
	execute_in_terminal(:'ann', (SELECT string_agg('set k' || i || '=', ';') FROM generate_series(1 + 505 * g, 505 + 505 * g) i)) e;
SELECT count(*) FROM jsonb_object_keys(terminal_context(:'ann')->'properties');
SELECT * FROM execute_in_terminal(:'ann', repeat('x', 1024 * 1024 + 1));
SELECT count(*) FROM execute_in_terminal(:'ann', repeat('select 1;', 1000));
SELECT count(*) FROM execute_in_terminal(:'ann', 'select 1');
SELECT count(*) FROM execute_in_terminal(:'ann', 'set');
SELECT close_terminal_session(:'ann');
SELECT open_terminal_session('lake') AS ann \gset
SELECT count(*) FROM execute_in_terminal(:'ann', repeat('set;', 1000) || 'reset');
SELECT count(*) FROM execute_in_terminal(:'ann', repeat('set;', 999) || 'reset');
SELECT count(*) FROM execute_in_terminal(:'ann', 'set; set');
SELECT statements FROM terminal_sessions;
RESET ROLE;
SET amoro_meta.max_terminal_sessions_per_role = 3;
SET amoro_meta.max_terminal_sessions = 4;
SET ROLE regress_amoro_ann;
SELECT count(open_terminal_session('lake')) FROM generate_series(1, 2);
SELECT open_terminal_session('lake');
SET amoro_meta.max_terminal_sessions_per_role = 1000;
SET ROLE regress_amoro_bob;
SELECT count(open_terminal_session('lake')) FROM generate_series(1, 1);
SELECT open_terminal_session('lake');
-- those that have expired do not count
RESET ROLE;
UPDATE amoro_meta.terminal_session SET last_used_at = clock_timestamp() - interval '31 minutes';
SET ROLE regress_amoro_bob;
SELECT count(open_terminal_session('lake')) FROM generate_series(1, 3);
RESET ROLE;
RESET amoro_meta.max_terminal_sessions_per_role;
RESET amoro_meta.max_terminal_sessions;

-- the log: what is older than amoro_meta.history_retention goes, what has not ended stays
SELECT purge_terminal_sessions() IS NOT NULL AS purged;
BEGIN;
UPDATE amoro_meta.terminal_statement SET ended_at = ended_at - interval '31 days';
SELECT purge_terminal_sessions() AS full_batch, count(*) > 0 AS more FROM amoro_meta.terminal_statement;
COMMIT;
DO $$BEGIN WHILE purge_terminal_sessions() > 0 LOOP END LOOP; END$$;
SELECT count(*) FROM amoro_meta.terminal_statement;

-- bad input
SELECT open_terminal_session('nowhere');
SELECT open_terminal_session(NULL);
SELECT open_terminal_session('');
SELECT open_terminal_session(E'a\nb');
SELECT open_terminal_session('lake', NULL);
SELECT open_terminal_session('lake', '[]');
SELECT open_terminal_session('lake', '{"a": 1}');
SELECT open_terminal_session('lake', '{"": "x"}');
SELECT open_terminal_session('lake', '{"a\u0001b": "x"}');
SELECT open_terminal_session('lake', jsonb_build_object('a', repeat('x', 70000)));
SELECT terminal_context(NULL);
SELECT terminal_context('');
SELECT terminal_context(repeat('é', 10000));
SELECT * FROM execute_in_terminal(NULL, 'x');
SELECT * FROM execute_in_terminal('x', NULL);
SELECT close_terminal_session(NULL);
SELECT close_terminal_session('x');
SELECT end_terminal_session(NULL);
BEGIN READ ONLY;
SELECT open_terminal_session('lake');
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) FROM terminal_sessions;
SELECT * FROM execute_in_terminal(repeat('0', 64), 'select 1');
ROLLBACK;

DROP EXTENSION amoro_meta;
DROP ROLE regress_amoro_ann, regress_amoro_bob, regress_amoro_operator;
