/* Devices of the tree model: paths with measurements, in a database. */

CREATE TABLE amoro_meta.device
(
	device_id		bigint PRIMARY KEY,
	database_id		bigint NOT NULL,
	device_path		text NOT NULL,
	state			text NOT NULL CHECK (state IN ('normal', 'pre_create', 'pre_alter', 'pre_drop')),
	procedure_id	bigint,
	definition		jsonb NOT NULL,			-- its own measurements
	template_id		bigint,					-- whose measurements it has as well
	version			bigint NOT NULL,
	CHECK ((state = 'normal') = (procedure_id IS NULL))
);
COMMENT ON TABLE amoro_meta.device IS 'devices; a state other than normal is the marker of the procedure that works on it';
-- Byte by byte, so that all paths of a pattern that begins with names are a range, whatever the collation of the database.
CREATE UNIQUE INDEX device_path ON amoro_meta.device (database_id, device_path text_pattern_ops);
CREATE INDEX device_template_id ON amoro_meta.device (template_id) WHERE template_id IS NOT NULL;
CREATE INDEX device_procedure_id ON amoro_meta.device (procedure_id) WHERE procedure_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.device', '');

CREATE TABLE amoro_meta.device_pattern
(
	procedure_id	bigint PRIMARY KEY,
	database_id		bigint NOT NULL,
	pattern			text NOT NULL,
	state			text NOT NULL CHECK (state IN ('pre_alter', 'pre_drop'))
);
COMMENT ON TABLE amoro_meta.device_pattern IS
	'markers of procedures that work on all devices of a pattern, however many: one row each, which readers of every such device see';
CREATE INDEX device_pattern_database_id ON amoro_meta.device_pattern (database_id);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.device_pattern', '');

CREATE FUNCTION amoro_meta.device_path(argument text, path text, wildcards boolean) RETURNS text
	LANGUAGE c IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_path';
COMMENT ON FUNCTION amoro_meta.device_path(text, text, boolean) IS
	'the canonical form of a path: root.site1.turbine7, names in backticks only where they need them; wildcards: * and ** are allowed. '
	'Errors: 22004, 22023';
REVOKE ALL ON FUNCTION amoro_meta.device_path(text, text, boolean) FROM PUBLIC;

CREATE FUNCTION amoro_meta.device_paths_overlap(left_path text, right_path text) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 10
	AS 'MODULE_PATHNAME', 'amoro_meta_device_paths_overlap';
COMMENT ON FUNCTION amoro_meta.device_paths_overlap(text, text) IS
	'whether some path matches both canonical paths, each of which may have wildcards: * stands for one name, ** for one or more';
