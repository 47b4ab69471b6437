/* The ordered, durable metadata log (DESIGN.md, section 5). */

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
