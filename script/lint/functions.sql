-- Every function of the extension: described, closed to PUBLIC, and proof against the caller's search_path.
WITH member AS (
	SELECT p.* FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_proc p ON p.oid = d.objid
	WHERE e.extname = 'amoro_meta' AND d.refclassid = 'pg_extension'::regclass
		AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e')
SELECT oid::regprocedure, 'has no COMMENT' FROM member WHERE obj_description(oid, 'pg_proc') IS NULL
UNION ALL
SELECT oid::regprocedure, 'may be executed by PUBLIC' FROM member,
	aclexplode(coalesce(proacl, acldefault('f', proowner))) AS acl WHERE acl.grantee = 0
UNION ALL
SELECT member.oid::regprocedure, 'does not set search_path = pg_catalog, pg_temp' FROM member JOIN pg_language l ON l.oid = prolang
WHERE lanname IN ('sql', 'plpgsql') AND prosqlbody IS NULL
	AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)
UNION ALL
-- a plan that is forbidden costs so much that the JIT compiler takes it for a large query
SELECT oid::regprocedure, 'forbids plans and lets the rest be compiled' FROM member
WHERE array_to_string(proconfig, ' ') ~ '\menable_\w+=off' AND NOT 'jit=off' = ANY (proconfig)
UNION ALL
SELECT oid::regprocedure, 'forbids one kind of join, or joins without scans' FROM member
WHERE array_to_string(proconfig, ' ') ~ 'enable_(hash|merge)join=off' AND NOT '{enable_seqscan=off,enable_hashjoin=off,enable_mergejoin=off}' <@ proconfig
UNION ALL
-- neither a worker nor its leader starts a subtransaction
SELECT oid::regprocedure, 'catches exceptions and is not PARALLEL UNSAFE' FROM member WHERE proparallel <> 'u' AND prosrc ~ 'EXCEPTION\s+WHEN\M'
UNION ALL
SELECT caller.oid::regprocedure, format('is PARALLEL %s and calls %s, which is PARALLEL %s', caller.proparallel, called.oid::regprocedure, called.proparallel)
FROM member caller JOIN member called ON strpos('sru', called.proparallel::text) > strpos('sru', caller.proparallel::text)
	AND regexp_replace(coalesce(pg_get_function_sqlbody(caller.oid), caller.prosrc), '''[^'']*''', '', 'g') ~ ('\m' || called.proname || '\(')
UNION ALL
SELECT member.oid::regprocedure, 'is a C function whose symbol ' || prosrc || ' lacks the prefix amoro_meta_' FROM member JOIN pg_language l ON l.oid = prolang
WHERE lanname = 'c' AND prosrc NOT LIKE 'amoro\_meta\_%'
ORDER BY 1;
