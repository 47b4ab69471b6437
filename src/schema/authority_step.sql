/* What the procedures on users, roles and privileges do in their step; the same, undone at once, tells a submission what is wrong. */

CREATE FUNCTION amoro_meta.apply_create_principal(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	kind text := replace(step.kind, 'create_', '');
BEGIN
	PERFORM amoro_meta.refuse_taken_name(step.object_name);
	INSERT INTO amoro_meta.principal (principal_id, principal_kind, principal_name, password_secret, disabled, properties, version)
		VALUES (step.object_id, kind, step.object_name, step.arguments->>'secret', coalesce((step.arguments->>'disabled')::boolean, false),
				coalesce(step.arguments->'properties', '{}'), 0);
	RETURN ARRAY[step.object_id];
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_create_principal(amoro_meta.procedure) IS 'creates a user or role; raises 42710 when there is one of that name';
REVOKE ALL ON FUNCTION amoro_meta.apply_create_principal(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_taken_name(name text) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	kind text := (SELECT p.principal_kind FROM amoro_meta.principal p WHERE p.principal_name = name);
BEGIN
	IF kind IS NOT NULL THEN
		RAISE EXCEPTION '% "%" already exists', kind, name USING ERRCODE = 'duplicate_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_taken_name(text) IS 'raises 42710 when a user or role has the name';
REVOKE ALL ON FUNCTION amoro_meta.refuse_taken_name(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_alter_user(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.principal p
		SET password_secret = coalesce(step.arguments->>'secret', p.password_secret),
			disabled = coalesce((step.arguments->>'disabled')::boolean, p.disabled),
			properties = coalesce(nullif(step.arguments->'properties', 'null'), p.properties)
		WHERE p.principal_id = step.object_id;
	SELECT ARRAY[step.object_id];
	$$;
COMMENT ON FUNCTION amoro_meta.apply_alter_user(amoro_meta.procedure) IS 'gives a user another password, state or properties, whichever are given';
REVOKE ALL ON FUNCTION amoro_meta.apply_alter_user(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_rename_principal(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.refuse_taken_name(step.arguments->>'new_name');
	UPDATE amoro_meta.principal p SET principal_name = step.arguments->>'new_name' WHERE p.principal_id = step.object_id;
	RETURN ARRAY[step.object_id];
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_rename_principal(amoro_meta.procedure) IS 'gives a user or role its new name; raises 42710 when that is taken';
REVOKE ALL ON FUNCTION amoro_meta.apply_rename_principal(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_drop_principal(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	touched bigint[] := ARRAY(SELECT m.member_id FROM amoro_meta.role_member m WHERE m.role_id = step.object_id);
BEGIN
	DELETE FROM amoro_meta.role_member m WHERE m.role_id = step.object_id OR m.member_id = step.object_id;
	DELETE FROM amoro_meta.privilege_grant g WHERE g.grantee_id = step.object_id;
	-- what it has granted to others goes, or is in the way
	touched := touched || amoro_meta.settle_delegation(step.object_id || touched, (step.arguments->>'cascade')::boolean);
	DELETE FROM amoro_meta.principal p WHERE p.principal_id = step.object_id;
	RETURN touched;
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_drop_principal(amoro_meta.procedure) IS
	'deletes a user or role and what it has; raises 2BP01 when others have something from it, unless it cascades';
REVOKE ALL ON FUNCTION amoro_meta.apply_drop_principal(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_grant_role(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	taker_id bigint := step.arguments->>'member_id';
	giver_id bigint := step.arguments->>'grantor_id';
BEGIN
	PERFORM amoro_meta.require_admin_option(giver_id, step.object_id);
	IF taker_id IN (SELECT c.principal_id FROM amoro_meta.principal_closure(step.object_id) c) THEN
		RAISE EXCEPTION 'role "%" would be in itself', step.object_name USING ERRCODE = 'invalid_grant_operation',
			DETAIL = format('It is "%s", or in it already.', (SELECT p.principal_name FROM amoro_meta.principal p WHERE p.principal_id = taker_id));
	END IF;
	INSERT INTO amoro_meta.role_member AS m (membership_id, role_id, member_id, grantor_id, admin_option)
		VALUES (amoro_meta.next_id(), step.object_id, taker_id, giver_id, (step.arguments->>'admin_option')::boolean)
		ON CONFLICT ON CONSTRAINT role_member_member_id_role_id_grantor_id_key DO UPDATE SET admin_option = m.admin_option OR excluded.admin_option;
	RETURN ARRAY[taker_id];
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_grant_role(amoro_meta.procedure) IS
	'puts a member into a role; raises 42501 when the grantor may not, 0LP01 when the role would be in itself';
REVOKE ALL ON FUNCTION amoro_meta.apply_grant_role(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_revoke_role(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	taker_id bigint := step.arguments->>'member_id';
	giver_id bigint := step.arguments->>'grantor_id';
BEGIN
	IF (step.arguments->>'only_option')::boolean THEN
		UPDATE amoro_meta.role_member m SET admin_option = false
			WHERE m.role_id = step.object_id AND m.member_id = taker_id
				AND (giver_id IS NULL OR m.grantor_id = giver_id);
	ELSE
		DELETE FROM amoro_meta.role_member m
			WHERE m.role_id = step.object_id AND m.member_id = taker_id
				AND (giver_id IS NULL OR m.grantor_id = giver_id);
	END IF;
	RETURN taker_id || amoro_meta.settle_delegation(ARRAY[taker_id], (step.arguments->>'cascade')::boolean);
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_revoke_role(amoro_meta.procedure) IS
	'takes a member out of a role, or its admin option away; raises 2BP01 when others have something through it, unless it cascades';
REVOKE ALL ON FUNCTION amoro_meta.apply_revoke_role(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_grant_privilege(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	a jsonb := step.arguments;
	wanted text[] := ARRAY(SELECT jsonb_array_elements_text(a->'privileges'));
BEGIN
	PERFORM amoro_meta.require_grant_option((a->>'grantor_id')::bigint, wanted, a->>'scope_kind', a->>'catalog_name', a->>'database_name', a->>'object_name');
	UPDATE amoro_meta.privilege_grant g SET grant_option = g.grant_option OR (a->>'grant_option')::boolean
		FROM amoro_meta.named_grants(a) n WHERE g.grant_id = n.grant_id AND g.grantor_id IS NOT DISTINCT FROM (a->>'grantor_id')::bigint;
	INSERT INTO amoro_meta.privilege_grant (grant_id, grantee_id, privilege, scope_kind, catalog_name, database_name, object_name, grantor_id, grant_option)
		SELECT amoro_meta.next_id(), step.object_id, w.privilege, a->>'scope_kind', a->>'catalog_name', a->>'database_name', a->>'object_name',
			(a->>'grantor_id')::bigint, (a->>'grant_option')::boolean
		FROM unnest(wanted) w (privilege)
		WHERE NOT EXISTS (SELECT FROM amoro_meta.named_grants(a) n
						  WHERE n.privilege = w.privilege AND n.grantor_id IS NOT DISTINCT FROM (a->>'grantor_id')::bigint);
	RETURN ARRAY[step.object_id];
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_grant_privilege(amoro_meta.procedure) IS 'grants privileges on one scope; raises 42501 when the grantor may not';
REVOKE ALL ON FUNCTION amoro_meta.apply_grant_privilege(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.named_grants(a jsonb) RETURNS SETOF amoro_meta.privilege_grant
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT g.* FROM amoro_meta.privilege_grant g
	WHERE g.grantee_id = (a->>'grantee_id')::bigint AND g.privilege IN (SELECT jsonb_array_elements_text(a->'privileges'))
		AND g.scope_kind = a->>'scope_kind' AND g.catalog_name IS NOT DISTINCT FROM a->>'catalog_name'
		AND g.database_name IS NOT DISTINCT FROM a->>'database_name' AND g.object_name IS NOT DISTINCT FROM a->>'object_name'
	$$;
COMMENT ON FUNCTION amoro_meta.named_grants(jsonb) IS 'what the arguments of grant_privilege and revoke_privilege name exactly, of all grantors';
REVOKE ALL ON FUNCTION amoro_meta.named_grants(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_revoke_privilege(step amoro_meta.procedure) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	a jsonb := step.arguments;
	named bigint[] := ARRAY(SELECT n.grant_id FROM amoro_meta.named_grants(a) n
							WHERE a->>'grantor_id' IS NULL OR n.grantor_id = (a->>'grantor_id')::bigint);
BEGIN
	IF (a->>'only_option')::boolean THEN
		UPDATE amoro_meta.privilege_grant g SET grant_option = false WHERE g.grant_id = ANY (named);
	ELSE
		DELETE FROM amoro_meta.privilege_grant g WHERE g.grant_id = ANY (named);
	END IF;
	RETURN step.object_id || amoro_meta.settle_delegation(ARRAY[step.object_id], (a->>'cascade')::boolean);
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_revoke_privilege(amoro_meta.procedure) IS
	'takes privileges on one scope, or their grant option, away; raises 2BP01 when others have something through them, unless it cascades';
REVOKE ALL ON FUNCTION amoro_meta.apply_revoke_privilege(amoro_meta.procedure) FROM PUBLIC;

-- The principals that a procedure names are there, or it has failed.
CREATE FUNCTION amoro_meta.require_principals(step amoro_meta.procedure) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	gone bigint;
BEGIN
	SELECT i.id INTO gone FROM (VALUES (CASE WHEN step.kind NOT LIKE 'create%' THEN step.object_id END),
			((step.arguments->>'member_id')::bigint), ((step.arguments->>'grantor_id')::bigint)) i (id)
		WHERE i.id IS NOT NULL AND NOT EXISTS (SELECT FROM amoro_meta.principal p WHERE p.principal_id = i.id);
	IF FOUND THEN
		RAISE EXCEPTION 'a user or role of procedure % does not exist', step.procedure_id USING ERRCODE = 'undefined_object',
			DETAIL = format('That with the id %s was dropped after the submission.', gone);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_principals(amoro_meta.procedure) IS 'raises 42704 unless the users and roles of a procedure are still there';
REVOKE ALL ON FUNCTION amoro_meta.require_principals(amoro_meta.procedure) FROM PUBLIC;

CREATE FUNCTION amoro_meta.apply_authority(procedure_id bigint, most_users integer)
	RETURNS TABLE (principal_id bigint, principal_name text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	step amoro_meta.procedure;
	touched_ids bigint[];
BEGIN
	SELECT * INTO STRICT step FROM amoro_meta.procedure p WHERE p.procedure_id = apply_authority.procedure_id;
	PERFORM amoro_meta.require_principals(step);
	touched_ids := CASE step.kind
		WHEN 'create_user' THEN amoro_meta.apply_create_principal(step)
		WHEN 'create_role' THEN amoro_meta.apply_create_principal(step)
		WHEN 'alter_user' THEN amoro_meta.apply_alter_user(step)
		WHEN 'rename_user' THEN amoro_meta.apply_rename_principal(step)
		WHEN 'rename_role' THEN amoro_meta.apply_rename_principal(step)
		WHEN 'drop_user' THEN amoro_meta.apply_drop_principal(step)
		WHEN 'drop_role' THEN amoro_meta.apply_drop_principal(step)
		WHEN 'grant_role' THEN amoro_meta.apply_grant_role(step)
		WHEN 'revoke_role' THEN amoro_meta.apply_revoke_role(step)
		WHEN 'grant_privilege' THEN amoro_meta.apply_grant_privilege(step)
		WHEN 'revoke_privilege' THEN amoro_meta.apply_revoke_privilege(step)
		END;
	IF most_users = 0 THEN
		-- a rehearsal locks nobody whom the procedure does not name: others may be working on them
		RETURN;
	END IF;
	-- to be given the version of the change
	UPDATE amoro_meta.principal p SET version = 0 WHERE p.principal_id = ANY (touched_ids);
	-- a name that is no longer one
	RETURN QUERY SELECT step.object_id, step.object_name WHERE step.kind IN ('drop_user', 'drop_role', 'rename_user', 'rename_role');
	RETURN QUERY
		WITH RECURSIVE below AS
		(
			SELECT t.id FROM unnest(touched_ids) t (id)
			UNION
			SELECT m.member_id FROM amoro_meta.role_member m JOIN below b ON m.role_id = b.id
		)
		SELECT p.principal_id, p.principal_name
		FROM (SELECT b.id FROM below b LIMIT most_users) w JOIN amoro_meta.principal p ON p.principal_id = w.id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.apply_authority(bigint, integer) IS
	'does what a procedure on users, roles or privileges is about, and returns whose rights may be others now, about most_users of them at most; 0: a rehearsal';
REVOKE ALL ON FUNCTION amoro_meta.apply_authority(bigint, integer) FROM PUBLIC;

-- Everything that the step would refuse is refused at the submission, too, by the same statements.
CREATE FUNCTION amoro_meta.rehearse_authority(procedure_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.apply_authority(procedure_id, 0);
	RAISE EXCEPTION USING ERRCODE = 'UNDO0', MESSAGE = 'rehearsed';
EXCEPTION
	WHEN SQLSTATE 'UNDO0' THEN
		RETURN;
END;
$$;
COMMENT ON FUNCTION amoro_meta.rehearse_authority(bigint) IS 'makes the step of a procedure that is being submitted, and undoes it';
REVOKE ALL ON FUNCTION amoro_meta.rehearse_authority(bigint) FROM PUBLIC;
