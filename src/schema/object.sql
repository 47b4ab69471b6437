/* Databases and tables. */

CREATE TABLE amoro_meta.database
(
	database_id		bigint PRIMARY KEY,
	catalog_id		bigint NOT NULL REFERENCES amoro_meta.catalog,
	database_name	text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_create', 'pre_alter', 'pre_drop')),
	procedure_id	bigint,
	properties		jsonb NOT NULL,
	version			bigint NOT NULL,
	UNIQUE (catalog_id, database_name),
	CHECK ((state = 'normal') = (procedure_id IS NULL))
);
COMMENT ON TABLE amoro_meta.database IS 'databases; a state other than normal is the marker of the procedure that works on it';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.database', '');

CREATE TABLE amoro_meta.table_metadata
(
	table_id		bigint PRIMARY KEY,
	database_id		bigint NOT NULL REFERENCES amoro_meta.database,
	table_name		text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_create', 'pre_alter', 'pre_drop')),
	procedure_id	bigint,
	definition		jsonb NOT NULL,
	version			bigint NOT NULL,
	UNIQUE (database_id, table_name),
	CHECK ((state = 'normal') = (procedure_id IS NULL))
);
COMMENT ON TABLE amoro_meta.table_metadata IS 'tables; a state other than normal is the marker of the procedure that works on it';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.table_metadata', '');
