/* Optimizers: processes that poll tasks, known by a token that is bound to the role that registered it. */

CREATE TABLE amoro_meta.optimizer
(
	optimizer_id	bigint PRIMARY KEY,
	token			uuid NOT NULL UNIQUE,
	group_name		text NOT NULL,
	container_name	text,
	resource_id		text,
	thread_count	integer NOT NULL CHECK (thread_count BETWEEN 1 AND 65536),
	memory_mb		integer NOT NULL CHECK (memory_mb >= 0),
	properties		jsonb NOT NULL,
	registered_by	regrole NOT NULL,
	registered_at	timestamptz NOT NULL,
	touched_at		timestamptz NOT NULL,
	draining		boolean NOT NULL DEFAULT false,
	-- its token is good no more; the row stays until all that it held is given to others
	expired_at		timestamptz
) WITH (fillfactor = 50);	-- touched every few seconds, in no index
COMMENT ON TABLE amoro_meta.optimizer IS 'registered optimizers, until they are unregistered or expire';
CREATE INDEX optimizer_group_name ON amoro_meta.optimizer (group_name);
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.optimizer', '');

CREATE FUNCTION amoro_meta.duration_setting(setting_name text) RETURNS interval
	LANGUAGE sql VOLATILE STRICT PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	-- the settings are there once the library is, which a call into it loads
	AS $$SELECT CASE WHEN amoro_meta.library_version() IS NOT NULL THEN current_setting('amoro_meta.' || setting_name)::interval END$$;
COMMENT ON FUNCTION amoro_meta.duration_setting(text) IS 'a setting of the extension that is a duration';
REVOKE ALL ON FUNCTION amoro_meta.duration_setting(text) FROM PUBLIC;

-- Apart from its caller, which checks the token itself: it is called a thousand times a second.
CREATE FUNCTION amoro_meta.raise_unknown_optimizer(token uuid) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.check_not_null('token', token IS NOT NULL);
	IF EXISTS (SELECT FROM amoro_meta.optimizer o WHERE o.token = raise_unknown_optimizer.token AND o.expired_at IS NULL) THEN
		RAISE EXCEPTION 'permission denied for the optimizer' USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Another role has registered it.', HINT = 'SELECT register_optimizer(...)';
	END IF;
	RAISE EXCEPTION 'unknown optimizer token' USING ERRCODE = 'AM301',
		DETAIL = 'It was never registered, is unregistered, or was not touched within amoro_meta.optimizer_heartbeat_timeout.',
		HINT = 'SELECT register_optimizer(...); what the optimizer was working on is given to others.';
END;
$$;
COMMENT ON FUNCTION amoro_meta.raise_unknown_optimizer(uuid) IS 'says why a token is not good for the caller: 22004, 42501 or AM301';
REVOKE ALL ON FUNCTION amoro_meta.raise_unknown_optimizer(uuid) FROM PUBLIC;

CREATE FUNCTION amoro_meta.find_optimizer(token uuid) RETURNS amoro_meta.optimizer
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	optimizer amoro_meta.optimizer;
BEGIN
	SELECT o.* INTO optimizer FROM amoro_meta.optimizer o
		WHERE o.token = find_optimizer.token AND o.registered_by = amoro_meta.calling_role() AND o.expired_at IS NULL;
	IF NOT FOUND THEN
		PERFORM amoro_meta.raise_unknown_optimizer(token);
	END IF;
	RETURN optimizer;
END;
$$;
COMMENT ON FUNCTION amoro_meta.find_optimizer(uuid) IS 'the optimizer of a token; raises 22004, 42501 or AM301 unless it is the caller''s';
REVOKE ALL ON FUNCTION amoro_meta.find_optimizer(uuid) FROM PUBLIC;

CREATE FUNCTION register_optimizer(group_name text, thread_count integer, memory_mb integer, container_name text DEFAULT NULL,
								   resource_id text DEFAULT NULL, properties jsonb DEFAULT '{}') RETURNS uuid
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	new_token uuid := gen_random_uuid();
	optimizer_group amoro_meta.optimizer_group;
	heartbeat_timeout interval := amoro_meta.duration_setting('optimizer_heartbeat_timeout');
BEGIN
	PERFORM amoro_meta.timeline_id(), amoro_meta.check_name('group_name', group_name), amoro_meta.check_configuration('properties', properties),
		amoro_meta.check_properties('properties', properties), amoro_meta.check_name('container_name', coalesce(container_name, '-')),
		amoro_meta.check_name('resource_id', coalesce(resource_id, '-'));
	PERFORM amoro_meta.check_not_null('thread_count and memory_mb', num_nulls(thread_count, memory_mb) = 0);
	IF thread_count NOT BETWEEN 1 AND 65536 OR memory_mb < 0 THEN
		RAISE EXCEPTION 'thread_count or memory_mb is out of range' USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('They are %s and %s; an optimizer has 1 to 65536 threads, and not less than no memory.', thread_count, memory_mb);
	END IF;
	IF properties ? 'heart-beat-interval' AND heartbeat_timeout > interval '0' AND
		coalesce(amoro_meta.duration_ms(properties->>'heart-beat-interval') >= extract(epoch FROM heartbeat_timeout) * 1000, true) THEN
		RAISE EXCEPTION 'invalid heart-beat-interval: %', amoro_meta.shown_text(properties->>'heart-beat-interval')
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('It is a duration of less than amoro_meta.optimizer_heartbeat_timeout, which is %s.', heartbeat_timeout);
	END IF;
	optimizer_group := amoro_meta.hold_optimizer_group(group_name);
	INSERT INTO amoro_meta.optimizer
		VALUES (amoro_meta.next_id(), new_token, optimizer_group.group_name, coalesce(container_name, optimizer_group.container_name),
				resource_id, thread_count, memory_mb, properties, amoro_meta.calling_role(), clock_timestamp(), clock_timestamp());
	RETURN new_token;
END;
$$;
COMMENT ON FUNCTION register_optimizer(text, integer, integer, text, text, jsonb) IS
	'registers an optimizer with thread_count threads, 0 to thread_count - 1, in a group, and returns the token that it has to show from '
	'then on; only the role that registered it may. container_name: that of the group, if null. memory_mb (MB), resource_id and properties are shown in optimizers. A property heart-beat-interval '
	'(milliseconds, or with a unit) is refused unless it is less than amoro_meta.optimizer_heartbeat_timeout. '
	'Errors: 42704 no such group, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION register_optimizer(text, integer, integer, text, text, jsonb) FROM PUBLIC;
