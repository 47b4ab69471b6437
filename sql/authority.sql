-- Users, roles, who is in which, privileges: what can be said, what is refused, what follows from what.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
DO $$
BEGIN
	WHILE amoro_meta.identity_key() IS NULL OR amoro_meta.current_term() = 0 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SET client_min_messages = notice;
-- commits each submission and waits for its end
CREATE PROCEDURE done(submission text) LANGUAGE plpgsql AS $$
DECLARE
	procedure bigint;
	outcome text;
BEGIN
	EXECUTE 'SELECT ' || submission INTO procedure;
	COMMIT;
	outcome := wait_for_procedure(procedure);
	IF outcome <> 'done' THEN
		RAISE WARNING '%: %', outcome, (SELECT s.error_message FROM procedure_status(procedure) s);
	END IF;
END;
$$;

-- users and roles share their names
CALL done($$create_user('alice', 'wonderland', properties => '{"team": "a"}')$$);
CALL done($$create_user('bob')$$);
CALL done($$create_user('carol', disabled => true, password => 'tea')$$);
CALL done($$create_role('reader')$$);
CALL done($$create_role('staff')$$);
SELECT create_user('alice');
SELECT create_role('alice');
SELECT create_user('reader');
SELECT user_name, disabled, has_password, properties, roles FROM users ORDER BY 1;
SELECT role_name, members FROM roles ORDER BY 1;

-- passwords: kept as a secret, nowhere else, and compared as of now
SELECT verify_user('alice', 'wonderland') AS right, verify_user('alice', 'Wonderland') AS wrong, verify_user('alice', '') AS empty,
	verify_user('bob', '') AS none, verify_user('carol', 'tea') AS disabled, verify_user('reader', '') AS role, verify_user('mallory', 'x') AS nobody;
SELECT password_secret ~ '^SCRAM-SHA-256\$' AS secret FROM amoro_meta.principal WHERE principal_name = 'alice';
SELECT count(*) AS "that keep a password" FROM amoro_meta.procedure WHERE arguments::text ~* 'scram|wonderland|"tea"' OR arguments ? 'secret';
CALL done($$alter_user('alice', password => 'looking glass')$$);
SELECT verify_user('alice', 'wonderland') AS old, verify_user('alice', 'looking glass') AS new;
CALL done($$alter_user('alice', disabled => true)$$);
SELECT verify_user('alice', 'looking glass') AS disabled;
CALL done($$alter_user('alice', disabled => false, properties => '{"team": "b"}')$$);
SELECT verify_user('alice', 'looking glass') AS enabled, properties FROM users WHERE user_name = 'alice';
-- a secret that was made elsewhere
SELECT amoro_meta.password_secret('swordfish') AS secret \gset
CALL done(format($$alter_user('bob', password => %L)$$, :'secret'));
SELECT verify_user('bob', 'swordfish') AS right, verify_user('bob', :'secret') AS "the secret itself";
SELECT alter_user('bob', password => '');
SELECT alter_user('bob', password => repeat('x', 1025));
SELECT alter_user('bob', password => 'md5' || md5('swordfishbob'));
SELECT alter_user('bob', password => regexp_replace(:'secret', '\$\d+:', '$2000000000:'));
SELECT verify_user('bob', repeat('x', 10000)) AS overlong, verify_user(repeat('x', 10000), 'x') AS nobody;
SELECT verify_user(NULL, 'x');
SELECT verify_user('bob', NULL);

