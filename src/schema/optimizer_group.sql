/* Optimizer groups, and the containers in which their optimizers run. */

CREATE TABLE amoro_meta.optimizer_container
(
	container_name	text PRIMARY KEY,
	implementation	text NOT NULL,
	properties		jsonb NOT NULL,
	created_at		timestamptz NOT NULL,
	created_by		regrole NOT NULL
);
COMMENT ON TABLE amoro_meta.optimizer_container IS
	'containers that start optimizers; external, whose optimizers are started by hand, is built in and has no row';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.optimizer_container', '');

CREATE TABLE amoro_meta.optimizer_group
(
	group_name		text PRIMARY KEY,
	container_name	text NOT NULL,
	properties		jsonb NOT NULL,
	created_at		timestamptz NOT NULL,
	created_by		regrole NOT NULL
);
COMMENT ON TABLE amoro_meta.optimizer_group IS
	'optimizer groups; whoever writes a reference to one holds its row FOR KEY SHARE, see amoro_meta.hold_optimizer_group()';
CREATE INDEX optimizer_group_container_name ON amoro_meta.optimizer_group (container_name);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.optimizer_group', '');

CREATE FUNCTION amoro_meta.check_group_name(argument text, name text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null(argument, name IS NOT NULL);
	IF name !~ '^[A-Za-z0-9_-]{1,50}$' THEN
		RAISE EXCEPTION 'invalid %: %', argument, amoro_meta.shown_text(name) USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It has 1 to 50 characters: letters of ASCII, digits, underscores and hyphens.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_group_name(text, text) IS
	'raises 22004 for null, and 22023 unless it may be the name of a group or a container';
REVOKE ALL ON FUNCTION amoro_meta.check_group_name(text, text) FROM PUBLIC;

-- As Amoro reads durations; without a unit they are milliseconds.
CREATE FUNCTION amoro_meta.duration_ms(duration text) RETURNS bigint
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT m.part[1]::bigint * CASE
			WHEN m.part[2] IN ('', 'ms', 'milli', 'millis', 'millisecond', 'milliseconds') THEN 1
			WHEN m.part[2] IN ('s', 'sec', 'secs', 'second', 'seconds') THEN 1000
			WHEN m.part[2] IN ('m', 'min', 'mins', 'minute', 'minutes') THEN 60 * 1000
			WHEN m.part[2] IN ('h', 'hour', 'hours') THEN 3600 * 1000
			WHEN m.part[2] IN ('d', 'day', 'days') THEN 24 * 3600 * 1000
		END
	FROM regexp_matches(lower(duration), '^ *([0-9]{1,11}) *([a-z]*) *$') m (part)
	$$;
COMMENT ON FUNCTION amoro_meta.duration_ms(text) IS
	'milliseconds of a duration such as 30s or 5 min; null when it is none';
REVOKE ALL ON FUNCTION amoro_meta.duration_ms(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.group_integer(properties jsonb, key text, fallback integer) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF NOT properties ? key THEN
		RETURN fallback;
	END IF;
	IF properties->>key !~ '^-?[0-9]{1,9}$' THEN
		RAISE EXCEPTION 'invalid value of "%": %', key, amoro_meta.shown_text(properties->>key)
			USING ERRCODE = 'invalid_parameter_value', HINT = 'It is a number without a fraction.';
	END IF;
	RETURN (properties->>key)::bigint;
END;
$$;
COMMENT ON FUNCTION amoro_meta.group_integer(jsonb, text, integer) IS 'a number among the properties of a group; 22023 when it is none';
REVOKE ALL ON FUNCTION amoro_meta.group_integer(jsonb, text, integer) FROM PUBLIC;

CREATE FUNCTION amoro_meta.group_duration_ms(properties jsonb, key text, fallback text) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	milliseconds bigint := amoro_meta.duration_ms(coalesce(properties->>key, fallback));
BEGIN
	IF milliseconds IS NULL OR milliseconds <= 0 THEN
		RAISE EXCEPTION 'invalid value of "%": %', key, amoro_meta.shown_text(properties->>key)
			USING ERRCODE = 'invalid_parameter_value', HINT = 'It is a duration of more than 0, such as 30s or 5min.';
	END IF;
	RETURN milliseconds;
END;
$$;
COMMENT ON FUNCTION amoro_meta.group_duration_ms(jsonb, text, text) IS
	'milliseconds of a duration among the properties of a group; 22023 unless it is one of more than 0';
REVOKE ALL ON FUNCTION amoro_meta.group_duration_ms(jsonb, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.raise_group_property(key text, problem text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RAISE EXCEPTION 'invalid value of "%"', key USING ERRCODE = 'invalid_parameter_value', DETAIL = problem;
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_group_property(text, text) IS 'raises 22023: what is wrong with a property of a group';
REVOKE ALL ON FUNCTION amoro_meta.raise_group_property(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_dynamic_allocation(container_name text, properties jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	enabled text := lower(coalesce(properties->>'dynamic-allocation.enabled', 'false'));
	smallest bigint := amoro_meta.group_integer(properties, 'dynamic-allocation.min-parallelism',
		amoro_meta.group_integer(properties, 'min-parallelism', 0)::integer);
	largest bigint := amoro_meta.group_integer(properties, 'dynamic-allocation.max-parallelism', NULL);
	executor bigint := amoro_meta.group_integer(properties, 'dynamic-allocation.executor-parallelism', 1);
	sustained bigint := amoro_meta.group_duration_ms(properties, 'dynamic-allocation.sustained-backlog-timeout', '30s');
	idle bigint := amoro_meta.group_duration_ms(properties, 'dynamic-allocation.executor-idle-timeout', '5min');
BEGIN
	PERFORM amoro_meta.group_duration_ms(properties, 'dynamic-allocation.scheduler-backlog-timeout', '1min'),
		amoro_meta.group_duration_ms(properties, 'dynamic-allocation.scale-down-cooldown', '1min'),
		amoro_meta.group_duration_ms(properties, 'dynamic-allocation.drain-timeout', '15min');
	IF enabled NOT IN ('true', 'false') THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.enabled', 'It is true or false.');
	ELSIF smallest < 0 THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.min-parallelism', 'It is less than 0.');
	ELSIF executor < 1 THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.executor-parallelism', 'It is less than 1.');
	ELSIF largest NOT BETWEEN 1 AND 1024 THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.max-parallelism', 'It is not between 1 and 1024.');
	ELSIF largest < smallest THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.max-parallelism',
			format('It is less than the smallest parallelism, %s.', smallest));
	END IF;
	IF enabled = 'false' THEN
		RETURN;
	END IF;
	IF container_name = 'external' THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.enabled', 'Nobody starts optimizers in the container external.');
	ELSIF largest IS NULL THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.max-parallelism', 'It is required by dynamic-allocation.enabled.');
	ELSIF executor > largest OR (smallest + executor - 1) / executor * executor > largest THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.executor-parallelism',
			format('Whole executors of %s do not fit between %s and %s.', executor, smallest, largest));
	ELSIF idle < 30000 OR idle < 2 * sustained THEN
		PERFORM amoro_meta.raise_group_property('dynamic-allocation.executor-idle-timeout',
			'It is less than 30 s, or less than twice dynamic-allocation.sustained-backlog-timeout.');
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_dynamic_allocation(text, jsonb) IS
	'raises 22023 unless the settings of dynamic allocation make sense, each by itself and, where it is enabled, together';
REVOKE ALL ON FUNCTION amoro_meta.check_dynamic_allocation(text, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_group_properties(container_name text, properties jsonb) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_configuration('properties', properties), amoro_meta.check_properties('properties', properties);
	IF properties->>'scheduling-policy' NOT IN ('quota', 'balanced') THEN
		PERFORM amoro_meta.raise_group_property('scheduling-policy', 'It is quota or balanced.');
	END IF;
	PERFORM amoro_meta.check_dynamic_allocation(container_name, properties);
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_group_properties(text, jsonb) IS 'raises 22004 or 22023 unless they may be the properties of a group';
REVOKE ALL ON FUNCTION amoro_meta.check_group_properties(text, jsonb) FROM PUBLIC;

-- The container stays until the caller commits.
CREATE FUNCTION amoro_meta.hold_optimizer_container(container_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF container_name = 'external' THEN
		RETURN;
	END IF;
	PERFORM FROM amoro_meta.optimizer_container c WHERE c.container_name = hold_optimizer_container.container_name FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer container "%" does not exist', container_name USING ERRCODE = 'undefined_object',
			HINT = format('SELECT create_optimizer_container(%L, ''...'');', container_name);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_optimizer_container(text) IS 'keeps a container to the end of the transaction; 42704 when there is none';
REVOKE ALL ON FUNCTION amoro_meta.hold_optimizer_container(text) FROM PUBLIC;

CREATE FUNCTION create_optimizer_container(container_name text, implementation text, properties jsonb DEFAULT '{}') RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('container_name', container_name), amoro_meta.check_name('implementation', implementation),
		amoro_meta.check_configuration('properties', properties), amoro_meta.check_properties('properties', properties);
	INSERT INTO amoro_meta.optimizer_container
		SELECT create_optimizer_container.container_name, create_optimizer_container.implementation,
			create_optimizer_container.properties, clock_timestamp(), amoro_meta.calling_role()
		WHERE create_optimizer_container.container_name <> 'external'
		ON CONFLICT ON CONSTRAINT optimizer_container_pkey DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer container "%" already exists', container_name USING ERRCODE = 'duplicate_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION create_optimizer_container(text, text, jsonb) IS
	'registers a container that starts optimizers; implementation is what its leader knows it by, a class for Amoro. The container external, '
	'whose optimizers are started by hand, is built in. Errors: 42710 there is one, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_optimizer_container(text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION alter_optimizer_container(container_name text, implementation text DEFAULT NULL, properties jsonb DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('container_name', container_name),
		amoro_meta.check_name('implementation', coalesce(implementation, 'unchanged')),
		amoro_meta.check_properties('properties', coalesce(properties, '{}')),
		amoro_meta.check_configuration('properties', coalesce(properties, '{}'));
	IF container_name = 'external' THEN
		RAISE EXCEPTION 'optimizer container "external" is built in' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	UPDATE amoro_meta.optimizer_container c
		SET implementation = coalesce(alter_optimizer_container.implementation, c.implementation),
			properties = coalesce(alter_optimizer_container.properties, c.properties)
		WHERE c.container_name = alter_optimizer_container.container_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer container "%" does not exist', container_name USING ERRCODE = 'undefined_object';
	END IF;
END;
$$;
COMMENT ON FUNCTION alter_optimizer_container(text, text, jsonb) IS
	'replaces what is given, keeps what is null. Errors: 42704 no such container, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION alter_optimizer_container(text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION drop_optimizer_container(container_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	users text;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('container_name', container_name), amoro_meta.require_read_committed('drop a container');
	IF container_name = 'external' THEN
		RAISE EXCEPTION 'optimizer container "external" is built in' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	-- against a group that is put into it, whose transaction holds the row FOR KEY SHARE
	PERFORM FROM amoro_meta.optimizer_container c WHERE c.container_name = drop_optimizer_container.container_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer container "%" does not exist', container_name USING ERRCODE = 'undefined_object';
	END IF;
	SELECT string_agg(format('"%s"', g.group_name), ', ' ORDER BY g.group_name) INTO users
		FROM (SELECT g.group_name FROM amoro_meta.optimizer_group g
			  WHERE g.container_name = drop_optimizer_container.container_name ORDER BY g.group_name LIMIT 10) g;
	IF users IS NOT NULL THEN
		RAISE EXCEPTION 'optimizer container "%" is in use', container_name USING ERRCODE = 'dependent_objects_still_exist',
			DETAIL = format('Groups in it (the first ten): %s.', users), HINT = 'Drop its groups, or alter them to be in another one.';
	END IF;
	DELETE FROM amoro_meta.optimizer_container c WHERE c.container_name = drop_optimizer_container.container_name;
END;
$$;
COMMENT ON FUNCTION drop_optimizer_container(text) IS
	'drops a container that no group is in. Errors: 42704 no such container, 2BP01 there are groups in it, 25000 not READ COMMITTED, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION drop_optimizer_container(text) FROM PUBLIC;

CREATE FUNCTION create_optimizer_group(group_name text, container_name text DEFAULT NULL, properties jsonb DEFAULT '{}') RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	container text := coalesce(container_name, 'external');
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('group_name', group_name), amoro_meta.check_group_name('container_name', container),
		amoro_meta.check_group_properties(container, properties), amoro_meta.hold_optimizer_container(container);
	INSERT INTO amoro_meta.optimizer_group
		VALUES (create_optimizer_group.group_name, container, create_optimizer_group.properties, clock_timestamp(), amoro_meta.calling_role())
		ON CONFLICT ON CONSTRAINT optimizer_group_pkey DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer group "%" already exists', group_name USING ERRCODE = 'duplicate_object';
	END IF;
	-- here, so that no process waits for the commit of the first one that is started in the group
	PERFORM amoro_meta.hold_task_queue(group_name, 0), amoro_meta.request_sweep('refresh_table_runtimes');
END;
$$;
COMMENT ON FUNCTION create_optimizer_group(text, text, jsonb) IS
	'creates an optimizer group. container_name: where its optimizers are started, null stands for external, which means by hand. '
	'properties: as in Amoro, those of scheduling and of dynamic allocation are checked. '
	'Tables that wait for a group of this name join it with the refresh that follows. '
	'Errors: 42710 there is one, 42704 no such container, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_optimizer_group(text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION alter_optimizer_group(group_name text, container_name text DEFAULT NULL, properties jsonb DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.optimizer_group;
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_group_name('group_name', group_name),
		amoro_meta.check_group_name('container_name', coalesce(container_name, 'external'));
	SELECT * INTO target FROM amoro_meta.optimizer_group g WHERE g.group_name = alter_optimizer_group.group_name FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer group "%" does not exist', group_name USING ERRCODE = 'undefined_object';
	END IF;
	target.container_name := coalesce(container_name, target.container_name);
	target.properties := coalesce(properties, target.properties);
	PERFORM amoro_meta.check_group_properties(target.container_name, target.properties),
		amoro_meta.hold_optimizer_container(target.container_name);
	UPDATE amoro_meta.optimizer_group g SET container_name = target.container_name, properties = target.properties
		WHERE g.group_name = alter_optimizer_group.group_name;
END;
$$;
COMMENT ON FUNCTION alter_optimizer_group(text, text, jsonb) IS
	'replaces container or properties of a group, keeps what is null. Errors: 42704 no such group or container, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION alter_optimizer_group(text, text, jsonb) FROM PUBLIC;

-- FOR KEY SHARE lets groups be altered meanwhile, and not dropped: drop_optimizer_group locks FOR UPDATE.
CREATE FUNCTION amoro_meta.hold_optimizer_group(group_name text) RETURNS amoro_meta.optimizer_group
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	target amoro_meta.optimizer_group;
BEGIN
	SELECT * INTO target FROM amoro_meta.optimizer_group g WHERE g.group_name = hold_optimizer_group.group_name FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'optimizer group % does not exist', amoro_meta.shown_text(group_name) USING ERRCODE = 'undefined_object',
			HINT = CASE WHEN group_name ~ '^[A-Za-z0-9_-]{1,50}$' THEN format('SELECT create_optimizer_group(%L);', group_name)
				ELSE 'A group of that name cannot exist.' END;
	END IF;
	RETURN target;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_optimizer_group(text) IS
	'a group, which stays to the end of the transaction: whoever writes a reference to it calls this first. 42704 when there is none';
REVOKE ALL ON FUNCTION amoro_meta.hold_optimizer_group(text) FROM PUBLIC;

-- Unset stands for the group default, which need not exist.
CREATE FUNCTION amoro_meta.hold_default_group(catalog_properties jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	IF catalog_properties ? 'table.self-optimizing.group' THEN
		PERFORM amoro_meta.hold_optimizer_group(catalog_properties->>'table.self-optimizing.group');
	ELSE
		PERFORM FROM amoro_meta.optimizer_group g WHERE g.group_name = 'default' FOR KEY SHARE;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.hold_default_group(jsonb) IS
	'keeps the default group of the tables of a catalog to the end of the transaction; 42704 when the catalog names one that does not exist';
REVOKE ALL ON FUNCTION amoro_meta.hold_default_group(jsonb) FROM PUBLIC;

CREATE VIEW optimizer_containers AS
	SELECT 'external'::text AS container_name, NULL::text AS implementation, '{}'::jsonb AS properties,
		NULL::timestamptz AS created_at, NULL::regrole AS created_by
	UNION ALL
	SELECT c.container_name, c.implementation, c.properties, c.created_at, c.created_by FROM amoro_meta.optimizer_container c;
COMMENT ON VIEW optimizer_containers IS 'containers of optimizers; external, whose optimizers are started by hand, is built in';

CREATE VIEW optimizer_groups AS
	SELECT g.group_name, g.container_name, coalesce(g.properties->>'scheduling-policy', 'quota') AS scheduling_policy,
		g.properties, g.created_at, g.created_by
	FROM amoro_meta.optimizer_group g;
COMMENT ON VIEW optimizer_groups IS 'optimizer groups';

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', n FROM unnest(ARRAY['reader', 'operator', 'admin']) k, unnest(ARRAY['optimizer_groups', 'optimizer_containers']) n
	UNION ALL
	SELECT 'admin', 'function', n FROM unnest(ARRAY['create_optimizer_container', 'alter_optimizer_container', 'drop_optimizer_container',
		'create_optimizer_group', 'alter_optimizer_group']) n;
