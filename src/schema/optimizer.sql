/* Optimizers: processes that poll tasks, known by a token that is bound to the role that registered it. */

CREATE TABLE amoro_meta.optimizer
(
	optimizer_id	bigint PRIMARY KEY,
	token			uuid NOT NULL UNIQUE,
	group_name		text NOT NULL,
	container_name	text,
	resource_id		text,
	thread_count	integer NOT NULL CHECK (thread_count BETWEEN 1 AND 65536),
	memory_mb		integer NOT NULL CHECK (memory_mb >= 0),
	properties		jsonb NOT NULL,
	registered_by	regrole NOT NULL,
	registered_at	timestamptz NOT NULL,
	touched_at		timestamptz NOT NULL,
	draining		boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);	-- touched every few seconds, in no index
COMMENT ON TABLE amoro_meta.optimizer IS 'registered optimizers; a row is gone as soon as its optimizer is unregistered or expired';
CREATE INDEX optimizer_group_name ON amoro_meta.optimizer (group_name);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.optimizer', '');