-- memberships
CALL done($$grant_role('reader', 'staff')$$);
CALL done($$grant_role('staff', 'alice', admin_option => true)$$);
SELECT grant_role('staff', 'reader');
SELECT grant_role('staff', 'staff');
SELECT grant_role('alice', 'bob');
SELECT grant_role('staff', 'nobody');
SELECT grant_role('staff', 'bob', granted_by => 'carol');
SELECT grant_role('reader', 'bob', granted_by => 'alice');
CALL done($$grant_role('staff', 'bob', granted_by => 'alice')$$);
SELECT * FROM role_members ORDER BY 1, 2, 5 NULLS FIRST;
SELECT user_name, roles FROM users ORDER BY 1;
-- what depends on it is in the way, or goes
SELECT revoke_role('staff', 'alice');
SELECT revoke_role('staff', 'alice', admin_option_only => true);
CALL done($$revoke_role('staff', 'alice', admin_option_only => true, cascade => true)$$);
SELECT * FROM role_members ORDER BY 1, 2, 5 NULLS FIRST;
-- no error, though there is nothing to take
CALL done($$revoke_role('staff', 'bob')$$);

-- privileges
CALL done($$grant_privilege('{select}', 'reader', 'lake')$$);
CALL done($$grant_privilege('{INSERT, Delete, SELECT}', 'alice', 'lake', 'sales', 'orders', grant_option => true)$$);
CALL done($$grant_privilege('{READ}', 'bob', 'lake', 'plant', path => 'root.site1.**')$$);
CALL done($$grant_privilege('{WRITE_DATA}', 'bob', 'lake', 'plant', path => 'root.site2.`a.b`')$$);
CALL done($$grant_privilege('{MAINTAIN}', 'bob')$$);
CALL done($$grant_privilege('{ALL}', 'carol')$$);
SELECT user_name, privilege, scope_kind, catalog_name, database_name, table_name, path, through_role, grant_option, granted_by FROM privileges ORDER BY 1, 2, 3;
SELECT count(*) FROM privilege_grants WHERE grantee_name = 'carol';
CREATE TEMP TABLE question (user_name text, privilege text, c text, d text, t text, p text, expected boolean);
INSERT INTO question VALUES
	('alice', 'SELECT', 'lake', NULL, NULL, NULL, true), ('alice', 'SELECT', 'lake', 'sales', 'orders', NULL, true),
	('alice', 'SELECT', 'pond', NULL, NULL, NULL, false), ('alice', 'INSERT', 'lake', 'sales', 'orders', NULL, true),
	('alice', 'INSERT', 'lake', 'sales', 'order', NULL, false), ('alice', 'INSERT', 'lake', 'sales', NULL, NULL, false),
	('alice', 'INSERT', 'lake', 'sale', 'orders', NULL, false), ('alice', 'MAINTAIN', NULL, NULL, NULL, NULL, false),
	('bob', 'SELECT', 'lake', 'sales', 'orders', NULL, false), ('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.site1.t', true),
	('bob', 'READ', 'lake', 'plant', NULL, 'root.site1.t.u', true), ('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.site1', false),
	('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.site11.t', false), ('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.site1.**', true),
	('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.**', false), ('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.site1.*.u', true),
	('bob', 'READ_DATA', 'lake', 'plant', NULL, 'root.*.t', false), ('bob', 'READ_DATA', 'lake', 'plants', NULL, 'root.site1.t', false),
	('bob', 'WRITE_DATA', 'lake', 'plant', NULL, 'root.site2.`a.b`', true), ('bob', 'WRITE_DATA', 'lake', 'plant', NULL, 'root.site2.`a.b`.c', false),
	('bob', 'WRITE', 'lake', 'plant', NULL, 'root.site2.`a.b`', false), ('bob', 'MAINTAIN', NULL, NULL, NULL, NULL, true),
	('carol', 'SELECT', NULL, NULL, NULL, NULL, false), ('reader', 'SELECT', 'lake', NULL, NULL, NULL, false),
	('nobody', 'SELECT', 'lake', NULL, NULL, NULL, false);
SELECT * FROM question q WHERE user_has_privilege(user_name, privilege, c, d, t, p) <> expected;
CALL done($$alter_user('carol', disabled => false)$$);
SELECT user_has_privilege('carol', 'all') AS "all of them", user_has_privilege('carol', 'all', 'lake', 'plant', path => 'root.x') AS "on a path";

