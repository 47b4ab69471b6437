/* Templates of devices: made, appended to, set on paths, activated on devices, and back. */

CREATE FUNCTION amoro_meta.require_template(template_id bigint, catalog_name text, database_name text, template_name text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF template_id IS NULL THEN
		RAISE EXCEPTION 'template "%"."%"."%" does not exist', catalog_name, database_name, template_name USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_template(bigint, text, text, text) IS 'raises 42704 unless a template was found';
REVOKE ALL ON FUNCTION amoro_meta.require_template(bigint, text, text, text) FROM PUBLIC;

-- What the submissions on a template have in common. Returns null in database_id when an earlier call made the procedure.
-- claims: the template must not change meanwhile, in whatever way; else only that nobody else is changing it now.
CREATE FUNCTION amoro_meta.begin_template_procedure(kind text, catalog_name text, database_name text, template_name text, request jsonb,
													request_id uuid, timeout interval, claims boolean,
													OUT procedure_id bigint, OUT database_id bigint, OUT template_id bigint, OUT definition jsonb)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('template_name', template_name);
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, catalog_name, database_name, template_name, request, request_id, timeout);
	procedure_id := submission.procedure_id;
	IF submission.known THEN
		RETURN;
	END IF;
	IF claims THEN
		PERFORM amoro_meta.claim_name(procedure_id, 'template', catalog_name, database_name, template_name);
	ELSE
		PERFORM amoro_meta.refuse_claimed_name('template', catalog_name, database_name, template_name);
	END IF;
	database_id := amoro_meta.require_parent_database(catalog_name, database_name);
	SELECT t.template_id, t.definition INTO template_id, definition FROM amoro_meta.template t
		WHERE t.database_id = begin_template_procedure.database_id AND t.template_name = begin_template_procedure.template_name;
	IF kind NOT IN ('create_template', 'drop_template') THEN
		PERFORM amoro_meta.require_template(template_id, catalog_name, database_name, template_name);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.begin_template_procedure(text, text, text, text, jsonb, uuid, interval, boolean) IS
	'claims a template for a procedure, or only looks whether another one has, and finds it. Errors: 42704, AM401, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION amoro_meta.begin_template_procedure(text, text, text, text, jsonb, uuid, interval, boolean) FROM PUBLIC;

CREATE FUNCTION create_template(catalog_name text, database_name text, template_name text, definition jsonb, if_not_exists boolean DEFAULT false,
								request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	canonical jsonb;
	submission record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('template_name', template_name);
	PERFORM amoro_meta.check_not_null('definition', definition IS NOT NULL),
		amoro_meta.check_not_null('if_not_exists', if_not_exists IS NOT NULL);
	canonical := amoro_meta.device_definition(definition);
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure('create_template', catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, definition, if_not_exists), request_id, timeout, true);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	IF submission.template_id IS NOT NULL THEN
		IF NOT if_not_exists THEN
			RAISE EXCEPTION 'template "%"."%"."%" already exists', catalog_name, database_name, template_name USING ERRCODE = 'duplicate_object';
		END IF;
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('template "%s"."%s"."%s" already exists, skipping', catalog_name, database_name, template_name));
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(),
		jsonb_build_object('database_id', submission.database_id, 'definition', canonical));
END;
$$;
COMMENT ON FUNCTION create_template(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits the creation of a template of devices and returns the procedure''s id. definition: as for create_device. if_not_exists: a NOTICE and '
	'a procedure that is done already when there is one. request_id: a retry with the same one returns the same procedure. timeout: rolled back '
	'after it. Errors: 42704 no such database, 42710 there is one, AM401 a procedure works on it or its database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_template(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION alter_template(catalog_name text, database_name text, template_name text, changes jsonb, request_id uuid DEFAULT NULL,
							   timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	other text;
BEGIN
	PERFORM amoro_meta.check_not_null('changes', changes IS NOT NULL);
	PERFORM amoro_meta.check_device_changes(changes);
	other := (SELECT min(e->>'op') FROM jsonb_array_elements(changes) e WHERE e->>'op' <> 'add_measurement');
	IF other IS NOT NULL THEN
		RAISE EXCEPTION 'a template can only be appended to' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('One of the changes is %s; only add_measurement is possible.', other);
	END IF;
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure('alter_template', catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, changes), request_id, timeout, true);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.altered_device(submission.definition, NULL, changes);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.template_id,
		jsonb_build_object('database_id', submission.database_id, 'changes', changes));
