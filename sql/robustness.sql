-- Every function of the extension survives null and the extremes of its arguments, also those that only the owner may call.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE EXTENSION amoro_meta;
SELECT create_catalog('c') > 0;

-- Calls are undone. What is printed is a failure: an internal error, or a call that the server did not survive.
DO $$
DECLARE
	call text;
	extreme text;
BEGIN
	FOREACH extreme IN ARRAY ARRAY['null', 'least', 'greatest'] LOOP
		FOR call IN
			SELECT format(CASE p.prokind WHEN 'p' THEN 'CALL %s(%s)' ELSE 'SELECT %s(%s)' END, p.oid::regproc,
				(SELECT string_agg(format('%L::%s', CASE
						WHEN extreme = 'null' THEN NULL
						WHEN t.type = 'bigint'::regtype THEN CASE extreme WHEN 'least' THEN '-9223372036854775808' ELSE '9223372036854775807' END
						WHEN t.type = 'integer'::regtype THEN CASE extreme WHEN 'least' THEN '-2147483648' ELSE '2147483647' END
						WHEN t.type = 'interval'::regtype THEN CASE extreme WHEN 'least' THEN '-178000000 years' ELSE '178000000 years' END
						WHEN t.type IN ('text'::regtype, 'name'::regtype) THEN CASE extreme WHEN 'least' THEN '' ELSE repeat('%s', 5000) END
						WHEN t.type = 'jsonb'::regtype THEN CASE extreme WHEN 'least' THEN '{}' ELSE repeat('[', 500) || repeat(']', 500) END
						WHEN t.type = 'boolean'::regtype THEN CASE extreme WHEN 'least' THEN 'false' ELSE 'true' END
						WHEN t.type = 'uuid'::regtype THEN translate('00000000-0000-0000-0000-000000000000', '0', CASE extreme WHEN 'least' THEN '0' ELSE 'f' END)
					END, t.type::regtype), ', ' ORDER BY t.ordinal)
				 FROM unnest(p.proargtypes) WITH ORDINALITY t (type, ordinal)))
			FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
				JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'amoro_meta'
			WHERE p.pronargs > 0 AND p.prorettype <> 'trigger'::regtype
			ORDER BY p.proname
		LOOP
			BEGIN
				EXECUTE call;
				RAISE SQLSTATE 'UNDO0';
			EXCEPTION
				WHEN internal_error THEN RAISE WARNING '%: %', left(call, 200), SQLERRM;
				WHEN OTHERS THEN NULL;
			END;
		END LOOP;
	END LOOP;
END;
$$;
SELECT metadata_version IS NOT NULL AS answers FROM metadata_lookup('catalog', 'c');
DROP EXTENSION amoro_meta;
