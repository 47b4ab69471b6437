/* Calls to the leader of a service: recorded here, delivered by the explorer, answered here. */

CREATE TABLE amoro_meta.call
(
	call_id			bigint PRIMARY KEY,
	service			text NOT NULL,
	method			text NOT NULL,
	path			text NOT NULL,
	content_type	text,
	body			text,
	request_id		uuid NOT NULL,
	requested_by	regrole NOT NULL,
	process_id		bigint,
	created_at		timestamptz NOT NULL,
	deadline		timestamptz NOT NULL,
	attempts		integer NOT NULL DEFAULT 0,
	next_at			timestamptz NOT NULL,
	token			bigint,
	state			text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'answered', 'expired')),
	status			integer,
	answer			text,
	truncated		boolean NOT NULL DEFAULT false,
	error			text,
	ended_at		timestamptz,
	UNIQUE (requested_by, request_id)
);
COMMENT ON TABLE amoro_meta.call IS 'calls to leaders of services, and what they answered';
COMMENT ON COLUMN amoro_meta.call.token IS 'of the leader that was asked last';
COMMENT ON COLUMN amoro_meta.call.process_id IS 'a process that is cancelled when the answer is one of success';
CREATE INDEX call_waiting ON amoro_meta.call (service, next_at, call_id) WHERE ended_at IS NULL;
CREATE INDEX call_deadline ON amoro_meta.call (deadline) WHERE ended_at IS NULL;
CREATE INDEX call_ended_at ON amoro_meta.call (ended_at) WHERE ended_at IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.call', '');

CREATE FUNCTION amoro_meta.check_call_timeout(timeout interval) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('timeout', timeout IS NOT NULL);
	IF timeout NOT BETWEEN interval '1 ms' AND interval '1 day' THEN
		RAISE EXCEPTION 'timeout is out of range' USING ERRCODE = 'invalid_parameter_value', DETAIL = 'It is 1 ms to 1 day.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_call_timeout(interval) IS 'raises 22004 or 22023 unless a leader may be called for that long';
