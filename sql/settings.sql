-- The settings amoro_meta.*: defaults, units, limits, and who may change them.
SET client_min_messages = warning;
CREATE EXTENSION amoro_meta;
SELECT name, unit, context, vartype, min_val, max_val, boot_val
	FROM pg_settings WHERE name LIKE 'amoro\_meta.%' ORDER BY name;

-- every setting has a description
SELECT name FROM pg_settings WHERE name LIKE 'amoro\_meta.%' AND short_desc = '';

-- values outside of their limits, and a name that does not exist
-- (versions of Postgres word the limits differently)
\set VERBOSITY sqlstate
ALTER SYSTEM SET amoro_meta.metadata_lease_fence_ms = 0;
ALTER SYSTEM SET amoro_meta.metadata_lease_fence_ms = '25 hours';
ALTER SYSTEM SET amoro_meta.ack_timeout = '-1s';
ALTER SYSTEM SET amoro_meta.max_clock_drift_ppm = 200001;
ALTER SYSTEM SET amoro_meta.lease_margin_ms = 0;
\set VERBOSITY default
ALTER SYSTEM SET amoro_meta.databases = 'a,,b';
SET amoro_meta.no_such_setting = 1;

-- a session cannot change what the server promises to nodes
SET amoro_meta.metadata_lease_fence_ms = '1h';
SET amoro_meta.ack_timeout = '1h';
SET amoro_meta.max_nodes = 1;
CREATE ROLE regress_amoro_nobody;
SET ROLE regress_amoro_nobody;
SET amoro_meta.debug_clock_offset_ms = '1h';
SET amoro_meta.debug_stop_at = 'cycle';
RESET ROLE;
DROP ROLE regress_amoro_nobody;
DROP EXTENSION amoro_meta;
