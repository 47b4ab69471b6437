-- Every table, view, sequence and type of the extension: described, granted to nobody by accident, and dumped.
WITH member AS (
	SELECT c.*, e.extconfig FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_class c ON c.oid = d.objid
	WHERE e.extname = 'amoro_meta' AND d.refclassid = 'pg_extension'::regclass
		AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'),
member_type AS (
	SELECT t.* FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_type t ON t.oid = d.objid
	WHERE e.extname = 'amoro_meta' AND d.refclassid = 'pg_extension'::regclass
		AND d.classid = 'pg_type'::regclass AND d.deptype = 'e')
SELECT oid::regclass::text, 'has no COMMENT' FROM member
WHERE relkind IN ('r', 'v', 'm') AND obj_description(oid, 'pg_class') IS NULL
UNION ALL
-- Composite types are commented as types; the row type of a table needs no comment of its own.
SELECT t.oid::regtype::text, 'is a type without COMMENT' FROM member_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE coalesce(c.relkind, 'c') = 'c' AND t.typtype IN ('c', 'd', 'e') AND obj_description(t.oid, 'pg_type') IS NULL
UNION ALL
SELECT oid::regclass::text, 'is a table or sequence with privileges for ' || acl.grantee::regrole::text FROM member, aclexplode(relacl) AS acl
WHERE relkind IN ('r', 'S') AND acl.grantee <> relowner
UNION ALL
SELECT oid::regclass::text, 'is not dumped: no pg_extension_config_dump' FROM member
WHERE relkind IN ('r', 'S') AND NOT coalesce(oid = ANY (extconfig), false)
	-- contents that the install script makes and nobody changes
	AND relname NOT IN ('access_rule', 'procedure_step')
UNION ALL
SELECT oid::regclass::text, 'is a table outside the schema amoro_meta' FROM member
WHERE relkind = 'r' AND relnamespace <> 'amoro_meta'::regnamespace
ORDER BY 1;
