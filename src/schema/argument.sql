/* What functions of many parts do with their arguments, and how they show them. */

CREATE FUNCTION amoro_meta.check_name(argument text, name text) RETURNS void
	LANGUAGE c STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_check_name';
COMMENT ON FUNCTION amoro_meta.check_name(text, text) IS
	'raises 22004 for null, and 22023 unless the name has 1 to 255 characters and no control characters';
REVOKE ALL ON FUNCTION amoro_meta.check_name(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_properties(argument text, properties jsonb) RETURNS void
	LANGUAGE c STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_check_properties';
COMMENT ON FUNCTION amoro_meta.check_properties(text, jsonb) IS
	'raises 22004 for null, and 22023 unless the properties are an object of strings';
REVOKE ALL ON FUNCTION amoro_meta.check_properties(text, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_not_null(argument text, given boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF given IS NOT TRUE THEN
		RAISE EXCEPTION '% must not be null', argument USING ERRCODE = 'null_value_not_allowed';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_not_null(text, boolean) IS 'raises 22004 unless the argument of that name was given';
REVOKE ALL ON FUNCTION amoro_meta.check_not_null(text, boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_count(argument text, given integer, most integer, rule text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null(argument, given IS NOT NULL);
	IF given NOT BETWEEN 1 AND most THEN
		RAISE EXCEPTION '% is out of range: %', argument, given USING ERRCODE = 'invalid_parameter_value', HINT = rule;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_count(text, integer, integer, text) IS
	'raises 22004 for null, and 22023 with the rule as its hint unless the number is from 1 to most';
REVOKE ALL ON FUNCTION amoro_meta.check_count(text, integer, integer, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.shown_text(value text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT coalesce(quote_literal(left(regexp_replace(value, '[[:cntrl:]]', '?', 'g'), 100)), 'null')$$;
COMMENT ON FUNCTION amoro_meta.shown_text(text) IS 'a bad value for a message: quoted, on one line, cut off after 100 characters';
REVOKE ALL ON FUNCTION amoro_meta.shown_text(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.printable_text(value text, longest integer) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_printable_text';
COMMENT ON FUNCTION amoro_meta.printable_text(text, integer) IS
	'the first characters of a text that somebody else wrote, with ? for control characters other than newlines and tabs';
REVOKE ALL ON FUNCTION amoro_meta.printable_text(text, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.quoted_name(VARIADIC parts text[]) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT string_agg(format('"%s"', p.part), '.' ORDER BY p.ordinal) FROM unnest(parts) WITH ORDINALITY p (part, ordinal) WHERE p.part <> ''$$;
COMMENT ON FUNCTION amoro_meta.quoted_name(text[]) IS 'the name of an object, for messages; empty parts are left out';
REVOKE ALL ON FUNCTION amoro_meta.quoted_name(text[]) FROM PUBLIC;

-- For those who lock a row and then look for references to it: a snapshot from before the lock would not show them.
CREATE FUNCTION amoro_meta.require_read_committed(act text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'cannot % in a transaction of isolation level %', act, current_setting('transaction_isolation')
			USING ERRCODE = 'invalid_transaction_state', HINT = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_read_committed(text) IS 'raises 25000 in a transaction whose snapshot is older than its newest lock';
REVOKE ALL ON FUNCTION amoro_meta.require_read_committed(text) FROM PUBLIC;
