/* The ordered, durable metadata log (docs/protocol.md, section 5). */

CREATE TABLE amoro_meta.metadata_version
(
	singleton		boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	version			bigint NOT NULL,
	pruned_version	bigint NOT NULL
);
COMMENT ON TABLE amoro_meta.metadata_version IS
	'newest version of the metadata, and the newest one whose changes were pruned';
CREATE TRIGGER replace_singleton BEFORE INSERT ON amoro_meta.metadata_version
	FOR EACH ROW EXECUTE FUNCTION amoro_meta.replace_singleton();
INSERT INTO amoro_meta.metadata_version (version, pruned_version) VALUES (0, 0);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.metadata_version', '');

CREATE TABLE amoro_meta.change
(
	version			bigint NOT NULL,
	ordinal			integer NOT NULL,
	object_kind		text NOT NULL,
	operation		text NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text,
	table_name		text,
	object_id		bigint NOT NULL,
	procedure_id	bigint,
	detail			jsonb NOT NULL DEFAULT '{}',
	changed_at		timestamptz NOT NULL,
	PRIMARY KEY (version, ordinal)
);
COMMENT ON TABLE amoro_meta.change IS 'the metadata log: what a node has to forget to get from one version to the next';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.change', '');

CREATE FUNCTION amoro_meta.current_term() RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_current_term';
COMMENT ON FUNCTION amoro_meta.current_term() IS
	'term of the coordinator of this database, 0 when none has begun one; refused with 25006 on a standby';
REVOKE ALL ON FUNCTION amoro_meta.current_term() FROM PUBLIC;

CREATE FUNCTION amoro_meta.append_change(object_kind text, operation text, catalog_name text, database_name text, table_name text,
										 object_id bigint) RETURNS bigint
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_append_change';
COMMENT ON FUNCTION amoro_meta.append_change(text, text, text, text, text, bigint) IS
	'allocates the next version of the metadata for one change, as the last write of a transaction; it is published at its commit';
REVOKE ALL ON FUNCTION amoro_meta.append_change(text, text, text, text, text, bigint) FROM PUBLIC;

-- STABLE: counter and log are read in one snapshot, so what is pruned meanwhile is not silently missing.
CREATE FUNCTION metadata_changes(after_version bigint, max_rows integer DEFAULT 1000)
	RETURNS TABLE (version bigint, ordinal integer, object_kind text, operation text, catalog_name text, database_name text,
				   table_name text, object_id bigint, detail jsonb)
	LANGUAGE c STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 100
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'amoro_meta_metadata_changes';
COMMENT ON FUNCTION metadata_changes(bigint, integer) IS
	'the changes after a version, in order: whole versions, about max_rows rows, at least one version if there is any. '
	'Errors: AM006 when the log does not reach back, or ahead, to that version, 22004 and 22023 bad arguments, 25006 on a standby';
REVOKE ALL ON FUNCTION metadata_changes(bigint, integer) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name) VALUES
	('node', 'function', 'metadata_changes'),
	('reader', 'function', 'metadata_changes');
