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
	request			jsonb NOT NULL,			-- what the caller said: a retry must say the same
	arguments		jsonb NOT NULL,			-- what the steps work with
	request_id		uuid UNIQUE,
	submitted_by	regrole NOT NULL,
	submitted_at	timestamptz NOT NULL,
	deadline		timestamptz,
	wait_version	bigint,
	not_before		timestamptz,
	attempts		integer NOT NULL DEFAULT 0,
	cancel_requested boolean NOT NULL DEFAULT false,
	abandoned		boolean NOT NULL DEFAULT false,	-- a step failed for good: to be undone
	error_code		text,
	error_message	text,
	error_detail	text,
	last_step_at	timestamptz,
	last_step_term	bigint,
	ended_at		timestamptz,
	CHECK ((outcome IS NULL) = (ended_at IS NULL))
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

CREATE FUNCTION amoro_meta.procedure_machine_rows()
	RETURNS TABLE (kind text, state text, action text, next_state text, undo text,
		waits_for_verdict boolean, irreversible boolean, comment text)
	LANGUAGE c STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_procedure_machine_rows';
COMMENT ON FUNCTION amoro_meta.procedure_machine_rows() IS 'rows of the view procedure_machine';
REVOKE ALL ON FUNCTION amoro_meta.procedure_machine_rows() FROM PUBLIC;
