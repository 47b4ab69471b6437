/* Which tables of a catalog are listed, and which of them are optimized. */

CREATE FUNCTION amoro_meta.is_name(name text) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_is_name';
COMMENT ON FUNCTION amoro_meta.is_name(text) IS 'whether check_name would let it pass';
REVOKE ALL ON FUNCTION amoro_meta.is_name(text) FROM PUBLIC;

-- Of all the formats a catalog may name, those whose tables get a runtime.
CREATE FUNCTION amoro_meta.is_supported_format(format text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN format IN ('iceberg', 'mixed_iceberg', 'mixed_hive');
COMMENT ON FUNCTION amoro_meta.is_supported_format(text) IS 'whether tables of the format get a runtime';
REVOKE ALL ON FUNCTION amoro_meta.is_supported_format(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_filter(filter_name text, filter text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	-- a back reference is what makes matching exponential
	IF length(filter) > 1000 OR filter ~ '\\[1-9]' THEN
		RAISE EXCEPTION '% is not a regular expression of at most 1000 characters without back references', filter_name
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM '' ~ ('^(?:' || filter || ')$');
EXCEPTION
	WHEN invalid_regular_expression THEN
		RAISE EXCEPTION '% is not a regular expression', filter_name USING ERRCODE = 'invalid_parameter_value', DETAIL = SQLERRM;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_filter(text, text) IS 'raises 22023 unless it is a regular expression that can be matched in bounded time';
REVOKE ALL ON FUNCTION amoro_meta.check_filter(text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.check_listing_properties(properties jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	share text := properties->>'max-removed-share';
BEGIN
	PERFORM amoro_meta.check_filter(k, properties->>k) FROM unnest(ARRAY['database-filter', 'table-filter']) k WHERE properties ? k;
	IF share !~ '^\d{1,3}$' OR share::integer > 100 THEN
		RAISE EXCEPTION 'property max-removed-share is not a number of percent from 0 to 100' USING ERRCODE = 'invalid_parameter_value';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.check_listing_properties(jsonb) IS 'raises 22023 unless the properties of a catalog that guide its listing are valid';
REVOKE ALL ON FUNCTION amoro_meta.check_listing_properties(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.matches_filter(filter text, name text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN filter IS NULL OR name ~ ('^(?:' || filter || ')$');
COMMENT ON FUNCTION amoro_meta.matches_filter(text, text) IS 'whether all of the name matches; everything matches where there is no filter';
REVOKE ALL ON FUNCTION amoro_meta.matches_filter(text, text) FROM PUBLIC;
