/* Table blockers: expiring claims of operations on one table, each with a number that fences off its predecessors. */

-- One row a table, known or not. It has one place for each operation, so two holders of one cannot even be written down.
CREATE TABLE amoro_meta.blocker_head
(
	head_id			bigint NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	table_name		text NOT NULL,
	-- three of the longest names are too long for an index
	table_digest	bytea NOT NULL,
	version			bigint NOT NULL,
	newest_blocker_id bigint NOT NULL,
	optimize_blocker_id bigint,
	optimize_expires_at timestamptz,
	batch_write_blocker_id bigint,
	batch_write_expires_at timestamptz,
	changed_at		timestamptz NOT NULL,
	PRIMARY KEY (catalog_name, database_name, table_digest),
	UNIQUE (head_id)
)
	-- every call moves the row and no indexed column of it: room for the next version on the page
	WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02);
COMMENT ON TABLE amoro_meta.blocker_head IS
	'who holds which operation of a table, until when; every acquire, renew and release moves the version by one, if it still is what was read';
COMMENT ON COLUMN amoro_meta.blocker_head.newest_blocker_id IS 'the last that was given for the table; 0: none since the row was made';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.blocker_head', '');

CREATE TABLE amoro_meta.blocker
(
	blocker_id		bigint PRIMARY KEY,
	prev_blocker_id	bigint NOT NULL,
	head_id			bigint NOT NULL,
	acquired_by		regrole NOT NULL,
	request_id		uuid,
	timeout_ms		bigint NOT NULL,
	created_at		timestamptz NOT NULL,
	check_at		timestamptz NOT NULL,
	properties		jsonb NOT NULL
);
COMMENT ON TABLE amoro_meta.blocker IS
	'what does not change about a blocker. To end one its row is deleted first; assert_blocker holds the row, so nothing ends before the assertion does';
COMMENT ON COLUMN amoro_meta.blocker.check_at IS 'the sweep need not look before';
CREATE INDEX blocker_check_at ON amoro_meta.blocker (check_at);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.blocker', '');

-- The high part of the ids, where the timeline of the server would not do: see amoro_meta.current_blocker_era().
CREATE TABLE amoro_meta.blocker_era
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	era				integer NOT NULL,
	swept_head_id	bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.blocker_era IS
	'no blocker gets an id of a lower era; grows with the timeline, and where data is restored from a dump: what was given after the dump is not known';
COMMENT ON COLUMN amoro_meta.blocker_era.swept_head_id IS 'how far purge_blockers() has looked for tables that nobody blocks any more';
INSERT INTO amoro_meta.blocker_era (era, swept_head_id) VALUES (0, 0);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.blocker_era', '');

CREATE FUNCTION amoro_meta.begin_blocker_era() RETURNS trigger
	LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	LOCK TABLE amoro_meta.blocker_era IN SHARE ROW EXCLUSIVE MODE;
	SELECT greatest(NEW.era, max(e.era), amoro_meta.timeline_id() - 1) + 1 INTO NEW.era FROM amoro_meta.blocker_era e;
	DELETE FROM amoro_meta.blocker_era;
	RETURN NEW;
END;
$$;
COMMENT ON FUNCTION amoro_meta.begin_blocker_era() IS 'trigger: data that is restored from a dump goes on with ids that were given to nobody';
REVOKE ALL ON FUNCTION amoro_meta.begin_blocker_era() FROM PUBLIC;
CREATE TRIGGER begin_blocker_era BEFORE INSERT ON amoro_meta.blocker_era
	FOR EACH ROW EXECUTE FUNCTION amoro_meta.begin_blocker_era();

CREATE FUNCTION amoro_meta.current_blocker_era() RETURNS integer
	LANGUAGE sql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT greatest(amoro_meta.timeline_id() - 1 + (SELECT i.timeline_offset FROM amoro_meta.identity i), amoro_meta.timeline_id() - 1,
		(SELECT e.era FROM amoro_meta.blocker_era e))
	$$;
COMMENT ON FUNCTION amoro_meta.current_blocker_era() IS 'high part of the ids of blockers that are acquired now';
REVOKE ALL ON FUNCTION amoro_meta.current_blocker_era() FROM PUBLIC;

CREATE TYPE table_blocker AS
(
	blocker_id		bigint,
	catalog_name	text,
	database_name	text,
	table_name		text,
	operations		text[],
	acquired_by		regrole,
	created_at		timestamptz,
	expires_at		timestamptz,
	request_id		uuid,
	prev_blocker_id	bigint,
	properties		jsonb
);
COMMENT ON TYPE table_blocker IS
	'a blocker; its id is its fencing token: it grows with every blocker of the table. prev_blocker_id: the one before, -1 when none is remembered. '
	'properties: those of the caller, and in milliseconds blocker.timeout, create.time and expiration.time';