REVOKE ALL ON FUNCTION amoro_meta.device_paths_overlap(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.device_definition(definition jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_definition';
COMMENT ON FUNCTION amoro_meta.device_definition(jsonb) IS
	'validates the schema of a device and returns its canonical form. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.device_definition(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.device_list(devices jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_list';
COMMENT ON FUNCTION amoro_meta.device_list(jsonb) IS
	'a list of devices, each a schema with its path, as a list of path and definition, both canonical. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.device_list(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_repeated_path(paths text[]) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	twice text := (SELECT p.path FROM unnest(paths) p (path) GROUP BY p.path HAVING count(*) > 1 LIMIT 1);
BEGIN
	IF twice IS NOT NULL THEN
		RAISE EXCEPTION 'device "%" is in the list twice', twice USING ERRCODE = 'invalid_parameter_value';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_repeated_path(text[]) IS 'raises 22023 when a canonical path is among these more than once';
REVOKE ALL ON FUNCTION amoro_meta.refuse_repeated_path(text[]) FROM PUBLIC;

-- Who works on a pattern is in the way of all that match it, and the other way round. Two that do not see each other yet
-- both get their claims; the steps look at the markers, and the later one is rolled back.
CREATE FUNCTION amoro_meta.claim_devices(procedure_id bigint, catalog_name text, database_name text, paths text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	other record;
BEGIN
	-- always in the same order: two that want the same names do not wait for each other
	PERFORM amoro_meta.claim_name(procedure_id, CASE WHEN p.path LIKE '%*%' THEN 'device pattern' ELSE 'device' END, catalog_name,
		database_name, p.path) FROM (SELECT u.path FROM unnest(paths) u (path) ORDER BY u.path COLLATE "C") p;
	-- a path is held against the patterns only, of which there are few: there may be as many claims of paths as there are devices
	SELECT q.procedure_id, p.path INTO other FROM amoro_meta.procedure_claim q JOIN unnest(paths) p (path)
		ON amoro_meta.device_paths_overlap(q.object_name, p.path)
		WHERE q.object_kind = 'device pattern' AND q.catalog_name = claim_devices.catalog_name AND q.database_name = claim_devices.database_name
			AND q.procedure_id <> claim_devices.procedure_id
		LIMIT 1;
	IF NOT FOUND AND array_to_string(paths, ' ') LIKE '%*%' THEN
		SELECT q.procedure_id, p.path INTO other FROM unnest(paths) p (path) JOIN amoro_meta.procedure_claim q
			ON amoro_meta.device_paths_overlap(q.object_name, p.path)
			WHERE p.path LIKE '%*%' AND q.object_kind = 'device' AND q.catalog_name = claim_devices.catalog_name
				AND q.database_name = claim_devices.database_name AND q.procedure_id <> claim_devices.procedure_id
			LIMIT 1;
	END IF;
	IF other.procedure_id IS NOT NULL THEN
		PERFORM amoro_meta.raise_in_transition('device', amoro_meta.quoted_name(catalog_name, database_name, other.path), other.procedure_id);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_devices(bigint, text, text, text[]) IS
	'claims paths or patterns for a procedure until it ends; raises AM401 when another procedure works on what matches one';
REVOKE ALL ON FUNCTION amoro_meta.claim_devices(bigint, text, text, text[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.submit_devices(catalog_name text, database_name text, object_name text, devices jsonb, request jsonb,
										  if_not_exists boolean, request_id uuid, timeout interval) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	paths text[] := ARRAY(SELECT e->>'path' FROM jsonb_array_elements(devices) e);
	known text[];
BEGIN
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_devices', catalog_name, database_name, object_name,
		request, request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.refuse_repeated_path(paths);
	PERFORM amoro_meta.claim_devices(submission.procedure_id, catalog_name, database_name, paths);
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	known := ARRAY(SELECT v.device_path FROM amoro_meta.device v WHERE v.database_id = parent AND v.device_path = ANY (paths));
	IF known <> '{}' THEN
		IF NOT if_not_exists THEN
			RAISE EXCEPTION 'device "%"."%"."%" already exists', catalog_name, database_name, known[1] USING ERRCODE = 'duplicate_object';
		END IF;
		IF cardinality(known) = cardinality(paths) THEN
			RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id, format(CASE cardinality(known)
				WHEN 1 THEN 'device "%s"."%s"."%s" already exists, skipping' ELSE 'all devices of the list already exist in "%s"."%s", skipping' END,
				catalog_name, database_name, known[1]));
		END IF;
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(), jsonb_build_object('database_id', parent,
		'devices', (SELECT jsonb_agg(e || jsonb_build_object('id', amoro_meta.next_id())) FROM jsonb_array_elements(devices) e
					WHERE e->>'path' <> ALL (known))));
END;
$$;
COMMENT ON FUNCTION amoro_meta.submit_devices(text, text, text, jsonb, jsonb, boolean, uuid, interval) IS
	'what create_device and create_devices have in common';
REVOKE ALL ON FUNCTION amoro_meta.submit_devices(text, text, text, jsonb, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION create_device(catalog_name text, database_name text, device_path text, definition jsonb, if_not_exists boolean DEFAULT false,
							  request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	path text := amoro_meta.device_path('device_path', device_path, false);
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('definition', definition IS NOT NULL),
		amoro_meta.check_not_null('if_not_exists', if_not_exists IS NOT NULL);
	RETURN amoro_meta.submit_devices(catalog_name, database_name, path,
		jsonb_build_array(jsonb_build_object('path', path, 'definition', amoro_meta.device_definition(definition))),
		jsonb_build_array(catalog_name, database_name, device_path, definition, if_not_exists), if_not_exists, request_id, timeout);
END;
$$;
COMMENT ON FUNCTION create_device(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits the creation of a device and returns the procedure''s id. device_path: root.site1.turbine7; names of other characters than '
	'letters, digits and underscores in backticks. definition: measurements, each with name and type, and encoding, compression, alias, tags '
	'and attributes; aligned. if_not_exists: a NOTICE and a procedure that is done already when there is one. request_id: a retry with the '
	'same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, 42710 there is one, AM401 a procedure works on it, a pattern of it or its database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_device(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION create_devices(catalog_name text, database_name text, devices jsonb, if_not_exists boolean DEFAULT false,
							   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('devices', devices IS NOT NULL),
		amoro_meta.check_not_null('if_not_exists', if_not_exists IS NOT NULL);
	RETURN amoro_meta.submit_devices(catalog_name, database_name, NULL, amoro_meta.device_list(devices),
		jsonb_build_array(catalog_name, database_name, devices, if_not_exists), if_not_exists, request_id, timeout);
END;
$$;
COMMENT ON FUNCTION create_devices(text, text, jsonb, boolean, uuid, interval) IS
	'submits the creation of 1 to 1000 devices, all or none, by one procedure and returns its id. devices: a list of schemas as for '
	'create_device, each with its path. if_not_exists: those that are there are left out. request_id: a retry with the same one returns the '
	'same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database, 42710 there is one, AM401 a procedure works on one, a pattern or the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_devices(text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.altered_device(definition jsonb, template jsonb, changes jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_altered_device';
COMMENT ON FUNCTION amoro_meta.altered_device(jsonb, jsonb, jsonb) IS
	'the schema of a device after the changes of alter_device; no name may clash with those of the template, which may be null. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.altered_device(jsonb, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_device_changes(changes jsonb) RETURNS void
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_check_device_changes';
COMMENT ON FUNCTION amoro_meta.check_device_changes(jsonb) IS 'raises 22023 with the path unless these are changes that alter_device knows';
REVOKE ALL ON FUNCTION amoro_meta.check_device_changes(jsonb) FROM PUBLIC;

-- What the submissions on one path or a pattern have in common. Returns nulls in database_id when an earlier call made the
-- procedure, and in object_id when nothing matches.
CREATE FUNCTION amoro_meta.begin_device_procedure(kind text, catalog_name text, database_name text, pattern text, request jsonb,
												  request_id uuid, timeout interval,
												  OUT procedure_id bigint, OUT database_id bigint, OUT object_id bigint)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	upper_end text := regexp_replace(pattern, '[.][*].*$', '/');
BEGIN
	SELECT * INTO submission FROM amoro_meta.begin_procedure(kind, catalog_name, database_name, pattern, request, request_id, timeout);
	procedure_id := submission.procedure_id;
	IF submission.known THEN
		RETURN;
	END IF;
	PERFORM amoro_meta.claim_devices(procedure_id, catalog_name, database_name, ARRAY[pattern]);
	database_id := amoro_meta.require_parent_database(catalog_name, database_name);
	IF pattern LIKE '%*%' THEN
		object_id := (SELECT amoro_meta.next_id() FROM amoro_meta.device v WHERE v.database_id = begin_device_procedure.database_id
			AND v.device_path ~>=~ (left(upper_end, -1) || '.') AND v.device_path ~<~ upper_end
			AND amoro_meta.device_paths_overlap(pattern, v.device_path) LIMIT 1);
	ELSE
		object_id := (SELECT v.device_id FROM amoro_meta.device v
			WHERE v.database_id = begin_device_procedure.database_id AND v.device_path = pattern);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.begin_device_procedure(text, text, text, text, jsonb, uuid, interval) IS
	'claims a path or a pattern for a procedure and looks for a device that matches it. Errors: 42704 no such database, AM401, AM005, 22023, 25006';
REVOKE ALL ON FUNCTION amoro_meta.begin_device_procedure(text, text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.require_device(object_id bigint, catalog_name text, database_name text, pattern text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF object_id IS NULL THEN
		RAISE EXCEPTION '%', format(CASE WHEN pattern LIKE '%*%' THEN 'no device in "%s"."%s" matches "%s"' ELSE 'device "%s"."%s"."%s" does not exist' END,
			catalog_name, database_name, pattern) USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.require_device(bigint, text, text, text) IS 'raises 42704 unless a device was found';
REVOKE ALL ON FUNCTION amoro_meta.require_device(bigint, text, text, text) FROM PUBLIC;

CREATE FUNCTION alter_device(catalog_name text, database_name text, device_path text, changes jsonb, request_id uuid DEFAULT NULL,
							 timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	pattern text := amoro_meta.device_path('device_path', device_path, true);
	submission record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('changes', changes IS NOT NULL);
	PERFORM amoro_meta.check_device_changes(changes);
	SELECT * INTO submission FROM amoro_meta.begin_device_procedure('alter_device', catalog_name, database_name, pattern,
		jsonb_build_array(catalog_name, database_name, device_path, changes), request_id, timeout);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.require_device(submission.object_id, catalog_name, database_name, pattern);
	IF pattern NOT LIKE '%*%' THEN
		PERFORM amoro_meta.altered_device(v.definition, t.definition, changes)
			FROM amoro_meta.device v LEFT JOIN amoro_meta.template t USING (template_id) WHERE v.device_id = submission.object_id;
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.object_id,
		jsonb_build_object('database_id', submission.database_id, 'pattern', pattern, 'changes', changes));
END;
$$;
COMMENT ON FUNCTION alter_device(text, text, text, jsonb, uuid, interval) IS
	'submits a list of changes of the schema of a device, or of all devices that match a pattern (* stands for one name, ** for one or more), made '
	'all on all of them or none, and returns the procedure''s id. Each has "op": add_measurement, drop_measurement, rename_measurement, '
	'retype_measurement, set_encoding, set_alias, remove_alias, set_tags, remove_tags, set_attributes or remove_attributes. A device that has no '
	'measurement left is gone. request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such device, 22023 a change that is not possible, AM401 a procedure works on one that matches, AM005, 22004, 25006';
REVOKE ALL ON FUNCTION alter_device(text, text, text, jsonb, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_devices(catalog_name text, database_name text, device_path text, if_exists boolean DEFAULT false,
							 request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	pattern text := amoro_meta.device_path('device_path', device_path, true);
	submission record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_device_procedure('drop_devices', catalog_name, database_name, pattern,
		jsonb_build_array(catalog_name, database_name, device_path, if_exists), request_id, timeout);
	IF submission.database_id IS NULL THEN
		RETURN submission.procedure_id;
	END IF;
	IF submission.object_id IS NULL AND if_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('no device in "%s"."%s" matches "%s", skipping', catalog_name, database_name, pattern));
	END IF;
	PERFORM amoro_meta.require_device(submission.object_id, catalog_name, database_name, pattern);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, submission.object_id,
		jsonb_build_object('database_id', submission.database_id, 'pattern', pattern));
END;
$$;
COMMENT ON FUNCTION drop_devices(text, text, text, boolean, uuid, interval) IS
	'submits the drop of a device, or of all devices that match a pattern (* stands for one name, ** for one or more), by one procedure whatever '
	'their number, and returns its id. if_exists: a NOTICE and a procedure that is done already when nothing matches. request_id: a retry with '
	'the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such device, AM401 a procedure works on one that matches or on the database, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_devices(text, text, text, boolean, uuid, interval) FROM PUBLIC;

-- A device has its own measurements and those of the template that is active on it.
CREATE FUNCTION amoro_meta.device_document(catalog_name text, database_name text, device_path text, device_id bigint, version bigint,
										   definition jsonb, ttl_ms bigint, template_name text, template jsonb) RETURNS text
	LANGUAGE c STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_device_document';
COMMENT ON FUNCTION amoro_meta.device_document(text, text, text, bigint, bigint, jsonb, bigint, text, jsonb) IS 'what a node serves of a device';
REVOKE ALL ON FUNCTION amoro_meta.device_document(text, text, text, bigint, bigint, jsonb, bigint, text, jsonb) FROM PUBLIC;

-- The marker of a device is that of a database that comes or goes, its own, that of a pattern, or that of its template.
CREATE VIEW amoro_meta.device_state AS
	SELECT c.catalog_name, d.database_name, v.device_path, v.device_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state
			ELSE coalesce(nullif(v.state, 'normal'), p.state, t.state, 'normal') END AS state,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.procedure_id
			ELSE coalesce(v.procedure_id, p.procedure_id, t.procedure_id) END AS procedure_id,
		v.definition, t.template_name, t.definition AS template, greatest(v.version, t.version) AS version,
		coalesce(amoro_meta.device_ttl_ms(v.database_id, v.device_path), d.ttl_ms) AS ttl_ms
	FROM amoro_meta.catalog c JOIN amoro_meta.database d ON d.catalog_id = c.catalog_id
		JOIN amoro_meta.device v ON v.database_id = d.database_id
		LEFT JOIN amoro_meta.template t ON t.template_id = v.template_id
		-- without EXISTS, which is evaluated once, the table is opened to be read for each device, though it is empty nearly always
		LEFT JOIN LATERAL (SELECT m.state, m.procedure_id FROM amoro_meta.device_pattern m
			WHERE EXISTS (SELECT FROM amoro_meta.device_pattern)
				AND m.database_id = v.database_id AND amoro_meta.device_paths_overlap(m.pattern, v.device_path) LIMIT 1) p ON true;
COMMENT ON VIEW amoro_meta.device_state IS 'devices with the template that is active on each, and the marker that its readers see';

CREATE VIEW devices AS
	SELECT s.catalog_name, s.database_name, s.device_path, s.device_id, s.state, s.procedure_id, s.definition, s.template_name, s.version
	FROM amoro_meta.device_state s;
COMMENT ON VIEW devices IS
	'devices; definition: their own measurements; template_name: the template that is active. A state other than normal is the marker of the '
	'procedure that works on one, on a pattern that it matches, on its template or on its database';

CREATE VIEW measurements AS
	SELECT s.catalog_name, s.database_name, s.device_path, m.name AS measurement, o.ordinal, m.type, m.encoding, m.compression, m.alias,
		m.tags, m.attributes, CASE WHEN o.ordinal > jsonb_array_length(s.definition->'measurements') THEN s.template_name END AS template_name, s.state
	FROM amoro_meta.device_state s
		CROSS JOIN LATERAL jsonb_array_elements((s.definition->'measurements') || coalesce(s.template->'measurements', '[]'))
			WITH ORDINALITY o (measurement, ordinal)
		CROSS JOIN LATERAL jsonb_to_record(o.measurement) AS
			m (name text, type text, encoding text, compression text, alias text, tags jsonb, attributes jsonb);
COMMENT ON VIEW measurements IS
	'measurements of devices, their own and then those of the template that is active (template_name), in their order; state is that of the device';

CREATE VIEW amoro_meta.device_object AS
	SELECT 'device' AS kind, s.catalog_name, s.database_name, s.device_path AS object_name, s.device_id AS object_id, s.state, s.version,
		amoro_meta.device_document(s.catalog_name, s.database_name, s.device_path, s.device_id, s.version, s.definition,
			s.ttl_ms, s.template_name, s.template) AS document
	FROM amoro_meta.device_state s;
COMMENT ON VIEW amoro_meta.device_object IS 'devices as nodes load them, with the marker and the document they serve';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, o, n FROM unnest(ARRAY['reader', 'operator', 'admin']) k,
		(VALUES ('view', 'devices'), ('view', 'measurements'), ('function', 'amoro_meta.device_paths_overlap')) v (o, n)
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['create_device', 'create_devices', 'alter_device', 'drop_devices']) n;