-- as it is now, whatever the snapshot
\setenv PGDATABASE :DBNAME
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT user_has_privilege('carol', 'DROP') AS before, verify_user('carol', 'tea') AS right;
\! psql -X -q -c "CALL done('revoke_privilege(''{DROP}'', ''carol'')')" -c "CALL done('alter_user(''carol'', ''coffee'')')"
SELECT user_has_privilege('carol', 'DROP') AS after, verify_user('carol', 'tea') AS outdated, verify_user('carol', 'coffee') AS right,
	(SELECT count(*) FROM privileges WHERE user_name = 'carol' AND privilege = 'DROP') AS "in the snapshot";
COMMIT;

-- what nodes are given: JSON, and below it what the library decides by
SELECT document FROM metadata_lookup('authority', 'alice') \gset
SELECT line FROM regexp_split_to_table(:'document', E'\n') WITH ORDINALITY l (line, n) WHERE n > 1 ORDER BY n;
SELECT jsonb_pretty(split_part(:'document', E'\n', 1)::jsonb - '{user_id,version}'::text[]);
SELECT found, state, object_version = (SELECT version FROM users WHERE user_name = 'alice') AS "of its own version" FROM metadata_lookup('authority', 'alice');
SELECT found, document FROM metadata_lookup('authority', 'reader');
SELECT catalog_name, database_name, object_name, state FROM metadata_snapshot('authority') ORDER BY 1;
SELECT metadata_lookup('authority', 'alice', 'x');
-- a change of a role is one of everybody in it
SELECT max(version) AS before FROM amoro_meta.change \gset
CALL done($$grant_privilege('{DROP}', 'reader', 'lake', 'a\b')$$);
SELECT object_kind, operation, catalog_name, database_name, table_name FROM amoro_meta.change WHERE version > :before ORDER BY catalog_name;
SELECT line FROM metadata_lookup('authority', 'alice') a, regexp_split_to_table(a.document, E'\n') l (line) WHERE line ~ '^database';
SELECT object_version > :before AS newer FROM metadata_lookup('authority', 'alice');

