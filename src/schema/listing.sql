/* Tables that catalogs keep elsewhere: what their listings said, and what may be concluded from that. */

-- No foreign key to the catalog (pg_restore --jobs); who adds rows holds the row of the catalog, which drop_catalog waits for.
CREATE TABLE amoro_meta.listed_table
(
	table_id		bigint PRIMARY KEY,
	catalog_id		bigint NOT NULL,
	database_name	text NOT NULL,
	table_name		text NOT NULL,
	format			text NOT NULL,
	table_uuid		text,
	properties		jsonb NOT NULL,
	listed_at		timestamptz NOT NULL,
	-- no longer listed, but too many went at once: waits for confirm_removal or for a listing that has it again
	missing_since	timestamptz,
	UNIQUE (catalog_id, database_name, table_name)
);
COMMENT ON TABLE amoro_meta.listed_table IS 'tables of catalogs that are kept elsewhere; a listing that says nothing new writes nothing here';
CREATE INDEX listed_table_missing ON amoro_meta.listed_table (catalog_id) WHERE missing_since IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.listed_table', '');

CREATE TABLE amoro_meta.exploration
(
	catalog_id		bigint PRIMARY KEY,
	rounds			bigint NOT NULL DEFAULT 0,
	phase			text NOT NULL DEFAULT 'waiting',
	done			bigint NOT NULL DEFAULT 0,
	known			bigint NOT NULL DEFAULT 0,
	tables			bigint NOT NULL DEFAULT 0,
	added			bigint NOT NULL DEFAULT 0,
	changed			bigint NOT NULL DEFAULT 0,
	removed			bigint NOT NULL DEFAULT 0,
	skipped			bigint NOT NULL DEFAULT 0,
	skipped_name	text,
	started_at		timestamptz,
	ended_at		timestamptz,
	next_at			timestamptz,
	asked_for		bigint,			-- a round that explore_catalog wants, after the one under way
	failures		integer NOT NULL DEFAULT 0,
	last_error		text,
	last_error_at	timestamptz,
	-- what disappears within one window disappears at once
	window_started_at timestamptz,
	window_tables	bigint NOT NULL DEFAULT 0,
	window_removed	bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE amoro_meta.exploration IS 'how the newest listing of each catalog went, and when the next one is due';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.exploration', '');

CREATE FUNCTION amoro_meta.hold_catalog(catalog_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	-- one listing at a time: two of the same tables would lock them in orders of their own
	PERFORM FROM amoro_meta.catalog c WHERE c.catalog_id = hold_catalog.catalog_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the catalog was dropped' USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_catalog(bigint) IS 'keeps a catalog, and other listings of it out, until the end of the transaction; raises 42704 when it is gone';
REVOKE ALL ON FUNCTION amoro_meta.hold_catalog(bigint) FROM PUBLIC;

-- Here and below: plans are kept that were made while the tables were empty, and their costs mean nothing to the JIT compiler.
CREATE FUNCTION amoro_meta.remove_listed_tables(table_ids bigint[]) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
DECLARE
	removed bigint := 0;
	table_id bigint;
BEGIN
	BEGIN
		PERFORM amoro_meta.remove_table_runtimes(table_ids, 'the table is no longer listed');
		-- they are of the name, and must not be in the way of the next table that has it
		PERFORM amoro_meta.end_blockers(ARRAY
			(SELECT unnest(ARRAY[h.optimize_blocker_id, h.batch_write_blocker_id])
			 FROM amoro_meta.listed_table t JOIN amoro_meta.catalog c USING (catalog_id)
				JOIN amoro_meta.blocker_head h ON h.catalog_name = c.catalog_name AND h.database_name = t.database_name
					AND h.table_digest = sha256(convert_to(t.table_name, 'UTF8'))
			 WHERE t.table_id = ANY (table_ids)), false);
		DELETE FROM amoro_meta.listed_table t WHERE t.table_id = ANY (table_ids);
		GET DIAGNOSTICS removed = ROW_COUNT;
		RETURN removed;
	EXCEPTION WHEN OTHERS THEN
		-- once more, one by one: those that cannot go stay whole, and are tried again with the next listing
		IF cardinality(table_ids) = 1 OR SQLSTATE IN ('40001', '40P01', '55P03') THEN
			RAISE;
		END IF;
	END;
	FOREACH table_id IN ARRAY table_ids LOOP
		BEGIN
			removed := removed + amoro_meta.remove_listed_tables(ARRAY[table_id]);
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING 'table % cannot be removed: %', table_id, SQLERRM USING ERRCODE = SQLSTATE;
		END;
	END LOOP;
	RETURN removed;
END;
$$;
COMMENT ON FUNCTION amoro_meta.remove_listed_tables(bigint[]) IS
	'removes listed tables and what hangs on them, each whole or not at all; returns how many, with a WARNING for each that cannot go';
REVOKE ALL ON FUNCTION amoro_meta.remove_listed_tables(bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.read_listing(database_name text, tables jsonb, table_filter text, OUT names text[], OUT formats text[],
										OUT uuids text[], OUT properties jsonb[])
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT array_agg(e.table_name), array_agg(e.format), array_agg(e.table_uuid), array_agg(e.properties)
	FROM (SELECT DISTINCT ON (j->>'name') j->>'name' AS table_name, lower(left(j->>'format', 100)) AS format,
			left(j->>'uuid', 100) AS table_uuid, CASE jsonb_typeof(j->'properties') WHEN 'object' THEN j->'properties' END AS properties
		  FROM jsonb_array_elements(tables) j
		  WHERE jsonb_typeof(j->'name') = 'string' AND amoro_meta.is_name(j->>'name')
			AND amoro_meta.matches_filter(table_filter, database_name || '.' || (j->>'name'))) e
	$$;
COMMENT ON FUNCTION amoro_meta.read_listing(text, jsonb, text) IS
	'the tables of a page of a listing that have names and pass the filter, each once; null for what is not said of one';
REVOKE ALL ON FUNCTION amoro_meta.read_listing(text, jsonb, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.merge_listing(catalog_id bigint, database_name text, tables jsonb, table_filter text,
										 OUT seen bigint[], OUT added bigint, OUT changed bigint, OUT skipped bigint, OUT skipped_name text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
DECLARE
	entry record;
	found_rows record;
	held boolean := false;
	first_id bigint;
BEGIN
	SELECT * INTO entry FROM amoro_meta.read_listing(database_name, tables, table_filter);
	SELECT count(*), min(left(j->>'name', 100)) INTO skipped, skipped_name FROM jsonb_array_elements(tables) j
		WHERE (jsonb_typeof(j->'name') = 'string' AND amoro_meta.is_name(j->>'name')) IS NOT TRUE;
	added := 0;
	changed := 0;
	LOOP
		SELECT array_agg(t.table_id) AS ids, count(*) FILTER (WHERE t.table_id IS NULL) AS news,
				array_agg(t.table_id) FILTER (WHERE t.table_uuid <> e.table_uuid) AS replaced,
				array_agg(t.table_id) FILTER (WHERE t.missing_since IS NOT NULL OR t.format <> e.format OR t.properties <> e.properties
											  OR (t.table_uuid IS NULL AND e.table_uuid IS NOT NULL)) AS differing
			INTO found_rows
			FROM unnest(entry.names, entry.formats, entry.uuids, entry.properties) e (table_name, format, table_uuid, properties)
				-- OFFSET, here and below: by the names alone, however many tables the database has
				LEFT JOIN LATERAL (SELECT l.* FROM amoro_meta.listed_table l WHERE l.catalog_id = merge_listing.catalog_id
					AND l.database_name = merge_listing.database_name AND l.table_name = e.table_name OFFSET 0) t ON true;
		seen := coalesce(array_remove(found_rows.ids, NULL), '{}');
		IF found_rows.news = 0 AND found_rows.replaced IS NULL AND found_rows.differing IS NULL THEN
			RETURN;		-- not even a lock, which would be written to WAL
		END IF;
		EXIT WHEN held;
		-- another listing may have come first: look again
		PERFORM amoro_meta.hold_catalog(merge_listing.catalog_id);
		held := true;
	END LOOP;
	-- the same name, but another table
	PERFORM amoro_meta.remove_listed_tables(found_rows.replaced) WHERE found_rows.replaced IS NOT NULL;
	first_id := amoro_meta.next_id() >> 40 << 40;
	WITH n AS (
		INSERT INTO amoro_meta.listed_table AS t
			SELECT first_id + nextval('amoro_meta.id_sequence'), merge_listing.catalog_id, merge_listing.database_name, e.table_name,
				coalesce(e.format, 'iceberg'), e.table_uuid, coalesce(e.properties, '{}'), clock_timestamp()
			FROM unnest(entry.names, entry.formats, entry.uuids, entry.properties) e (table_name, format, table_uuid, properties)
			WHERE NOT EXISTS (SELECT FROM amoro_meta.listed_table o WHERE o.catalog_id = merge_listing.catalog_id
				AND o.database_name = merge_listing.database_name AND o.table_name = e.table_name OFFSET 0)
			ON CONFLICT ON CONSTRAINT listed_table_catalog_id_database_name_table_name_key DO NOTHING RETURNING t.table_id)
		SELECT count(*), merge_listing.seen || coalesce(array_agg(n.table_id), '{}') INTO added, seen FROM n;
	UPDATE amoro_meta.listed_table t
		SET format = coalesce(e.format, t.format), table_uuid = coalesce(e.table_uuid, t.table_uuid),
			properties = coalesce(e.properties, t.properties), missing_since = NULL
		FROM unnest(entry.names, entry.formats, entry.uuids, entry.properties) e (table_name, format, table_uuid, properties)
		WHERE t.table_id = ANY (found_rows.differing) AND t.table_name = e.table_name;
	GET DIAGNOSTICS changed = ROW_COUNT;
	-- of the new ones and of those that differ
	PERFORM amoro_meta.add_table_runtimes(merge_listing.catalog_id, seen[cardinality(array_remove(found_rows.ids, NULL)) + 1:]) WHERE added > 0;
	PERFORM amoro_meta.repair_table_runtime(t.table_id) FROM unnest(found_rows.differing) t (table_id);
END;
$$;
COMMENT ON FUNCTION amoro_meta.merge_listing(bigint, text, jsonb, text) IS
	'adds and brings up to date what one page of a listing of a database says, and removes nothing. tables: objects with name, and '
	'optionally format, uuid and properties. Returns the ids of those in the page, and what was skipped because it cannot be a name';
REVOKE ALL ON FUNCTION amoro_meta.merge_listing(bigint, text, jsonb, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.missing_tables(catalog_id bigint, database_name text, seen bigint[]) RETURNS bigint[]
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
	-- not one against all others: a database may have a hundred thousand
	SELECT coalesce(array_agg(m.table_id), '{}') FROM
		(SELECT t.table_id FROM amoro_meta.listed_table t
		 WHERE t.catalog_id = missing_tables.catalog_id AND t.database_name = missing_tables.database_name
		 EXCEPT ALL SELECT s FROM unnest(seen) s) m
	$$;
COMMENT ON FUNCTION amoro_meta.missing_tables(bigint, text, bigint[]) IS 'tables of a database that a complete listing of it did not have';
REVOKE ALL ON FUNCTION amoro_meta.missing_tables(bigint, text, bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.settle_listing(catalog_id bigint, missing bigint[], OUT removed bigint, OUT held bigint)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
	AS $$
DECLARE
	window_length interval := current_setting('amoro_meta.explore_interval')::interval;
	share integer;
	state record;
	disappearing bigint;
BEGIN
	removed := 0;
	held := 0;
	IF cardinality(missing) = 0 THEN
		RETURN;
	END IF;
	PERFORM amoro_meta.hold_catalog(settle_listing.catalog_id);
	share := (SELECT coalesce(c.properties->>'max-removed-share', current_setting('amoro_meta.max_removed_share'))::integer
			  FROM amoro_meta.catalog c WHERE c.catalog_id = settle_listing.catalog_id);
	INSERT INTO amoro_meta.exploration (catalog_id) VALUES (settle_listing.catalog_id) ON CONFLICT DO NOTHING;
	-- one at a time: what may go depends on what went
	SELECT * INTO state FROM amoro_meta.exploration e WHERE e.catalog_id = settle_listing.catalog_id FOR NO KEY UPDATE;
	IF state.window_started_at IS NULL OR clock_timestamp() NOT BETWEEN state.window_started_at AND state.window_started_at + window_length THEN
		state.window_started_at := clock_timestamp();
		state.window_removed := 0;
	END IF;
	state.window_tables := state.window_removed + (SELECT count(*) FROM amoro_meta.listed_table t WHERE t.catalog_id = settle_listing.catalog_id);
	disappearing := (SELECT count(*) FROM amoro_meta.listed_table t WHERE t.table_id = ANY (missing));
	IF (state.window_removed + disappearing) * 100 > share * state.window_tables THEN
		held := disappearing;
		UPDATE amoro_meta.listed_table t SET missing_since = clock_timestamp() WHERE t.table_id = ANY (missing) AND t.missing_since IS NULL;
		RETURN;
	END IF;
	removed := amoro_meta.remove_listed_tables(missing);
	UPDATE amoro_meta.exploration e
		SET window_started_at = state.window_started_at, window_tables = state.window_tables, window_removed = state.window_removed + settle_listing.removed
		WHERE e.catalog_id = settle_listing.catalog_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.settle_listing(bigint, bigint[]) IS
	'removes tables that a complete listing did not have, or marks them when they are more than max_removed_share percent of the catalog';
REVOKE ALL ON FUNCTION amoro_meta.settle_listing(bigint, bigint[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.forget_listing(catalog_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.remove_listed_tables(ARRAY(SELECT t.table_id FROM amoro_meta.listed_table t WHERE t.catalog_id = forget_listing.catalog_id));
	IF EXISTS (SELECT FROM amoro_meta.listed_table t WHERE t.catalog_id = forget_listing.catalog_id) THEN
		RAISE EXCEPTION 'some tables of the catalog cannot be removed' USING ERRCODE = 'dependent_objects_still_exist';
	END IF;
	DELETE FROM amoro_meta.exploration e WHERE e.catalog_id = forget_listing.catalog_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.forget_listing(bigint) IS 'what drop_catalog does about the tables that a catalog keeps elsewhere';
REVOKE ALL ON FUNCTION amoro_meta.forget_listing(bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_listing(tables jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	wrong jsonb;
BEGIN
	PERFORM amoro_meta.check_not_null('tables', tables IS NOT NULL);
	IF jsonb_typeof(tables) <> 'array' THEN
		RAISE EXCEPTION 'tables is not an array' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT j INTO wrong FROM jsonb_array_elements(tables) j
		WHERE (jsonb_typeof(j) = 'object' AND jsonb_typeof(j->'name') = 'string'
			   AND coalesce(jsonb_typeof(j->'format'), 'string') = 'string' AND coalesce(jsonb_typeof(j->'uuid'), 'string') = 'string'
			   AND coalesce(jsonb_typeof(j->'properties'), 'object') = 'object') IS NOT TRUE
		LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'tables has an entry that describes no table' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = left(wrong::text, 200), HINT = 'An entry is like {"name": "orders", "format": "iceberg", "uuid": "...", "properties": {}}.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_listing(jsonb) IS 'raises 22004 or 22023 unless it is a listing of tables';
REVOKE ALL ON FUNCTION amoro_meta.check_listing(jsonb) FROM PUBLIC;

CREATE FUNCTION report_listing(catalog_name text, database_name text, tables jsonb, complete boolean,
							   OUT added bigint, OUT changed bigint, OUT removed bigint, OUT held bigint, OUT skipped bigint)
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target record;
	merged record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('complete', complete IS NOT NULL), amoro_meta.check_listing(tables);
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	SELECT c.catalog_id, c.metastore, c.properties INTO target FROM amoro_meta.catalog c WHERE c.catalog_name = report_listing.catalog_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	IF target.metastore <> 'pushed' THEN
		RAISE EXCEPTION 'the tables of catalog "%" are not reported', catalog_name USING ERRCODE = 'feature_not_supported',
			DETAIL = format('Its metastore is "%s".', target.metastore);
	END IF;
	IF NOT amoro_meta.matches_filter(target.properties->>'database-filter', database_name) THEN
		tables := '[]';
	END IF;
	merged := amoro_meta.merge_listing(target.catalog_id, database_name, tables, target.properties->>'table-filter');
	added := merged.added;
	changed := merged.changed;
	skipped := merged.skipped;
	removed := 0;
	held := 0;
	IF complete THEN
		SELECT s.removed, s.held INTO removed, held
			FROM amoro_meta.settle_listing(target.catalog_id, amoro_meta.missing_tables(target.catalog_id, database_name, merged.seen)) s;
	END IF;
	IF skipped > 0 THEN
		RAISE WARNING '% tables were skipped: they have no name that can be kept', skipped;
	END IF;
	IF held > 0 THEN
		RAISE WARNING '% tables of catalog "%" are no longer there, which is too much at once: they are kept', held, catalog_name
			USING HINT = format('See held_tables. If they are really gone: SELECT confirm_removal(%L)', catalog_name);
	END IF;
END;
$$;
COMMENT ON FUNCTION report_listing(text, text, jsonb, boolean) IS
	'says which tables a database of a catalog has whose metastore is pushed. tables: an array of objects with name, and optionally format '
	'(default iceberg), uuid and properties. complete: these are all; what is not among them is removed, unless more than '
	'amoro_meta.max_removed_share percent of the catalog disappear within one amoro_meta.explore_interval: then it is kept and shown in held_tables. '
	'Errors: 42704 no such catalog, 0A000 it is not pushed, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION report_listing(text, text, jsonb, boolean) FROM PUBLIC;

CREATE FUNCTION confirm_removal(catalog_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target bigint;
BEGIN
	PERFORM amoro_meta.check_name('catalog_name', catalog_name);
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	SELECT c.catalog_id INTO target FROM amoro_meta.catalog c WHERE c.catalog_name = confirm_removal.catalog_name FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'catalog "%" does not exist', catalog_name USING ERRCODE = 'undefined_object';
	END IF;
	-- a listing that has them again comes before or after, not in between
	RETURN amoro_meta.remove_listed_tables(ARRAY(SELECT t.table_id FROM amoro_meta.listed_table t
		WHERE t.catalog_id = target AND t.missing_since IS NOT NULL FOR UPDATE));
END;
$$;
COMMENT ON FUNCTION confirm_removal(text) IS
	'removes the tables of a catalog that are in held_tables, and returns how many. Errors: 42704 no such catalog, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION confirm_removal(text) FROM PUBLIC;

CREATE VIEW external_tables AS
	SELECT c.catalog_name, t.database_name, t.table_name, t.table_id, t.format, amoro_meta.is_supported_format(t.format) AS supported,
		t.table_uuid, t.properties, t.listed_at, t.missing_since
	FROM amoro_meta.listed_table t JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW external_tables IS
	'tables of catalogs that are kept elsewhere, as last listed; supported: of a format whose tables get a runtime; missing_since: see held_tables';

CREATE VIEW held_tables AS
	SELECT c.catalog_name, t.database_name, t.table_name, t.table_id, t.missing_since
	FROM amoro_meta.listed_table t JOIN amoro_meta.catalog c USING (catalog_id)
	WHERE t.missing_since IS NOT NULL;
COMMENT ON VIEW held_tables IS
	'tables that the newest listing no longer had, kept because too many disappeared at once; confirm_removal lets them go';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest(ARRAY['reader', 'operator', 'admin']) k, unnest(ARRAY['external_tables', 'held_tables']) n
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k,
		unnest(ARRAY['report_listing', 'confirm_removal', 'amoro_meta.is_supported_format']) n;
-- a view checks the functions in it against its reader
INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES ('reader', 'function', 'amoro_meta.is_supported_format');
