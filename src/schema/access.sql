/* Who may do what: kinds of access, made of the functions and views that every part has listed in access_rule. */

CREATE TABLE amoro_meta.access_grant
(
	role			regrole NOT NULL,
	access_kind		text NOT NULL,
	granted_by		regrole NOT NULL,
	granted_at		timestamptz NOT NULL,
	PRIMARY KEY (role, access_kind)
);
COMMENT ON TABLE amoro_meta.access_grant IS
	'kinds of access that roles were given; a role may be renamed, and a dump carries its name';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.access_grant', '');

CREATE FUNCTION amoro_meta.access_objects(access_kind text, api_schema name)
	RETURNS TABLE (object_kind text, identity text)
	LANGUAGE sql STABLE STRICT
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH rule AS
	(
		SELECT r.object_kind,
			CASE WHEN r.object_name LIKE 'amoro_meta.%' THEN 'amoro_meta' ELSE api_schema END AS schema_name,
			regexp_replace(r.object_name, '^amoro_meta\.', '') AS object_name
		FROM amoro_meta.access_rule r WHERE r.access_kind = access_objects.access_kind
	)
	SELECT r.object_kind, p.oid::regprocedure::text
	FROM rule r JOIN pg_proc p ON p.proname = r.object_name AND p.pronamespace = r.schema_name::regnamespace
		JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'amoro_meta'
	WHERE r.object_kind = 'function'
	UNION ALL
	SELECT r.object_kind, c.oid::regclass::text
	FROM rule r JOIN pg_class c ON c.relname = r.object_name AND c.relnamespace = r.schema_name::regnamespace
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'amoro_meta'
	WHERE r.object_kind = 'view'
	$$;
COMMENT ON FUNCTION amoro_meta.access_objects(text, name) IS
	'functions and views of one kind of access, written so that GRANT understands them; none that is not a member of the extension';
REVOKE ALL ON FUNCTION amoro_meta.access_objects(text, name) FROM PUBLIC;

CREATE FUNCTION amoro_meta.change_access(role_name name, access_kind text, grants boolean) RETURNS boolean
	LANGUAGE plpgsql VOLATILE STRICT
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	api_schema name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
						WHERE e.extname = 'amoro_meta');
	grantee CONSTANT regrole := (SELECT r.oid FROM pg_roles r WHERE r.rolname = change_access.role_name);
	object record;
	changed boolean;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	IF grantee IS NULL AND grants THEN
		RAISE EXCEPTION 'role % does not exist', amoro_meta.shown_text(role_name) USING ERRCODE = 'undefined_object';
	END IF;
	IF access_kind NOT IN ('reader', 'writer', 'optimizer', 'node', 'operator', 'admin') THEN
		RAISE EXCEPTION 'unknown kind of access: %', amoro_meta.shown_text(access_kind) USING ERRCODE = 'invalid_parameter_value',
			HINT = 'The kinds are reader, writer, optimizer, node, operator and admin.';
	END IF;
	-- one at a time: what a revocation leaves depends on the other rows
	LOCK TABLE amoro_meta.access_grant IN SHARE ROW EXCLUSIVE MODE;
	-- of roles that are gone, and their privileges with them
	DELETE FROM amoro_meta.access_grant g WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.role);
	IF grants THEN
		INSERT INTO amoro_meta.access_grant VALUES (grantee, access_kind, amoro_meta.calling_role(), clock_timestamp())
			ON CONFLICT DO NOTHING;
		changed := FOUND;
	ELSE
		DELETE FROM amoro_meta.access_grant g WHERE g.role = grantee AND g.access_kind = change_access.access_kind;
		changed := FOUND;
		IF grantee IS NULL THEN
			RETURN false;
		END IF;
	END IF;
	FOR object IN
		SELECT o.object_kind, o.identity FROM amoro_meta.access_objects(access_kind, api_schema) o
		WHERE grants OR NOT EXISTS
			(SELECT FROM amoro_meta.access_grant g, amoro_meta.access_objects(g.access_kind, api_schema) kept
			 WHERE g.role = grantee AND kept.identity = o.identity)
	LOOP
		EXECUTE format(CASE WHEN grants THEN 'GRANT %s ON %s %s TO %I' ELSE 'REVOKE %s ON %s %s FROM %I' END,
					   CASE object.object_kind WHEN 'function' THEN 'EXECUTE' ELSE 'SELECT' END,
					   CASE object.object_kind WHEN 'function' THEN 'ROUTINE' ELSE 'TABLE' END,
					   object.identity, role_name);
	END LOOP;
	IF grants THEN
		-- in most databases everybody has it in public; then there is nothing to grant, nor to revoke later
		IF NOT has_schema_privilege(role_name, api_schema, 'USAGE') THEN
			EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', api_schema, role_name);
		END IF;
	ELSIF NOT EXISTS (SELECT FROM amoro_meta.access_grant g WHERE g.role = grantee) THEN
		EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM %I', api_schema, role_name);
	END IF;
	RETURN changed;
END;
$$;
COMMENT ON FUNCTION amoro_meta.change_access(name, text, boolean) IS 'what grant_access and revoke_access have in common';
REVOKE ALL ON FUNCTION amoro_meta.change_access(name, text, boolean) FROM PUBLIC;

CREATE FUNCTION grant_access(role_name name, access_kind text) RETURNS boolean
	LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.change_access(role_name, access_kind, true)$$;
COMMENT ON FUNCTION grant_access(name, text) IS
	'gives a role the functions and views of one kind: reader, writer, optimizer, node, operator or admin; false when it had that kind. '
	'Errors: 42704 no such role, 22023 no such kind, 25006';
REVOKE ALL ON FUNCTION grant_access(name, text) FROM PUBLIC;

CREATE FUNCTION revoke_access(role_name name, access_kind text) RETURNS boolean
	LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.change_access(role_name, access_kind, false)$$;
COMMENT ON FUNCTION revoke_access(name, text) IS
	'takes one kind of access from a role, except for what another of its kinds gives as well; false when it did not have that kind. '
	'Errors: 22023 no such kind, 25006';
REVOKE ALL ON FUNCTION revoke_access(name, text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('admin', 'function', 'grant_access'),
	('admin', 'function', 'revoke_access');
