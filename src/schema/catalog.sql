/* Catalogs: the roots of the names. */

CREATE TABLE amoro_meta.catalog
(
	catalog_id		bigint PRIMARY KEY,
	catalog_name	text NOT NULL UNIQUE,
	metastore		text NOT NULL CHECK (metastore IN ('internal', 'iceberg_rest', 'pushed')),
	properties		jsonb NOT NULL,
	storage_config	jsonb NOT NULL,
	auth_config		jsonb NOT NULL,
	created_at		timestamptz NOT NULL,
	created_by		regrole NOT NULL
);
COMMENT ON TABLE amoro_meta.catalog IS 'catalogs; auth_config holds secrets and is shown by no view';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.catalog', '');
