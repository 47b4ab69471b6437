/* Tasks: handed out one at a time, to one thread each (src/extension/README.md, tasks). */

CREATE TYPE amoro_meta.task_state AS ENUM ('PLANNED', 'SCHEDULED', 'ACKED', 'SUCCESS', 'FAILED', 'CANCELED');
COMMENT ON TYPE amoro_meta.task_state IS 'states of a task, as Amoro calls them';

-- Narrow, and no index has a column that changes from the claim to the end: these updates stay on their page.
CREATE TABLE amoro_meta.task
(
	process_id		bigint NOT NULL,
	position		bigint NOT NULL,
	claimed_at		timestamptz,
	acked_at		timestamptz,
	ended_at		timestamptz,
	optimizer_id	bigint,
	cost_ms			bigint NOT NULL DEFAULT 0,
	task_id			integer NOT NULL,
	thread_id		integer,
	attempt			integer NOT NULL DEFAULT 0,
	failures		integer NOT NULL DEFAULT 0,
	resets			integer NOT NULL DEFAULT 0,
	state			amoro_meta.task_state NOT NULL,
	PRIMARY KEY (process_id, task_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE amoro_meta.task IS
	'tasks of the processes; position: place in the line of the process, a new one at its end after each return';
CREATE INDEX task_position ON amoro_meta.task (process_id, position);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task', '');

CREATE TABLE amoro_meta.task_input
(
	process_id		bigint NOT NULL,
	task_id			integer NOT NULL,
	input			jsonb NOT NULL,
	PRIMARY KEY (process_id, task_id)
);
COMMENT ON TABLE amoro_meta.task_input IS 'what an optimizer is told to do; apart, because it never changes';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_input', '');

CREATE TABLE amoro_meta.task_result
(
	process_id		bigint NOT NULL,
	task_id			integer NOT NULL,
	attempt			integer NOT NULL,
	output			bytea,
	error			text,
	metrics			jsonb,
	ended_at		timestamptz NOT NULL,
	PRIMARY KEY (process_id, task_id, attempt)
);
COMMENT ON TABLE amoro_meta.task_result IS 'what the attempts came to, where there is anything to say';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_result', '');

-- Only the newest claim of a thread, and of a seat, can still be held: both are found without a look at the older ones.
CREATE TABLE amoro_meta.task_claim
(
	optimizer_id	bigint NOT NULL,
	process_id		bigint NOT NULL,
	claimed_at		timestamptz NOT NULL,
	ring_turn		bigint NOT NULL,
	thread_id		integer NOT NULL,
	number			integer NOT NULL,
	task_id			integer NOT NULL,
	attempt			integer NOT NULL,
	seat			integer NOT NULL,
	seat_number		integer NOT NULL,
	PRIMARY KEY (optimizer_id, thread_id, number),
	UNIQUE (process_id, seat, seat_number)
);
COMMENT ON TABLE amoro_meta.task_claim IS
	'every claim of a task: number counts those of a thread, seat_number those of a seat; a process has a seat for each of its tasks that are handed out';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_claim', '');

-- Hints, never dumped: nothing before the highest floor is to be had. Only ever inserted, so the newest is found at once.
CREATE TABLE amoro_meta.task_floor
(
	process_id		bigint NOT NULL,
	position		bigint NOT NULL,
	PRIMARY KEY (process_id, position)
);
COMMENT ON TABLE amoro_meta.task_floor IS 'positions before which no task of a process is planned, nor will be';

CREATE TABLE amoro_meta.queue_floor
(
	queue_id		bigint NOT NULL,
	turn			bigint NOT NULL,
	PRIMARY KEY (queue_id, turn)
);
COMMENT ON TABLE amoro_meta.queue_floor IS 'turns before which no process of a queue has tasks waiting, nor will have';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.task_floor', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.queue_floor', 'WHERE false');
