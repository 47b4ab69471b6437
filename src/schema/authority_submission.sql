/* Submissions of procedures on users, roles and privileges. */

CREATE FUNCTION amoro_meta.password_secret(password text) RETURNS text
	LANGUAGE c VOLATILE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_password_secret';
COMMENT ON FUNCTION amoro_meta.password_secret(text) IS
	'the SCRAM-SHA-256 secret of a password; one that is such a secret already is kept. Errors: 22023 an empty or overlong one, or an MD5 hash';
REVOKE ALL ON FUNCTION amoro_meta.password_secret(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.end_authority_submission(procedure_id bigint, object_id bigint, arguments jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.set_procedure_object(procedure_id, object_id, arguments);
	PERFORM amoro_meta.rehearse_authority(procedure_id);
	RETURN procedure_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_authority_submission(bigint, bigint, jsonb) IS
	'ends a submission after a rehearsal of its step, whose errors it raises; returns the procedure''s id';
REVOKE ALL ON FUNCTION amoro_meta.end_authority_submission(bigint, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_creation(kind text, name text, given jsonb, password text, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	secret text := amoro_meta.password_secret(password);
BEGIN
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, NULL, NULL, name,
		jsonb_build_array(name, given, password IS NOT NULL), request_id, timeout);
	IF NOT submission.known THEN
		PERFORM amoro_meta.claim_name(submission.procedure_id, 'principal', name, '', '');
		PERFORM amoro_meta.end_authority_submission(submission.procedure_id, amoro_meta.next_id(), given || jsonb_build_object('secret', secret));
	END IF;
	RETURN submission.procedure_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_creation(text, text, jsonb, text, uuid, interval) IS 'what create_user and create_role have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_creation(text, text, jsonb, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION create_user(user_name text, password text DEFAULT NULL, disabled boolean DEFAULT false, properties jsonb DEFAULT '{}',
							request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_name('user_name', user_name), amoro_meta.check_not_null('disabled', disabled IS NOT NULL),
		amoro_meta.check_properties('properties', properties);
	RETURN amoro_meta.submit_creation('create_user', user_name, jsonb_build_object('disabled', disabled, 'properties', properties), password,
									  request_id, timeout);
END;
$$;
COMMENT ON FUNCTION create_user(text, text, boolean, jsonb, uuid, interval) IS
	'submits the creation of a user without any privilege and returns the procedure''s id. password: plain, or a SCRAM-SHA-256 secret, which is what is '
	'kept of it; null: verify_user never says yes. disabled: has no privileges and no password fits. request_id: a retry with the same one returns the '
	'same procedure (its password is not compared). timeout: rolled back after it, unless it is committed by then. '
	'Errors: 42710 a user or role has the name, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_user(text, text, boolean, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION create_role(role_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_name('role_name', role_name);
	RETURN amoro_meta.submit_creation('create_role', role_name, '{}', NULL, request_id, timeout);
END;
$$;
COMMENT ON FUNCTION create_role(text, uuid, interval) IS
	'submits the creation of a role without any privilege or member and returns the procedure''s id. Its name is not that of a user. '
	'request_id, timeout: as with create_user. Errors: 42710 a user or role has the name, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_role(text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_grants_in_flight(name text) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other_procedure_id bigint;
BEGIN
	SELECT min(q.procedure_id) INTO other_procedure_id FROM amoro_meta.procedure_claim q
		WHERE (q.object_kind = 'privilege' AND q.catalog_name = name)
			OR (q.object_kind = 'membership' AND (q.catalog_name = name OR q.database_name = name));
	IF other_procedure_id IS NOT NULL THEN
		PERFORM amoro_meta.raise_in_transition('principal', amoro_meta.quoted_name(name), other_procedure_id);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_grants_in_flight(text) IS 'raises AM401 when a procedure gives something to the user or role, or takes it';
REVOKE ALL ON FUNCTION amoro_meta.refuse_grants_in_flight(text) FROM PUBLIC;

-- Null when there is none.
CREATE FUNCTION amoro_meta.take_principal(procedure_id bigint, kind text, name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	found_id bigint;
BEGIN
	-- waits for those who are about to submit a grant, then looks whether they did
	SELECT p.principal_id INTO found_id FROM amoro_meta.principal p WHERE p.principal_name = name AND p.principal_kind = kind FOR UPDATE;
	PERFORM amoro_meta.refuse_grants_in_flight(name);
	RETURN found_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.take_principal(bigint, text, text) IS
	'id of a user or role whose name the procedure has claimed; raises AM401 when another procedure gives it something or takes it';
REVOKE ALL ON FUNCTION amoro_meta.take_principal(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION alter_user(user_name text, password text DEFAULT NULL, disabled boolean DEFAULT NULL, properties jsonb DEFAULT NULL,
						   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	secret text := amoro_meta.password_secret(password);
	given jsonb := jsonb_build_object('disabled', disabled, 'properties', properties);
	target bigint;
BEGIN
	PERFORM amoro_meta.check_name('user_name', user_name);
	IF num_nonnulls(password, disabled, properties) = 0 THEN
		RAISE EXCEPTION 'nothing to alter' USING ERRCODE = 'invalid_parameter_value', HINT = 'Give password, disabled or properties.';
	END IF;
	IF properties IS NOT NULL THEN
		PERFORM amoro_meta.check_properties('properties', properties);
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure('alter_user', NULL, NULL, user_name,
		jsonb_build_array(user_name, given, password IS NOT NULL), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'principal', user_name, '', '');
	SELECT p.principal_id INTO target FROM amoro_meta.principal p
		WHERE p.principal_name = user_name AND p.principal_kind = 'user' FOR KEY SHARE;
	PERFORM amoro_meta.require_principal(target, 'user', user_name);
	RETURN amoro_meta.end_authority_submission(submission.procedure_id, target, given || jsonb_build_object('secret', secret));
END;
$$;
COMMENT ON FUNCTION alter_user(text, text, boolean, jsonb, uuid, interval) IS
	'submits another password, state (disabled) or properties of a user, null: as they are; returns the procedure''s id. Whoever is disabled keeps '
	'what was granted but has none of it. password, request_id, timeout: as with create_user. '
	'Errors: 42704 no such user, AM401 a procedure works on it, AM005, 22004, 22023 nothing to alter or a bad value, 25006';
REVOKE ALL ON FUNCTION alter_user(text, text, boolean, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_rename(kind text, name text, new_name text, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target bigint;
BEGIN
	PERFORM amoro_meta.check_name(kind || '_name', name), amoro_meta.check_name(format('new_%s_name', kind), new_name);
	IF name = new_name THEN
		RAISE EXCEPTION '% "%" has this name already', kind, name USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure('rename_' || kind, NULL, NULL, name, jsonb_build_array(name, new_name), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	-- always in the same order: two that exchange names do not wait for each other
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'principal', n.n, '', '')
		FROM (SELECT v.n FROM (VALUES (name), (new_name)) v (n) ORDER BY v.n COLLATE "C") n;
	target := amoro_meta.take_principal(submission.procedure_id, kind, name);
	PERFORM amoro_meta.require_principal(target, kind, name);
	RETURN amoro_meta.end_authority_submission(submission.procedure_id, target, jsonb_build_object('new_name', new_name));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_rename(text, text, text, uuid, interval) IS 'what rename_user and rename_role have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_rename(text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION rename_user(user_name text, new_user_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_rename('user', user_name, new_user_name, request_id, timeout)$$;
COMMENT ON FUNCTION rename_user(text, text, uuid, interval) IS
	'submits a new name for a user and returns the procedure''s id; the user keeps id, password, roles and privileges. Done: no node says yes to the '
	'old name. request_id, timeout: as with create_user. '
	'Errors: 42704 no such user, 42710 a user or role has the new name, AM401 a procedure works on one of the names, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION rename_user(text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION rename_role(role_name text, new_role_name text, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_rename('role', role_name, new_role_name, request_id, timeout)$$;
COMMENT ON FUNCTION rename_role(text, text, uuid, interval) IS
	'submits a new name for a role and returns the procedure''s id; the role keeps id, members and privileges. request_id, timeout: as with create_user. '
	'Errors: 42704 no such role, 42710 a user or role has the new name, AM401 a procedure works on one of the names, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION rename_role(text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_drop(kind text, name text, if_exists boolean, cascade boolean, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	target bigint;
BEGIN
	PERFORM amoro_meta.check_name(kind || '_name', name), amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL),
		amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('drop_' || kind, NULL, NULL, name, jsonb_build_array(name, if_exists, cascade), request_id,
															 timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'principal', name, '', '');
	target := amoro_meta.take_principal(submission.procedure_id, kind, name);
	IF target IS NULL AND if_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id, format('%s "%s" does not exist, skipping', kind, name));
	END IF;
	PERFORM amoro_meta.require_principal(target, kind, name);
	RETURN amoro_meta.end_authority_submission(submission.procedure_id, target, jsonb_build_object('cascade', cascade));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_drop(text, text, boolean, boolean, uuid, interval) IS 'what drop_user and drop_role have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_drop(text, text, boolean, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_user(user_name text, if_exists boolean DEFAULT false, cascade boolean DEFAULT false, request_id uuid DEFAULT NULL,
						  timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_drop('user', user_name, if_exists, cascade, request_id, timeout)$$;
COMMENT ON FUNCTION drop_user(text, boolean, boolean, uuid, interval) IS
	'submits the drop of a user, with its memberships and privileges, and returns the procedure''s id. cascade: with what it has granted to others. '
	'if_exists: a NOTICE and a procedure that is done already when there is none. Done: no node says yes to the name. request_id, timeout: as with '
	'create_user. Errors: 42704 no such user, 2BP01 others have something from it, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_user(text, boolean, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_role(role_name text, if_exists boolean DEFAULT false, cascade boolean DEFAULT false, request_id uuid DEFAULT NULL,
						  timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_drop('role', role_name, if_exists, cascade, request_id, timeout)$$;
COMMENT ON FUNCTION drop_role(text, boolean, boolean, uuid, interval) IS
	'submits the drop of a role, with its memberships and privileges, and returns the procedure''s id. cascade: with what its members have granted by '
	'right of it. if_exists: a NOTICE and a procedure that is done already when there is none. request_id, timeout: as with create_user. '
	'Errors: 42704 no such role, 2BP01 others have something by right of it, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_role(text, boolean, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_membership(kind text, role_name text, member_name text, granted_by text, given jsonb, request_id uuid, timeout interval)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	role_id bigint;
	member_id bigint;
	grantor_id bigint;
BEGIN
	PERFORM amoro_meta.check_name('role_name', role_name), amoro_meta.check_name('member_name', member_name);
	IF granted_by IS NOT NULL THEN
		PERFORM amoro_meta.check_name('granted_by', granted_by);
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, NULL, NULL, role_name,
		jsonb_build_array(role_name, member_name, granted_by, given), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'membership', role_name, member_name, '');
	role_id := amoro_meta.lock_principal('role', role_name);
	member_id := amoro_meta.lock_principal(NULL, member_name);
	IF granted_by IS NOT NULL THEN
		grantor_id := amoro_meta.lock_principal('user', granted_by);
	END IF;
	RETURN amoro_meta.end_authority_submission(submission.procedure_id, role_id,
		given || jsonb_build_object('member_id', member_id, 'grantor_id', grantor_id));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_membership(text, text, text, text, jsonb, uuid, interval) IS 'what grant_role and revoke_role have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_membership(text, text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION grant_role(role_name text, member_name text, admin_option boolean DEFAULT false, granted_by text DEFAULT NULL,
						   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('admin_option', admin_option IS NOT NULL);
	RETURN amoro_meta.submit_membership('grant_role', role_name, member_name, granted_by, jsonb_build_object('admin_option', admin_option),
										request_id, timeout);
END;
$$;
COMMENT ON FUNCTION grant_role(text, text, boolean, text, uuid, interval) IS
	'submits the membership of a user or role in a role and returns the procedure''s id. admin_option: the member may grant the role to others. '
	'granted_by: the user who does it, who must have the admin option; what depends on it goes with it; null: an administrator. request_id, timeout: as '
	'with create_user. Errors: 42704 no such user or role, 42501 the grantor has no admin option, 0LP01 the role would be in itself, AM401 a procedure '
	'works on one of them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION grant_role(text, text, boolean, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION revoke_role(role_name text, member_name text, admin_option_only boolean DEFAULT false, granted_by text DEFAULT NULL,
							cascade boolean DEFAULT false, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('admin_option_only', admin_option_only IS NOT NULL), amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	RETURN amoro_meta.submit_membership('revoke_role', role_name, member_name, granted_by,
		jsonb_build_object('only_option', admin_option_only, 'cascade', cascade), request_id, timeout);
END;
$$;
COMMENT ON FUNCTION revoke_role(text, text, boolean, text, boolean, uuid, interval) IS
	'submits the end of a membership, or (admin_option_only) of its admin option, and returns the procedure''s id. granted_by: only what this user has '
	'granted; null: whoever has. cascade: with what others have by right of it. Done: no node says yes because of it. A membership that is not there is '
	'no error. request_id, timeout: as with create_user. Errors: 42704 no such user or role, 2BP01 others have something by right of it, AM401 a '
	'procedure works on one of them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION revoke_role(text, text, boolean, text, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_privileges(kind text, privileges text[], grantee_name text, scope text[], granted_by text, given jsonb,
											 request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	kind_and_name record := amoro_meta.privilege_scope(scope[1], scope[2], scope[3], scope[4], true);
	scope_kind text := kind_and_name.scope_kind;
	wanted text[] := amoro_meta.checked_privileges(privileges, scope_kind);
	grantee_id bigint;
	grantor_id bigint;
	shown_scope text := concat_ws(' ', scope_kind, nullif(concat_ws('.', scope[1], scope[2], kind_and_name.object_name), ''));
BEGIN
	PERFORM amoro_meta.check_name('grantee_name', grantee_name);
	IF granted_by IS NOT NULL THEN
		PERFORM amoro_meta.check_name('granted_by', granted_by);
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, NULL, NULL, grantee_name,
		jsonb_build_array(wanted, grantee_name, scope, granted_by, given), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	-- three long names are too long for an index together; two scopes that look the same are no worse than one
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'privilege', grantee_name,
		CASE WHEN octet_length(shown_scope) > 500 THEN left(shown_scope, 50) || '... ' || md5(shown_scope) ELSE shown_scope END, w.privilege)
		FROM unnest(wanted) w (privilege);
	grantee_id := amoro_meta.lock_principal(NULL, grantee_name);
	IF granted_by IS NOT NULL THEN
		grantor_id := amoro_meta.lock_principal('user', granted_by);
	END IF;
	RETURN amoro_meta.end_authority_submission(submission.procedure_id, grantee_id, given || jsonb_build_object('grantee_id', grantee_id,
		'privileges', wanted, 'scope_kind', scope_kind, 'catalog_name', scope[1], 'database_name', scope[2], 'object_name', kind_and_name.object_name,
		'grantor_id', grantor_id));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_privileges(text, text[], text, text[], text, jsonb, uuid, interval) IS
	'what grant_privilege and revoke_privilege have in common; scope: catalog, database, table and path, each perhaps null';
REVOKE ALL ON FUNCTION amoro_meta.submit_privileges(text, text[], text, text[], text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION grant_privilege(privileges text[], grantee_name text, catalog_name text DEFAULT NULL, database_name text DEFAULT NULL,
								table_name text DEFAULT NULL, path text DEFAULT NULL, grant_option boolean DEFAULT false, granted_by text DEFAULT NULL,
								request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('grant_option', grant_option IS NOT NULL);
	RETURN amoro_meta.submit_privileges('grant_privilege', privileges, grantee_name, ARRAY[catalog_name, database_name, table_name, path], granted_by,
		jsonb_build_object('grant_option', grant_option), request_id, timeout);
END;
$$;
COMMENT ON FUNCTION grant_privilege(text[], text, text, text, text, text, boolean, text, uuid, interval) IS
	'submits privileges for a user or role on the system (no names given), a catalog, a database, a table, or a path, which may end in .** for all below; '
	'returns the procedure''s id. What is named need not exist. privileges: SELECT, INSERT, DELETE, CREATE, ALTER, DROP (not on paths), READ_DATA, '
	'WRITE_DATA, READ_SCHEMA, WRITE_SCHEMA (not on tables), MANAGE_DATABASE (system, catalogs), MANAGE_CATALOG, MANAGE_USER, MANAGE_ROLE, '
	'MANAGE_OPTIMIZER, EXTEND_TEMPLATE, USE_TRIGGER, USE_UDF, USE_CQ, USE_PIPE, MAINTAIN (system); READ and WRITE stand for both of theirs, ALL for what '
	'can be had there. grant_option: the grantee may grant them to others. granted_by: the user who does it, who must have the grant option; what depends '
	'on it goes with it; null: an administrator. request_id, timeout: as with create_user. Errors: 42704 no such user or role, 42501 the grantor has no '
	'grant option, AM401 a procedure works on the same, AM005, 22004, 22023 no such privilege or scope, 25006';
REVOKE ALL ON FUNCTION grant_privilege(text[], text, text, text, text, text, boolean, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION revoke_privilege(privileges text[], grantee_name text, catalog_name text DEFAULT NULL, database_name text DEFAULT NULL,
								 table_name text DEFAULT NULL, path text DEFAULT NULL, grant_option_only boolean DEFAULT false,
								 granted_by text DEFAULT NULL, cascade boolean DEFAULT false, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL)
	RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('grant_option_only', grant_option_only IS NOT NULL), amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	RETURN amoro_meta.submit_privileges('revoke_privilege', privileges, grantee_name, ARRAY[catalog_name, database_name, table_name, path], granted_by,
		jsonb_build_object('only_option', grant_option_only, 'cascade', cascade), request_id, timeout);
END;
$$;
COMMENT ON FUNCTION revoke_privilege(text[], text, text, text, text, text, boolean, text, boolean, uuid, interval) IS
	'submits the end of privileges on exactly this scope, or (grant_option_only) of their grant option, and returns the procedure''s id. The grantee may '
	'still have them on a wider scope or through a role: see the view privileges. granted_by: only what this user has granted; null: whoever has. '
	'cascade: with what others have by right of it. Done: no node says yes because of it. What was not granted is no error. request_id, timeout: as with '
	'create_user. Errors: 42704 no such user or role, 2BP01 others have something by right of it, AM401 a procedure works on the same, AM005, 22004, '
	'22023 no such privilege or scope, 25006';
REVOKE ALL ON FUNCTION revoke_privilege(text[], text, text, text, text, text, boolean, text, boolean, uuid, interval) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT 'admin', 'function', n FROM unnest('{create_user,alter_user,rename_user,drop_user,create_role,rename_role,drop_role,grant_role,revoke_role,'
		'grant_privilege,revoke_privilege}'::text[]) n;
