/* In which order optimizers get the processes of their group. */

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

-- The row stays until the caller commits: see amoro_meta.raise_queue_floor for what that is good for.
CREATE FUNCTION amoro_meta.hold_task_queue(group_name text, priority integer) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	queue_id bigint;
BEGIN
	LOOP
		SELECT q.queue_id INTO queue_id FROM amoro_meta.task_queue q
			WHERE q.group_name = hold_task_queue.group_name AND q.priority = hold_task_queue.priority FOR KEY SHARE;
		IF FOUND THEN
			RETURN queue_id;
		END IF;
		INSERT INTO amoro_meta.task_queue VALUES (amoro_meta.next_id(), group_name, priority)
			ON CONFLICT ON CONSTRAINT task_queue_group_name_priority_key DO NOTHING;
	END LOOP;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_task_queue(text, integer) IS 'finds or makes the queue of a group and priority, and keeps its floor where it is';
REVOKE ALL ON FUNCTION amoro_meta.hold_task_queue(text, integer) FROM PUBLIC;

-- floor(q) threads, or a share of the threads of the group, never less than one
CREATE FUNCTION amoro_meta.quota_limit(quota double precision, group_name text) RETURNS integer
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT least(CASE WHEN quota > 1 THEN floor(quota)
		ELSE ceil(quota * greatest(1, (SELECT sum(o.thread_count) FROM amoro_meta.optimizer o WHERE o.group_name = quota_limit.group_name))) END,
		1000000)::integer
	$$;
COMMENT ON FUNCTION amoro_meta.quota_limit(double precision, text) IS
	'how many tasks of one table may be handed out at a time: the quota if it is above 1, else that share of the threads of the group';
REVOKE ALL ON FUNCTION amoro_meta.quota_limit(double precision, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.scheduling_rank(optimizer_group amoro_meta.optimizer_group, key bytea, quota double precision) RETURNS double precision
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT CASE optimizer_group.properties->>'scheduling-policy'
		WHEN 'balanced' THEN
			coalesce((SELECT extract(epoch FROM max(p.ended_at)) FROM amoro_meta.process p
					  WHERE p.table_key = key AND p.ended_at IS NOT NULL AND p.status = 'SUCCESS'), 0)
		ELSE
			coalesce((SELECT sum(p.busy_ms) FROM amoro_meta.process p
					  WHERE p.table_key = key AND p.ended_at > clock_timestamp() - interval '1 hour'), 0)
				/ (3600000.0 * amoro_meta.quota_limit(quota, optimizer_group.group_name))
		END::double precision
	$$;
COMMENT ON FUNCTION amoro_meta.scheduling_rank(amoro_meta.optimizer_group, bytea, double precision) IS
	'by the scheduling policy of the group: the share of its quota that a table used within the last hour, or when it was last optimized';
REVOKE ALL ON FUNCTION amoro_meta.scheduling_rank(amoro_meta.optimizer_group, bytea, double precision) FROM PUBLIC;
