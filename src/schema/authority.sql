/*
 * Users and roles, who is in which role, and what they may do.
 *
 * All of it is written by the steps of procedures alone, and those are made one after the other by the coordinator: what one
 * of them reads stays true to its end.
 */

-- A user and a role are both a principal: they share one space of names, so a grantee needs no more than a name.
CREATE TABLE amoro_meta.principal
(
	principal_id	bigint PRIMARY KEY,
	principal_kind	text NOT NULL CHECK (principal_kind IN ('user', 'role')),
	principal_name	text NOT NULL UNIQUE,
	password_secret	text,					-- SCRAM-SHA-256, as pg_authid keeps it; null: no password fits
	disabled		boolean NOT NULL,
	properties		jsonb NOT NULL,
	version			bigint NOT NULL,
	CHECK (principal_kind = 'user' OR (password_secret IS NULL AND NOT disabled))
);
COMMENT ON TABLE amoro_meta.principal IS 'users and roles; version is 0 only within the transaction of a step';
CREATE INDEX principal_without_version ON amoro_meta.principal (principal_id) WHERE version = 0;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.principal', '');

CREATE TABLE amoro_meta.role_member
(
	membership_id	bigint PRIMARY KEY,
	role_id			bigint NOT NULL,
	member_id		bigint NOT NULL,
	grantor_id		bigint,					-- null: an administrator
	admin_option	boolean NOT NULL,
	UNIQUE NULLS NOT DISTINCT (member_id, role_id, grantor_id)
);
COMMENT ON TABLE amoro_meta.role_member IS 'who is in which role, and who has put them there';
CREATE INDEX role_member_role_id ON amoro_meta.role_member (role_id);
CREATE INDEX role_member_grantor_id ON amoro_meta.role_member (grantor_id) WHERE grantor_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.role_member', '');

-- Privileges belong to names, as those of patterns must: what is dropped and created again is under the same ones.
CREATE TABLE amoro_meta.privilege_grant
(
	grant_id		bigint PRIMARY KEY,
	grantee_id		bigint NOT NULL,
	privilege		text NOT NULL,
	scope_kind		text NOT NULL CHECK (scope_kind IN ('system', 'catalog', 'database', 'table', 'path')),
	catalog_name	text,
	database_name	text,
	object_name		text,					-- of a table, or the pattern of paths
	grantor_id		bigint,					-- null: an administrator
	grant_option	boolean NOT NULL,
	CHECK ((catalog_name IS NOT NULL) = (scope_kind <> 'system')),
	CHECK ((database_name IS NOT NULL) = (scope_kind IN ('database', 'table', 'path'))),
	CHECK ((object_name IS NOT NULL) = (scope_kind IN ('table', 'path')))
);
COMMENT ON TABLE amoro_meta.privilege_grant IS 'one privilege on one scope, given by one grantor';
-- three long names are too long for an index together; names have no control characters
CREATE UNIQUE INDEX privilege_grant_key ON amoro_meta.privilege_grant
	(grantee_id, privilege, scope_kind, pg_catalog.md5(catalog_name || E'\x01' || coalesce(database_name, '') || E'\x01' || coalesce(object_name, '')), grantor_id)
	NULLS NOT DISTINCT;
CREATE INDEX privilege_grant_grantor_id ON amoro_meta.privilege_grant (grantor_id) WHERE grantor_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.privilege_grant', '');

CREATE FUNCTION amoro_meta.privilege_kinds() RETURNS TABLE (privilege text, scope_kinds text[])
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT p, '{system,catalog,database,table}'::text[] FROM unnest('{SELECT,INSERT,DELETE,CREATE,ALTER,DROP}'::text[]) p
	UNION ALL
	SELECT p, '{system,catalog,database,path}'::text[] FROM unnest('{READ_DATA,WRITE_DATA,READ_SCHEMA,WRITE_SCHEMA}'::text[]) p
	UNION ALL
	VALUES ('MANAGE_DATABASE', '{system,catalog}'::text[])
	UNION ALL
	SELECT p, '{system}'::text[] FROM unnest('{MANAGE_CATALOG,MANAGE_USER,MANAGE_ROLE,MANAGE_OPTIMIZER,EXTEND_TEMPLATE,USE_TRIGGER,USE_UDF,'
		'USE_CQ,USE_PIPE,MAINTAIN}'::text[]) p
	$$;
