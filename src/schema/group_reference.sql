/* Who uses an optimizer group, and when it may go. */

CREATE INDEX catalog_default_group ON amoro_meta.catalog ((coalesce(properties->>'table.self-optimizing.group', 'default')));

-- An optimizer that was not heard of for too long is about to be removed.
CREATE FUNCTION amoro_meta.is_expired(optimizer amoro_meta.optimizer) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT optimizer.expired_at IS NOT NULL OR (s.timeout > interval '0' AND optimizer.touched_at <= clock_timestamp() - s.timeout)
	FROM (SELECT amoro_meta.duration_setting('optimizer_heartbeat_timeout') AS timeout) s
	$$;
COMMENT ON FUNCTION amoro_meta.is_expired(amoro_meta.optimizer) IS 'whether an optimizer was not touched within amoro_meta.optimizer_heartbeat_timeout';
REVOKE ALL ON FUNCTION amoro_meta.is_expired(amoro_meta.optimizer) FROM PUBLIC;

-- Four short walks along an index each, however many there are.
CREATE FUNCTION amoro_meta.group_references(group_name text, max_referrers integer, with_expired boolean) RETURNS TABLE (reason text, referrer text)
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET enable_hashjoin = off
	SET enable_mergejoin = off
	SET jit = off
	AS $$
	(SELECT 'catalog', amoro_meta.quoted_name(c.catalog_name) FROM amoro_meta.catalog c
	 WHERE coalesce(c.properties->>'table.self-optimizing.group', 'default') = group_references.group_name LIMIT max_referrers)
	UNION ALL
	(SELECT 'optimizer', o.optimizer_id::text FROM amoro_meta.optimizer o
	 WHERE o.group_name = group_references.group_name AND (with_expired OR NOT amoro_meta.is_expired(o)) LIMIT max_referrers)
	UNION ALL
	(SELECT 'table', amoro_meta.quoted_name(r.catalog_name, r.database_name, r.table_name) FROM amoro_meta.table_runtime r
	 WHERE r.group_name = group_references.group_name LIMIT max_referrers)
	UNION ALL
	(SELECT 'process', p.process_id::text FROM amoro_meta.process p
	 WHERE p.group_name = group_references.group_name AND p.ended_at IS NULL LIMIT max_referrers)
	$$;
COMMENT ON FUNCTION amoro_meta.group_references(text, integer, boolean) IS 'who uses a group, of each kind so many at most';
REVOKE ALL ON FUNCTION amoro_meta.group_references(text, integer, boolean) FROM PUBLIC;

CREATE FUNCTION optimizer_group_references(group_name text, max_referrers integer DEFAULT 100)
	RETURNS TABLE (reason text, referrer text)
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_group_name('group_name', group_name);
	IF max_referrers IS NULL OR max_referrers < 0 THEN
		RAISE EXCEPTION 'max_referrers is out of range' USING ERRCODE = 'invalid_parameter_value', HINT = 'It is 0 or more.';
	END IF;
	IF NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = optimizer_group_references.group_name) THEN
		RAISE EXCEPTION 'optimizer group "%" does not exist', group_name USING ERRCODE = 'undefined_object';
	END IF;
	RETURN QUERY SELECT r.reason, r.referrer FROM amoro_meta.group_references(group_name, max_referrers, false) r;
END;
$$;
COMMENT ON FUNCTION optimizer_group_references(text, integer) IS
	'why a group cannot be dropped: catalog (it is the default group of that catalog, which is default where the catalog names none), '
	'optimizer (that one is registered and alive), table (it is optimized by the group), process (it runs in the group); of each reason '
	'max_referrers at most. Errors: 42704 no such group, 22004, 22023';
REVOKE ALL ON FUNCTION optimizer_group_references(text, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.described_references(group_name text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
	WITH numbered AS
	(
		SELECT r.reason, r.referrer, row_number() OVER (PARTITION BY r.reason) AS number
		FROM amoro_meta.group_references(group_name, 1001, true) r
	),
	summed AS
	(
		SELECT n.reason, string_agg(left(n.referrer, 200), ', ' ORDER BY n.number) FILTER (WHERE n.number <= 3) AS first,
			count(*) AS total
		FROM numbered n GROUP BY n.reason
	)
	SELECT string_agg(CASE s.reason WHEN 'catalog' THEN 'It is the default group of catalog ' WHEN 'optimizer' THEN 'It has optimizer '
				WHEN 'table' THEN 'It optimizes table ' WHEN 'process' THEN 'It runs process ' END || s.first ||
			CASE WHEN s.total > 1000 THEN ' and more than 997 more' WHEN s.total > 3 THEN format(' and %s more', s.total - 3) ELSE '' END || '.',
			' ' ORDER BY s.reason)
	FROM summed s
	$$;
COMMENT ON FUNCTION amoro_meta.described_references(text) IS 'all reasons why a group cannot be dropped, as sentences; null when there is none';
REVOKE ALL ON FUNCTION amoro_meta.described_references(text) FROM PUBLIC;

-- As expire_optimizers(), for one group. One that is touched or polls meanwhile stays, and is a reason then.
CREATE FUNCTION amoro_meta.remove_expired_optimizers(group_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer;
BEGIN
	FOR optimizer IN
		SELECT o.* FROM amoro_meta.optimizer o
		WHERE o.group_name = remove_expired_optimizers.group_name AND amoro_meta.is_expired(o)
		LIMIT amoro_meta.sweep_batch() FOR UPDATE SKIP LOCKED
	LOOP
		CONTINUE WHEN NOT pg_try_advisory_xact_lock(1095565313, uuid_hash(optimizer.token));
		PERFORM amoro_meta.remove_optimizer(optimizer);
	END LOOP;
END;
$$;
COMMENT ON FUNCTION amoro_meta.remove_expired_optimizers(text) IS 'removes the optimizers of a group that were not touched in time, a batch at most';
REVOKE ALL ON FUNCTION amoro_meta.remove_expired_optimizers(text) FROM PUBLIC;

CREATE FUNCTION drop_optimizer_group(group_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	reasons text;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('group_name', group_name), amoro_meta.require_read_committed('drop an optimizer group');
	-- against everybody who writes a reference, whose transaction holds the row FOR KEY SHARE: what they wrote is seen below
	PERFORM FROM amoro_meta.optimizer_group g WHERE g.group_name = drop_optimizer_group.group_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer group "%" does not exist', group_name USING ERRCODE = 'undefined_object';
	END IF;
	PERFORM amoro_meta.remove_expired_optimizers(group_name);
	reasons := amoro_meta.described_references(group_name);
	IF reasons IS NOT NULL THEN
		RAISE EXCEPTION 'optimizer group "%" is in use', group_name USING ERRCODE = 'AM201', DETAIL = reasons,
			HINT = format('SELECT * FROM optimizer_group_references(%L);', group_name);
	END IF;
	DELETE FROM amoro_meta.optimizer_group g WHERE g.group_name = drop_optimizer_group.group_name;
END;
$$;
COMMENT ON FUNCTION drop_optimizer_group(text) IS
	'drops an optimizer group that nobody uses. Errors: AM201 it is in use, with all reasons in the detail, 42704 no such group, '
	'25000 not READ COMMITTED, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_optimizer_group(text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'function', 'optimizer_group_references' FROM unnest(ARRAY['operator', 'admin']) k
	UNION ALL
	SELECT 'admin', 'function', 'drop_optimizer_group';