REVOKE ALL ON FUNCTION amoro_meta.check_call_timeout(interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_call(method text, path text, body text, content_type text, timeout interval) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF method IS NULL OR method NOT IN ('GET', 'POST', 'PUT', 'PATCH', 'DELETE') THEN
		RAISE EXCEPTION 'unknown method: %', amoro_meta.shown_text(method) USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is GET, POST, PUT, PATCH or DELETE.';
	ELSIF path IS NULL OR path !~ '^/[!-"$-~]*$' OR length(path) > 8192 THEN
		RAISE EXCEPTION 'path is not valid: %', amoro_meta.shown_text(path) USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It begins with a slash and has at most 8192 characters of ASCII, without spaces and #; others are percent-encoded.';
	ELSIF body IS NOT NULL AND method = 'GET' THEN
		RAISE EXCEPTION 'a GET has no body' USING ERRCODE = 'invalid_parameter_value';
	ELSIF octet_length(body) > 1048576 THEN
		RAISE EXCEPTION 'body is too large' USING ERRCODE = 'program_limit_exceeded',
			DETAIL = format('It has %s bytes; the limit is 1 MB.', octet_length(body));
	ELSIF content_type !~ '^[!-~]+( [!-~]+)*$' OR length(content_type) > 200 OR (content_type IS NULL AND body IS NOT NULL) THEN
		RAISE EXCEPTION 'content_type is not valid: %', amoro_meta.shown_text(content_type) USING ERRCODE = 'invalid_parameter_value';
	END IF;
	-- it is sent in UTF-8
	IF getdatabaseencoding() <> 'SQL_ASCII' THEN
		PERFORM convert_to(body, 'UTF8');
	END IF;
	PERFORM amoro_meta.check_call_timeout(timeout);
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_call(text, text, text, text, interval) IS 'checks the arguments of call_leader';
REVOKE ALL ON FUNCTION amoro_meta.check_call(text, text, text, text, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.record_request(service text, method text, path text, body text, content_type text, timeout interval, request_id uuid,
										  process_id bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	new_id bigint := amoro_meta.next_id();
	moment timestamptz := clock_timestamp();
	role CONSTANT regrole := amoro_meta.calling_role();
	known amoro_meta.call;
BEGIN
	IF NOT amoro_meta.preloaded() THEN
		RAISE EXCEPTION 'there is no explorer in this database' USING ERRCODE = 'AM005', DETAIL = 'The library is not preloaded.',
			HINT = 'Add amoro_meta to shared_preload_libraries in postgresql.conf and restart the server.';
	ELSIF (SELECT count(*) FROM (SELECT FROM amoro_meta.call c WHERE c.service = record_request.service AND c.ended_at IS NULL LIMIT 10000) w) = 10000
			AND NOT EXISTS (SELECT FROM amoro_meta.call c WHERE c.requested_by = role AND c.request_id = record_request.request_id) THEN
		RAISE EXCEPTION 'too many calls wait for service %', amoro_meta.shown_text(service) USING ERRCODE = 'configuration_limit_exceeded',
			DETAIL = 'At most 10000 wait for one service.';
	END IF;
	INSERT INTO amoro_meta.call AS c (call_id, service, method, path, content_type, body, request_id, requested_by, process_id, created_at, deadline, next_at)
		VALUES (new_id, service, method, path, CASE WHEN body IS NOT NULL THEN content_type END, body, coalesce(request_id, gen_random_uuid()), role,
				process_id, moment, moment + timeout, moment)
		ON CONFLICT ON CONSTRAINT call_requested_by_request_id_key DO NOTHING;
	IF FOUND THEN
		PERFORM amoro_meta.wake_explorer();
		RETURN new_id;
	END IF;
	SELECT c.* INTO known FROM amoro_meta.call c WHERE c.requested_by = role AND c.request_id = record_request.request_id;
	IF (known.service, known.method, known.path, known.body, known.content_type)
			IS DISTINCT FROM (service, method, path, body, CASE WHEN body IS NOT NULL THEN content_type END) THEN
		RAISE EXCEPTION 'request_id was used for another call' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Call %s was made with it.', known.call_id);
	END IF;
	RETURN known.call_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.record_request(text, text, text, text, text, interval, uuid, bigint) IS
	'records a call, which the explorer delivers once this transaction is committed; the one that is there already with that request_id';
REVOKE ALL ON FUNCTION amoro_meta.record_request(text, text, text, text, text, interval, uuid, bigint) FROM PUBLIC;

CREATE FUNCTION call_leader(service text, method text, path text, body text DEFAULT NULL, content_type text DEFAULT 'application/json',
							timeout interval DEFAULT '1 min', request_id uuid DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_name('service', service), amoro_meta.check_call(method, path, body, content_type, timeout);
	RETURN amoro_meta.record_request(service, method, path, body, content_type, timeout, request_id, NULL);
END;
$$;
COMMENT ON FUNCTION call_leader(text, text, text, text, text, interval, uuid) IS
	'has the leader of a service called over HTTP, at its endpoint and that path, once this transaction is committed; returns the id for call_result. method: GET, POST, PUT, PATCH or DELETE; body, with its content_type, for all but GET. It is tried '
	'until the leader has answered with a status below 500 (other than 408, 421, 425, 429) or the timeout is over, of the next leader when the leader changes. '
	'Each attempt carries Idempotency-Key (request_id, or one of its own) and Amoro-Leader-Token. request_id: a retry with the same one returns the same call. '
	'Errors: 53400 too many wait, 54000 the body is larger than 1 MB, 22P05 it has a character that UTF-8, in which it is sent, lacks, AM005 not preloaded, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION call_leader(text, text, text, text, text, interval, uuid) FROM PUBLIC;

CREATE FUNCTION call_result(call_id bigint, timeout interval DEFAULT NULL, OUT state text, OUT status integer, OUT body text, OUT truncated boolean,
							OUT error text, OUT attempts integer, OUT token bigint)
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_call_result';
COMMENT ON FUNCTION call_result(bigint, interval) IS
	'waits for the end of a call, for at most timeout (null: to its own end), without polling: answered, with the status and the first MB of the body; '
	'expired, with the last answer, if any came, and the error of the last attempt, if that brought none; or waiting, when timeout ended first. token: of the leader that was asked last. '
	'Errors: 42704 no such call, 42501 of another role, 25001 not committed yet, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION call_result(bigint, interval) FROM PUBLIC;

CREATE VIEW calls AS
	SELECT c.call_id, c.service, c.method, c.path, c.requested_by, c.created_at, c.deadline, c.state, c.attempts, c.status, c.error, c.token, c.ended_at
	FROM amoro_meta.call c;
COMMENT ON VIEW calls IS 'calls to leaders of services that wait or have ended within amoro_meta.history_retention; their bodies are shown by call_result';
REVOKE ALL ON calls FROM PUBLIC;
GRANT SELECT ON calls TO pg_monitor;

-- One that is under way is claimed again when its service has got another leader: the answer of the old one is not waited for.
-- The places are dealt out to the services in turn, so whoever has the most gives one up to a service that has fewer: its newest attempt,
-- but none that has just begun, the answer to which may be on its way.
CREATE FUNCTION amoro_meta.claim_calls(running bigint[], lasting integer, places integer)
	RETURNS TABLE (call_id bigint, method text, url text, content_type text, body text, request_id uuid, token bigint, timeout_ms integer)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	-- however many wait: the plan is kept that was made while there were none
	SET enable_seqscan = off
	SET jit = off
	AS $$
#variable_conflict use_column
DECLARE
	moment timestamptz := clock_timestamp();
BEGIN
	UPDATE amoro_meta.call c
		SET state = 'expired', ended_at = moment, error = coalesce(c.error, CASE WHEN c.status IS NULL THEN
			coalesce((SELECT 'the leader has no endpoint' FROM @extschema@.leaders l WHERE l.service = c.service AND l.state = 'led' AND l.endpoint IS NULL),
				CASE WHEN c.attempts = 0 THEN 'nobody leads the service' ELSE 'no answer has come' END) END)
		WHERE c.call_id IN (SELECT e.call_id FROM amoro_meta.call e WHERE e.ended_at IS NULL AND e.deadline <= moment AND e.call_id <> ALL (running)
							FOR UPDATE SKIP LOCKED);
	RETURN QUERY
		WITH leader AS MATERIALIZED (
			SELECT l.service, l.token, l.endpoint FROM @extschema@.leaders l
			WHERE l.state = 'led' AND l.endpoint IS NOT NULL),
		wanted AS (
			SELECT c.call_id, c.service, r.turn, c.next_at, l.token, l.endpoint, c.token <> l.token AND c.deadline > moment AS begins
			FROM unnest(running) WITH ORDINALITY r (call_id, turn) JOIN amoro_meta.call c ON c.call_id = r.call_id AND c.ended_at IS NULL
				LEFT JOIN leader l ON l.service = c.service
			UNION ALL
			SELECT d.call_id, l.service, NULL, d.next_at, l.token, l.endpoint, true
			FROM leader l, LATERAL (
				SELECT c.call_id, c.next_at FROM amoro_meta.call c
				WHERE c.service = l.service AND c.ended_at IS NULL AND c.deadline > moment AND c.call_id <> ALL (running)
					AND (c.next_at <= moment OR c.token IS DISTINCT FROM l.token)
				ORDER BY c.next_at, c.call_id LIMIT 16) d),
		dealt AS (
			SELECT w.*, row_number() OVER (PARTITION BY w.service ORDER BY w.turn, w.next_at, w.call_id) AS place FROM wanted w),
		chosen AS (
			SELECT d.* FROM dealt d WHERE d.place <= 16
			ORDER BY coalesce(d.turn > lasting, false) DESC, d.place, d.turn, d.next_at, d.call_id LIMIT places),
		free AS (
			SELECT c.call_id FROM amoro_meta.call c WHERE c.call_id IN (SELECT h.call_id FROM chosen h WHERE h.begins) FOR UPDATE SKIP LOCKED),
		begun AS (
			UPDATE amoro_meta.call c SET attempts = c.attempts + 1, token = h.token
			FROM chosen h JOIN free f ON f.call_id = h.call_id WHERE c.call_id = h.call_id
			RETURNING c.call_id, c.method, rtrim(h.endpoint, '/') || c.path AS url, c.content_type, c.body, c.request_id, c.token,
				ceil(extract(epoch FROM c.deadline - moment) * 1000)::integer AS timeout_ms)
		SELECT b.* FROM begun b
		UNION ALL
		SELECT r.call_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM unnest(running) r (call_id) WHERE r.call_id NOT IN (SELECT h.call_id FROM chosen h);
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_calls(bigint[], integer, integer) IS
	'begins attempts of calls that are due and have a leader, at most 16 of a service at a time, and gives up those whose time is over. running: those under way, '
	'in the order in which they were begun, of which the first so many (lasting) are at it for a while; places: how many there may be. '
	'Without a url: an attempt that gives its place to another service';
REVOKE ALL ON FUNCTION amoro_meta.claim_calls(bigint[], integer, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.next_call(running bigint[], claimed_us_ago bigint) RETURNS bigint
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
	SELECT CASE WHEN n.moment IS NOT NULL THEN greatest(ceil(extract(epoch FROM n.moment - clock_timestamp()) * 1000), 0)::bigint END
	FROM (SELECT least(
		(SELECT min(c.deadline) FROM amoro_meta.call c WHERE c.ended_at IS NULL AND c.call_id <> ALL (running)),
		-- what was due already waits for a place, and is looked for when an answer makes one
		(SELECT min(d.next_at) FROM @extschema@.leaders l, LATERAL (
			SELECT c.next_at FROM amoro_meta.call c
			WHERE c.service = l.service AND c.ended_at IS NULL AND c.call_id <> ALL (running)
				AND c.next_at > (SELECT clock_timestamp() - make_interval(secs => claimed_us_ago / 1e6))
			ORDER BY c.next_at LIMIT 1) d
		 WHERE l.state = 'led' AND l.endpoint IS NOT NULL)) AS moment) n
	$$;
COMMENT ON FUNCTION amoro_meta.next_call(bigint[], bigint) IS
	'in how many milliseconds there is something to do about a call that is not under way, other than those that were due when claim_calls was last called, so '
	'many microseconds ago; null when none waits';
REVOKE ALL ON FUNCTION amoro_meta.next_call(bigint[], bigint) FROM PUBLIC;

-- What a leader has answered that is none any more counts unless there is another one by now: who comes after has to know of the call as well.
CREATE FUNCTION amoro_meta.record_call(call_id bigint, token bigint, status integer, answer text, truncated boolean, error text, retry_after integer) RETURNS boolean
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	call amoro_meta.call;
	newest bigint;
	definite CONSTANT boolean := status BETWEEN 200 AND 499 AND status NOT IN (408, 421, 425, 429);
	moment timestamptz;
	new_state text := 'waiting';
BEGIN
	SELECT c.* INTO call FROM amoro_meta.call c WHERE c.call_id = record_call.call_id FOR UPDATE;
	moment := clock_timestamp();
	IF call.ended_at IS NOT NULL OR call.token IS DISTINCT FROM record_call.token THEN
		RETURN call.ended_at IS NOT NULL;
	END IF;
	SELECT l.token INTO newest FROM amoro_meta.leadership l WHERE l.service = call.service;
	IF definite AND newest = record_call.token THEN
		new_state := 'answered';
	ELSIF call.deadline <= moment THEN
		new_state := 'expired';
	END IF;
	UPDATE amoro_meta.call c
		SET state = new_state, ended_at = CASE WHEN new_state <> 'waiting' THEN moment END, error = record_call.error,
			-- an attempt without an answer takes nothing from what an earlier one has brought
			status = CASE WHEN record_call.status = 0 THEN c.status ELSE record_call.status END,
			answer = CASE WHEN record_call.status = 0 THEN c.answer ELSE record_call.answer END,
			truncated = CASE WHEN record_call.status = 0 THEN c.truncated ELSE record_call.truncated END,
			next_at = CASE WHEN newest <> record_call.token THEN moment ELSE moment + greatest(make_interval(secs => least(coalesce(retry_after, 0), 60)),
				interval '0.1 s' * least(pow(2, least(c.attempts - 1, 10)), 100) * (0.75 + random() / 2)) END
		WHERE c.call_id = record_call.call_id;
	IF new_state = 'answered' AND status < 300 AND call.process_id IS NOT NULL THEN
		PERFORM amoro_meta.end_running_process(call.process_id, 'CANCELED', coalesce(call.body::json->>'reason', format('cancelled by %s', call.requested_by)));
	END IF;
	RETURN new_state <> 'waiting';
END;
$$;
COMMENT ON FUNCTION amoro_meta.record_call(bigint, bigint, integer, text, boolean, text, integer) IS
	'what came of an attempt; true when the call has ended, else it is tried again later and later (at most ten seconds)';
REVOKE ALL ON FUNCTION amoro_meta.record_call(bigint, bigint, integer, text, boolean, text, integer) FROM PUBLIC;

CREATE FUNCTION purge_calls() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	removed bigint;
BEGIN
	PERFORM amoro_meta.timeline_id();
	DELETE FROM amoro_meta.call c WHERE c.call_id IN
		(SELECT o.call_id FROM amoro_meta.call o WHERE o.ended_at <= clock_timestamp() - amoro_meta.duration_setting('history_retention')
		 ORDER BY o.ended_at LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS removed = ROW_COUNT;
	RETURN removed;
END;
$$;
COMMENT ON FUNCTION purge_calls() IS
	'sweep: deletes calls that ended longer than amoro_meta.history_retention ago, one batch; returns how many. Errors: 25006';
REVOKE ALL ON FUNCTION purge_calls() FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'function', n FROM unnest(ARRAY['writer', 'operator', 'admin']) k, unnest(ARRAY['call_leader', 'call_result']) n
	UNION ALL
	SELECT k, 'function', 'purge_calls' FROM unnest(ARRAY['operator', 'admin']) k
	UNION ALL
	SELECT k, 'view', 'calls' FROM unnest(ARRAY['operator', 'admin']) k;