END;
$$;
COMMENT ON FUNCTION alter_template(text, text, text, jsonb, uuid, interval) IS
	'submits measurements that are appended to a template, and with it to all devices on which it is active, and returns the procedure''s id. '
	'changes: a list of which each has "op": "add_measurement", as for alter_device; all or none. request_id: a retry with the same one returns '
	'the same procedure. timeout: rolled back after it. Errors: 42704 no such template, 22023 a change that is not possible, or a device on which '
	'it is active has a measurement of that name, AM401 a procedure works on it or on one of its devices, AM005, 22004, 25006';
REVOKE ALL ON FUNCTION alter_template(text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_template(catalog_name text, database_name text, template_name text, if_exists boolean DEFAULT false,
							  request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
BEGIN
	PERFORM amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure('drop_template', catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, if_exists), request_id, timeout, true);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	IF submission.template_id IS NULL AND if_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('template "%s"."%s"."%s" does not exist, skipping', catalog_name, database_name, template_name));
	END IF;
	PERFORM amoro_meta.require_template(submission.template_id, catalog_name, database_name, template_name);
	IF EXISTS (SELECT FROM amoro_meta.template_path s WHERE s.template_id = submission.template_id) THEN
		RAISE EXCEPTION 'template "%"."%"."%" is set on a path', catalog_name, database_name, template_name
			USING ERRCODE = 'dependent_objects_still_exist',
			DETAIL = (SELECT format('It is set on %s paths, one is "%s".', count(*), min(s.device_path)) FROM amoro_meta.template_path s
					  WHERE s.template_id = submission.template_id),
			HINT = (SELECT format('SELECT unset_template(%L, %L, %L, %L)', catalog_name, database_name, template_name, min(s.device_path))
					FROM amoro_meta.template_path s WHERE s.template_id = submission.template_id);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.template_id,
		jsonb_build_object('database_id', submission.database_id));
END;
$$;
COMMENT ON FUNCTION drop_template(text, text, text, boolean, uuid, interval) IS
	'submits the drop of a template that is set on no path and returns the procedure''s id. if_exists: a NOTICE and a procedure that is done '
	'already when there is none. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such template, 2BP01 it is set on a path, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_template(text, text, text, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_template_path(kind text, catalog_name text, database_name text, template_name text, device_path text,
												request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	path text := amoro_meta.device_path('device_path', device_path, false);
	submission record;
BEGIN
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure(kind, catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, device_path), request_id, timeout, true);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	IF kind = 'unset_template' AND NOT EXISTS
			(SELECT FROM amoro_meta.template_path s WHERE s.template_id = submission.template_id AND s.device_path = path) THEN
		RAISE EXCEPTION 'template "%"."%"."%" is not set on "%"', catalog_name, database_name, template_name, path USING ERRCODE = 'undefined_object';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.template_id,
		jsonb_build_object('database_id', submission.database_id, 'path', path));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_template_path(text, text, text, text, text, uuid, interval) IS 'what set_template and unset_template have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_template_path(text, text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION set_template(catalog_name text, database_name text, template_name text, device_path text, request_id uuid DEFAULT NULL,
							 timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_template_path('set_template', catalog_name, database_name, template_name, device_path, request_id, timeout)$$;
COMMENT ON FUNCTION set_template(text, text, text, text, uuid, interval) IS
	'submits that a template may be activated on devices at and below a path, and returns the procedure''s id; it is rolled back with 42710 when '
	'a template is set on the path, above or below it. request_id: a retry with the same one returns the same procedure. timeout: rolled back '
	'after it. Errors: 42704 no such template, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION set_template(text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION unset_template(catalog_name text, database_name text, template_name text, device_path text, request_id uuid DEFAULT NULL,
							   timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$SELECT amoro_meta.submit_template_path('unset_template', catalog_name, database_name, template_name, device_path, request_id, timeout)$$;
COMMENT ON FUNCTION unset_template(text, text, text, text, uuid, interval) IS
	'submits the opposite of set_template and returns the procedure''s id; it is rolled back with 2BP01 when the template is active on a device '
	'at or below the path. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such template, or not set there, AM401 a procedure works on it, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION unset_template(text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION activate_template(catalog_name text, database_name text, template_name text, device_paths text[], request_id uuid DEFAULT NULL,
								  timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	paths text[];
	submission record;
	other text;
