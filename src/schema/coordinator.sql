/* The coordinator as people see it. */

CREATE FUNCTION amoro_meta.coordinators
(
	OUT database_oid oid, OUT pid integer, OUT state text, OUT term bigint, OUT started_at timestamptz,
	OUT last_cycle_at timestamptz, OUT starts bigint, OUT cycles bigint, OUT steps bigint, OUT errors bigint,
	OUT consecutive_failures integer, OUT last_error_code text, OUT last_error text, OUT backoff_until timestamptz,
	OUT stopped_at text, OUT lease_ms bigint, OUT owed_ms bigint, OUT max_clock_drift_ppm integer,
	OUT heartbeat_interval_ms integer, OUT ack_timeout_ms bigint, OUT tick_ms bigint, OUT last_tick_at timestamptz,
	OUT tick_pending_since timestamptz, OUT published_version bigint,
	OUT awaited_version bigint, OUT stats_reset timestamptz
)
	RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_coordinators';
COMMENT ON FUNCTION amoro_meta.coordinators() IS
	'entries of the coordinators in shared memory; see the view amoro_stat_coordinator';
REVOKE ALL ON FUNCTION amoro_meta.coordinators() FROM PUBLIC;

CREATE VIEW amoro_stat_coordinator AS
	SELECT d.datname, c.pid,
		coalesce(c.state, CASE WHEN amoro_meta.preloaded() THEN 'none' ELSE 'not_preloaded' END) AS state,
		c.term, c.started_at, c.last_cycle_at, c.starts, c.cycles, c.steps, c.errors, c.consecutive_failures,
		c.last_error_code, c.last_error, c.backoff_until, c.stopped_at, c.lease_ms, c.owed_ms, c.max_clock_drift_ppm,
		c.heartbeat_interval_ms, c.ack_timeout_ms, c.tick_ms, c.last_tick_at, c.tick_pending_since, c.published_version, c.awaited_version, c.stats_reset
	FROM pg_catalog.pg_database d LEFT JOIN amoro_meta.coordinators() c ON c.database_oid OPERATOR(pg_catalog.=) d.oid
	WHERE c.database_oid IS NOT NULL OR d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();
COMMENT ON VIEW amoro_stat_coordinator IS
	'coordinator of this database, and those of others that have one: state (none, starting, running, backoff, held, absent, not_adopted, other_version, not_preloaded), term, counters, last error, settings in force';
COMMENT ON COLUMN amoro_stat_coordinator.state IS
	'held: stepped aside for a command on its database; absent: no extension there; not_adopted: see adopt_database()';
COMMENT ON COLUMN amoro_stat_coordinator.owed_ms IS
	'how long after a grant the server waits for a silent node: the lease, the clock drift and the margin';
COMMENT ON COLUMN amoro_stat_coordinator.tick_ms IS
	'within which time a synchronous standby must confirm a tick for leases to be granted; null unless amoro_meta.require_synchronous_tick';
COMMENT ON COLUMN amoro_stat_coordinator.last_tick_at IS
	'when the newest tick was written that the synchronous standbys have confirmed';
COMMENT ON COLUMN amoro_stat_coordinator.tick_pending_since IS
	'when the oldest tick was written that they have not confirmed yet';
REVOKE ALL ON amoro_stat_coordinator FROM PUBLIC;
GRANT SELECT ON amoro_stat_coordinator TO pg_monitor;
-- a view checks the functions in it against its reader
GRANT EXECUTE ON FUNCTION amoro_meta.coordinators() TO pg_monitor;
GRANT EXECUTE ON FUNCTION amoro_meta.preloaded() TO pg_monitor;

CREATE FUNCTION amoro_stat_reset() RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_stat_reset';
COMMENT ON FUNCTION amoro_stat_reset() IS
	'sets the counters and the last errors in amoro_stat_coordinator, amoro_stat_sweep, amoro_stat_blocker and amoro_stat_task to nothing, '
	'for this database. What the other amoro_stat_ views show is counted from rows, or from the nodes themselves, and stays';
REVOKE ALL ON FUNCTION amoro_stat_reset() FROM PUBLIC;

CREATE FUNCTION amoro_meta_version() RETURNS text
	LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.library_version()$$;
COMMENT ON FUNCTION amoro_meta_version() IS 'version of the library that the server has loaded';
REVOKE ALL ON FUNCTION amoro_meta_version() FROM PUBLIC;

CREATE FUNCTION amoro_meta.recheck_identity() RETURNS boolean
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_recheck_identity';
COMMENT ON FUNCTION amoro_meta.recheck_identity() IS
	'when the transaction commits, has the coordinator look whether the data is its own; false without a coordinator';
