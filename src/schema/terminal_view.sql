/* Terminal sessions as others see them, and the end of those that nobody uses. */

CREATE FUNCTION amoro_meta.expire_terminal_sessions(most integer) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	expired_number bigint;
	expired bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	-- the clock was set back: what was used "later" counts as used now, and expires in due time
	UPDATE amoro_meta.terminal_session s SET last_used_at = clock_timestamp()
		WHERE s.session_number IN (SELECT f.session_number FROM amoro_meta.terminal_session f
								   WHERE f.last_used_at > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED)
			AND s.last_used_at > clock_timestamp();
	-- who has one locked is using it; one that was used since this looked is looked at again when it is locked
	FOR expired_number IN
		SELECT s.session_number FROM amoro_meta.terminal_session s
		WHERE s.last_used_at + amoro_meta.terminal_session_timeout() < clock_timestamp() LIMIT most FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM amoro_meta.remove_terminal_session(expired_number, 'Expired', 'the session expired');
		expired := expired + 1;
	END LOOP;
	RETURN expired;
END;
$$;
COMMENT ON FUNCTION amoro_meta.expire_terminal_sessions(integer) IS 'ends sessions that have expired; waits for nobody';
REVOKE ALL ON FUNCTION amoro_meta.expire_terminal_sessions(integer) FROM PUBLIC;

CREATE FUNCTION purge_terminal_sessions() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	kept_since timestamptz;
	purged bigint := amoro_meta.expire_terminal_sessions(amoro_meta.sweep_batch());
	deleted bigint;
