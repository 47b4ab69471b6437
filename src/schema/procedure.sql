/* Procedures: metadata operations of several durable steps (docs/protocol.md, section 7). */

CREATE TABLE amoro_meta.procedure
(
	procedure_id	bigint PRIMARY KEY,
	kind			text NOT NULL,
	state			text NOT NULL,
	outcome			text CHECK (outcome IN ('done', 'rolled_back', 'quarantined')),
	catalog_name	text,
	database_name	text,
	object_name		text,
	object_id		bigint,
	request_digest	bytea NOT NULL,			-- of what the caller said: a retry must say the same
	arguments		jsonb NOT NULL,			-- what the steps work with
	request_id		uuid UNIQUE,
	submitted_by	regrole NOT NULL,
	submitted_at	timestamptz NOT NULL,
	deadline		timestamptz,
	wait_version	bigint,
	not_before		timestamptz,
	attempts		integer NOT NULL DEFAULT 0,
	cancel_requested boolean NOT NULL DEFAULT false,
	abandoned		boolean NOT NULL DEFAULT false,	-- a step failed for good: to be undone
	error_code		text,
	error_message	text,
	error_detail	text,
	last_step_at	timestamptz,
	last_step_term	bigint,
	ended_at		timestamptz,
	state_since		timestamptz NOT NULL DEFAULT clock_timestamp(),
	times			jsonb NOT NULL DEFAULT '{}',	-- of the states before: seconds, and what they went on
	-- a row that is being restored from a dump, perhaps before that of identity, must not be run
	belongs_to		text NOT NULL DEFAULT amoro_meta.identity_key(),
	CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
COMMENT ON TABLE amoro_meta.procedure IS
	'metadata operations in flight and ended; outcome is null while one is in flight';
CREATE INDEX procedure_in_flight ON amoro_meta.procedure (procedure_id) WHERE outcome IS NULL;
CREATE INDEX procedure_ended_at ON amoro_meta.procedure (ended_at) WHERE outcome IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.procedure', '');

CREATE TABLE amoro_meta.procedure_claim
(
	object_kind		text NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	object_name		text NOT NULL,
	procedure_id	bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.procedure_claim IS
	'names that a procedure in flight works on; a second procedure on one of them is refused with AM401';
-- Three of the longest names are too long for an index. Two objects whose names have the same hash are in each other's way.
CREATE UNIQUE INDEX procedure_claim_name ON amoro_meta.procedure_claim (object_kind, catalog_name, database_name, hashtextextended(object_name, 0));
CREATE INDEX procedure_claim_procedure_id ON amoro_meta.procedure_claim (procedure_id);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.procedure_claim', '');

-- In place of a foreign key, which pg_restore --jobs could not satisfy.
CREATE FUNCTION amoro_meta.release_claims() RETURNS trigger
	LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	DELETE FROM amoro_meta.procedure_claim c WHERE c.procedure_id = OLD.procedure_id;
	RETURN OLD;
END;
$$;
COMMENT ON FUNCTION amoro_meta.release_claims() IS 'trigger: the claims of a procedure go with its row';
REVOKE ALL ON FUNCTION amoro_meta.release_claims() FROM PUBLIC;
CREATE TRIGGER release_claims AFTER DELETE ON amoro_meta.procedure
	FOR EACH ROW EXECUTE FUNCTION amoro_meta.release_claims();

CREATE FUNCTION amoro_meta.procedure_machine_rows()
	RETURNS TABLE (kind text, state text, action text, next_state text, undo text,
		waits_for_verdict boolean, irreversible boolean, comment text)
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_procedure_machine_rows';
COMMENT ON FUNCTION amoro_meta.procedure_machine_rows() IS 'rows of the view procedure_machine';
REVOKE ALL ON FUNCTION amoro_meta.procedure_machine_rows() FROM PUBLIC;

CREATE FUNCTION amoro_meta.begin_submission() RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_begin_submission';
COMMENT ON FUNCTION amoro_meta.begin_submission() IS
	'raises 25006 on a standby and AM005 without a coordinator; the end of this transaction wakes the coordinator';
REVOKE ALL ON FUNCTION amoro_meta.begin_submission() FROM PUBLIC;

CREATE FUNCTION amoro_meta.wake_coordinator_at_commit() RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_wake_coordinator_at_commit';
COMMENT ON FUNCTION amoro_meta.wake_coordinator_at_commit() IS 'the end of this transaction wakes the coordinator';
REVOKE ALL ON FUNCTION amoro_meta.wake_coordinator_at_commit() FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_timeout(timeout interval) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF timeout <= interval '0' OR timeout > interval '1 year' THEN
		RAISE EXCEPTION 'timeout is out of range: %', timeout USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is more than 0 and at most 1 year; null stands for a time that suffices for nodes that have just died.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_timeout(interval) IS 'raises 22023 unless the timeout is null, or more than 0 and at most 1 year';
REVOKE ALL ON FUNCTION amoro_meta.check_timeout(interval) FROM PUBLIC;

-- The start of every submission. What it writes says nothing to the coordinator before the transaction commits.
CREATE FUNCTION amoro_meta.begin_procedure(kind text, catalog_name text, database_name text, object_name text, request jsonb,
										   request_id uuid, timeout interval, OUT procedure_id bigint, OUT known boolean)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	digest bytea := sha256(convert_to(concat_ws('/', kind, request::text), 'UTF8'));
	earlier record;
BEGIN
	PERFORM amoro_meta.check_timeout(timeout);
	PERFORM amoro_meta.begin_submission();
	IF amoro_meta.identity_key() IS NULL THEN
		RAISE EXCEPTION 'the coordinator of this database has not begun to work on the extension yet' USING ERRCODE = 'AM005',
			HINT = 'SELECT * FROM amoro_stat_coordinator';
	END IF;
	INSERT INTO amoro_meta.procedure (procedure_id, kind, state, catalog_name, database_name, object_name, request_digest, arguments,
			request_id, submitted_by, submitted_at, deadline)
		SELECT amoro_meta.next_id(), kind, 'submitted', begin_procedure.catalog_name, begin_procedure.database_name,
			begin_procedure.object_name, digest, '{}', begin_procedure.request_id, amoro_meta.calling_role(), t.now, t.now + timeout
		FROM (SELECT clock_timestamp() AS now) t
		ON CONFLICT ON CONSTRAINT procedure_request_id_key DO NOTHING
		RETURNING procedure.procedure_id INTO begin_procedure.procedure_id;
	known := NOT FOUND;
	IF known THEN
		SELECT p.procedure_id, p.request_digest INTO STRICT earlier
			FROM amoro_meta.procedure p WHERE p.request_id = begin_procedure.request_id;
		IF earlier.request_digest IS DISTINCT FROM digest THEN
			RAISE EXCEPTION 'request % was made before with other arguments', request_id USING ERRCODE = 'invalid_parameter_value',
				DETAIL = format('It is procedure %s.', earlier.procedure_id),
				HINT = 'A new request needs a new request_id.';
		END IF;
		procedure_id := earlier.procedure_id;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.begin_procedure(text, text, text, text, jsonb, uuid, interval) IS
	'inserts the row of a procedure, or finds the one of an earlier call with the same request_id (known). Errors: 22023, 25006, AM005';
REVOKE ALL ON FUNCTION amoro_meta.begin_procedure(text, text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_in_transition(object_kind text, name text, other_procedure_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other amoro_meta.procedure;
BEGIN
	SELECT * INTO STRICT other FROM amoro_meta.procedure p WHERE p.procedure_id = other_procedure_id;
	RAISE EXCEPTION '% % is in transition', object_kind, name USING ERRCODE = 'AM401',
		DETAIL = format('Procedure %s (%s), submitted by %s at %s, is in the way; its state is "%s".', other.procedure_id,
						other.kind, other.submitted_by, other.submitted_at, other.state),
		HINT = format('SELECT procedure_status(%s)', other.procedure_id);
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_in_transition(text, text, bigint) IS 'raises AM401 and says which procedure is in the way';
REVOKE ALL ON FUNCTION amoro_meta.raise_in_transition(text, text, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_claimed_name(object_kind text, catalog_name text, database_name text, object_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other_procedure_id bigint;
BEGIN
	SELECT q.procedure_id INTO other_procedure_id FROM amoro_meta.procedure_claim q
		WHERE q.object_kind = refuse_claimed_name.object_kind AND q.catalog_name = refuse_claimed_name.catalog_name
			AND q.database_name = refuse_claimed_name.database_name AND q.object_name = refuse_claimed_name.object_name;
	IF FOUND THEN
		PERFORM amoro_meta.raise_in_transition(object_kind, amoro_meta.quoted_name(catalog_name, database_name, object_name), other_procedure_id);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_claimed_name(text, text, text, text) IS 'raises AM401 when a procedure has claimed the name; claims nothing';
REVOKE ALL ON FUNCTION amoro_meta.refuse_claimed_name(text, text, text, text) FROM PUBLIC;

-- Waits for a transaction that has claimed the name and is still open. The later of two is refused by the unique index.
CREATE FUNCTION amoro_meta.claim_name(procedure_id bigint, object_kind text, catalog_name text, database_name text, object_name text)
	RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other_procedure_id bigint;
BEGIN
	LOOP
		INSERT INTO amoro_meta.procedure_claim VALUES (object_kind, catalog_name, database_name, object_name, procedure_id)
			ON CONFLICT DO NOTHING;
		IF FOUND THEN
			RETURN;
		END IF;
		SELECT c.procedure_id INTO other_procedure_id FROM amoro_meta.procedure_claim c
			WHERE c.object_kind = claim_name.object_kind AND c.catalog_name = claim_name.catalog_name
				AND c.database_name = claim_name.database_name
				AND hashtextextended(c.object_name, 0) = hashtextextended(claim_name.object_name, 0);
		IF other_procedure_id = procedure_id THEN
			RETURN;
		ELSIF FOUND THEN
			PERFORM amoro_meta.raise_in_transition(object_kind,
				amoro_meta.quoted_name(catalog_name, database_name, object_name), other_procedure_id);
		END IF;
		-- it has just ended
	END LOOP;
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_name(bigint, text, text, text, text) IS
	'claims a name for a procedure until it ends; raises AM401 when another procedure has it';
REVOKE ALL ON FUNCTION amoro_meta.claim_name(bigint, text, text, text, text) FROM PUBLIC;

-- Only of these kinds are a claim's names those of a catalog and a database; a user or a service may have the name of a catalog.
CREATE FUNCTION amoro_meta.procedure_below(catalog_name text, database_name text DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT min(q.procedure_id) FROM amoro_meta.procedure_claim q
	WHERE q.object_kind IN ('database', 'table', 'device', 'device pattern', 'template', 'partition', 'ttl')
		AND q.catalog_name = procedure_below.catalog_name
		AND (procedure_below.database_name IS NULL OR (q.database_name = procedure_below.database_name AND q.object_kind <> 'database'))
	$$;
COMMENT ON FUNCTION amoro_meta.procedure_below(text, text) IS
	'a procedure that works on something in the database, or (without one) in the catalog, or null';
REVOKE ALL ON FUNCTION amoro_meta.procedure_below(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_procedures_below(catalog_name text, database_name text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other_procedure_id bigint := amoro_meta.procedure_below(catalog_name, database_name);
BEGIN
	IF other_procedure_id IS NOT NULL THEN
		PERFORM amoro_meta.raise_in_transition(CASE WHEN database_name IS NULL THEN 'catalog' ELSE 'database' END,
			amoro_meta.quoted_name(catalog_name, database_name), other_procedure_id);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_procedures_below(text, text) IS
	'raises AM401 when a procedure works on something in the database, or (without one) in the catalog';
REVOKE ALL ON FUNCTION amoro_meta.refuse_procedures_below(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.set_procedure_object(procedure_id bigint, object_id bigint, arguments jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	UPDATE amoro_meta.procedure p
		SET object_id = set_procedure_object.object_id, arguments = set_procedure_object.arguments || '{"format": 1}'
		WHERE p.procedure_id = set_procedure_object.procedure_id;
	RETURN procedure_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.set_procedure_object(bigint, bigint, jsonb) IS
	'ends a submission: from here on the object is known by its id only; returns the procedure''s id';
REVOKE ALL ON FUNCTION amoro_meta.set_procedure_object(bigint, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.end_unneeded_procedure(procedure_id bigint, notice text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	UPDATE amoro_meta.procedure p SET state = 'done', outcome = 'done', deadline = NULL, ended_at = clock_timestamp()
		WHERE p.procedure_id = end_unneeded_procedure.procedure_id;
	DELETE FROM amoro_meta.procedure_claim c WHERE c.procedure_id = end_unneeded_procedure.procedure_id;
	RAISE NOTICE '%', notice;
	RETURN procedure_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_unneeded_procedure(bigint, text) IS
	'ends a submission that has nothing to do (IF EXISTS): the procedure is done already';
REVOKE ALL ON FUNCTION amoro_meta.end_unneeded_procedure(bigint, text) FROM PUBLIC;

CREATE FUNCTION wait_for_procedure(procedure_id bigint, timeout interval DEFAULT NULL) RETURNS text
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_wait_for_procedure';
COMMENT ON FUNCTION wait_for_procedure(bigint, interval) IS
	'waits until a procedure ends: ''done'', ''rolled_back'' or ''quarantined''; ''running'' when timeout (null: none) ends first. '
	'Errors: 42704 no such procedure, 25001 when this transaction has submitted or cancelled it and must commit first, 25006 on a standby';
REVOKE ALL ON FUNCTION wait_for_procedure(bigint, interval) FROM PUBLIC;

CREATE FUNCTION cancel_procedure(procedure_id bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_not_null('procedure_id', procedure_id IS NOT NULL);
	PERFORM amoro_meta.wake_coordinator_at_commit();
	SELECT p.outcome, p.kind, p.state INTO target FROM amoro_meta.procedure p
		WHERE p.procedure_id = cancel_procedure.procedure_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'procedure % does not exist', procedure_id USING ERRCODE = 'undefined_object';
	END IF;
	IF target.outcome IS NOT NULL OR NOT EXISTS
		(SELECT FROM amoro_meta.procedure_machine_rows() m
		 WHERE m.kind = target.kind AND m.state = target.state AND m.undo IS NOT NULL) THEN
		RETURN false;
	END IF;
	UPDATE amoro_meta.procedure p SET cancel_requested = true, not_before = NULL
		WHERE p.procedure_id = cancel_procedure.procedure_id;
	RETURN true;
END;
$$;
COMMENT ON FUNCTION cancel_procedure(bigint) IS
	'asks for a procedure to be rolled back; false when it has ended or passed the point of no return. '
	'wait_for_procedure tells what became of it. Errors: 42704 no such procedure, 22004, 25006 on a standby';
REVOKE ALL ON FUNCTION cancel_procedure(bigint) FROM PUBLIC;

CREATE VIEW procedure_machine AS SELECT * FROM amoro_meta.procedure_machine_rows();
COMMENT ON VIEW procedure_machine IS
	'what procedures do in every state, and what comes next; undo is null behind the point of no return';

CREATE VIEW amoro_stat_procedure AS
	WITH spent AS
	(
		SELECT p.kind, s.state, s.cause, count(*) AS count, sum(s.seconds) AS seconds
		FROM amoro_meta.procedure p CROSS JOIN LATERAL
			(SELECT t.key AS state, t.value->>1 AS cause, (t.value->0)::numeric AS seconds FROM jsonb_each(p.times) t
			 UNION ALL SELECT p.state, NULL, greatest(extract(epoch FROM clock_timestamp() - p.state_since), 0) WHERE p.outcome IS NULL) s
		GROUP BY p.kind, s.state, s.cause
	),
	state AS
	(
		SELECT s.kind, jsonb_object_agg(s.state, round(s.seconds, 3)) AS seconds
		FROM (SELECT kind, state, sum(seconds) AS seconds FROM spent GROUP BY kind, state) s GROUP BY s.kind
	),
	wait AS
	(
		SELECT s.kind, jsonb_object_agg(s.cause, s.count) AS counts, jsonb_object_agg(s.cause, round(s.seconds, 3)) AS seconds
		FROM (SELECT kind, cause, sum(count) AS count, sum(seconds) AS seconds FROM spent WHERE cause <> 'work' GROUP BY kind, cause) s GROUP BY s.kind
	),
	total AS
	(
		SELECT p.kind, count(*) AS submitted, count(*) FILTER (WHERE p.outcome IS NULL) AS in_flight,
			count(*) FILTER (WHERE p.outcome = 'done') AS done,
			count(*) FILTER (WHERE p.outcome = 'rolled_back') AS rolled_back,
			count(*) FILTER (WHERE p.outcome = 'quarantined') AS quarantined,
			avg(p.ended_at - p.submitted_at) FILTER (WHERE p.outcome = 'done') AS mean_time,
			max(p.ended_at - p.submitted_at) FILTER (WHERE p.outcome = 'done') AS max_time
		FROM amoro_meta.procedure p GROUP BY p.kind
	)
	SELECT k.kind, coalesce(t.submitted, 0) AS submitted, coalesce(t.in_flight, 0) AS in_flight, coalesce(t.done, 0) AS done,
		coalesce(t.rolled_back, 0) AS rolled_back, coalesce(t.quarantined, 0) AS quarantined, t.mean_time, t.max_time,
		coalesce(s.seconds, '{}') AS state_seconds, coalesce(w.counts, '{}') AS wait_counts, coalesce(w.seconds, '{}') AS wait_seconds
	FROM (SELECT m.kind FROM amoro_meta.procedure_machine_rows() m UNION SELECT q.kind FROM total q) k
		LEFT JOIN total t ON t.kind = k.kind LEFT JOIN state s ON s.kind = k.kind LEFT JOIN wait w ON w.kind = k.kind;
COMMENT ON VIEW amoro_stat_procedure IS
	'procedures of each kind within amoro_meta.history_retention: how many, how they ended, how long the done ones took. state_seconds: seconds in each '
	'state, of all together. wait_counts, wait_seconds: how often and for how many seconds they stood in a state that they have left since, by cause: '
	'coordinator (until it took one up), apply (until the nodes had applied a change), lease (until the lease of a node was over that had not), retry '
	'(attempts failed)';
GRANT EXECUTE ON FUNCTION amoro_meta.procedure_machine_rows() TO pg_monitor;
GRANT SELECT ON procedure_machine, amoro_stat_procedure TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, o, n FROM unnest(ARRAY['reader', 'operator', 'admin']) k,
		(VALUES ('function', 'wait_for_procedure'), ('function', 'amoro_meta.procedure_machine_rows'),
			('view', 'procedure_machine'), ('view', 'amoro_stat_procedure')) v (o, n)
	UNION ALL
	SELECT k, 'function', 'cancel_procedure' FROM unnest(ARRAY['operator', 'admin']) k;
