-- Kinds of access: who can do what, and that nothing is open to everybody.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;

-- functions and views of the API that no kind of access gives
SELECT p.proname FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE p.pronamespace = e.extnamespace
		AND NOT EXISTS (SELECT FROM amoro_meta.access_rule WHERE object_kind = 'function' AND object_name = p.proname)
	ORDER BY 1;
SELECT c.relname FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE c.relkind = 'v' AND c.relnamespace = e.extnamespace
		AND NOT EXISTS (SELECT FROM amoro_meta.access_rule WHERE object_kind = 'view' AND object_name = c.relname)
	ORDER BY 1;
-- rules that give nothing
SELECT r.access_kind, r.object_name FROM amoro_meta.access_rule r
	WHERE NOT EXISTS (SELECT FROM amoro_meta.access_objects(r.access_kind, 'public') o
		WHERE o.object_kind = r.object_kind
			AND regexp_replace(o.identity, '^public\.|[(].*', '', 'g') = r.object_name)
	ORDER BY 1, 2;
-- a view works only with the functions in it
SELECT r.access_kind, r.object_name, p.oid::regprocedure FROM amoro_meta.access_rule r
	JOIN pg_rewrite w ON w.ev_class = r.object_name::regclass
	JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_proc'::regclass
	JOIN pg_proc p ON p.oid = d.refobjid AND p.pronamespace = 'amoro_meta'::regnamespace
	WHERE r.object_kind = 'view'
		AND NOT EXISTS (SELECT FROM amoro_meta.access_objects(r.access_kind, 'public') o WHERE o.identity = p.oid::regprocedure::text)
	ORDER BY 1, 2;

CREATE ROLE "regress_amoro o""brien; --";
CREATE ROLE regress_amoro_admin;
SELECT grant_access('regress_amoro o"brien; --', 'operator');
SELECT grant_access('regress_amoro o"brien; --', 'operator') AS again;
SELECT grant_access('regress_amoro o"brien; --', 'reader');
SELECT grant_access('regress_amoro_admin', 'admin');

-- every kind can be given and taken
SELECT kind, grant_access('regress_amoro_admin', kind), revoke_access('regress_amoro_admin', kind)
	FROM unnest('{reader,writer,optimizer,node,operator}'::text[]) kind;
SELECT access_kind FROM amoro_meta.access_grant WHERE role = 'regress_amoro_admin'::regrole;

-- bad input
SELECT grant_access('regress_no_such_role', 'reader');
SELECT grant_access('regress_amoro_admin', 'king');
SELECT grant_access('regress_amoro_admin', '');
SELECT grant_access('regress_amoro_admin', repeat('x', 10000));
SELECT grant_access(NULL, 'reader') IS NULL AS is_null;
SELECT revoke_access('regress_amoro_admin', 'king');
SELECT revoke_access('regress_no_such_role', 'reader');

-- what the kinds can do
SET ROLE "regress_amoro o""brien; --";
SELECT state FROM amoro_stat_coordinator WHERE datname = current_database() AND state = 'nonsense';
SELECT amoro_meta_version() <> '';
SELECT adopt_database();
SELECT grant_access('regress_amoro o"brien; --', 'admin');
SELECT * FROM amoro_meta.identity;
SELECT * FROM amoro_meta.coordinators();
RESET ROLE;
SET ROLE regress_amoro_admin;
SELECT adopt_database();
SELECT amoro_stat_reset();
RESET ROLE;

-- an admin who gives access is recorded; what another kind gives as well stays
SET ROLE regress_amoro_admin;
SELECT grant_access('regress_amoro o"brien; --', 'node');
RESET ROLE;
SELECT access_kind, granted_by FROM amoro_meta.access_grant
	WHERE role = (SELECT oid FROM pg_roles WHERE rolname = 'regress_amoro o"brien; --') ORDER BY 1;
SELECT grant_access('regress_amoro_admin', 'operator');
SELECT revoke_access('regress_amoro_admin', 'admin');
SELECT has_function_privilege('regress_amoro_admin', 'amoro_meta_version()', 'EXECUTE') AS kept,
	has_function_privilege('regress_amoro_admin', 'adopt_database()', 'EXECUTE') AS taken;
SELECT revoke_access('regress_amoro_admin', 'operator'), revoke_access('regress_amoro_admin', 'operator') AS again;

-- a role that is renamed is the same role, and its access can be taken from it
ALTER ROLE regress_amoro_admin RENAME TO regress_amoro_renamed;
SELECT grant_access('regress_amoro_renamed', 'operator'), grant_access('regress_amoro_renamed', 'operator') AS again;
SELECT g.role, g.access_kind, g.granted_by = current_user::regrole AS by_us FROM amoro_meta.access_grant g WHERE role::text ~ 'renamed';
ALTER ROLE regress_amoro_renamed RENAME TO regress_amoro_admin;
SELECT revoke_access('regress_amoro_renamed', 'operator'), revoke_access('regress_amoro_admin', 'operator');
SELECT has_function_privilege('regress_amoro_admin', 'amoro_meta_version()', 'EXECUTE') AS kept;
-- one that is dropped leaves no record behind that another could inherit
CREATE ROLE regress_amoro_gone;
SELECT grant_access('regress_amoro_gone', 'reader');
DROP OWNED BY regress_amoro_gone;
DROP ROLE regress_amoro_gone;
SELECT revoke_access('regress_amoro_gone', 'reader');
SELECT count(*) FROM amoro_meta.access_grant g WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.role);

-- nothing is left that would keep the roles
SELECT revoke_access('regress_amoro o"brien; --', kind) FROM unnest('{reader,node,operator}'::text[]) kind;
DROP ROLE "regress_amoro o""brien; --", regress_amoro_admin;

-- a nobody can do nothing
CREATE ROLE regress_amoro_nobody;
SELECT p.oid::regprocedure FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE has_function_privilege('regress_amoro_nobody', p.oid, 'EXECUTE');
SELECT c.oid::regclass FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
	WHERE c.relkind IN ('r', 'v', 'S') AND (has_table_privilege('regress_amoro_nobody', c.oid, 'SELECT, INSERT, UPDATE, DELETE'));
DROP ROLE regress_amoro_nobody;
DROP EXTENSION amoro_meta;
