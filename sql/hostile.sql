-- What somebody tries who has access and means harm: objects of the same names, other people's functions, text that is
-- code somewhere. What is printed below a heading is a violation.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE ROLE regress_amoro_mallory;
SELECT grant_access('regress_amoro_mallory', kind) FROM unnest('{reader,writer,optimizer,node,operator,admin}'::text[]) kind;
SELECT create_catalog('lake') > 0;
DO $$
BEGIN
	WHILE amoro_meta.identity_key() IS NULL OR amoro_meta.current_term() = 0 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;

-- functions that run with the owner's rights look in no schema that the caller could have put something into
SELECT p.oid::regprocedure, p.proconfig FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'amoro_meta'
	WHERE p.prosecdef AND p.proconfig[1] IS DISTINCT FROM 'search_path=pg_catalog, pg_temp';

CREATE TABLE api_function AS
	SELECT p.oid::regproc AS name, p.proargtypes::oid[] AS arguments
	FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'amoro_meta'
	WHERE p.pronamespace = e.extnamespace AND p.prorettype <> 'trigger'::regtype
		AND EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a IN ('text'::regtype, 'name'::regtype, 'jsonb'::regtype, 'text[]'::regtype, 'bytea'::regtype));
GRANT SELECT ON api_function TO PUBLIC;
-- temporary tables with the names of everything there is, and triggers that would tell: none is ever touched
CREATE TABLE hits (place text);
GRANT ALL ON hits TO PUBLIC;
CREATE SCHEMA regress_amoro_trap AUTHORIZATION regress_amoro_mallory;
GRANT CREATE ON SCHEMA public TO regress_amoro_mallory;
SET ROLE regress_amoro_mallory;
CREATE FUNCTION regress_amoro_trap.spring() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO public.hits VALUES (TG_TABLE_NAME); RETURN NEW; END$$;
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname = 'amoro_meta') AND c.relkind IN ('r', 'v')
		UNION VALUES ('pg_class'), ('pg_proc'), ('pg_roles'), ('pg_namespace'), ('pg_extension'), ('pg_depend'), ('pg_settings'), ('catalogs'), ('databases'), ('tables'), ('procedures')
	LOOP
		EXECUTE format('CREATE TEMP TABLE %I (catalog_name text, c int)', name);
		EXECUTE format('CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON pg_temp.%I FOR EACH STATEMENT EXECUTE FUNCTION regress_amoro_trap.spring()', name);
	END LOOP;
END;
$$;
-- the same for functions and operators, first on the path
CREATE FUNCTION regress_amoro_trap.spring(text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO public.hits VALUES (current_user || ' ' || $1); RETURN true; END$$;
CREATE FUNCTION regress_amoro_trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT CASE WHEN regress_amoro_trap.spring('clock') THEN now() END$$;
CREATE FUNCTION regress_amoro_trap.coalesce_text(text, text) RETURNS boolean LANGUAGE sql AS $$SELECT regress_amoro_trap.spring('operator')$$;
CREATE OPERATOR regress_amoro_trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = regress_amoro_trap.coalesce_text);
CREATE FUNCTION regress_amoro_trap.jsonb_build_object(VARIADIC text[]) RETURNS jsonb LANGUAGE sql AS $$SELECT CASE WHEN regress_amoro_trap.spring('jsonb') THEN '{}'::jsonb END$$;
CREATE FUNCTION regress_amoro_trap.left(text, integer) RETURNS text LANGUAGE sql AS $$SELECT CASE WHEN regress_amoro_trap.spring('left') THEN $1 END$$;
SET search_path = regress_amoro_trap, pg_catalog, public;

