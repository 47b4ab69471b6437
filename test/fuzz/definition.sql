-- Random definitions of tables, and changes to them, mostly almost right: each is refused with an error for bad values,
-- or has a canonical form that is its own canonical form. Variables: seed, seconds.
\set QUIET on
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SELECT set_config('fuzz.seconds', :'seconds', false), setseed(:seed / 1000000.0) \g /dev/null

CREATE FUNCTION pg_temp.pick(VARIADIC choices text[]) RETURNS text LANGUAGE sql VOLATILE AS
	$$SELECT choices[1 + floor(random() * cardinality(choices))]$$;
CREATE FUNCTION pg_temp.number() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT pg_temp.pick('0', '1', '2', '9', '16', '38', '39', '-1', '2147483647', '2147483648', '9223372036854775807',
		'9223372036854775808', '1e400', '1.5', '00', '-0', floor(random() * 1000)::text)
$$;
-- one or more characters are lost, doubled, replaced or moved
CREATE FUNCTION pg_temp.mutate(input text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	place integer := 1 + floor(random() * greatest(length(input), 1));
	size integer := 1 + floor(random() * random() * 12);
BEGIN
	RETURN CASE floor(random() * 5)
		WHEN 0 THEN overlay(input PLACING '' FROM place FOR size)
		WHEN 1 THEN overlay(input PLACING pg_temp.pick('<', '>', '(', ')', ',', ':', '[', ']', ' ', '.', '-', '"', E'\t', 'ä', '😀', '0', 'a') FROM place FOR size - 1)
		WHEN 2 THEN overlay(input PLACING repeat(substr(input, place, size), (1 + random() * 3)::integer) FROM place FOR 0)
		WHEN 3 THEN overlay(input PLACING pg_temp.number() FROM place FOR size)
		ELSE substr(input, place) || substr(input, 1, place)
	END;
END;
$$;
CREATE FUNCTION pg_temp.name() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT pg_temp.pick('a', 'b', 'c', 'd', 'a', 'b', 'a', 'b', 'a', 'b', 'e', 'f', 'g', 'h', 'A', 'a.b', '', ' ', 'ä', '😀', '"', E'\\', 'element', 'key', 'value', '<', repeat('n', (random() * 300)::integer))
$$;
CREATE FUNCTION pg_temp.type(depth integer) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	type text := pg_temp.pick('int', 'long', 'string', 'boolean', 'float', 'double', 'date', 'time', 'timestamp', 'timestamptz', 'uuid', 'binary',
		'timestamp_ns', 'unknown', 'variant', format('decimal(%s,%s)', pg_temp.pick('38', '9', pg_temp.number()), pg_temp.pick('0', '2', pg_temp.number())), format('fixed[%s]', pg_temp.pick('16', pg_temp.number())));
BEGIN
	IF depth > 0 AND random() < 0.5 THEN
		type := CASE floor(random() * 3)
			WHEN 0 THEN format('list<%s>', pg_temp.type(depth - 1))
			WHEN 1 THEN format('map<%s, %s>', pg_temp.type(depth - 1), pg_temp.type(depth - 1))
			ELSE format('struct<%s: %s, %s: %s>', pg_temp.name(), pg_temp.type(depth - 1), pg_temp.name(), pg_temp.type(depth - 1)) END;
	ELSIF random() < 0.01 THEN
		type := repeat('list<', (random() * 20000)::integer) || 'int' || repeat('>', (random() * 20000)::integer);
	END IF;
	RETURN CASE WHEN random() < 0.04 THEN pg_temp.mutate(type) ELSE type END;
END;
$$;
CREATE FUNCTION pg_temp.transform() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN random() < 0.1 THEN pg_temp.mutate(t) ELSE t END
	FROM (SELECT pg_temp.pick('identity', 'year', 'month', 'day', 'hour', 'void', 'bucket[16]', 'truncate[4]', format('bucket[%s]', pg_temp.number()))) AS x (t)
$$;
-- any JSON at all
CREATE FUNCTION pg_temp.any_value(depth integer) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN CASE floor(random() * CASE WHEN depth > 0 THEN 7 ELSE 5 END)
		WHEN 0 THEN 'null'::jsonb
		WHEN 1 THEN to_jsonb(random() < 0.5)
		WHEN 2 THEN to_jsonb(pg_temp.number()::numeric)
		WHEN 3 THEN to_jsonb(pg_temp.name())
		WHEN 4 THEN to_jsonb(pg_temp.type(1))
		WHEN 5 THEN jsonb_build_array(pg_temp.any_value(depth - 1), pg_temp.any_value(depth - 1))
		ELSE jsonb_build_object(pg_temp.name(), pg_temp.any_value(depth - 1)) END;
END;
$$;
CREATE FUNCTION pg_temp.chance(probability double precision, value jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS
	$$SELECT CASE WHEN random() < probability THEN value END$$;
CREATE FUNCTION pg_temp.column_of(name text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('name', name, 'type', pg_temp.type(2),
		'required', pg_temp.chance(0.3, to_jsonb(random() < 0.5)), 'comment', pg_temp.chance(0.2, to_jsonb(pg_temp.name())),
		'id', pg_temp.chance(0.05, to_jsonb(pg_temp.number()::numeric))))
$$;
-- one member anywhere is replaced or removed
CREATE FUNCTION pg_temp.spoil(document jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	path text[] := '{}';
	value jsonb := document;
	member text;
BEGIN
	WHILE jsonb_typeof(value) IN ('object', 'array') AND random() < 0.8 LOOP
			IF jsonb_typeof(value) = 'object' THEN
				SELECT k INTO member FROM jsonb_object_keys(value) AS k ORDER BY random() LIMIT 1;
			ELSE
				member := CASE WHEN jsonb_array_length(value) > 0 THEN floor(random() * jsonb_array_length(value))::text END;
			END IF;
		EXIT WHEN member IS NULL;
		path := path || member;
		value := value -> member;
		IF value IS NULL THEN value := document #> path; END IF;
	END LOOP;
	IF path = '{}' THEN RETURN pg_temp.any_value(3); END IF;
	RETURN CASE WHEN random() < 0.3 THEN document #- path ELSE jsonb_set(document, path, pg_temp.any_value(2)) END;
END;
$$;
CREATE FUNCTION pg_temp.definition() RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	document jsonb := jsonb_strip_nulls(jsonb_build_object('format', pg_temp.pick('iceberg', 'iceberg', 'iceberg', 'iceberg', 'iceberg', 'iceberg', 'paimon', 'hive', ''),
		'columns', (SELECT jsonb_agg(pg_temp.column_of(chr(96 + i))) FROM generate_series(1, 1 + (random() * 4)::integer) AS i),
		'primary_key', pg_temp.chance(0.3, jsonb_build_array(pg_temp.name())),
		'partitioning', pg_temp.chance(0.4, jsonb_build_array(jsonb_build_object('column', jsonb_build_array(pg_temp.name()), 'transform', pg_temp.transform()))),
		'properties', pg_temp.chance(0.3, jsonb_build_object(pg_temp.name(), pg_temp.name())),
		'ttl', pg_temp.chance(0.1, to_jsonb(pg_temp.number()::numeric))));
BEGIN
	RETURN CASE WHEN random() < 0.3 THEN pg_temp.spoil(document) ELSE document END;
END;
$$;
CREATE FUNCTION pg_temp.changes() RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	document jsonb := (SELECT jsonb_agg(CASE floor(random() * 9)
			WHEN 0 THEN jsonb_build_object('op', 'add_column', 'column', pg_temp.column_of(pg_temp.name()))
			WHEN 1 THEN jsonb_build_object('op', 'drop_column', 'column', pg_temp.name())
			WHEN 2 THEN jsonb_build_object('op', 'rename_column', 'column', jsonb_build_array(pg_temp.name()), 'name', pg_temp.name())
			WHEN 3 THEN jsonb_build_object('op', 'alter_column', 'column', jsonb_build_array(pg_temp.name()), 'type', pg_temp.type(1))
			WHEN 4 THEN jsonb_build_object('op', 'set_properties', 'properties', jsonb_build_object(pg_temp.name(), pg_temp.name()))
			WHEN 5 THEN jsonb_build_object('op', 'unset_properties', 'properties', jsonb_build_array(pg_temp.name()))
			WHEN 6 THEN jsonb_build_object('op', 'set_ttl', 'ttl', pg_temp.number()::numeric)
			WHEN 7 THEN jsonb_build_object('op', 'unset_ttl')
			ELSE jsonb_build_object('op', pg_temp.name()) END)
		FROM generate_series(1, 1 + (random() * 2)::integer));
BEGIN
	RETURN CASE WHEN random() < 0.3 THEN pg_temp.spoil(document) ELSE document END;
END;
$$;
-- what the function makes of it, NULL when it refuses as it should; anything else is an error of this run
CREATE FUNCTION pg_temp.outcome(statement text, VARIADIC arguments jsonb[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	result jsonb;
BEGIN
	EXECUTE statement INTO result USING arguments[1], arguments[2];
	RETURN result;
EXCEPTION
	-- bad values, unknown or double names, what is not supported, states that do not fit, too deep, too long
	WHEN invalid_parameter_value OR undefined_column OR duplicate_column OR undefined_object OR duplicate_object OR feature_not_supported
		OR object_not_in_prerequisite_state OR statement_too_complex OR program_limit_exceeded OR null_value_not_allowed
		OR dependent_objects_still_exist OR invalid_table_definition OR datatype_mismatch THEN
		RETURN NULL;
	WHEN OTHERS THEN
		RAISE EXCEPTION 'unexpected error % (%) from % with %', SQLSTATE, SQLERRM, statement, arguments;
END;
$$;
DO $$
DECLARE
	deadline timestamptz := clock_timestamp() + make_interval(secs => current_setting('fuzz.seconds')::double precision);
	input jsonb;
	canonical jsonb;
	change jsonb;
	altered jsonb;
	tried bigint := 0;
	accepted bigint := 0;
	changed bigint := 0;
BEGIN
	WHILE clock_timestamp() < deadline LOOP
		tried := tried + 1;
		input := pg_temp.definition();
		canonical := pg_temp.outcome('SELECT amoro_meta.table_definition($1)', input);
		CONTINUE WHEN canonical IS NULL;
		accepted := accepted + 1;
		IF amoro_meta.table_definition(canonical) IS DISTINCT FROM canonical THEN
			RAISE EXCEPTION 'the canonical form of % is not its own: %', input, canonical;
		END IF;
		change := pg_temp.changes();
		altered := pg_temp.outcome('SELECT amoro_meta.altered_definition($1, $2)', canonical, change);
		CONTINUE WHEN altered IS NULL;
		changed := changed + 1;
		IF amoro_meta.table_definition(altered) IS DISTINCT FROM altered THEN
			RAISE EXCEPTION 'what % makes of % is not canonical: %', change, canonical, altered;
		END IF;
	END LOOP;
	RAISE WARNING '% definitions, % accepted, % changed', tried, accepted, changed;
	IF accepted < tried / 50 OR changed < accepted / 50 THEN
		RAISE EXCEPTION 'too few were accepted for the run to mean anything';
	END IF;
END;
$$;
