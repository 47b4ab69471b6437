/* What terminal sessions execute: statements of ours are answered here, all others are the engine's. */

CREATE FUNCTION amoro_meta.terminal_use(INOUT session amoro_meta.terminal_session, parts text[], OUT problem text)
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	SELECT * INTO target FROM amoro_meta.terminal_names(session, parts, 2);
	problem := CASE WHEN NOT (amoro_meta.is_name(target.catalog_name) AND amoro_meta.is_name(target.database_name))
			THEN 'a name has 1 to 255 characters and no control characters'
		ELSE amoro_meta.terminal_problem(target.catalog_name, target.database_name) END;
	IF problem IS NULL THEN
		session.catalog_name := target.catalog_name;
		session.database_name := target.database_name;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.terminal_use(amoro_meta.terminal_session, text[]) IS 'use [catalog.]database';
REVOKE ALL ON FUNCTION amoro_meta.terminal_use(amoro_meta.terminal_session, text[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.terminal_set(INOUT session amoro_meta.terminal_session, command text, parts text[],
										OUT problem text, OUT rows jsonb)
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	changed jsonb := session.properties;
BEGIN
	IF command = 'set' AND cardinality(parts) = 2 THEN
		changed := changed || jsonb_build_object(parts[1], parts[2]);
	ELSIF command = 'reset' THEN
		changed := CASE cardinality(parts) WHEN 0 THEN '{}' ELSE changed - parts[1] END;
	END IF;
	problem := CASE
		WHEN NOT amoro_meta.is_name(parts[1]) THEN 'a key has 1 to 255 characters and no control characters'
		WHEN octet_length(changed::text) > 65536 THEN 'the properties of the session would be larger than 64 kB'
		WHEN (SELECT count(*) FROM jsonb_object_keys(changed)) > 1000 THEN 'the session would have more than 1000 properties' END;
	IF problem IS NULL THEN
		session.properties := changed;
		IF command = 'set' THEN
			rows := (SELECT coalesce(jsonb_agg(jsonb_build_array(p.key, p.value) ORDER BY p.key COLLATE "C"), '[]')
					 FROM jsonb_each_text(changed) p WHERE cardinality(parts) = 0 OR p.key = parts[1]);
		END IF;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.terminal_set(amoro_meta.terminal_session, text, text[]) IS
	'set, set key, set key=value; reset, reset key: properties are data of the session and never reach the settings of this server';
REVOKE ALL ON FUNCTION amoro_meta.terminal_set(amoro_meta.terminal_session, text, text[]) FROM PUBLIC;

CREATE TYPE terminal_answer AS
(
	statement_id	bigint,
	command			text,
	statement		text,
	state			text,
	context			jsonb,
	columns			text[],
	rows			jsonb,
	message			text
);
COMMENT ON TYPE terminal_answer IS
	'what became of a statement. state: Finished or Failed (message says why) for those that are answered here, Created for one that the '
	'engine is to run in the context, Canceled after a failure in a session that stops on errors. context: catalog, database and properties '
	'as of this statement. rows: an array of arrays, at most 1000, in the order of columns';

-- Answers what is ours and says of anything else that it is the engine's; does not touch the row of the session.
CREATE FUNCTION amoro_meta.answer_statement(INOUT session amoro_meta.terminal_session, command text, parts text[],
											OUT answer terminal_answer)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	part record;
	elsewhere boolean := command = 'other';
BEGIN
	IF command = 'use' THEN
		SELECT * INTO part FROM amoro_meta.terminal_use(session, parts);
		session := part.session;
		answer.message := part.problem;
	ELSIF command = 'invalid use' THEN
		answer.message := 'expected: use [catalog.]database';
	ELSIF command IN ('set', 'reset') THEN
		SELECT * INTO part FROM amoro_meta.terminal_set(session, command, parts);
		session := part.session;
		answer.columns := CASE WHEN part.rows IS NOT NULL THEN ARRAY['key', 'value'] END;
		answer.rows := part.rows;
		answer.message := part.problem;
	ELSIF NOT elsewhere THEN
		SELECT * INTO part FROM amoro_meta.terminal_show(session, command, parts);
		elsewhere := part.elsewhere;
		answer.columns := CASE WHEN part.problem IS NULL AND NOT elsewhere THEN part.columns END;
		answer.rows := CASE WHEN answer.columns IS NOT NULL THEN coalesce(part.rows, '[]') END;
		answer.message := CASE WHEN NOT elsewhere THEN part.problem END;
	END IF;
	IF elsewhere THEN
		answer.message := amoro_meta.terminal_problem(session.catalog_name);
	END IF;
	answer.state := CASE WHEN answer.message IS NOT NULL THEN 'Failed' WHEN elsewhere THEN 'Created' ELSE 'Finished' END;
	IF jsonb_array_length(answer.rows) > 1000 AND command NOT IN ('set', 'reset') THEN
		answer.rows := answer.rows - 1000;
		answer.message := 'these are the first 1000';
	END IF;
	answer.context := jsonb_build_object('catalog', session.catalog_name, 'database', session.database_name, 'properties', session.properties);
END;
$$;
COMMENT ON FUNCTION amoro_meta.answer_statement(amoro_meta.terminal_session, text, text[]) IS
	'the answer to a statement, and the session after it';
REVOKE ALL ON FUNCTION amoro_meta.answer_statement(amoro_meta.terminal_session, text, text[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.log_statement(session amoro_meta.terminal_session, answer terminal_answer, parts text[], began timestamptz)
	RETURNS void
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	INSERT INTO amoro_meta.terminal_statement
		SELECT answer.statement_id, session.session_number, session.opened_by, answer.command,
			left(CASE WHEN answer.command = 'set' AND cardinality(parts) = 2 AND amoro_meta.terminal_key_is_sensitive(parts[1])
				THEN format('set %s=******', parts[1]) ELSE answer.statement END, 4096),
			answer.state, answer.message, began, CASE WHEN t.ended THEN began END,
			CASE WHEN t.ended THEN greatest(clock_timestamp(), began) END
		FROM (SELECT answer.state <> 'Created' AS ended) t
	$$;
COMMENT ON FUNCTION amoro_meta.log_statement(amoro_meta.terminal_session, terminal_answer, text[], timestamptz) IS
	'keeps a statement in the log, and of the value of a sensitive key only that there was one';
REVOKE ALL ON FUNCTION amoro_meta.log_statement(amoro_meta.terminal_session, terminal_answer, text[], timestamptz) FROM PUBLIC;

-- The log of a session is its 1000 newest statements, and whatever has not ended, of which there are at most as many.
CREATE FUNCTION amoro_meta.trim_session_log(session_number bigint, new_statements bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF new_statements > 0 AND (SELECT count(*) FROM amoro_meta.terminal_statement s
			WHERE s.session_number = trim_session_log.session_number AND s.ended_at IS NULL) > 1000 THEN
		RAISE EXCEPTION 'more than 1000 statements of this session have not ended' USING ERRCODE = 'program_limit_exceeded',
			HINT = 'Report the end of each: SELECT report_terminal_statement(session_id, statement_id)';
	END IF;
	DELETE FROM amoro_meta.terminal_statement s
		WHERE s.session_number = trim_session_log.session_number AND s.ended_at IS NOT NULL
			AND s.statement_id <= (SELECT o.statement_id FROM amoro_meta.terminal_statement o
								   WHERE o.session_number = trim_session_log.session_number
								   ORDER BY o.statement_id DESC OFFSET 1000 LIMIT 1);
END;
$$;
COMMENT ON FUNCTION amoro_meta.trim_session_log(bigint, bigint) IS
	'deletes what is too old in the log of a session; raises 54000 when too many statements have not ended';
REVOKE ALL ON FUNCTION amoro_meta.trim_session_log(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_terminal_script(script text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('statement', script IS NOT NULL);
	IF octet_length(script) > 1024 * 1024 THEN
		RAISE EXCEPTION 'statement is larger than 1 MB' USING ERRCODE = 'program_limit_exceeded';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_terminal_script(text) IS 'raises 22004 or 54000';
REVOKE ALL ON FUNCTION amoro_meta.check_terminal_script(text) FROM PUBLIC;

CREATE FUNCTION execute_in_terminal(session_id text, statement text) RETURNS SETOF terminal_answer
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 1
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	session amoro_meta.terminal_session;
	found record;
	outcome record;
	answer @extschema@.terminal_answer;
	began timestamptz;
	stopped boolean := false;
	for_engine bigint := 0;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_terminal_script(statement);
	session := amoro_meta.lock_terminal_session(session_id);
	FOR found IN SELECT s.* FROM amoro_meta.terminal_statements(statement,
		coalesce(session.properties->>'terminal.backslash-escapes', 'true') <> 'false') s LOOP
		began := clock_timestamp();
		SELECT * INTO outcome FROM amoro_meta.answer_statement(session, CASE WHEN stopped THEN 'other' ELSE found.command END, found.parts);
		session := outcome.session;
		answer := outcome.answer;
		answer.statement_id := amoro_meta.next_id();
		answer.command := replace(found.command, 'invalid ', '');
		answer.statement := found.statement;
		IF stopped THEN
			answer.state := 'Canceled';
			answer.message := 'a statement before it failed';
		END IF;
		stopped := stopped OR (answer.state = 'Failed' AND session.properties->>'terminal.stop-on-error' = 'true');
		for_engine := for_engine + (answer.state = 'Created')::integer;
		PERFORM amoro_meta.log_statement(session, answer, found.parts, began);
		RETURN NEXT answer;
	END LOOP;
	PERFORM amoro_meta.trim_session_log(session.session_number, for_engine);
	UPDATE amoro_meta.terminal_session s
		SET (catalog_name, database_name, properties, last_used_at) =
			(session.catalog_name, session.database_name, session.properties, clock_timestamp())
		WHERE s.session_number = session.session_number;
END;
$$;
COMMENT ON FUNCTION execute_in_terminal(text, text) IS
	'takes the statements of a script, one row each: use, set, reset, show catalogs, databases, tables, blockers and optimizers, and '
	'describe are answered; any other is returned in state Created, with its context, for the engine to run. '
	'Errors: AM501 no such session, or it has expired; 42601 a quoted text or a comment does not end; 54000 too long, or too many that '
	'have not ended; 22004, 25006';
REVOKE ALL ON FUNCTION execute_in_terminal(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_statement_report(statement_id bigint, state text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('statement_id', statement_id IS NOT NULL), amoro_meta.check_not_null('state', state IS NOT NULL);
	IF state NOT IN ('Running', 'Finished', 'Failed', 'Canceled') THEN
		RAISE EXCEPTION 'no statement is reported as %', amoro_meta.shown_text(state)
			USING ERRCODE = 'invalid_parameter_value', HINT = 'It is Running, Finished, Failed or Canceled.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_statement_report(bigint, text) IS 'raises 22004 or 22023 for what is no report';
REVOKE ALL ON FUNCTION amoro_meta.check_statement_report(bigint, text) FROM PUBLIC;

CREATE FUNCTION report_terminal_statement(session_id text, statement_id bigint, state text DEFAULT 'Finished', message text DEFAULT NULL)
	RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	session amoro_meta.terminal_session;
	reported_at timestamptz;
	going_on boolean;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_statement_report(statement_id, state);
	session := amoro_meta.lock_terminal_session(session_id);
	reported_at := clock_timestamp();
	UPDATE amoro_meta.terminal_session s SET last_used_at = reported_at WHERE s.session_number = session.session_number;
	SELECT s.ended_at IS NULL INTO going_on FROM amoro_meta.terminal_statement s
		WHERE s.statement_id = report_terminal_statement.statement_id AND s.session_number = session.session_number FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'statement % of this session is not known', statement_id USING ERRCODE = 'undefined_object';
	END IF;
	IF going_on THEN
		UPDATE amoro_meta.terminal_statement s
			SET state = report_terminal_statement.state,
				message = coalesce(amoro_meta.printable_text(report_terminal_statement.message, 4000), s.message),
				started_at = coalesce(s.started_at, CASE WHEN report_terminal_statement.state = 'Running' THEN reported_at ELSE s.created_at END),
				ended_at = CASE WHEN report_terminal_statement.state <> 'Running' THEN greatest(reported_at, s.created_at) END
			WHERE s.statement_id = report_terminal_statement.statement_id;
	END IF;
	RETURN going_on;
END;
$$;
COMMENT ON FUNCTION report_terminal_statement(text, bigint, text, text) IS
	'what became of a statement that was given to the engine: Running (again and again, which keeps the session alive), Finished, Failed or '
	'Canceled, by whoever is in the session; false when it had ended, for instance because it was canceled: the engine stops it. '
	'Errors: AM501 no such session, or it has expired; 42704 no such statement; 22004, 22023, 25006';
REVOKE ALL ON FUNCTION report_terminal_statement(text, bigint, text, text) FROM PUBLIC;