-- every function of the API, once with strings that are code somewhere in each text and each document
CREATE TEMP TABLE nasty (ordinal integer GENERATED ALWAYS AS IDENTITY, value text);
INSERT INTO nasty (value) VALUES (''''), ('"'), ('\'), (''';'), ('"; DROP SCHEMA amoro_meta CASCADE; --'), ('''; DROP SCHEMA amoro_meta CASCADE; --'),
	('$$'), ('$a$'), ('%s%n%I%L'), ('{0}'), ('${x}'), (E'a\nb'), (E'a\rb'), (E'\x1b[2J'), (E'a\u0001b'), (U&'a\202Eb'), (U&'\FEFF'), ('/*'), ('*/'),
	('--'), (';'), ('{"a": 1}'), ('[]'), ('null'), ('NaN'), ('../../etc/passwd'), ('a.b.c'), ('"a"."b"'), ('pg_sleep(10)'), ('lake'' OR ''1''=''1'),
	(repeat('x', 10000)), (repeat('''', 10000)), ('🐘'), (' '), ('	'), ('__proto__'), ('amoro_meta.catalog');
CREATE FUNCTION regress_amoro_trap.call_all() RETURNS TABLE (state text, message text) LANGUAGE plpgsql AS $$
DECLARE
	call record;
BEGIN
	FOR call IN
		SELECT p.name, n.value, (SELECT string_agg(CASE
				WHEN t.type = 'text'::regtype THEN quote_literal(n.value) || '::text'
				WHEN t.type = 'name'::regtype THEN quote_literal(substr(n.value, 1, 60)) || '::name'
				WHEN t.type = 'text[]'::regtype THEN quote_literal(ARRAY[n.value]) || '::text[]'
				WHEN t.type = 'jsonb'::regtype THEN quote_literal(pg_catalog.jsonb_build_object(n.value, n.value)) || '::jsonb'
				WHEN t.type = 'bytea'::regtype THEN quote_literal(convert_to(n.value, 'UTF8')) || '::bytea'
				WHEN t.type = 'interval'::regtype THEN '''1 ms''::interval'
				WHEN t.type = 'uuid'::regtype THEN 'gen_random_uuid()'
				WHEN t.type = 'boolean'::regtype THEN 'true'
				ELSE '1::' || t.type::regtype END, ', ' ORDER BY t.ordinal)
			FROM unnest(p.arguments) WITH ORDINALITY t (type, ordinal)) AS arguments
		FROM public.api_function p CROSS JOIN pg_temp.nasty n
	LOOP
		BEGIN
			EXECUTE format('SELECT %s(%s)', call.name, call.arguments);
			RAISE SQLSTATE 'UNDO0';
		EXCEPTION WHEN OTHERS THEN
			-- a statement made of what was given does not parse, or finds other objects
			IF (SQLSTATE ~ '^(42601|42P01|42703|42883|42P18|XX|0A)' OR SQLERRM ~ '[\x01-\x1f]')
				AND NOT (SQLSTATE = '42601' AND SQLERRM LIKE '% does not end' AND call.name = 'public.execute_in_terminal'::regproc) THEN
				state := SQLSTATE;
				message := format('%s(%s): %s', call.name, substr(call.value, 1, 40), SQLERRM);
				RETURN NEXT;
			END IF;
		END;
	END LOOP;
END;
$$;
SELECT * FROM regress_amoro_trap.call_all();

-- objects with such names: they come back to the letter
CREATE FUNCTION regress_amoro_trap.round_trip(value text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	session text;
	quoted text := '"' || pg_catalog.replace(pg_catalog.replace(value, '\', '\\'), '"', '""') || '"';
BEGIN
	PERFORM create_catalog(value, 'pushed', pg_catalog.jsonb_build_object('k', value));
	session := open_terminal_session(value, pg_catalog.jsonb_build_object(value, value));
	RETURN (terminal_context(session)->>'catalog') OPERATOR(pg_catalog.=) value
		AND (terminal_context(session)->'properties'->>value) OPERATOR(pg_catalog.=) value
		AND (SELECT e.context->>'database' FROM execute_in_terminal(session, 'use ' || quoted) e) OPERATOR(pg_catalog.=) value
		AND (SELECT e.rows->0->>1 FROM execute_in_terminal(session, 'set k = ' || quoted) e) OPERATOR(pg_catalog.=) value
		AND (SELECT c.properties->>'k' FROM public.catalogs c WHERE c.catalog_name OPERATOR(pg_catalog.=) value) OPERATOR(pg_catalog.=) value;
END;
$$;
SELECT n.value FROM nasty n WHERE pg_catalog.length(n.value) < 256 AND n.value !~ '[[:cntrl:]]' AND regress_amoro_trap.round_trip(n.value) IS NOT TRUE;

-- what others report is kept printable: reasons of processes, errors of tasks
SELECT create_optimizer_group('default');
SELECT register_optimizer('default', 1, 1) AS token \gset
SELECT start_process('lake', 'd', 't', 'MINOR', '[{}]') AS process \gset
SELECT task_id, attempt FROM poll_task(:'token', 0);
SELECT ack_task(:'token', 0, :process, 1, 1);
SELECT complete_task(:'token', 0, :process, 1, 1, error => E'\x1b[2J\nfailed\r');
-- nor can a client keep what it has claimed from others by preparing the transaction
BEGIN;
SELECT task_id, attempt FROM poll_task(:'token', 0);
PREPARE TRANSACTION 'hostile';
SELECT cancel_process(:process, E'\x1b[2J\n\x07bell');
SELECT p.reason, t.error FROM processes p JOIN public.tasks t USING (process_id) WHERE p.process_id OPERATOR(pg_catalog.=) :process;

-- no trap was sprung by anybody else
SELECT 'the operator'::text = 'works'::text, clock_timestamp() IS NULL;
INSERT INTO catalog VALUES ('and the trigger');
RESET search_path;
RESET ROLE;
SELECT DISTINCT place FROM public.hits WHERE place ~ '^regress_amoro_mallory |^catalog$' ORDER BY 1;
DELETE FROM public.hits WHERE place = 'catalog';
SELECT place, count(*) FROM public.hits WHERE place !~ '^regress_amoro_mallory ' GROUP BY 1;

-- nobody but the owner changes what runs with the owner's rights
SET ROLE regress_amoro_mallory;
CREATE FUNCTION regress_amoro_trap.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'done';
EXCEPTION
	WHEN OTHERS THEN RETURN NULL;
END;
$$;
SELECT s.statement, regress_amoro_trap.try(s.statement) FROM unnest(ARRAY[
	'CREATE TRIGGER t BEFORE INSERT ON amoro_meta.catalog FOR EACH ROW EXECUTE FUNCTION regress_amoro_trap.spring()',
	'CREATE RULE r AS ON SELECT TO public.catalogs DO INSTEAD SELECT 1',
	'CREATE OR REPLACE FUNCTION public.refresh_table_runtimes() RETURNS bigint LANGUAGE sql AS $x$SELECT 1::bigint$x$',
	'CREATE OR REPLACE FUNCTION amoro_meta.next_id() RETURNS bigint LANGUAGE sql AS $x$SELECT 1::bigint$x$',
	'CREATE FUNCTION amoro_meta.mine() RETURNS bigint LANGUAGE sql AS $x$SELECT 1::bigint$x$',
	'CREATE TABLE amoro_meta.mine (a integer)', 'ALTER TABLE amoro_meta.catalog ADD COLUMN mine integer',
	'ALTER TABLE amoro_meta.catalog ALTER COLUMN properties SET DEFAULT ''{}''', 'CREATE INDEX ON amoro_meta.catalog ((1))',
	'CREATE POLICY p ON amoro_meta.catalog', 'ALTER TABLE amoro_meta.catalog ENABLE ROW LEVEL SECURITY',
	'ALTER FUNCTION public.drop_catalog(text) SET search_path = regress_amoro_trap', 'ALTER FUNCTION public.drop_catalog(text) OWNER TO CURRENT_USER',
	'ALTER VIEW public.catalogs OWNER TO CURRENT_USER', 'DROP VIEW public.catalogs', 'DROP FUNCTION public.drop_catalog(text)', 'DROP EXTENSION amoro_meta',
	'ALTER EXTENSION amoro_meta ADD FUNCTION regress_amoro_trap.spring()', 'ALTER EXTENSION amoro_meta UPDATE', 'INSERT INTO public.catalogs (catalog_name) VALUES (''x'')',
	'UPDATE public.terminal_sessions SET catalog_name = ''x''', 'SELECT * FROM amoro_meta.catalog', 'SELECT amoro_meta.next_id()', 'SELECT nextval(''amoro_meta.id_sequence'')',
	'LOCK TABLE amoro_meta.coordinator', 'COMMENT ON VIEW public.catalogs IS ''x''', 'SET amoro_meta.debug_stop_at = ''cycle''',
	'CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION regress_amoro_trap.spring()']) s (statement)
	WHERE regress_amoro_trap.try(s.statement) IS NOT NULL;
ALTER SYSTEM SET amoro_meta.databases = 'x';
GRANT EXECUTE ON FUNCTION public.grant_access(name, text) TO PUBLIC;
-- a privilege that was given cannot be passed on
SELECT has_function_privilege('public', 'public.grant_access(name, text)', 'EXECUTE') AS everybody;
RESET ROLE;

DROP SCHEMA regress_amoro_trap CASCADE;
DROP TABLE hits, api_function;
REVOKE CREATE ON SCHEMA public FROM regress_amoro_mallory;
SELECT kind, revoke_access('regress_amoro_mallory', kind) FROM unnest('{reader,writer,optimizer,node,operator,admin}'::text[]) kind;
DROP EXTENSION amoro_meta;
DROP OWNED BY regress_amoro_mallory;
DROP ROLE regress_amoro_mallory;