-- delegation
SELECT grant_privilege('{INSERT}', 'bob', 'lake', 'sales', granted_by => 'alice');
SELECT grant_privilege('{INSERT,DROP}', 'bob', 'lake', 'sales', 'orders', granted_by => 'alice');
CALL done($$grant_privilege('{INSERT}', 'bob', 'lake', 'sales', 'orders', grant_option => true, granted_by => 'alice')$$);
CALL done($$grant_privilege('{INSERT}', 'carol', 'lake', 'sales', 'orders', grant_option => true, granted_by => 'bob')$$);
-- two that support each other support nothing
CALL done($$grant_privilege('{INSERT}', 'bob', 'lake', 'sales', 'orders', grant_option => true, granted_by => 'carol')$$);
CALL done($$grant_privilege('{INSERT}', 'bob', 'lake', 'sales', 'orders', grant_option => true, granted_by => 'carol')$$);
SELECT grantee_name, privilege, grant_option, granted_by FROM privilege_grants WHERE privilege = 'INSERT' AND scope_kind = 'table' ORDER BY 1, 4;
SELECT revoke_privilege('{INSERT}', 'alice', 'lake', 'sales', 'orders');
SELECT revoke_privilege('{INSERT}', 'alice', 'lake', 'sales', 'orders', grant_option_only => true);
SELECT drop_user('alice');
CALL done($$revoke_privilege('{INSERT}', 'alice', 'lake', 'sales', 'orders', grant_option_only => true, cascade => true)$$);
SELECT grantee_name, privilege, grant_option, granted_by FROM privilege_grants WHERE privilege = 'INSERT' AND scope_kind = 'table' ORDER BY 1, 4;
-- through a role that is in a role, of which the middle goes; what somebody else supports as well stays
CALL done($$create_role('outer')$$);
CALL done($$create_role('inner')$$);
CALL done($$grant_role('outer', 'inner')$$);
CALL done($$grant_role('inner', 'carol')$$);
CALL done($$grant_privilege('{ALTER}', 'outer', 'sea', grant_option => true)$$);
CALL done($$grant_privilege('{ALTER}', 'bob', 'sea', 'd', grant_option => true, granted_by => 'carol')$$);
CALL done($$grant_privilege('{ALTER}', 'reader', 'sea', 'd', 't', granted_by => 'bob')$$);
SELECT revoke_role('outer', 'inner');
SELECT drop_role('inner');
SELECT drop_role('outer');
CALL done($$grant_privilege('{ALTER}', 'bob', 'sea', grant_option => true)$$);
CALL done($$drop_role('inner', cascade => true)$$);
SELECT grantee_name, scope_kind, granted_by FROM privilege_grants WHERE catalog_name = 'sea' ORDER BY 1, 2;
CALL done($$drop_role('outer')$$);
CALL done($$revoke_privilege('{ALTER}', 'bob', 'sea', cascade => true)$$);
SELECT count(*) FROM privilege_grants WHERE catalog_name = 'sea';
-- the admin option of a role is delegated in the same manner
CALL done($$create_role('club')$$);
CALL done($$grant_role('club', 'alice', admin_option => true)$$);
CALL done($$grant_role('club', 'bob', admin_option => true, granted_by => 'alice')$$);
CALL done($$grant_role('club', 'carol', admin_option => true, granted_by => 'bob')$$);
CALL done($$grant_role('club', 'bob', admin_option => true, granted_by => 'carol')$$);
CALL done($$grant_privilege('{USE_CQ}', 'club', grant_option => true)$$);
CALL done($$grant_privilege('{USE_CQ}', 'reader', granted_by => 'carol')$$);
SELECT revoke_role('club', 'alice');
CALL done($$revoke_role('club', 'alice', cascade => true)$$);
SELECT count(*) FROM role_members WHERE role_name = 'club';
SELECT grantee_name FROM privilege_grants WHERE privilege = 'USE_CQ' AND grantee_kind = 'role' ORDER BY 1;
CALL done($$drop_role('club')$$);
-- only what one has granted
CALL done($$grant_privilege('{DELETE}', 'bob', 'lake', 'sales', 'orders', granted_by => 'alice')$$);
CALL done($$grant_privilege('{DELETE}', 'bob', 'lake', 'sales', 'orders')$$);
CALL done($$revoke_privilege('{DELETE}', 'bob', 'lake', 'sales', 'orders', granted_by => 'alice')$$);
SELECT granted_by IS NULL AS "of an administrator" FROM privilege_grants WHERE grantee_name = 'bob' AND privilege = 'DELETE';
CALL done($$grant_privilege('{DELETE}', 'bob', 'lake', 'sales', 'orders', granted_by => 'alice')$$);
CALL done($$revoke_privilege('{DELETE}', 'bob', 'lake', 'sales', 'orders')$$);
SELECT count(*) AS left FROM privilege_grants WHERE grantee_name = 'bob' AND privilege = 'DELETE';
-- what was not granted is taken all the same
CALL done($$revoke_privilege('{ALL}', 'bob', 'lake')$$);

-- names change, what they have stays
CALL done($$rename_user('bob', 'robert')$$);
CALL done($$rename_role('reader', 'Leser "1"')$$);
SELECT user_has_privilege('robert', 'MAINTAIN') AS new, user_has_privilege('bob', 'MAINTAIN') AS old, user_has_privilege('alice', 'SELECT', 'lake') AS "through the role";
SELECT operation, catalog_name FROM amoro_meta.change WHERE operation = 'rename' ORDER BY version, catalog_name COLLATE "C";
SELECT rename_user('alice', 'robert');
SELECT rename_user('alice', 'Leser "1"');
SELECT rename_user('alice', 'alice');
SELECT rename_user('staff', 'x');
SELECT rename_role('nobody', 'x');

