-- Each kind of access gives its own functions and views, and nothing else, to those who have it; PUBLIC has nothing.
-- What is printed below a heading is a violation.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
CREATE ROLE regress_amoro_nobody;
CREATE TEMP VIEW kind AS SELECT unnest('{reader,writer,optimizer,node,operator,admin}'::text[]) AS kind;
DO $$
DECLARE
	kind text;
BEGIN
	FOR kind IN SELECT k.kind FROM kind k LOOP
		EXECUTE format('CREATE ROLE %I', 'regress_amoro_' || kind);
		PERFORM grant_access('regress_amoro_' || kind, kind);
	END LOOP;
END;
$$;

CREATE TEMP TABLE member_function AS
	SELECT p.oid, p.proname AS name, p.pronamespace = e.extnamespace AS api, p.proargtypes, p.provolatile, p.prokind
	FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE p.prorettype <> 'trigger'::regtype;
CREATE TEMP TABLE member_relation AS
	SELECT c.oid, c.relname AS name, c.relnamespace = e.extnamespace AS api, c.relkind
	FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE c.relkind IN ('r', 'v', 'S');
CREATE TEMP VIEW roles AS SELECT kind, 'regress_amoro_' || kind AS name FROM kind UNION ALL SELECT 'nobody', 'regress_amoro_nobody';
-- what the rules say
CREATE TEMP TABLE allowed AS
	SELECT r.access_kind AS kind, f.oid FROM amoro_meta.access_rule r
		JOIN member_function f ON r.object_kind = 'function' AND r.object_name = CASE WHEN f.api THEN '' ELSE 'amoro_meta.' END || f.name
	UNION ALL
	SELECT r.access_kind, v.oid FROM amoro_meta.access_rule r
		JOIN member_relation v ON r.object_kind = 'view' AND r.object_name = CASE WHEN v.api THEN '' ELSE 'amoro_meta.' END || v.name
	WHERE v.relkind = 'v';

-- there is something to look at
SELECT count(*) > 40 AS functions FROM member_function WHERE api;
SELECT count(*) > 15 AS views FROM member_relation WHERE relkind = 'v';

SELECT k.kind FROM kind k WHERE NOT EXISTS (SELECT FROM allowed a WHERE a.kind = k.kind);

-- functions and views of the API without a rule: say in access_rule who is to have them
SELECT f.oid::regprocedure FROM member_function f WHERE f.api AND f.oid NOT IN (SELECT a.oid FROM allowed a) ORDER BY 1;
SELECT v.oid::regclass FROM member_relation v WHERE v.relkind = 'v' AND v.api AND v.oid NOT IN (SELECT a.oid FROM allowed a) ORDER BY 1;

-- privileges that the rules do not give, or that are missing
SELECT r.kind, f.oid::regprocedure FROM roles r, member_function f
	WHERE has_function_privilege(r.name, f.oid, 'EXECUTE') <> EXISTS (SELECT FROM allowed a WHERE a.kind = r.kind AND a.oid = f.oid)
	ORDER BY 1, 2;
SELECT r.kind, v.oid::regclass FROM roles r, member_relation v
	WHERE v.relkind = 'v' AND has_table_privilege(r.name, v.oid, 'SELECT') <> EXISTS (SELECT FROM allowed a WHERE a.kind = r.kind AND a.oid = v.oid)
	ORDER BY 1, 2;
