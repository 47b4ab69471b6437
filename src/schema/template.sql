/* Templates of devices: measurements that many devices have together. What is done with them: template_submission.sql. */

CREATE TABLE amoro_meta.template
(
	template_id		bigint PRIMARY KEY,
	database_id		bigint NOT NULL,
	template_name	text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_alter')),
	procedure_id	bigint,
	definition		jsonb NOT NULL,
	version			bigint NOT NULL,
	UNIQUE (database_id, template_name),
	CHECK ((state = 'normal') = (procedure_id IS NULL))
);
COMMENT ON TABLE amoro_meta.template IS
	'templates of devices; a state other than normal is the marker of the procedure that works on one, which readers of all its devices see';
CREATE INDEX template_procedure_id ON amoro_meta.template (procedure_id) WHERE procedure_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.template', '');

CREATE TABLE amoro_meta.template_path
(
	database_id		bigint NOT NULL,
	device_path		text NOT NULL,
	template_id		bigint NOT NULL,
	version			bigint NOT NULL,
	PRIMARY KEY (database_id, device_path)
);
COMMENT ON TABLE amoro_meta.template_path IS
	'where templates are set: devices at or below such a path may have it active. No path is above or below another';
CREATE INDEX template_path_template_id ON amoro_meta.template_path (template_id);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.template_path', '');