-- drops
CALL done($$grant_privilege('{SELECT}', 'robert', 'lake', 'sales', 'orders', granted_by => 'alice')$$);
SELECT drop_user('alice');
SELECT drop_role('alice');
SELECT drop_user('nobody');
SELECT drop_user('nobody', if_exists => true) > 0 AS unneeded;
CALL done($$drop_user('alice', cascade => true)$$);
SELECT found FROM metadata_lookup('authority', 'alice');
SELECT grantee_name, privilege, scope_kind FROM privilege_grants WHERE scope_kind = 'table';
CALL done($$drop_role('staff')$$);
CALL done($$drop_role('Leser "1"')$$);
SELECT count(*) AS members FROM role_members;
-- another user of that name has nothing of it
CALL done($$create_user('alice')$$);
SELECT count(*) AS privileges FROM privileges WHERE user_name = 'alice';

-- a retry is one procedure; nothing is done twice, and nothing else under its id
SELECT create_user('dave', 'x', request_id => '00000000-0000-0000-0000-000000000001') AS first \gset
SELECT wait_for_procedure(:first);
SELECT create_user('dave', 'x', request_id => '00000000-0000-0000-0000-000000000001') = :first AS same;
\set VERBOSITY terse
SELECT create_user('dave', NULL, request_id => '00000000-0000-0000-0000-000000000001');
SELECT grant_privilege('{SELECT}', 'dave', request_id => '00000000-0000-0000-0000-000000000001');
\set VERBOSITY default