SELECT r.kind, v.oid::regclass FROM roles r, member_relation v
	WHERE v.relkind <> 'S' AND (has_table_privilege(r.name, v.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR (v.relkind = 'r' AND has_any_column_privilege(r.name, v.oid, 'SELECT, INSERT, UPDATE, REFERENCES')));
SELECT r.kind, v.oid::regclass FROM roles r, member_relation v
	WHERE v.relkind = 'S' AND has_sequence_privilege(r.name, v.oid, 'USAGE, SELECT, UPDATE');
SELECT r.kind FROM roles r WHERE has_schema_privilege(r.name, 'amoro_meta', 'USAGE, CREATE');
SELECT f.oid::regprocedure FROM member_function f JOIN pg_proc p ON p.oid = f.oid,
	aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x WHERE x.grantee = 0;
SELECT v.oid::regclass FROM member_relation v JOIN pg_class c ON c.oid = v.oid, aclexplode(c.relacl) x WHERE x.grantee = 0;

-- the same by trying: each role calls every function and reads every view; the calls are undone. What is called without
-- privilege answers 42501; what is called with it never stumbles over a privilege further in.
CREATE FUNCTION pg_temp.try(role_name text, statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role_name);
	EXECUTE statement;
	RAISE SQLSTATE 'UNDO0';
EXCEPTION
	WHEN insufficient_privilege THEN RETURN CASE WHEN SQLERRM LIKE 'permission denied %' THEN 'denied' ELSE 'allowed' END;
	WHEN OTHERS THEN RETURN 'allowed';
END;
$$;
CREATE TEMP TABLE tried AS
	SELECT r.kind, f.oid, f.api AND EXISTS (SELECT FROM allowed a WHERE a.kind = r.kind AND a.oid = f.oid) AS expected,
		-- not constants, with which a strict function would not be called at all
		pg_temp.try(r.name, (SELECT format(CASE f.prokind WHEN 'p' THEN 'CALL %1$s(%3$s)' ELSE 'SELECT %s(%s) FROM (SELECT %s OFFSET 0) a' END, f.oid::regproc,
				string_agg('a' || t.ordinal, ', ' ORDER BY t.ordinal), string_agg(format(CASE f.prokind WHEN 'p' THEN 'NULL::%s' ELSE 'NULL::%s AS a%s' END, t.type::regtype, t.ordinal), ', '))
			FROM unnest(f.proargtypes) WITH ORDINALITY t (type, ordinal))) AS outcome
	FROM roles r, member_function f;
SELECT t.kind, t.oid::regprocedure, t.outcome FROM tried t WHERE (t.outcome = 'allowed') <> t.expected ORDER BY 1, 2;
CREATE TEMP TABLE read AS
	SELECT r.kind, v.oid, EXISTS (SELECT FROM allowed a WHERE a.kind = r.kind AND a.oid = v.oid) AS expected,
		pg_temp.try(r.name, format('SELECT * FROM %s', v.oid::regclass)) AS outcome
	FROM roles r, member_relation v;
SELECT t.kind, t.oid::regclass, t.outcome FROM read t WHERE (t.outcome = 'allowed') <> t.expected ORDER BY 1, 2;

-- what no rule may say: these are for admins alone, and nobody who only reads or only serves changes anything
SELECT a.kind, f.name FROM allowed a JOIN member_function f USING (oid)
	WHERE a.kind <> 'admin' AND f.name ~ '^(create|alter|rename|drop)_(catalog|optimizer|user|role)|^(grant|revoke)_|^adopt_|^import_' ORDER BY 1, 2;
SELECT a.kind, f.name FROM allowed a JOIN member_function f USING (oid)
	WHERE a.kind IN ('reader', 'node') AND f.name ~ '^(create|alter|rename|drop|remove|cancel|start|finish|purge|end|force|report|confirm)_' ORDER BY 1, 2;
SELECT DISTINCT a.kind, f.name FROM allowed a JOIN member_function f USING (oid) WHERE a.kind IN ('writer', 'optimizer', 'node')
	AND EXISTS (SELECT FROM allowed o WHERE o.oid = a.oid AND o.kind IN ('writer', 'optimizer', 'node') AND o.kind <> a.kind)
	AND f.api AND f.provolatile = 'v' ORDER BY 1, 2;

-- two kinds are the two together; what is taken back is gone, and what the other one gives stays
SELECT grant_access('regress_amoro_nobody', 'reader'), grant_access('regress_amoro_nobody', 'writer');
SELECT f.oid::regprocedure FROM member_function f WHERE has_function_privilege('regress_amoro_nobody', f.oid, 'EXECUTE')
	<> EXISTS (SELECT FROM allowed a WHERE a.kind IN ('reader', 'writer') AND a.oid = f.oid);
SELECT revoke_access('regress_amoro_nobody', 'reader');
SELECT f.oid::regprocedure FROM member_function f WHERE has_function_privilege('regress_amoro_nobody', f.oid, 'EXECUTE')
	<> EXISTS (SELECT FROM allowed a WHERE a.kind = 'writer' AND a.oid = f.oid);
SELECT v.oid::regclass FROM member_relation v WHERE v.relkind = 'v' AND has_table_privilege('regress_amoro_nobody', v.oid, 'SELECT')
	<> EXISTS (SELECT FROM allowed a WHERE a.kind = 'writer' AND a.oid = v.oid);
SELECT revoke_access('regress_amoro_nobody', 'writer');
SELECT r.kind, count(*) FROM roles r, member_function f WHERE r.kind = 'nobody' AND has_function_privilege(r.name, f.oid, 'EXECUTE') GROUP BY 1;
-- a role that inherits from one of them has what that has
GRANT regress_amoro_writer TO regress_amoro_nobody;
SELECT f.oid::regprocedure FROM member_function f WHERE has_function_privilege('regress_amoro_nobody', f.oid, 'EXECUTE')
	<> EXISTS (SELECT FROM allowed a WHERE a.kind = 'writer' AND a.oid = f.oid);

-- nothing is left of any of them
SELECT kind, revoke_access('regress_amoro_' || kind, kind) FROM kind;
DROP ROLE regress_amoro_reader, regress_amoro_writer, regress_amoro_optimizer, regress_amoro_node, regress_amoro_operator,
	regress_amoro_admin, regress_amoro_nobody;
DROP EXTENSION amoro_meta;
