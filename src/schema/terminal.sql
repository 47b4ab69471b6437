/* Terminal sessions: where a user of SQL stands (catalog, database, properties), the same for every front end. */

-- The id is a credential: whoever has it, and is the role that opened the session, is in it. Only a digest is kept.
CREATE TABLE amoro_meta.terminal_session
(
	session_number	bigint PRIMARY KEY,
	id_digest		bytea NOT NULL UNIQUE,
	opened_by		regrole NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text,
	properties		jsonb NOT NULL,
	opened_at		timestamptz NOT NULL,
	last_used_at	timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE amoro_meta.terminal_session IS
	'terminal sessions that were neither closed nor purged; session_number names one without giving access to it';
CREATE INDEX terminal_session_opened_by ON amoro_meta.terminal_session (opened_by);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.terminal_session', '');

CREATE TABLE amoro_meta.terminal_statement
(
	statement_id	bigint PRIMARY KEY,
	session_number	bigint NOT NULL,
	submitted_by	regrole NOT NULL,
	command			text NOT NULL,
	statement		text NOT NULL,
	state			text NOT NULL CHECK (state IN ('Created', 'Running', 'Finished', 'Failed', 'Canceled', 'Expired')),
	message			text,
	created_at		timestamptz NOT NULL,
	started_at		timestamptz,
	ended_at		timestamptz,
	CHECK ((state IN ('Created', 'Running')) = (ended_at IS NULL))
);
COMMENT ON TABLE amoro_meta.terminal_statement IS
	'statements of terminal sessions, also of those that are over; of each its first 4096 characters, without the values of sensitive keys';
CREATE INDEX terminal_statement_session_number ON amoro_meta.terminal_statement (session_number, statement_id);
CREATE INDEX terminal_statement_open ON amoro_meta.terminal_statement (session_number) WHERE ended_at IS NULL;
CREATE INDEX terminal_statement_ended_at ON amoro_meta.terminal_statement (ended_at) WHERE ended_at IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.terminal_statement', '');

CREATE FUNCTION amoro_meta.terminal_statements(script text, backslash_escapes boolean)
	RETURNS TABLE (statement text, command text, parts text[])
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_terminal_statements';
COMMENT ON FUNCTION amoro_meta.terminal_statements(text, boolean) IS
	'splits a script at its semicolons, except for those in quotes and comments; command says which statement of ours it is, '
	'or other; parts are the names in it, from the outermost, or key and value. Errors: 42601 a quoted text or a comment does not end, 54000 more than 1000 statements';
REVOKE ALL ON FUNCTION amoro_meta.terminal_statements(text, boolean) FROM PUBLIC;

-- library_version() first: the setting is known once the library is loaded
CREATE FUNCTION amoro_meta.terminal_session_timeout() RETURNS interval
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT CASE WHEN amoro_meta.library_version() IS NOT NULL
		THEN current_setting('amoro_meta.terminal_session_timeout')::interval END$$;
COMMENT ON FUNCTION amoro_meta.terminal_session_timeout() IS 'the setting of that name';
REVOKE ALL ON FUNCTION amoro_meta.terminal_session_timeout() FROM PUBLIC;

CREATE FUNCTION amoro_meta.terminal_key_is_sensitive(key text) RETURNS boolean
	LANGUAGE sql STABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT bool_or(strpos(lower(key), lower(trim(w.word))) > 0)
	FROM regexp_split_to_table(CASE WHEN amoro_meta.library_version() IS NOT NULL
		THEN current_setting('amoro_meta.terminal_sensitive_keys') END, ',') w (word) WHERE trim(w.word) <> ''
	$$;
COMMENT ON FUNCTION amoro_meta.terminal_key_is_sensitive(text) IS
	'whether a key has one of the words of amoro_meta.terminal_sensitive_keys in it; null when there are none';
REVOKE ALL ON FUNCTION amoro_meta.terminal_key_is_sensitive(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_no_terminal_session(last_used_at timestamptz) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RAISE EXCEPTION 'terminal session is unknown or has expired' USING ERRCODE = 'AM501',
		DETAIL = CASE WHEN last_used_at IS NULL THEN format('Role %s has no session of this id.', amoro_meta.calling_role())
			ELSE format('It was used last at %s, and sessions expire after %s.', last_used_at, amoro_meta.terminal_session_timeout()) END,
		HINT = 'SELECT open_terminal_session(catalog_name)';
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_no_terminal_session(timestamptz) IS 'raises AM501; with the time of its last use, as expired';
REVOKE ALL ON FUNCTION amoro_meta.raise_no_terminal_session(timestamptz) FROM PUBLIC;

CREATE FUNCTION amoro_meta.terminal_session_digest(session_id text) RETURNS bytea
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT CASE WHEN session_id ~ '^[0-9a-f]{64}$' THEN sha256(decode(session_id, 'hex')) END$$;
COMMENT ON FUNCTION amoro_meta.terminal_session_digest(text) IS 'what is kept of the id of a session; null for what can be none';
REVOKE ALL ON FUNCTION amoro_meta.terminal_session_digest(text) FROM PUBLIC;

-- The lock first, then the clock: whoever had to wait for another front end, or for the sweep, is judged by what it left.
CREATE FUNCTION amoro_meta.lock_terminal_session(session_id text) RETURNS amoro_meta.terminal_session
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	session amoro_meta.terminal_session;
BEGIN
	PERFORM amoro_meta.check_not_null('session_id', session_id IS NOT NULL);
	SELECT * INTO session FROM amoro_meta.terminal_session s
		WHERE s.id_digest = amoro_meta.terminal_session_digest(session_id) AND s.opened_by = amoro_meta.calling_role()
		FOR NO KEY UPDATE;
	IF NOT FOUND OR session.last_used_at + amoro_meta.terminal_session_timeout() < clock_timestamp() THEN
		PERFORM amoro_meta.raise_no_terminal_session(session.last_used_at);
	END IF;
	RETURN session;
END;
$$;
COMMENT ON FUNCTION amoro_meta.lock_terminal_session(text) IS
	'the session of the caller with that id, held to the end of the transaction. Errors: AM501 there is none, or it has expired; 22004';
REVOKE ALL ON FUNCTION amoro_meta.lock_terminal_session(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_terminal_properties(properties jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_properties('properties', properties);
	PERFORM amoro_meta.check_name('key of a property', k.key) FROM jsonb_object_keys(properties) k (key);
	IF octet_length(properties::text) > 65536 THEN
		RAISE EXCEPTION 'properties are larger than 64 kB' USING ERRCODE = 'program_limit_exceeded';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_terminal_properties(jsonb) IS
	'raises 22004 or 22023 unless they are an object of strings whose keys are names, 54000 when they are larger than 64 kB';
REVOKE ALL ON FUNCTION amoro_meta.check_terminal_properties(jsonb) FROM PUBLIC;

-- What is not committed is not counted, so that nobody waits for the end of another one's transaction: those that are
-- open at once can together exceed a limit, by what each of them may have.
CREATE FUNCTION amoro_meta.check_terminal_limits() RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	caller regrole := amoro_meta.calling_role();
	largest integer := current_setting('amoro_meta.max_terminal_sessions');
	largest_of_role integer := current_setting('amoro_meta.max_terminal_sessions_per_role');
	live_since timestamptz := clock_timestamp() - amoro_meta.terminal_session_timeout();
BEGIN
	IF (SELECT count(*) FROM amoro_meta.terminal_session s WHERE s.opened_by = caller AND s.last_used_at >= live_since) >= largest_of_role THEN
		RAISE EXCEPTION 'role % has too many terminal sessions', caller USING ERRCODE = 'configuration_limit_exceeded',
			DETAIL = format('amoro_meta.max_terminal_sessions_per_role is %s.', largest_of_role),
			HINT = 'Close those that are not in use: SELECT close_terminal_session(session_id)';
	END IF;
	IF (SELECT count(*) FROM amoro_meta.terminal_session s WHERE s.last_used_at >= live_since) >= largest THEN
		RAISE EXCEPTION 'there are too many terminal sessions' USING ERRCODE = 'configuration_limit_exceeded',
			DETAIL = format('amoro_meta.max_terminal_sessions is %s.', largest),
			HINT = 'An operator can see and end them: SELECT session_number, end_terminal_session(session_number) FROM terminal_sessions WHERE ...';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_terminal_limits() IS 'raises 53400 when the caller, or all together, have as many live sessions as are allowed';
REVOKE ALL ON FUNCTION amoro_meta.check_terminal_limits() FROM PUBLIC;

CREATE FUNCTION open_terminal_session(catalog_name text, properties jsonb DEFAULT '{}') RETURNS text
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	-- 244 random bits
	session_id text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('catalog_name', catalog_name), amoro_meta.check_terminal_properties(properties);
	IF NOT EXISTS (SELECT FROM amoro_meta.catalog c WHERE c.catalog_name = open_terminal_session.catalog_name) THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	PERFORM amoro_meta.check_terminal_limits();
	INSERT INTO amoro_meta.terminal_session
		SELECT amoro_meta.next_id(), amoro_meta.terminal_session_digest(session_id), amoro_meta.calling_role(),
			open_terminal_session.catalog_name, NULL, open_terminal_session.properties, t.now, t.now
		FROM (SELECT clock_timestamp() AS now) t;
	RETURN session_id;
END;
$$;
COMMENT ON FUNCTION open_terminal_session(text, jsonb) IS
	'opens a terminal session of the calling role and returns its id, which cannot be guessed and is shown nowhere again. '
	'Errors: 42704 no such catalog, 53400 too many sessions, 54000 properties too large, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION open_terminal_session(text, jsonb) FROM PUBLIC;

CREATE FUNCTION terminal_context(session_id text) RETURNS jsonb
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	session amoro_meta.terminal_session;
	timeout interval := amoro_meta.terminal_session_timeout();
BEGIN
	PERFORM amoro_meta.check_not_null('session_id', session_id IS NOT NULL);
	SELECT * INTO session FROM amoro_meta.terminal_session s
		WHERE s.id_digest = amoro_meta.terminal_session_digest(session_id) AND s.opened_by = amoro_meta.calling_role();
	IF NOT FOUND OR session.last_used_at + timeout < clock_timestamp() THEN
		PERFORM amoro_meta.raise_no_terminal_session(session.last_used_at);
	END IF;
	RETURN jsonb_build_object('session_number', session.session_number, 'catalog', session.catalog_name,
		'database', session.database_name, 'properties', session.properties, 'expires_at', session.last_used_at + timeout);
END;
$$;
COMMENT ON FUNCTION terminal_context(text) IS
	'catalog, database and properties of a session of the caller, its number, and when it expires; looking is no use of it. '
	'Errors: AM501 no such session, or it has expired; 22004';
REVOKE ALL ON FUNCTION terminal_context(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.remove_terminal_session(session_number bigint, state text, message text) RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	UPDATE amoro_meta.terminal_statement s
		SET state = remove_terminal_session.state, message = remove_terminal_session.message, ended_at = greatest(clock_timestamp(), s.created_at)
		WHERE s.session_number = remove_terminal_session.session_number AND s.ended_at IS NULL;
	DELETE FROM amoro_meta.terminal_session s WHERE s.session_number = remove_terminal_session.session_number;
	$$;
COMMENT ON FUNCTION amoro_meta.remove_terminal_session(bigint, text, text) IS 'ends a session that the caller holds, and its statements';
REVOKE ALL ON FUNCTION amoro_meta.remove_terminal_session(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION close_terminal_session(session_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	closed_number bigint;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_not_null('session_id', session_id IS NOT NULL);
	SELECT s.session_number INTO closed_number FROM amoro_meta.terminal_session s
		WHERE s.id_digest = amoro_meta.terminal_session_digest(session_id) AND s.opened_by = amoro_meta.calling_role() FOR UPDATE;
	IF closed_number IS NULL THEN
		RETURN false;
	END IF;
	PERFORM amoro_meta.remove_terminal_session(closed_number, 'Canceled', 'the session was closed');
	RETURN true;
END;
$$;
COMMENT ON FUNCTION close_terminal_session(text) IS
	'closes a session of the caller; its statements that have not ended are canceled. False when there is none of that id (any more). '
	'Errors: 22004, 25006';
REVOKE ALL ON FUNCTION close_terminal_session(text) FROM PUBLIC;

CREATE FUNCTION end_terminal_session(session_number bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_not_null('session_number', session_number IS NOT NULL);
	PERFORM FROM amoro_meta.terminal_session s WHERE s.session_number = end_terminal_session.session_number FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM amoro_meta.remove_terminal_session(session_number, 'Canceled', 'the session was ended by an operator');
	RETURN true;
END;
$$;
COMMENT ON FUNCTION end_terminal_session(bigint) IS
	'ends any session, by the number that terminal_sessions shows; false when there is none (any more). Errors: 22004, 25006';
REVOKE ALL ON FUNCTION end_terminal_session(bigint) FROM PUBLIC;