BEGIN
	-- the statements that ended within amoro_meta.history_retention, at most the 100,000 newest, and what has not ended
	kept_since := greatest(clock_timestamp() - current_setting('amoro_meta.history_retention')::interval,
		(SELECT s.ended_at FROM amoro_meta.terminal_statement s WHERE s.ended_at IS NOT NULL
		 ORDER BY s.ended_at DESC OFFSET 100000 LIMIT 1));
	DELETE FROM amoro_meta.terminal_statement s
		WHERE s.statement_id IN (SELECT o.statement_id FROM amoro_meta.terminal_statement o
								 WHERE o.ended_at <= kept_since ORDER BY o.ended_at
								 LIMIT amoro_meta.sweep_batch() - purged FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS deleted = ROW_COUNT;
	RETURN purged + deleted;
END;
$$;
COMMENT ON FUNCTION purge_terminal_sessions() IS
	'ends sessions that were not used for amoro_meta.terminal_session_timeout, and forgets old statements; a batch of both, returns how '
	'many. The coordinator does so every amoro_meta.refresh_interval. Errors: 25006';
REVOKE ALL ON FUNCTION purge_terminal_sessions() FROM PUBLIC;

-- Who may end the sessions of others may see that they are there, and what for, but none of their secrets.
CREATE FUNCTION amoro_meta.sees_all_terminal_sessions() RETURNS boolean
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT has_function_privilege(amoro_meta.calling_role(), '@extschema@.end_terminal_session(bigint)', 'EXECUTE')$$;
COMMENT ON FUNCTION amoro_meta.sees_all_terminal_sessions() IS 'whether the caller may end sessions of others';
REVOKE ALL ON FUNCTION amoro_meta.sees_all_terminal_sessions() FROM PUBLIC;

CREATE FUNCTION amoro_meta.masked_properties(properties jsonb) RETURNS jsonb
	LANGUAGE sql STABLE STRICT
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(jsonb_object_agg(p.key, CASE WHEN amoro_meta.terminal_key_is_sensitive(p.key) THEN '******' ELSE p.value END), '{}')
	FROM jsonb_each_text(properties) p
	$$;
COMMENT ON FUNCTION amoro_meta.masked_properties(jsonb) IS 'the properties without the values of sensitive keys';
REVOKE ALL ON FUNCTION amoro_meta.masked_properties(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.visible_terminal_sessions()
	RETURNS TABLE (session_number bigint, opened_by regrole, catalog_name text, database_name text, properties jsonb, state text,
		opened_at timestamptz, last_used_at timestamptz, expires_at timestamptz, statements bigint, open_statements bigint)
	LANGUAGE sql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT s.session_number, s.opened_by, s.catalog_name, s.database_name,
		CASE WHEN s.opened_by = amoro_meta.calling_role() THEN s.properties ELSE amoro_meta.masked_properties(s.properties) END,
		CASE WHEN e.expires_at < clock_timestamp() THEN 'expired' ELSE 'open' END,
		s.opened_at, s.last_used_at, e.expires_at, l.statements, l.open_statements
	FROM amoro_meta.terminal_session s
		CROSS JOIN LATERAL (SELECT s.last_used_at + amoro_meta.terminal_session_timeout() AS expires_at) e
		CROSS JOIN LATERAL (SELECT count(*) AS statements, count(*) FILTER (WHERE t.ended_at IS NULL) AS open_statements
							FROM amoro_meta.terminal_statement t WHERE t.session_number = s.session_number) l
	WHERE s.opened_by = amoro_meta.calling_role() OR (SELECT amoro_meta.sees_all_terminal_sessions())
	$$;
COMMENT ON FUNCTION amoro_meta.visible_terminal_sessions() IS 'rows of the view terminal_sessions';
REVOKE ALL ON FUNCTION amoro_meta.visible_terminal_sessions() FROM PUBLIC;

CREATE FUNCTION amoro_meta.visible_terminal_statements()
	RETURNS TABLE (statement_id bigint, session_number bigint, submitted_by regrole, command text, statement text, state text,
		message text, created_at timestamptz, started_at timestamptz, ended_at timestamptz, duration interval)
	LANGUAGE sql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT s.statement_id, s.session_number, s.submitted_by, s.command,
		CASE WHEN s.submitted_by = amoro_meta.calling_role() THEN s.statement END, s.state,
		CASE WHEN s.submitted_by = amoro_meta.calling_role() THEN s.message END, s.created_at, s.started_at, s.ended_at,
		greatest(coalesce(s.ended_at, clock_timestamp()) - s.started_at, interval '0')
	FROM amoro_meta.terminal_statement s
	WHERE s.submitted_by = amoro_meta.calling_role() OR (SELECT amoro_meta.sees_all_terminal_sessions())
	$$;
COMMENT ON FUNCTION amoro_meta.visible_terminal_statements() IS 'rows of the view terminal_statements';
REVOKE ALL ON FUNCTION amoro_meta.visible_terminal_statements() FROM PUBLIC;

CREATE VIEW terminal_sessions AS SELECT * FROM amoro_meta.visible_terminal_sessions();
COMMENT ON VIEW terminal_sessions IS
	'terminal sessions of the caller; for operators and admins all of them, without the values of sensitive keys. The number gives no access';

CREATE VIEW terminal_statements AS SELECT * FROM amoro_meta.visible_terminal_statements();
COMMENT ON VIEW terminal_statements IS
	'statements of terminal sessions within amoro_meta.history_retention; of other roles operators and admins see what kind they are of and '
	'what became of them, not the text. duration counts from when the engine began to run it';

CREATE VIEW amoro_stat_terminal AS
	SELECT s.command, count(*) AS statements,
		count(*) FILTER (WHERE s.ended_at IS NULL) AS open,
		count(*) FILTER (WHERE s.state = 'Finished') AS finished,
		count(*) FILTER (WHERE s.state = 'Failed') AS failed,
		count(*) FILTER (WHERE s.state = 'Canceled') AS canceled,
		count(*) FILTER (WHERE s.state = 'Expired') AS expired,
		avg(s.ended_at - s.started_at) FILTER (WHERE s.state = 'Finished') AS mean_time,
		max(s.ended_at - s.started_at) FILTER (WHERE s.state = 'Finished') AS max_time
	FROM amoro_meta.terminal_statement s GROUP BY s.command;
COMMENT ON VIEW amoro_stat_terminal IS
	'statements of terminal sessions of each kind within amoro_meta.history_retention: how many, how they ended, how long the finished ones took';
GRANT SELECT ON amoro_stat_terminal TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT 'writer', 'function', n FROM unnest(ARRAY['open_terminal_session', 'execute_in_terminal', 'terminal_context',
		'report_terminal_statement', 'close_terminal_session']) n
	UNION ALL
	SELECT k, o, n FROM unnest(ARRAY['writer', 'operator', 'admin']) k,
		(VALUES ('view', 'terminal_sessions'), ('view', 'terminal_statements'), ('function', 'amoro_meta.visible_terminal_sessions'),
			('function', 'amoro_meta.visible_terminal_statements')) v (o, n)
	UNION ALL
	SELECT k, o, n FROM unnest(ARRAY['operator', 'admin']) k,
		(VALUES ('function', 'purge_terminal_sessions'), ('function', 'end_terminal_session'), ('view', 'amoro_stat_terminal')) v (o, n);