CREATE FUNCTION acquire_blocker(catalog_name text, database_name text, table_name text, operations text[], timeout interval DEFAULT NULL,
								properties jsonb DEFAULT '{}', request_id uuid DEFAULT NULL) RETURNS table_blocker
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_acquire_blocker';
COMMENT ON FUNCTION acquire_blocker(text, text, text, text[], interval, jsonb, uuid) IS
	'claims operations (OPTIMIZE, BATCH_WRITE) of a table, which need not exist, until they are released or timeout is over; null: amoro_meta.blocker_timeout. '
	'request_id: a retry with the same one returns the same blocker while it holds. '
	'Errors: AM101 another blocker holds one of them, 55P03 another transaction is at it, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION acquire_blocker(text, text, text, text[], interval, jsonb, uuid) FROM PUBLIC;

CREATE FUNCTION renew_blocker(blocker_id bigint, timeout interval DEFAULT NULL) RETURNS table_blocker
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_renew_blocker';
COMMENT ON FUNCTION renew_blocker(bigint, interval) IS
	'lets a blocker expire one timeout from now; null: the timeout it was acquired with. '
	'Errors: AM102 it is not held any more, 42501 it belongs to another role, 55P03, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION renew_blocker(bigint, interval) FROM PUBLIC;

CREATE FUNCTION release_blocker(blocker_id bigint) RETURNS boolean
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_release_blocker';
COMMENT ON FUNCTION release_blocker(bigint) IS
	'ends a blocker; false when it was not held any more. Waits for transactions that have asserted it. '
	'Errors: 42501 it belongs to another role, 55P03, 22004, 25006, 40001';
REVOKE ALL ON FUNCTION release_blocker(bigint) FROM PUBLIC;

CREATE FUNCTION force_release_blocker(blocker_id bigint) RETURNS boolean
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_force_release_blocker';
COMMENT ON FUNCTION force_release_blocker(bigint) IS
	'ends a blocker of any role, as release_blocker does. Errors: 55P03, 22004, 25006, 40001';
REVOKE ALL ON FUNCTION force_release_blocker(bigint) FROM PUBLIC;

CREATE FUNCTION assert_blocker(blocker_id bigint) RETURNS bigint
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_assert_blocker';
COMMENT ON FUNCTION assert_blocker(bigint) IS
	'the fencing token of a blocker that is held now; it cannot be released, nor taken over when it expires, before the caller''s transaction ends. '
	'Errors: AM102 it is not held any more, 42501 it belongs to another role, 55P03, 22004, 25006, 40001';
