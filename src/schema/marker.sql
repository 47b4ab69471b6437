/* Markers: what procedures stand on, and what stands still with them. */

-- Through the partial indexes of what carries a marker, so this costs what is in transition, not what there is.
CREATE VIEW markers AS
	WITH slot AS MATERIALIZED (SELECT * FROM amoro_meta.owed_slot),
	marked AS
	(
		SELECT 'database' AS object_kind, c.catalog_name, d.database_name, NULL AS object_name, d.state, d.procedure_id
		FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id) WHERE d.procedure_id IS NOT NULL
		UNION ALL
		SELECT t.relation_kind, c.catalog_name, d.database_name, t.table_name, t.state, t.procedure_id
		FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE t.procedure_id IS NOT NULL
		UNION ALL
		SELECT 'device', c.catalog_name, d.database_name, v.device_path, v.state, v.procedure_id
		FROM (SELECT database_id, device_path, state, procedure_id FROM amoro_meta.device WHERE procedure_id IS NOT NULL
			  UNION ALL SELECT database_id, pattern, state, procedure_id FROM amoro_meta.device_pattern) v
			JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		UNION ALL
		SELECT 'template', c.catalog_name, d.database_name, t.template_name, t.state, t.procedure_id
		FROM amoro_meta.template t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE t.procedure_id IS NOT NULL
		UNION ALL
		SELECT 'partition', c.catalog_name, d.database_name, p.slot::text, p.state, p.procedure_id
		FROM amoro_meta.partition p JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE p.procedure_id IS NOT NULL
		UNION ALL
		SELECT 'bucket', NULL, NULL, format('%s/%s', s.service, b.bucket), b.state, b.procedure_id
		FROM amoro_meta.service_bucket b JOIN amoro_meta.bucket_service s USING (service_id) WHERE b.procedure_id IS NOT NULL
		UNION ALL
		SELECT 'node', NULL, NULL, n.node_name, 'leaving', p.procedure_id
		FROM amoro_meta.procedure p JOIN amoro_meta.node n ON n.node_id = p.object_id AND n.removing
		WHERE p.outcome IS NULL AND p.kind = 'remove_node'
	)
	SELECT m.object_kind, m.catalog_name, m.database_name, m.object_name, m.state, m.procedure_id,
		p.kind AS procedure_kind, p.state AS procedure_state, p.submitted_by, s.since, clock_timestamp() - s.since AS age,
		w.waits_for, w.reasons AS wait_reasons, clock_timestamp() + w.soonest AS waits_until, p.error_message
	FROM marked m LEFT JOIN amoro_meta.procedure p ON p.procedure_id = m.procedure_id
		LEFT JOIN LATERAL (SELECT p.submitted_at + make_interval(secs => coalesce((p.times->'submitted'->0)::double precision, 0)) AS since) s ON true
		LEFT JOIN LATERAL
		(SELECT array_agg(o.node_name ORDER BY o.node_name) AS waits_for, array_agg(o.reason ORDER BY o.node_name) AS reasons,
			min(o.lease_owed_for) AS soonest
		 FROM slot o WHERE p.outcome IS NULL AND o.applied_version < p.wait_version) w ON true;
COMMENT ON VIEW markers IS
	'every object in transition: what procedure has marked it, whose that is, since when and for how long; waits_for: the nodes that it waits for, with '
	'the reasons, waits_until: the earliest moment at which one of their leases ends, error_message: what the last attempt of its step failed with. A '
	'marker on a database, or on a pattern of devices, stands for all that is in it. A procedure_id without the other columns of the procedure: its row is gone';
GRANT SELECT ON markers TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'markers' FROM unnest(ARRAY['reader', 'operator', 'admin']) k;
