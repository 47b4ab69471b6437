/* Optimizing processes: what is done to one table at a time, made of tasks. */

-- What optimizers of a group choose from: the processes of one priority, in turn.
CREATE TABLE amoro_meta.task_queue
(
	queue_id		bigint PRIMARY KEY,
	group_name		text NOT NULL,
	priority		integer NOT NULL,
	UNIQUE (group_name, priority)
);
COMMENT ON TABLE amoro_meta.task_queue IS 'priorities that processes of a group were ever started with; makes no claim that there is such a group';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_queue', '');

CREATE TABLE amoro_meta.process
(
	process_id		bigint PRIMARY KEY,
	table_key		bytea NOT NULL,
	catalog_name	text NOT NULL,
	database_name	text NOT NULL,
	table_name		text NOT NULL,
	table_id		bigint,
	group_name		text NOT NULL,
	queue_id		bigint NOT NULL,
	-- place in the queue; a later one where it was found in the way, see amoro_meta.raise_queue_floor
	turn			bigint NOT NULL,
	-- tasks may be waiting: false only while there surely are none
	waiting			boolean NOT NULL,
	process_type	text NOT NULL,
	status			text NOT NULL CHECK (status IN ('UNKNOWN', 'PENDING', 'SUBMITTED', 'RUNNING', 'CANCELING', 'SUCCESS',
											   'CANCELED', 'CLOSED', 'KILLED', 'FAILED')),
	stage			text NOT NULL,
	quota			double precision NOT NULL CHECK (quota > 0),
	-- smaller comes first, by the scheduling policy of the group
	rank			double precision NOT NULL,
	task_count		integer NOT NULL,
	started_by		regrole NOT NULL,
	started_at		timestamptz NOT NULL,
	committing_at	timestamptz,
	ended_at		timestamptz,
	reason			text,
	-- since the end: are its tasks cancelled and summed up?
	settled			boolean NOT NULL DEFAULT false,
	busy_ms			bigint,
	CHECK ((ended_at IS NULL) = (status IN ('PENDING', 'SUBMITTED', 'RUNNING', 'CANCELING')))
) WITH (fillfactor = 70);
COMMENT ON TABLE amoro_meta.process IS 'optimizing processes, those that have ended for amoro_meta.history_retention';
CREATE UNIQUE INDEX process_alive ON amoro_meta.process (table_key) WHERE ended_at IS NULL;
CREATE INDEX process_table ON amoro_meta.process (table_key, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX process_waiting ON amoro_meta.process (queue_id, turn) WHERE waiting;
CREATE INDEX process_alive_group ON amoro_meta.process (group_name) WHERE ended_at IS NULL;
CREATE INDEX process_ended ON amoro_meta.process (ended_at) WHERE settled;
CREATE INDEX process_unsettled ON amoro_meta.process (ended_at) WHERE ended_at IS NOT NULL AND NOT settled;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.process', '');
