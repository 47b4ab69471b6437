/* Procedures: metadata operations of several durable steps (DESIGN.md, section 5). */

CREATE TABLE amoro_meta.procedure
(
	procedure_id	bigint PRIMARY KEY,
	kind			text NOT NULL,
	state			text NOT NULL,
	outcome			text CHECK (outcome IN ('done', 'rolled_back', 'quarantined')),
	catalog_name	text,
	database_name	text,
	object_name		text,
	object_id		bigint,
	arguments		jsonb NOT NULL,
	undo			jsonb,
	request_id		uuid UNIQUE,
	submitted_by	regrole NOT NULL,
	submitted_at	timestamptz NOT NULL,
	deadline		timestamptz,
	wait_version	bigint,
	not_before		timestamptz,
	attempts		integer NOT NULL DEFAULT 0,
	cancel_requested boolean NOT NULL DEFAULT false,
	error_code		text,
	error_message	text,
	error_detail	text,
	last_step_at	timestamptz,
	last_step_term	bigint,
	ended_at		timestamptz
);
COMMENT ON TABLE amoro_meta.procedure IS
	'metadata operations in flight and ended; outcome is null while one is in flight';
CREATE INDEX procedure_in_flight ON amoro_meta.procedure (procedure_id) WHERE outcome IS NULL;
CREATE INDEX procedure_ended_at ON amoro_meta.procedure (ended_at) WHERE outcome IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.procedure', '');

CREATE TABLE amoro_meta.procedure_claim
(
	object_kind		text NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	object_name		text NOT NULL,
	procedure_id	bigint NOT NULL REFERENCES amoro_meta.procedure ON DELETE CASCADE,
	PRIMARY KEY (object_kind, catalog_name, database_name, object_name)
);
COMMENT ON TABLE amoro_meta.procedure_claim IS
	'names that a procedure in flight works on; a second procedure on one of them is refused with AM401';
CREATE INDEX procedure_claim_procedure_id ON amoro_meta.procedure_claim (procedure_id);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.procedure_claim', '');
