/* amoro_meta: what every other part of the install script stands on. */

-- complain if the script is sourced in psql rather than through CREATE EXTENSION
\echo Use "CREATE EXTENSION amoro_meta" to load this file. \quit

-- The tables live here, away from the functions; it is a member, so DROP EXTENSION removes it.
CREATE SCHEMA amoro_meta;
COMMENT ON SCHEMA amoro_meta IS 'tables of the extension amoro_meta; use its functions and views instead';
REVOKE ALL ON SCHEMA amoro_meta FROM PUBLIC;

-- One sequence for all ids: an id never names two things, not even of different kinds.
CREATE SEQUENCE amoro_meta.id_sequence AS bigint;
COMMENT ON SEQUENCE amoro_meta.id_sequence IS 'low part of every id, see amoro_meta.next_id()';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.id_sequence', '');

CREATE FUNCTION amoro_meta.timeline_id() RETURNS integer
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_timeline_id';
COMMENT ON FUNCTION amoro_meta.timeline_id() IS
	'timeline this server writes to; refused with 25006 on a standby';
REVOKE ALL ON FUNCTION amoro_meta.timeline_id() FROM PUBLIC;

-- An asynchronous failover may lose the newest sequence values, as a restored dump does; the timeline in the high bits
-- keeps ids apart, and counts on where a copy is adopted. Before that a server on an earlier timeline than its data (after
-- pg_upgrade, say) goes on in that of the data: there are things that go by the order of their ids.
-- (PL/pgSQL keeps its plan, SQL does not.)
CREATE FUNCTION amoro_meta.next_id() RETURNS bigint
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN ((greatest(amoro_meta.timeline_id() + (SELECT i.timeline_offset FROM amoro_meta.identity AS i), amoro_meta.timeline_id(),
			(SELECT c.term >> 32 FROM amoro_meta.coordinator AS c)) - 1)::bigint << 40)
		+ nextval('amoro_meta.id_sequence');
END;
$$;
COMMENT ON FUNCTION amoro_meta.next_id() IS
	'a number that this database never gave out before, not even on a timeline that was lost in a failover';
REVOKE ALL ON FUNCTION amoro_meta.next_id() FROM PUBLIC;

-- The caller of a definer function: the role that the session acts as, not the owner of the function.
CREATE FUNCTION amoro_meta.calling_role() RETURNS regrole
	LANGUAGE c STABLE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_calling_role';
COMMENT ON FUNCTION amoro_meta.calling_role() IS
	'role that the session acts as (SET ROLE counts), seen through definer functions';
REVOKE ALL ON FUNCTION amoro_meta.calling_role() FROM PUBLIC;

-- Rows that exist once. A dump restores them over those that CREATE EXTENSION or a first start made: the dumped row wins.
CREATE FUNCTION amoro_meta.replace_singleton() RETURNS trigger
	LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	-- against a coordinator that starts while a dump is restored: the later of the two must see the earlier row
	EXECUTE pg_catalog.format('LOCK TABLE %I.%I IN SHARE ROW EXCLUSIVE MODE', TG_TABLE_SCHEMA, TG_TABLE_NAME);
	EXECUTE pg_catalog.format('DELETE FROM %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
	RETURN NEW;
END;
$$;
COMMENT ON FUNCTION amoro_meta.replace_singleton() IS 'trigger: an inserted row takes the place of the one that is there';
REVOKE ALL ON FUNCTION amoro_meta.replace_singleton() FROM PUBLIC;

CREATE FUNCTION amoro_meta.library_version() RETURNS text
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_library_version';
COMMENT ON FUNCTION amoro_meta.library_version() IS
	'version of the loaded library; differs from that of the extension until ALTER EXTENSION amoro_meta UPDATE';
REVOKE ALL ON FUNCTION amoro_meta.library_version() FROM PUBLIC;

CREATE FUNCTION amoro_meta.preloaded() RETURNS boolean
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_preloaded';
COMMENT ON FUNCTION amoro_meta.preloaded() IS
	'whether shared_preload_libraries names amoro_meta, without which there is no coordinator';
REVOKE ALL ON FUNCTION amoro_meta.preloaded() FROM PUBLIC;

-- What grant_access gives; every part of this script adds its own functions and views.
CREATE TABLE amoro_meta.access_rule
(
	access_kind		text NOT NULL CHECK (access_kind IN ('reader', 'writer', 'optimizer', 'node', 'operator', 'admin')),
	object_kind		text NOT NULL CHECK (object_kind IN ('function', 'view')),
	object_name		text NOT NULL,
	PRIMARY KEY (access_kind, object_kind, object_name)
);
COMMENT ON TABLE amoro_meta.access_rule IS
	'functions and views of each kind of access; a name without a schema is in the schema of the API, else it is amoro_meta.name';
