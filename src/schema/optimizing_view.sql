/* Optimizers, processes and tasks as people see them. */

CREATE FUNCTION amoro_meta.task_events(OUT event text, OUT count bigint) RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_task_events';
COMMENT ON FUNCTION amoro_meta.task_events() IS 'what happened to tasks of this database since the server started; counts are null without preload';
REVOKE ALL ON FUNCTION amoro_meta.task_events() FROM PUBLIC;

CREATE VIEW optimizers AS
	SELECT o.optimizer_id, o.group_name, o.container_name, o.resource_id, o.thread_count, o.memory_mb, o.properties,
		CASE WHEN o.expired_at IS NOT NULL THEN 'expired' WHEN o.draining THEN 'draining' ELSE 'registered' END AS state,
		o.registered_by, o.registered_at, o.touched_at
	FROM amoro_meta.optimizer o;
COMMENT ON VIEW optimizers IS 'optimizers; their tokens are shown to nobody. expired: what it worked on is being given to others';

CREATE VIEW processes AS
	SELECT p.process_id, p.catalog_name, p.database_name, p.table_name, p.table_id, p.group_name,
		(SELECT q.priority FROM amoro_meta.task_queue q WHERE q.queue_id = p.queue_id) AS priority,
		p.process_type, p.status, p.stage, p.quota, p.task_count, p.started_by, p.started_at, p.committing_at, p.ended_at, p.reason, p.runner_service
	FROM amoro_meta.process p;
COMMENT ON VIEW processes IS
	'processes, those that have ended for amoro_meta.history_retention. status: RUNNING until its end, then SUCCESS, FAILED, CANCELED or '
	'CLOSED (its table is gone or optimized no longer); stage committing: all tasks have succeeded, finish_process is due';

CREATE VIEW tasks AS
	SELECT t.process_id, t.task_id, p.catalog_name, p.database_name, p.table_name,
		CASE WHEN p.ended_at IS NOT NULL AND t.state IN ('PLANNED', 'SCHEDULED', 'ACKED') THEN 'CANCELED' ELSE t.state::text END AS state,
		t.attempt, t.failures, t.resets, t.optimizer_id, t.thread_id, t.claimed_at, t.acked_at, t.ended_at, t.cost_ms,
		(SELECT i.input FROM amoro_meta.task_input i WHERE i.process_id = t.process_id AND i.task_id = t.task_id) AS input,
		(SELECT r.output FROM amoro_meta.task_result r WHERE r.process_id = t.process_id AND r.task_id = t.task_id
		 ORDER BY r.attempt DESC LIMIT 1) AS output,
		(SELECT r.error FROM amoro_meta.task_result r WHERE r.process_id = t.process_id AND r.task_id = t.task_id
		 ORDER BY r.attempt DESC LIMIT 1) AS error,
		(SELECT r.metrics FROM amoro_meta.task_result r WHERE r.process_id = t.process_id AND r.task_id = t.task_id
		 ORDER BY r.attempt DESC LIMIT 1) AS metrics
	FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id);
COMMENT ON VIEW tasks IS
	'tasks. A SCHEDULED one is given to another thread at claimed_at + amoro_meta.task_ack_timeout, an ACKED one at acked_at + '
	'amoro_meta.task_execute_timeout, both when their optimizer is gone, or its thread polls again; resets counts that, failures what was '
	'reported. output, error and metrics are those of the last attempt that was reported on';

CREATE VIEW amoro_stat_optimizer AS
	SELECT o.optimizer_id, o.group_name, o.thread_count, held.scheduled, held.acked,
		o.thread_count - held.scheduled - held.acked AS idle, clock_timestamp() - o.touched_at AS untouched_for
	FROM amoro_meta.optimizer o CROSS JOIN LATERAL
		(SELECT count(*) FILTER (WHERE h.state = 'SCHEDULED') AS scheduled, count(*) FILTER (WHERE h.state = 'ACKED') AS acked
		 FROM amoro_meta.held_tasks(o.optimizer_id, o.thread_count) h WHERE NOT h.process_ended) held;
COMMENT ON VIEW amoro_stat_optimizer IS 'what the threads of each optimizer are at';

CREATE VIEW amoro_stat_task AS
	SELECT max(e.count) FILTER (WHERE e.event = 'poll') AS polls,
		max(e.count) FILTER (WHERE e.event = 'empty_poll') AS empty_polls,
		max(e.count) FILTER (WHERE e.event = 'claim') AS claims,
		max(e.count) FILTER (WHERE e.event = 'over_quota') AS claims_over_quota,
		max(e.count) FILTER (WHERE e.event = 'ack') AS acks,
		max(e.count) FILTER (WHERE e.event = 'stale_ack') AS stale_acks,
		max(e.count) FILTER (WHERE e.event = 'success') AS successes,
		max(e.count) FILTER (WHERE e.event = 'failure') AS failures,
		max(e.count) FILTER (WHERE e.event = 'retry') AS retries,
		max(e.count) FILTER (WHERE e.event = 'reset') AS resets,
		max(e.count) FILTER (WHERE e.event = 'late_completion') AS late_completions,
		max(e.count) FILTER (WHERE e.event = 'cancelled_completion') AS cancelled_completions,
		max(e.count) FILTER (WHERE e.event = 'expired_optimizer') AS expired_optimizers
	FROM amoro_meta.task_events() e;
COMMENT ON VIEW amoro_stat_task IS
	'calls of this database since the server started, also those that were rolled back; null without preload';
REVOKE ALL ON amoro_stat_optimizer, amoro_stat_task FROM PUBLIC;
GRANT SELECT ON amoro_stat_optimizer, amoro_stat_task TO pg_monitor;
-- a view checks the functions in it against its reader
GRANT EXECUTE ON FUNCTION amoro_meta.task_events(), amoro_meta.held_tasks(bigint, integer) TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest(ARRAY['reader', 'operator', 'admin']) k, unnest(ARRAY['optimizers', 'processes', 'tasks']) n
	UNION ALL
	SELECT k, 'view', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['amoro_stat_optimizer', 'amoro_stat_task']) n
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['amoro_meta.task_events', 'amoro_meta.held_tasks']) n
	UNION ALL
	SELECT 'optimizer', 'function', n FROM unnest(ARRAY['register_optimizer', 'touch_optimizer', 'unregister_optimizer', 'poll_task',
		'ack_task', 'complete_task']) n
	UNION ALL
	SELECT 'operator', 'function', n FROM unnest(ARRAY['start_process', 'delegate_process', 'finish_process', 'cancel_process',
		'cancel_process_and_wait', 'drain_optimizer', 'expire_optimizers', 'reset_tasks', 'settle_processes', 'purge_history']) n;
