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
SELECT member.oid::regprocedure, 'is a C function whose symbol ' || prosrc || ' lacks the prefix amoro_meta_' FROM member JOIN pg_language l ON l.oid = prolang
WHERE lanname = 'c' AND prosrc NOT LIKE 'amoro\_meta\_%'
ORDER BY 1;
