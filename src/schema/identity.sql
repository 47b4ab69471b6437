/* Which database this data belongs to, and the coordinator's reign. */

CREATE TABLE amoro_meta.identity
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	system_identifier bigint NOT NULL,
	database_oid	oid NOT NULL,
	database_name	name NOT NULL,
	-- what is added to the timeline of the server wherever ids, versions and terms are made: see adopt_database()
	timeline_offset	integer NOT NULL DEFAULT 0 CHECK (timeline_offset >= 0),
	adopted_at		timestamptz NOT NULL
);
COMMENT ON TABLE amoro_meta.identity IS
	'server and database that coordinate this data; a restored or cloned copy differs and stays passive until adopt_database()';

CREATE TABLE amoro_meta.coordinator
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	term			bigint NOT NULL,
	boot_counter	integer NOT NULL,
	longest_lease_us bigint NOT NULL,
	longest_owed_us	bigint NOT NULL,
	extension_oid	oid NOT NULL,
	term_started_at	timestamptz NOT NULL
);
COMMENT ON COLUMN amoro_meta.coordinator.extension_oid IS
	'the extension in which the term was begun; where it is not the present one the data was restored from a dump since';
COMMENT ON TABLE amoro_meta.coordinator IS
	'term of the coordinator, and the longest lease that was ever granted; made durable before the first grant';

-- The timeline of the installation: a standby that is promoted before it hears of the first term still sees that time has passed.
-- The counter starts at the seconds since 2020, as the clock shows them: nodes of an extension that was here before refuse
-- a lower term than they have seen, and nothing else outlives DROP EXTENSION. No lease depends on it.
INSERT INTO amoro_meta.coordinator (term, boot_counter, longest_lease_us, longest_owed_us, extension_oid, term_started_at)
	SELECT amoro_meta.timeline_id()::bigint << 32,
		greatest(0, least(2000000000, extract(epoch FROM clock_timestamp())::bigint - 1577836800)), 0, 0, e.oid, clock_timestamp()
	FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'amoro_meta';

CREATE TRIGGER replace_singleton BEFORE INSERT ON amoro_meta.identity
	FOR EACH ROW EXECUTE FUNCTION amoro_meta.replace_singleton();
CREATE TRIGGER replace_singleton BEFORE INSERT ON amoro_meta.coordinator
	FOR EACH ROW EXECUTE FUNCTION amoro_meta.replace_singleton();

SELECT pg_catalog.pg_extension_config_dump('amoro_meta.identity', '');
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.coordinator', '');

CREATE FUNCTION amoro_meta.identity_key() RETURNS text
	LANGUAGE sql STABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT i.system_identifier || '/' || i.database_oid FROM amoro_meta.identity i$$;
COMMENT ON FUNCTION amoro_meta.identity_key() IS 'the server and database that coordinate this data, as one word; null before the first start';
REVOKE ALL ON FUNCTION amoro_meta.identity_key() FROM PUBLIC;