BEGIN
	IF device_paths IS NULL OR cardinality(device_paths) NOT BETWEEN 1 AND 1000 THEN
		RAISE EXCEPTION 'device_paths must have 1 to 1000 paths' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	paths := ARRAY(SELECT amoro_meta.device_path('device_paths', p, false) FROM unnest(device_paths) p);
	PERFORM amoro_meta.refuse_repeated_path(paths);
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure('activate_template', catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, device_paths), request_id, timeout, false);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_devices(submission.procedure_id, catalog_name, database_name, paths);
	other := (SELECT v.device_path FROM amoro_meta.device v
			  WHERE v.database_id = submission.database_id AND v.device_path = ANY (paths) AND v.template_id IS NOT NULL LIMIT 1);
	IF other IS NOT NULL THEN
		RAISE EXCEPTION 'a template is active on device "%"."%"."%"', catalog_name, database_name, other USING ERRCODE = 'duplicate_object';
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.template_id, jsonb_build_object(
		'database_id', submission.database_id,
		'devices', (SELECT jsonb_agg(jsonb_build_object('path', p, 'id', amoro_meta.next_id())) FROM unnest(paths) p)));
END;
$$;
COMMENT ON FUNCTION activate_template(text, text, text, text[], uuid, interval) IS
	'submits that 1 to 1000 devices have the measurements of a template as well, all or none, and returns the procedure''s id; devices that are '
	'not there are created. The template must be set on each path or above it. request_id: a retry with the same one returns the same procedure. '
	'timeout: rolled back after it. Errors: 42704 no such template, or not set there, 42710 a template is active on one, 22023 a device has a '
	'measurement of such a name or is aligned otherwise, AM401 a procedure works on the template or on a device, AM005, 22004, 25006';
REVOKE ALL ON FUNCTION activate_template(text, text, text, text[], uuid, interval) FROM PUBLIC;

CREATE FUNCTION deactivate_template(catalog_name text, database_name text, template_name text, device_path text, if_exists boolean DEFAULT false,
									request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	pattern text := amoro_meta.device_path('device_path', device_path, true);
	submission record;
	target bigint;
BEGIN
	PERFORM amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_template_procedure('deactivate_template', catalog_name, database_name, template_name,
		jsonb_build_array(catalog_name, database_name, template_name, device_path, if_exists), request_id, timeout, false);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_devices(submission.procedure_id, catalog_name, database_name, ARRAY[pattern]);
	target := (SELECT v.device_id FROM amoro_meta.device v
			   WHERE v.template_id = submission.template_id AND amoro_meta.device_paths_overlap(pattern, v.device_path) LIMIT 1);
	IF target IS NULL THEN
		IF NOT if_exists THEN
			RAISE EXCEPTION 'template "%"."%"."%" is active on no device that matches "%"', catalog_name, database_name, template_name, pattern
				USING ERRCODE = 'undefined_object';
		END IF;
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id, format('template "%s"."%s"."%s" is active on no device that matches "%s", skipping',
			catalog_name, database_name, template_name, pattern));
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, CASE WHEN pattern LIKE '%*%' THEN amoro_meta.next_id() ELSE target END,
		jsonb_build_object('database_id', submission.database_id, 'pattern', pattern, 'template_id', submission.template_id));
END;
$$;
COMMENT ON FUNCTION deactivate_template(text, text, text, text, boolean, uuid, interval) IS
	'submits that a device, or all that match a pattern (* stands for one name, ** for one or more), no longer have the measurements of a '
	'template, and returns the procedure''s id; a device that has none of its own is gone. if_exists: a NOTICE and a procedure that is done '
	'already when it is active on none. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such template, or active on none, AM401 a procedure works on the template or on a device, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION deactivate_template(text, text, text, text, boolean, uuid, interval) FROM PUBLIC;

-- Counts are those of the rows, whenever somebody looks: nothing can be missed that was changed meanwhile.
CREATE VIEW templates AS
	SELECT c.catalog_name, d.database_name, t.template_name, t.template_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE t.state END AS state,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.procedure_id ELSE t.procedure_id END AS procedure_id,
		jsonb_array_length(t.definition->'measurements') AS measurement_count,
		ARRAY(SELECT s.device_path FROM amoro_meta.template_path s WHERE s.template_id = t.template_id ORDER BY s.device_path) AS set_paths,
		(SELECT count(*) FROM amoro_meta.device v WHERE v.template_id = t.template_id) AS device_count, t.definition, t.version
	FROM amoro_meta.template t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id);
COMMENT ON VIEW templates IS
	'templates of devices; set_paths: where they may be activated; device_count: on how many devices they are active. '
	'A state other than normal is the marker of the procedure that works on one';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'templates' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['create_template', 'alter_template', 'drop_template', 'set_template',
		'unset_template', 'activate_template', 'deactivate_template']) n;