REVOKE ALL ON FUNCTION amoro_meta.recheck_identity() FROM PUBLIC;

CREATE FUNCTION adopt_database() RETURNS boolean
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	server bigint := (SELECT system_identifier FROM pg_control_system());
	this_database oid := (SELECT oid FROM pg_database WHERE datname = current_database());
	-- the newest timeline that the copy speaks of; the original may have gone on in it
	newest integer := greatest((SELECT term >> 32 FROM amoro_meta.coordinator), (SELECT (version >> 40) + 1 FROM amoro_meta.metadata_version));
BEGIN
	PERFORM amoro_meta.timeline_id();	-- refuses on a standby
	LOCK TABLE amoro_meta.coordinator, amoro_meta.identity IN SHARE ROW EXCLUSIVE MODE;
	IF EXISTS (SELECT FROM amoro_meta.identity WHERE system_identifier = server AND database_oid = this_database) THEN
		RETURN false;
	END IF;
	-- so what is made from here on repeats nothing that the original made since, and its nodes forget what they know of it
	INSERT INTO amoro_meta.identity (system_identifier, database_oid, database_name, timeline_offset, adopted_at)
		VALUES (server, this_database, current_database(), greatest(newest + 1 - amoro_meta.timeline_id(), 0), clock_timestamp());
	UPDATE amoro_meta.procedure SET belongs_to = amoro_meta.identity_key() WHERE outcome IS NULL;
	PERFORM amoro_meta.recheck_identity();
	RETURN true;
END;
$$;
COMMENT ON FUNCTION adopt_database() IS
	'makes a restored or copied database the one that coordinates the nodes in it; false when it already is. Only when the original no longer does: '
	'both would grant leases. Errors: 25006';
REVOKE ALL ON FUNCTION adopt_database() FROM PUBLIC;

-- What a dump says of itself has come already where the term was begun in another extension.
CREATE FUNCTION amoro_meta.data_is_own() RETURNS boolean
	LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT NOT EXISTS (SELECT FROM amoro_meta.identity i, amoro_meta.coordinator c
		WHERE i.system_identifier <> (SELECT s.system_identifier FROM pg_control_system() s)
			OR i.database_oid <> (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
			OR c.extension_oid <> (SELECT e.oid FROM pg_extension e WHERE e.extname = 'amoro_meta'))
	$$;
COMMENT ON FUNCTION amoro_meta.data_is_own() IS 'whether the coordinator takes what is in the tables for its own, also what a dump has just begun to bring';
REVOKE ALL ON FUNCTION amoro_meta.data_is_own() FROM PUBLIC;

CREATE FUNCTION amoro_meta.disown_data() RETURNS boolean
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	LOCK TABLE amoro_meta.coordinator, amoro_meta.identity IN SHARE ROW EXCLUSIVE MODE;
	-- another job of the same restore may have come first
	IF NOT amoro_meta.data_is_own() THEN
		RETURN false;
	END IF;
	INSERT INTO amoro_meta.identity (system_identifier, database_oid, database_name, timeline_offset, adopted_at)
		VALUES (0, 0, '', coalesce((SELECT i.timeline_offset FROM amoro_meta.identity i), 0), clock_timestamp());
	RETURN true;
END;
$$;
COMMENT ON FUNCTION amoro_meta.disown_data() IS
	'with the first row of a dump: nobody coordinates this data before it is adopted, or the dump has brought the row that says whose it is; false when that was so';
REVOKE ALL ON FUNCTION amoro_meta.disown_data() FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('operator', 'view', 'amoro_stat_coordinator'),
	('operator', 'function', 'amoro_meta.coordinators'),
	('operator', 'function', 'amoro_meta.preloaded'),
	('operator', 'function', 'amoro_meta_version'),
	('admin', 'view', 'amoro_stat_coordinator'),
	('admin', 'function', 'amoro_meta.coordinators'),
	('admin', 'function', 'amoro_meta.preloaded'),
	('admin', 'function', 'amoro_meta_version'),
	('admin', 'function', 'amoro_stat_reset'),
	('admin', 'function', 'adopt_database');

DO $$
BEGIN
	IF NOT amoro_meta.preloaded() THEN
		RAISE WARNING 'amoro_meta has no coordinator: the library is not preloaded'
			USING DETAIL = 'Leases, procedures and changes of metadata fail with AM005 until it is.',
				HINT = 'Add amoro_meta to shared_preload_libraries in postgresql.conf and restart the server.';
	END IF;
END;
$$;
