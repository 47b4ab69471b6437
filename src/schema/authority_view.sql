/* What people and nodes see of users, roles and privileges. */

CREATE VIEW users AS
	SELECT u.principal_name AS user_name, u.principal_id AS user_id, u.disabled, u.password_secret IS NOT NULL AS has_password, u.properties,
		ARRAY(SELECT r.principal_name FROM amoro_meta.role_member m JOIN amoro_meta.principal r ON r.principal_id = m.role_id
			  WHERE m.member_id = u.principal_id GROUP BY r.principal_name ORDER BY r.principal_name) AS roles, u.version
	FROM amoro_meta.principal u WHERE u.principal_kind = 'user';
COMMENT ON VIEW users IS 'users, and the roles that they are in directly';

CREATE VIEW roles AS
	SELECT r.principal_name AS role_name, r.principal_id AS role_id,
		ARRAY(SELECT w.principal_name FROM amoro_meta.role_member m JOIN amoro_meta.principal w ON w.principal_id = m.member_id
			  WHERE m.role_id = r.principal_id GROUP BY w.principal_name ORDER BY w.principal_name) AS members, r.version
	FROM amoro_meta.principal r WHERE r.principal_kind = 'role';
COMMENT ON VIEW roles IS 'roles, and the users and roles that are in them directly';

CREATE VIEW role_members AS
	SELECT r.principal_name AS role_name, w.principal_name AS member_name, w.principal_kind AS member_kind, m.admin_option, b.principal_name AS granted_by
	FROM amoro_meta.role_member m JOIN amoro_meta.principal r ON r.principal_id = m.role_id JOIN amoro_meta.principal w ON w.principal_id = m.member_id
		LEFT JOIN amoro_meta.principal b ON b.principal_id = m.grantor_id;
COMMENT ON VIEW role_members IS 'who was put into which role by whom; granted_by is null for an administrator';

CREATE VIEW privilege_grants AS
	SELECT w.principal_name AS grantee_name, w.principal_kind AS grantee_kind, g.privilege, g.scope_kind, g.catalog_name, g.database_name,
		CASE g.scope_kind WHEN 'table' THEN g.object_name END AS table_name, CASE g.scope_kind WHEN 'path' THEN g.object_name END AS path,
		g.grant_option, b.principal_name AS granted_by
	FROM amoro_meta.privilege_grant g JOIN amoro_meta.principal w ON w.principal_id = g.grantee_id
		LEFT JOIN amoro_meta.principal b ON b.principal_id = g.grantor_id;
COMMENT ON VIEW privilege_grants IS 'what was granted to users and roles by whom; granted_by is null for an administrator';

CREATE VIEW privileges AS
	WITH RECURSIVE holder AS
	(
		SELECT u.principal_id AS user_id, u.principal_id AS holder_id FROM amoro_meta.principal u WHERE u.principal_kind = 'user' AND NOT u.disabled
		UNION
		SELECT h.user_id, m.role_id FROM holder h JOIN amoro_meta.role_member m ON m.member_id = h.holder_id
	)
	SELECT u.principal_name AS user_name, g.privilege, g.scope_kind, g.catalog_name, g.database_name,
		CASE g.scope_kind WHEN 'table' THEN g.object_name END AS table_name, CASE g.scope_kind WHEN 'path' THEN g.object_name END AS path,
		CASE WHEN h.holder_id <> h.user_id THEN w.principal_name END AS through_role, g.grant_option, b.principal_name AS granted_by
	FROM holder h JOIN amoro_meta.principal u ON u.principal_id = h.user_id JOIN amoro_meta.principal w ON w.principal_id = h.holder_id
		JOIN amoro_meta.privilege_grant g ON g.grantee_id = h.holder_id LEFT JOIN amoro_meta.principal b ON b.principal_id = g.grantor_id;
COMMENT ON VIEW privileges IS
	'what each user may do, and through which role: null where it was granted to the user; a disabled user may do nothing';

-- The same twice: as JSON for people, on one line, and after it a line for each scope, from which a node makes the table that it
-- looks into: kind of scope, its names, privileges; tabs between.
CREATE FUNCTION amoro_meta.authority_document(user_id bigint, user_name text, disabled boolean, properties jsonb, user_version bigint,
											  OUT version bigint, OUT document text)
	LANGUAGE c STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_authority_document';