COMMENT ON FUNCTION amoro_meta.privilege_kinds() IS 'the privileges that there are, and on what each can be granted';
REVOKE ALL ON FUNCTION amoro_meta.privilege_kinds() FROM PUBLIC;

CREATE FUNCTION amoro_meta.privilege_scope(catalog_name text, database_name text, table_name text, path text, only_below boolean,
										   OUT scope_kind text, OUT object_name text)
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF num_nonnulls(table_name, path) = 2 OR (database_name IS NULL AND num_nonnulls(table_name, path) > 0)
		OR (catalog_name IS NULL AND database_name IS NOT NULL) THEN
		RAISE EXCEPTION 'these names make no scope' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A database needs its catalog, a table or a path its catalog and database; without any name it is the whole system.';
	END IF;
	scope_kind := CASE WHEN table_name IS NOT NULL THEN 'table' WHEN path IS NOT NULL THEN 'path' WHEN database_name IS NOT NULL THEN 'database'
		WHEN catalog_name IS NOT NULL THEN 'catalog' ELSE 'system' END;
	PERFORM amoro_meta.check_name(n.argument, n.name) FROM (VALUES ('catalog_name', catalog_name), ('database_name', database_name),
		('table_name', table_name)) n (argument, name) WHERE n.name IS NOT NULL;
	object_name := CASE scope_kind WHEN 'path' THEN amoro_meta.device_path('path', path, true) ELSE table_name END;
	-- no asterisk is part of a name
	IF scope_kind = 'path' AND only_below AND regexp_replace(object_name, '\.\*\*$', '') LIKE '%*%' THEN
		RAISE EXCEPTION 'invalid path' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A privilege is had on one path, or with .** at its end on all below it.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.privilege_scope(text, text, text, text, boolean) IS
	'system, catalog, database, table or path: what the names are together, and the last of them, a path in its canonical form; raises 22023 when they '
	'are nothing. only_below: no wildcards in a path but a ** at its end';
