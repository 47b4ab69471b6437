/* What functions of many parts do with their arguments. */

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