COMMENT ON FUNCTION amoro_meta.authority_document(bigint, text, boolean, jsonb, bigint) IS
	'what a node serves of a user, and what it decides by; and the version at which any of it was changed last';
REVOKE ALL ON FUNCTION amoro_meta.authority_document(bigint, text, boolean, jsonb, bigint) FROM PUBLIC;

CREATE VIEW amoro_meta.authority_object AS
	SELECT 'authority' AS kind, u.principal_name AS catalog_name, '' AS database_name, '' AS object_name, u.principal_id AS object_id, 'normal' AS state,
		d.version, d.document
	FROM amoro_meta.principal u CROSS JOIN LATERAL amoro_meta.authority_document(u.principal_id, u.principal_name, u.disabled, u.properties, u.version) d
	WHERE u.principal_kind = 'user';
COMMENT ON VIEW amoro_meta.authority_object IS 'every user as nodes load it';

CREATE FUNCTION verify_user(user_name text, password text) RETURNS boolean
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_verify_user';
COMMENT ON FUNCTION verify_user(text, text) IS
	'whether there is such a user, not disabled, and the password is the one of now, whatever the snapshot of the transaction; takes as long for a '
	'user that does not exist. Errors: 22004, 25006 on a standby';
REVOKE ALL ON FUNCTION verify_user(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.privilege_in_snapshot(user_name text, privilege text, catalog_name text, database_name text, table_name text, path text)
	RETURNS boolean
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	scope record := amoro_meta.privilege_scope(catalog_name, database_name, table_name, path, false);
	wanted text[] := amoro_meta.checked_privileges(ARRAY[privilege], scope.scope_kind);
BEGIN
	PERFORM amoro_meta.check_name('user_name', user_name);
	RETURN NOT EXISTS
		(SELECT FROM unnest(wanted) w (privilege) WHERE NOT EXISTS
			(SELECT FROM amoro_meta.principal u CROSS JOIN LATERAL amoro_meta.principal_closure(u.principal_id) c
				JOIN amoro_meta.privilege_grant g ON g.grantee_id = c.principal_id
			 WHERE u.principal_name = privilege_in_snapshot.user_name AND u.principal_kind = 'user' AND NOT u.disabled AND g.privilege = w.privilege
				AND amoro_meta.scope_covers(g, scope.scope_kind, privilege_in_snapshot.catalog_name, privilege_in_snapshot.database_name, scope.object_name)));
END;
$$;
COMMENT ON FUNCTION amoro_meta.privilege_in_snapshot(text, text, text, text, text, text) IS 'what user_has_privilege answers, as of the snapshot of the caller';
REVOKE ALL ON FUNCTION amoro_meta.privilege_in_snapshot(text, text, text, text, text, text) FROM PUBLIC;

CREATE FUNCTION user_has_privilege(user_name text, privilege text, catalog_name text DEFAULT NULL, database_name text DEFAULT NULL,
								   table_name text DEFAULT NULL, path text DEFAULT NULL) RETURNS boolean
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_user_has_privilege';
COMMENT ON FUNCTION user_has_privilege(text, text, text, text, text, text) IS
	'whether a user has a privilege (READ, WRITE, ALL: each of theirs) on the system, or the catalog, database, table or path that is named; directly or '
	'through a role, there or on a wider scope; as it is now, whatever the snapshot of the transaction. false for a user that does not exist or is '
	'disabled. '
	'Errors: 22004, 22023 no such privilege or scope, 25006 on a standby';
REVOKE ALL ON FUNCTION user_has_privilege(text, text, text, text, text, text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest('{reader,operator,admin}'::text[]) k, unnest('{users,roles,role_members,privilege_grants,privileges}'::text[]) n
	UNION ALL
	SELECT k, 'function', 'user_has_privilege' FROM unnest('{reader,operator,admin}'::text[]) k
	UNION ALL
	SELECT k, 'function', 'verify_user' FROM unnest('{operator,admin}'::text[]) k;