REVOKE ALL ON FUNCTION assert_blocker(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.table_is_blocked(catalog_name text, database_name text, table_name text, operation text) RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_table_is_blocked';
COMMENT ON FUNCTION amoro_meta.table_is_blocked(text, text, text, text) IS
	'whether a blocker holds the operation now, as committed by now; takes no lock. Errors: 22004, 22023 no such operation';
REVOKE ALL ON FUNCTION amoro_meta.table_is_blocked(text, text, text, text) FROM PUBLIC;

-- strictly later than now: a blocker that ends now does not hold
CREATE VIEW blockers AS
	SELECT b.blocker_id, h.catalog_name, h.database_name, h.table_name, held.operations, b.acquired_by, b.created_at, held.expires_at,
		b.request_id, b.prev_blocker_id,
		b.properties OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('blocker.timeout', b.timeout_ms::text,
			'create.time', pg_catalog.floor(EXTRACT(epoch FROM b.created_at) OPERATOR(pg_catalog.*) 1000)::bigint::text,
			'expiration.time', pg_catalog.floor(EXTRACT(epoch FROM held.expires_at) OPERATOR(pg_catalog.*) 1000)::bigint::text) AS properties
	FROM amoro_meta.blocker_head h
		CROSS JOIN LATERAL (SELECT v.blocker_id, pg_catalog.max(v.expires_at) AS expires_at, pg_catalog.array_agg(v.operation) AS operations
			FROM (VALUES ('OPTIMIZE', h.optimize_blocker_id, h.optimize_expires_at),
				('BATCH_WRITE', h.batch_write_blocker_id, h.batch_write_expires_at)) v (operation, blocker_id, expires_at)
			WHERE v.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() GROUP BY v.blocker_id) held
		JOIN amoro_meta.blocker b ON b.blocker_id OPERATOR(pg_catalog.=) held.blocker_id;
COMMENT ON VIEW blockers IS 'blockers that hold now';

CREATE FUNCTION get_blockers(catalog_name text, database_name text, table_name text) RETURNS SETOF table_blocker
	LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 2
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_get_blockers';
COMMENT ON FUNCTION get_blockers(text, text, text) IS 'the blockers that hold operations of a table now. Errors: 22004, 22023';
REVOKE ALL ON FUNCTION get_blockers(text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.blocker_counts(OUT acquired bigint, OUT repeated bigint, OUT conflicts bigint, OUT taken_over bigint,
										  OUT renewed bigint, OUT asserted bigint, OUT not_held bigint, OUT released bigint)
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_blocker_counts';
COMMENT ON FUNCTION amoro_meta.blocker_counts() IS 'counters of this database since the server started; see the view amoro_stat_blocker';
REVOKE ALL ON FUNCTION amoro_meta.blocker_counts() FROM PUBLIC;

CREATE VIEW amoro_stat_blocker AS
	SELECT c.acquired, c.repeated, c.conflicts, c.taken_over, c.renewed, c.asserted, c.not_held, c.released FROM amoro_meta.blocker_counts() c;
COMMENT ON VIEW amoro_stat_blocker IS
	'calls on table blockers since the server started, also those that were rolled back: acquired, repeated (the same request_id), conflicts (AM101), '
	'taken_over (expired and in the way of another), renewed, asserted, not_held (AM102), released; nulls where the library is not preloaded';
REVOKE ALL ON amoro_stat_blocker FROM PUBLIC;
GRANT SELECT ON amoro_stat_blocker TO pg_monitor;
-- a view checks the functions in it against its reader
GRANT EXECUTE ON FUNCTION amoro_meta.blocker_counts() TO pg_monitor;

-- Never waits: whoever works on a blocker or its table is left alone until the next call.
CREATE FUNCTION amoro_meta.end_blockers(candidates bigint[], expired_only boolean) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	locked bigint[];
	heads bigint[];
	ended bigint[];
	moment timestamptz;
BEGIN
	-- in the order of all calls: the blocker, then the head of its table
	SELECT array_agg(l.blocker_id), array_agg(l.head_id) INTO locked, heads FROM
		(SELECT b.blocker_id, b.head_id FROM amoro_meta.blocker b WHERE b.blocker_id = ANY (candidates) FOR UPDATE SKIP LOCKED) l;
	SELECT array_agg(l.head_id) INTO heads FROM
		(SELECT h.head_id FROM amoro_meta.blocker_head h WHERE h.head_id = ANY (heads) FOR NO KEY UPDATE SKIP LOCKED) l;
	moment := clock_timestamp();
	-- only now, under both locks, is it decided; a blocker that no head knows holds nothing
	SELECT array_agg(b.blocker_id) INTO ended
		FROM amoro_meta.blocker b LEFT JOIN amoro_meta.blocker_head h USING (head_id)
		WHERE b.blocker_id = ANY (locked) AND (b.head_id = ANY (heads) OR h.head_id IS NULL)
			AND (NOT expired_only OR NOT coalesce((h.optimize_blocker_id = b.blocker_id AND h.optimize_expires_at > moment)
				OR (h.batch_write_blocker_id = b.blocker_id AND h.batch_write_expires_at > moment), false));
	UPDATE amoro_meta.blocker_head h SET version = h.version + 1, changed_at = moment,
			optimize_blocker_id = CASE WHEN h.optimize_blocker_id = ANY (ended) THEN NULL ELSE h.optimize_blocker_id END,
			optimize_expires_at = CASE WHEN h.optimize_blocker_id = ANY (ended) THEN NULL ELSE h.optimize_expires_at END,
			batch_write_blocker_id = CASE WHEN h.batch_write_blocker_id = ANY (ended) THEN NULL ELSE h.batch_write_blocker_id END,
			batch_write_expires_at = CASE WHEN h.batch_write_blocker_id = ANY (ended) THEN NULL ELSE h.batch_write_expires_at END
		WHERE h.head_id = ANY (heads) AND (h.optimize_blocker_id = ANY (ended) OR h.batch_write_blocker_id = ANY (ended));
	DELETE FROM amoro_meta.blocker b WHERE b.blocker_id = ANY (ended);
	-- renewed since: not to be looked at before it can have expired
	UPDATE amoro_meta.blocker b
		SET check_at = greatest(CASE WHEN h.optimize_blocker_id = b.blocker_id THEN h.optimize_expires_at END,
								CASE WHEN h.batch_write_blocker_id = b.blocker_id THEN h.batch_write_expires_at END)
		FROM amoro_meta.blocker_head h
		WHERE h.head_id = b.head_id AND b.blocker_id = ANY (locked) AND b.head_id = ANY (heads);
	RETURN coalesce(cardinality(ended), 0);
END;
$$;
COMMENT ON FUNCTION amoro_meta.end_blockers(bigint[], boolean) IS
	'ends those of the blockers that nobody works on at the moment, or only the expired among them; returns how many';
REVOKE ALL ON FUNCTION amoro_meta.end_blockers(bigint[], boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.drop_blockers(catalog_name text, database_name text DEFAULT NULL, table_name text DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	ended bigint[];
BEGIN
	IF table_name IS NOT NULL THEN
		ended := ARRAY(SELECT unnest(ARRAY[h.optimize_blocker_id, h.batch_write_blocker_id]) FROM amoro_meta.blocker_head h
			WHERE h.catalog_name = drop_blockers.catalog_name AND h.database_name = drop_blockers.database_name
				AND h.table_digest = sha256(convert_to(drop_blockers.table_name, 'UTF8')));
	ELSIF database_name IS NOT NULL THEN
		ended := ARRAY(SELECT unnest(ARRAY[h.optimize_blocker_id, h.batch_write_blocker_id]) FROM amoro_meta.blocker_head h
			WHERE h.catalog_name = drop_blockers.catalog_name AND h.database_name = drop_blockers.database_name);
	ELSE
		ended := ARRAY(SELECT unnest(ARRAY[h.optimize_blocker_id, h.batch_write_blocker_id]) FROM amoro_meta.blocker_head h
			WHERE h.catalog_name = drop_blockers.catalog_name);
	END IF;
	RETURN amoro_meta.end_blockers(ended, false);
END;
$$;
COMMENT ON FUNCTION amoro_meta.drop_blockers(text, text, text) IS
	'ends the blockers of a table, or of all tables of a database or catalog, that is dropped; one that a transaction works on at the moment stays and expires';
REVOKE ALL ON FUNCTION amoro_meta.drop_blockers(text, text, text) FROM PUBLIC;

-- Rows of tables that nobody has blocked for ten minutes, a thousand looked at a call, round and round. Where nothing is
-- to be written no row is locked: that would cost a transaction id.
CREATE FUNCTION amoro_meta.purge_blocker_heads(batch integer) RETURNS bigint
	LANGUAGE plpgsql VOLATILE STRICT
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	position amoro_meta.blocker_era;
	page record;
	removed bigint;
BEGIN
	SELECT * INTO position FROM amoro_meta.blocker_era;
	SELECT max(n.head_id) AS last_head_id, CASE WHEN count(*) < batch THEN 0 ELSE max(n.head_id) END AS reached INTO page FROM
		(SELECT h.head_id FROM amoro_meta.blocker_head h WHERE h.head_id > position.swept_head_id ORDER BY h.head_id LIMIT batch) n;
	DELETE FROM amoro_meta.blocker_head h WHERE h.head_id IN
		(SELECT i.head_id FROM amoro_meta.blocker_head i
		 WHERE i.head_id > position.swept_head_id AND i.head_id <= page.last_head_id
			AND i.optimize_blocker_id IS NULL AND i.batch_write_blocker_id IS NULL
			AND i.changed_at < clock_timestamp() - interval '10 min'
		 FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS removed = ROW_COUNT;
	IF page.reached <> position.swept_head_id OR position.era < amoro_meta.current_blocker_era() THEN
		-- two that sweep at once look at the same rows, and none is left out
		PERFORM FROM amoro_meta.blocker_era FOR UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE amoro_meta.blocker_era e SET swept_head_id = page.reached, era = amoro_meta.current_blocker_era();
		END IF;
	END IF;
	RETURN removed;
END;
$$;
COMMENT ON FUNCTION amoro_meta.purge_blocker_heads(integer) IS
	'forgets tables that nobody has blocked for ten minutes, among the next ones; returns how many. Ids go on growing all the same';
REVOKE ALL ON FUNCTION amoro_meta.purge_blocker_heads(integer) FROM PUBLIC;

CREATE FUNCTION purge_blockers() RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	moment timestamptz := clock_timestamp();
	due bigint[];
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	due := ARRAY(SELECT b.blocker_id FROM amoro_meta.blocker b WHERE b.check_at <= moment
				 ORDER BY b.check_at LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED);
	PERFORM amoro_meta.end_blockers(due, true);
	RETURN cardinality(due) + amoro_meta.purge_blocker_heads(amoro_meta.sweep_batch());
END;
$$;
COMMENT ON FUNCTION purge_blockers() IS
	'removes expired blockers of all tables, and rows of tables that nobody blocks any more, one batch; returns how many rows it has looked at. '
	'The coordinator does it by itself. Errors: 25006';
REVOKE ALL ON FUNCTION purge_blockers() FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'blockers' FROM unnest(ARRAY['reader', 'writer', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', 'get_blockers' FROM unnest(ARRAY['reader', 'writer', 'operator', 'admin']) k
	UNION ALL
	SELECT 'writer', 'function', n FROM unnest(ARRAY['acquire_blocker', 'renew_blocker', 'release_blocker', 'assert_blocker']) n
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['force_release_blocker', 'purge_blockers', 'amoro_meta.blocker_counts']) n
	UNION ALL
	SELECT k, 'view', 'amoro_stat_blocker' FROM unnest(ARRAY['operator', 'admin']) k;
