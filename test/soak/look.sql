-- What must never be seen while the soak runs, nor after it: each row is a violation.
SELECT 'a thread has two tasks', optimizer_id::text, thread_id::text FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id)
	WHERE t.state IN ('SCHEDULED', 'ACKED') AND p.ended_at IS NULL GROUP BY optimizer_id, thread_id HAVING count(*) > 1
UNION ALL
SELECT 'more tasks are handed out than the quota allows', process_id::text, count(*)::text
	FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id)
	WHERE t.state IN ('SCHEDULED', 'ACKED') AND p.ended_at IS NULL GROUP BY process_id HAVING count(*) > 2
UNION ALL
SELECT 'a task is handed out and in no seat', t.process_id::text, t.task_id::text FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id)
	WHERE t.state IN ('SCHEDULED', 'ACKED') AND p.ended_at IS NULL
		AND NOT EXISTS (SELECT FROM amoro_meta.task_claim c WHERE c.process_id = t.process_id AND c.task_id = t.task_id AND c.attempt = t.attempt
			AND NOT EXISTS (SELECT FROM amoro_meta.task_claim n WHERE n.process_id = c.process_id AND n.seat = c.seat AND n.seat_number > c.seat_number))
UNION ALL
SELECT 'an attempt is handed out twice', process_id::text, task_id::text FROM soak.given WHERE times > 1
UNION ALL
SELECT 'attempts do not add up', t.process_id::text, t.task_id::text FROM amoro_meta.task t WHERE t.attempt < t.failures + t.resets
UNION ALL
SELECT 'a success is accepted twice', process_id::text, task_id::text FROM soak.done WHERE times > 1
UNION ALL
SELECT 'a success is lost', t.process_id::text, t.task_id::text FROM soak.done d JOIN amoro_meta.task t USING (process_id, task_id) WHERE t.state <> 'SUCCESS'
UNION ALL
SELECT 'a process has lost a task', p.process_id::text, p.task_count::text FROM amoro_meta.process p
	WHERE p.ended_at IS NULL AND p.task_count <> (SELECT count(*) FROM amoro_meta.task t WHERE t.process_id = p.process_id)
UNION ALL
SELECT 'a process commits with tasks unfinished', t.process_id::text, t.task_id::text FROM amoro_meta.process p JOIN amoro_meta.task t USING (process_id)
	WHERE p.committing_at IS NOT NULL AND t.state <> 'SUCCESS' AND p.status IN ('RUNNING', 'SUCCESS')
UNION ALL
SELECT 'a planned task is before the floor', t.process_id::text, t.task_id::text FROM amoro_meta.task t JOIN amoro_meta.process p USING (process_id)
	WHERE t.state = 'PLANNED' AND p.ended_at IS NULL
		AND t.position < (SELECT max(f.position) FROM amoro_meta.task_floor f WHERE f.process_id = t.process_id)
UNION ALL
SELECT 'a process with planned tasks does not wait', p.process_id::text, '' FROM amoro_meta.process p
	WHERE p.ended_at IS NULL AND NOT p.waiting AND EXISTS (SELECT FROM amoro_meta.task t WHERE t.process_id = p.process_id AND t.state = 'PLANNED')
UNION ALL
SELECT 'a process that waits is before the floor of its queue', p.process_id::text, p.turn::text FROM amoro_meta.process p
	WHERE p.waiting AND p.turn < (SELECT max(f.turn) FROM amoro_meta.queue_floor f WHERE f.queue_id = p.queue_id)
UNION ALL
SELECT 'a table has two processes', min(p.process_id)::text, max(p.process_id)::text FROM amoro_meta.process p WHERE p.ended_at IS NULL
	GROUP BY p.catalog_name, p.database_name, p.table_name HAVING count(*) > 1
UNION ALL
SELECT 'something refers to a group that is not there', r.referrer, r.group_name FROM (
		SELECT 'optimizer ' || o.optimizer_id, o.group_name FROM amoro_meta.optimizer o WHERE o.expired_at IS NULL
		UNION ALL SELECT 'process ' || p.process_id, p.group_name FROM amoro_meta.process p WHERE p.ended_at IS NULL
		UNION ALL SELECT 'table ' || t.table_name, t.group_name FROM amoro_meta.table_runtime t WHERE t.group_name IS NOT NULL
		UNION ALL SELECT 'catalog ' || c.catalog_name, c.properties->>'table.self-optimizing.group' FROM amoro_meta.catalog c
			WHERE c.properties ? 'table.self-optimizing.group') r (referrer, group_name)
	WHERE NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = r.group_name)
UNION ALL
SELECT 'a process is in another group than its table', p.process_id::text, p.group_name FROM amoro_meta.process p JOIN amoro_meta.table_runtime t USING (table_id)
	WHERE p.ended_at IS NULL AND t.group_name IS NOT NULL AND t.group_name <> p.group_name
UNION ALL
SELECT 'something is left of a catalog that is gone', d.database_name, d.catalog_id::text FROM amoro_meta.database d
	WHERE NOT EXISTS (SELECT FROM amoro_meta.catalog c WHERE c.catalog_id = d.catalog_id)
UNION ALL
SELECT 'two blockers hold one operation', b.table_name, o.operation FROM blockers b, unnest(b.operations) o (operation)
	GROUP BY b.catalog_name, b.database_name, b.table_name, o.operation HAVING count(*) > 1
UNION ALL
SELECT w.what, w.a, w.b FROM soak.wrong w;