REVOKE ALL ON FUNCTION amoro_meta.privilege_scope(text, text, text, text, boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.checked_privileges(privileges text[], scope_kind text) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	given text;
	expanded text[] := '{}';
BEGIN
	PERFORM amoro_meta.check_not_null('privileges', privileges IS NOT NULL AND NOT EXISTS (SELECT FROM unnest(privileges) p WHERE p IS NULL));
	IF cardinality(privileges) NOT BETWEEN 1 AND 100 THEN
		RAISE EXCEPTION 'privileges must be 1 to 100 names' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	FOREACH given IN ARRAY privileges LOOP
		expanded := expanded || CASE upper(given)
			WHEN 'ALL' THEN (SELECT array_agg(k.privilege) FROM amoro_meta.privilege_kinds() k WHERE scope_kind = ANY (k.scope_kinds))
			WHEN 'READ' THEN '{READ_DATA,READ_SCHEMA}'::text[]
			WHEN 'WRITE' THEN '{WRITE_DATA,WRITE_SCHEMA}'::text[]
			ELSE ARRAY[upper(given)] END;
		IF NOT EXISTS (SELECT FROM amoro_meta.privilege_kinds() k WHERE k.privilege = expanded[cardinality(expanded)]) THEN
			RAISE EXCEPTION 'unknown privilege %', amoro_meta.shown_text(given) USING ERRCODE = 'invalid_parameter_value',
				DETAIL = (SELECT format('It is one of %s, READ, WRITE and ALL.', string_agg(k.privilege, ', ')) FROM amoro_meta.privilege_kinds() k);
		END IF;
	END LOOP;
	FOREACH given IN ARRAY expanded LOOP
		IF NOT EXISTS (SELECT FROM amoro_meta.privilege_kinds() k WHERE k.privilege = given AND scope_kind = ANY (k.scope_kinds)) THEN
			RAISE EXCEPTION 'there is no privilege % on a scope of kind %', given, scope_kind USING ERRCODE = 'invalid_parameter_value',
				DETAIL = (SELECT format('It can be had on: %s.', array_to_string(k.scope_kinds, ', ')) FROM amoro_meta.privilege_kinds() k
						  WHERE k.privilege = given);
		END IF;
	END LOOP;
	RETURN (SELECT array_agg(DISTINCT e ORDER BY e) FROM unnest(expanded) e);
END;
$$;
COMMENT ON FUNCTION amoro_meta.checked_privileges(text[], text) IS
	'the privileges of a list, once each, ALL, READ and WRITE spelled out; raises 22004 and 22023 unless each can be had on the scope';
REVOKE ALL ON FUNCTION amoro_meta.checked_privileges(text[], text) FROM PUBLIC;

-- Written so that it is inlined.
CREATE FUNCTION amoro_meta.scope_covers(wide amoro_meta.privilege_grant, scope_kind text, catalog_name text, database_name text, object_name text)
	RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN wide.scope_kind = 'system' OR (wide.catalog_name = catalog_name AND (wide.scope_kind = 'catalog'
		OR (wide.database_name = database_name AND (wide.scope_kind = 'database'
			OR (wide.scope_kind = scope_kind AND (wide.object_name = object_name
				OR (wide.scope_kind = 'path' AND right(wide.object_name, 3) = '.**'
					AND starts_with(object_name, left(wide.object_name, -2)))))))));
COMMENT ON FUNCTION amoro_meta.scope_covers(amoro_meta.privilege_grant, text, text, text, text) IS
	'whether a privilege on the scope of a grant is one on the other scope; root.a.** is everything below root.a, at whatever depth';
REVOKE ALL ON FUNCTION amoro_meta.scope_covers(amoro_meta.privilege_grant, text, text, text, text) FROM PUBLIC;

-- plpgsql, because it keeps its plan.
CREATE FUNCTION amoro_meta.principal_closure(start_id bigint) RETURNS TABLE (principal_id bigint)
	LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE ROWS 5
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN QUERY
		WITH RECURSIVE reached AS
		(
			SELECT start_id AS id
			UNION
			SELECT m.role_id FROM amoro_meta.role_member m JOIN reached r ON m.member_id = r.id
		)
		SELECT r.id FROM reached r;
END;
$$;
COMMENT ON FUNCTION amoro_meta.principal_closure(bigint) IS 'a user or role, and every role that it is in, directly or through others';
REVOKE ALL ON FUNCTION amoro_meta.principal_closure(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.lock_principal(principal_kind text, name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	found_id bigint;
BEGIN
	SELECT p.principal_id INTO found_id FROM amoro_meta.principal p
		WHERE p.principal_name = name AND p.principal_kind = coalesce(lock_principal.principal_kind, p.principal_kind) FOR KEY SHARE;
	PERFORM amoro_meta.refuse_claimed_name('principal', name, '', '');
	PERFORM amoro_meta.require_principal(found_id, principal_kind, name);
	RETURN found_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_principal(text, text) IS
	'id of a user or role (kind: null for either), which stays to the end of the transaction; raises 42704, and AM401 when a procedure works on it';
REVOKE ALL ON FUNCTION amoro_meta.lock_principal(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_principal(principal_id bigint, principal_kind text, name text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF principal_id IS NULL THEN
		RAISE EXCEPTION '% "%" does not exist', coalesce(principal_kind, 'user or role'), name USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_principal(bigint, text, text) IS 'raises 42704 unless the user or role was found';
REVOKE ALL ON FUNCTION amoro_meta.require_principal(bigint, text, text) FROM PUBLIC;