-- bad input
SELECT create_user(NULL);
SELECT create_user('');
SELECT create_user(repeat('x', 256));
SELECT create_user(E'a\nb');
SELECT create_user('x', disabled => NULL);
SELECT create_user('x', properties => '[]');
SELECT create_user('x', properties => NULL);
SELECT create_user('x', timeout => '-1 s');
SELECT create_role('');
SELECT alter_user('dave');
SELECT alter_user('dave', properties => '{"a": 1}');
SELECT alter_user('nobody', disabled => true);
SELECT grant_privilege(NULL, 'dave');
SELECT grant_privilege('{}', 'dave');
SELECT grant_privilege('{NULL}', 'dave');
SELECT grant_privilege('{KING}', 'dave');
SELECT grant_privilege(array_fill('SELECT'::text, '{101}'), 'dave');
SELECT grant_privilege('{READ_DATA}', 'dave', 'lake', 'd', 't');
SELECT grant_privilege('{SELECT}', 'dave', 'lake', 'd', path => 'root.a');
SELECT grant_privilege('{MANAGE_USER}', 'dave', 'lake');
SELECT grant_privilege('{SELECT}', 'dave', database_name => 'd');
SELECT grant_privilege('{SELECT}', 'dave', 'lake', table_name => 't');
SELECT grant_privilege('{READ}', 'dave', 'lake', path => 'root.a');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', 't', 'root.a');
SELECT grant_privilege('{SELECT}', 'dave', '');
SELECT grant_privilege('{SELECT}', 'dave', 'lake', grant_option => NULL);
SELECT grant_privilege('{SELECT}', 'nobody', 'lake');
SELECT grant_privilege('{SELECT}', 'dave', 'lake', granted_by => 'nobody');
SELECT revoke_privilege('{SELECT}', 'dave', 'lake', cascade => NULL);
SELECT path, grant_privilege('{READ}', 'dave', 'lake', 'd', path => path) FROM (VALUES ('site1')) v (path);
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => path) FROM unnest('{rooted.a}'::text[]) path;
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root..a');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.a b');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.`a');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.`a`b');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.``');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.*.a');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.**.a');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.a*');
SELECT grant_privilege('{READ}', 'dave', 'lake', 'd', path => 'root.' || repeat('x', 251));
-- however it is written, it is one path
CALL done($$grant_privilege('{READ_DATA}', 'dave', 'lake', 'd', path => '`root`.`a`.`b c`')$$);
SELECT path FROM privilege_grants WHERE grantee_name = 'dave' AND path IS NOT NULL;
SELECT user_has_privilege('dave', 'READ_DATA', 'lake', 'd', path => 'root.`a`.`b c`') AS same, user_has_privilege('dave', 'READ_DATA', 'lake', 'd', path => 'root.`A`.`b c`') AS other;
SELECT user_has_privilege('dave', 'KING');
SELECT user_has_privilege('dave', 'SELECT', path => 'root.a');
SELECT user_has_privilege(NULL, 'SELECT');
-- arrays of all shapes
SELECT grant_privilege('{{SELECT,INSERT},{DELETE,NULL}}', 'dave', 'lake');
CALL done($$grant_privilege('[5:6][2:2]={{SELECT},{INSERT}}', 'dave', 'shapes')$$);
SELECT privilege FROM privilege_grants WHERE grantee_name = 'dave' AND catalog_name = 'shapes' ORDER BY 1;
CALL done($$revoke_privilege('{{SELECT},{INSERT}}', 'dave', 'shapes')$$);
-- whoever grants has a name as everybody has
SELECT grant_role('staff', 'bob', granted_by => ''), revoke_role('staff', 'bob', granted_by => '');
SELECT revoke_role('staff', 'bob', granted_by => repeat('x', 10000));
SELECT grant_privilege('{SELECT}', 'dave', 'lake', granted_by => repeat('x', 10000));
-- the longest names that there are
CALL done(format('grant_privilege(''{SELECT}'', ''dave'', %L, %L, %L)', repeat(U&'\+01F418', 255), repeat(U&'\+01F433', 255), repeat(U&'\+01F40B', 255)));
SELECT user_has_privilege('dave', 'SELECT', repeat(U&'\+01F418', 255), repeat(U&'\+01F433', 255), repeat(U&'\+01F40B', 255)) AS longest;

-- nothing that was refused has left anything
SELECT count(*) AS claims FROM amoro_meta.procedure_claim;
SELECT user_name FROM users ORDER BY 1;
SELECT count(*) AS "without a version" FROM amoro_meta.principal WHERE version = 0;

-- privileges on every kind that the library knows, by name
SELECT string_agg(privilege, ' ' ORDER BY n) FROM amoro_meta.privilege_kinds() WITH ORDINALITY k (privilege, scopes, n);

-- many users: a lookup of one goes by indexes
INSERT INTO amoro_meta.principal SELECT 1000000 + i, 'user', 'user ' || i, NULL, false, '{}', 1 FROM generate_series(1, 20000) i;
INSERT INTO amoro_meta.role_member SELECT 2000000 + i, 1, 1000000 + i, NULL, false FROM generate_series(1, 20000) i;
INSERT INTO amoro_meta.privilege_grant SELECT 3000000 + i, 1000000 + i, 'SELECT', 'catalog', 'lake', NULL, NULL, NULL, false FROM generate_series(1, 20000) i;
ANALYZE amoro_meta.principal, amoro_meta.role_member, amoro_meta.privilege_grant;
CREATE FUNCTION pg_temp.plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement; END$$;
SELECT count(*) FILTER (WHERE line ~ 'principal_principal_name_key') AS by_name, count(*) FILTER (WHERE line ~ 'Seq Scan') AS walks
	FROM pg_temp.plan($$SELECT * FROM amoro_meta.metadata_object
		WHERE kind = 'authority' AND catalog_name = 'user 7' AND database_name = '' AND object_name = ''$$) line;
-- more users than a change names: all are forgotten
CALL done($$create_role('everybody')$$);
UPDATE amoro_meta.role_member SET role_id = (SELECT role_id FROM roles WHERE role_name = 'everybody') WHERE role_id = 1;
CALL done($$grant_privilege('{DROP}', 'everybody', 'lake')$$);
SELECT object_kind, operation, catalog_name, database_name, count(*) FROM amoro_meta.change
	WHERE version = (SELECT max(version) FROM amoro_meta.change) GROUP BY 1, 2, 3, 4;
SELECT user_has_privilege('user 20000', 'DROP', 'lake'), object_version = (SELECT max(version) FROM amoro_meta.change) AS newest
	FROM metadata_lookup('authority', 'user 20000');
DROP PROCEDURE done;
DROP EXTENSION amoro_meta;
