/* Who may give a role or a privilege to others, and what becomes of that when the right to give it is lost. */

CREATE FUNCTION amoro_meta.require_admin_option(giver_id bigint, given_role_id bigint) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF giver_id IS NOT NULL AND NOT EXISTS
		(SELECT FROM amoro_meta.principal_closure(giver_id) c JOIN amoro_meta.role_member m ON m.member_id = c.principal_id
		 WHERE m.role_id = given_role_id AND m.admin_option
			AND NOT (SELECT p.disabled FROM amoro_meta.principal p WHERE p.principal_id = giver_id)) THEN
		RAISE EXCEPTION '"%" has no admin option on role "%"',
			(SELECT p.principal_name FROM amoro_meta.principal p WHERE p.principal_id = giver_id),
			(SELECT p.principal_name FROM amoro_meta.principal p WHERE p.principal_id = given_role_id)
			USING ERRCODE = 'insufficient_privilege';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_admin_option(bigint, bigint) IS 'raises 42501 unless the grantor (null: an administrator) may give the role to others';
REVOKE ALL ON FUNCTION amoro_meta.require_admin_option(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_grant_option(giver_id bigint, privileges text[], scope_kind text, catalog_name text, database_name text,
												object_name text) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	missing text;
BEGIN
	IF giver_id IS NULL THEN
		RETURN;
	END IF;
	SELECT string_agg(r.privilege, ', ' ORDER BY r.privilege) INTO missing FROM unnest(privileges) r (privilege) WHERE NOT EXISTS
		(SELECT FROM amoro_meta.principal_closure(giver_id) c JOIN amoro_meta.privilege_grant g ON g.grantee_id = c.principal_id
		 WHERE g.privilege = r.privilege AND g.grant_option
			AND amoro_meta.scope_covers(g, require_grant_option.scope_kind, require_grant_option.catalog_name, require_grant_option.database_name,
										require_grant_option.object_name)
			AND NOT (SELECT p.disabled FROM amoro_meta.principal p WHERE p.principal_id = giver_id));
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION '"%" has no grant option for %', (SELECT p.principal_name FROM amoro_meta.principal p WHERE p.principal_id = giver_id), missing
			USING ERRCODE = 'insufficient_privilege';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_grant_option(bigint, text[], text, text, text, text) IS
	'raises 42501 unless the grantor (null: an administrator) has all the privileges with grant option on the scope or a wider one';
REVOKE ALL ON FUNCTION amoro_meta.require_grant_option(bigint, text[], text, text, text, text) FROM PUBLIC;

-- Delegated grants hang on the right of their grantor to give them. Whoever has lost something may have lost that, and so
-- may those in a role that has, and all to whom any of these has granted.
CREATE FUNCTION amoro_meta.doubtful_grantors(losers bigint[]) RETURNS bigint[]
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH RECURSIVE doubtful AS
	(
		SELECT l.id FROM unnest(losers) l (id)
		UNION
		SELECT f.id FROM doubtful d CROSS JOIN LATERAL
			(SELECT m.member_id FROM amoro_meta.role_member m WHERE m.role_id = d.id OR m.grantor_id = d.id
			 UNION ALL
			 SELECT g.grantee_id FROM amoro_meta.privilege_grant g WHERE g.grantor_id = d.id) f (id)
	)
	SELECT coalesce(array_agg(d.id), '{}') FROM doubtful d
	$$;
COMMENT ON FUNCTION amoro_meta.doubtful_grantors(bigint[]) IS 'whose grants may not be theirs to give any more, after some have lost rights';
REVOKE ALL ON FUNCTION amoro_meta.doubtful_grantors(bigint[]) FROM PUBLIC;

-- What is supported is found from the grants beyond doubt upwards, so two that support each other support nothing.
CREATE FUNCTION amoro_meta.unsupported_memberships(doubtful bigint[]) RETURNS bigint[]
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	unsupported bigint[] := ARRAY(SELECT m.membership_id FROM amoro_meta.role_member m WHERE m.grantor_id = ANY (doubtful));
	supported bigint[];
BEGIN
	LOOP
		supported := ARRAY(SELECT m.membership_id FROM amoro_meta.role_member m
			WHERE m.membership_id = ANY (unsupported) AND EXISTS
			(
				WITH RECURSIVE reached AS
				(
					SELECT m.grantor_id AS id
					UNION
					SELECT k.role_id FROM amoro_meta.role_member k JOIN reached r ON k.member_id = r.id WHERE k.membership_id <> ALL (unsupported)
				)
				SELECT FROM reached r JOIN amoro_meta.role_member k ON k.member_id = r.id
				WHERE k.role_id = m.role_id AND k.admin_option AND k.membership_id <> ALL (unsupported)
			));
		EXIT WHEN supported = '{}';
		unsupported := ARRAY(SELECT u.id FROM unnest(unsupported) u (id) WHERE u.id <> ALL (supported));
	END LOOP;
	RETURN unsupported;
END;
$$;
COMMENT ON FUNCTION amoro_meta.unsupported_memberships(bigint[]) IS 'memberships by doubtful grantors who have lost the admin option';
REVOKE ALL ON FUNCTION amoro_meta.unsupported_memberships(bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.unsupported_grants(doubtful bigint[]) RETURNS bigint[]
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	unsupported bigint[] := ARRAY(SELECT g.grant_id FROM amoro_meta.privilege_grant g WHERE g.grantor_id = ANY (doubtful));
	supported bigint[];
BEGIN
	LOOP
		supported := ARRAY(SELECT g.grant_id FROM amoro_meta.privilege_grant g
			WHERE g.grant_id = ANY (unsupported) AND EXISTS
				(SELECT FROM amoro_meta.principal_closure(g.grantor_id) c JOIN amoro_meta.privilege_grant k ON k.grantee_id = c.principal_id
				 WHERE k.privilege = g.privilege AND k.grant_option AND k.grant_id <> ALL (unsupported)
					AND amoro_meta.scope_covers(k, g.scope_kind, g.catalog_name, g.database_name, g.object_name)));
		EXIT WHEN supported = '{}';
		unsupported := ARRAY(SELECT u.id FROM unnest(unsupported) u (id) WHERE u.id <> ALL (supported));
	END LOOP;
	RETURN unsupported;
END;
$$;
COMMENT ON FUNCTION amoro_meta.unsupported_grants(bigint[]) IS 'privileges by doubtful grantors who have lost the grant option';
REVOKE ALL ON FUNCTION amoro_meta.unsupported_grants(bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.grant_text(granted amoro_meta.privilege_grant) RETURNS text
	LANGUAGE sql STABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT format('%s on %s to "%s"', granted.privilege,
		concat_ws(' ', granted.scope_kind, nullif(amoro_meta.quoted_name(coalesce(granted.catalog_name, ''), coalesce(granted.database_name, ''),
														coalesce(granted.object_name, '')), '')),
		(SELECT p.principal_name FROM amoro_meta.principal p WHERE p.principal_id = granted.grantee_id))
	$$;
COMMENT ON FUNCTION amoro_meta.grant_text(amoro_meta.privilege_grant) IS 'a grant, for messages';
REVOKE ALL ON FUNCTION amoro_meta.grant_text(amoro_meta.privilege_grant) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_dependent_grants(memberships bigint[], grants bigint[]) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RAISE EXCEPTION 'other grants depend on this' USING ERRCODE = 'dependent_objects_still_exist',
		DETAIL = (SELECT format('%s in all: %s%s.', cardinality(memberships) + cardinality(grants), string_agg(t.shown, '; '),
						CASE WHEN cardinality(memberships) + cardinality(grants) > 3 THEN ' and more' ELSE '' END)
			FROM (SELECT format('role "%s" to "%s", by "%s"', r.principal_name, w.principal_name, b.principal_name) AS shown
				  FROM amoro_meta.role_member m JOIN amoro_meta.principal r ON r.principal_id = m.role_id
					JOIN amoro_meta.principal w ON w.principal_id = m.member_id LEFT JOIN amoro_meta.principal b ON b.principal_id = m.grantor_id
				  WHERE m.membership_id = ANY (memberships)
				  UNION ALL
				  SELECT format('%s, by "%s"', amoro_meta.grant_text(g), b.principal_name)
				  FROM amoro_meta.privilege_grant g LEFT JOIN amoro_meta.principal b ON b.principal_id = g.grantor_id
				  WHERE g.grant_id = ANY (grants)
				  ORDER BY 1 LIMIT 3) t),
		HINT = 'Revoke these first, or give cascade => true.';
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_dependent_grants(bigint[], bigint[]) IS 'raises 2BP01 and names some of them';
REVOKE ALL ON FUNCTION amoro_meta.raise_dependent_grants(bigint[], bigint[]) FROM PUBLIC;

-- After anything was taken away from the losers.
CREATE FUNCTION amoro_meta.settle_delegation(losers bigint[], cascade boolean) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	doubtful bigint[] := amoro_meta.doubtful_grantors(losers);
	memberships bigint[] := amoro_meta.unsupported_memberships(doubtful);
	grants bigint[];
	touched bigint[];
	touched_too bigint[];
BEGIN
	WITH gone AS (DELETE FROM amoro_meta.role_member m WHERE cascade AND m.membership_id = ANY (memberships) RETURNING m.member_id)
		SELECT coalesce(array_agg(g.member_id), '{}') INTO touched FROM gone g;
	-- sees what was deleted: each statement of a step has a snapshot of its own
	grants := amoro_meta.unsupported_grants(doubtful);
	IF NOT cascade AND (memberships <> '{}' OR grants <> '{}') THEN
		PERFORM amoro_meta.raise_dependent_grants(memberships, grants);
	END IF;
	WITH gone AS (DELETE FROM amoro_meta.privilege_grant g WHERE g.grant_id = ANY (grants) RETURNING g.grantee_id)
		SELECT coalesce(array_agg(g.grantee_id), '{}') INTO touched_too FROM gone g;
	RETURN touched || touched_too;
END;
$$;
COMMENT ON FUNCTION amoro_meta.settle_delegation(bigint[], boolean) IS
	'deletes what those who have lost something have no right to have granted any more, or (without cascade) raises 2BP01; returns who loses by that';
REVOKE ALL ON FUNCTION amoro_meta.settle_delegation(bigint[], boolean) FROM PUBLIC;
