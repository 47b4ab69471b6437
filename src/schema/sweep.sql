/* What the coordinator does again and again, as people see it (src/extension/worker/sweep.c has the table of it). */

CREATE FUNCTION amoro_meta.sweep_batch() RETURNS integer
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_sweep_batch';
COMMENT ON FUNCTION amoro_meta.sweep_batch() IS
	'how many rows one call of a sweep treats at most; one that returns that many is called again at once';
REVOKE ALL ON FUNCTION amoro_meta.sweep_batch() FROM PUBLIC;

CREATE FUNCTION amoro_meta.request_sweep(sweep_name text) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_request_sweep';
COMMENT ON FUNCTION amoro_meta.request_sweep(text) IS
	'has the coordinator, if there is one, run a sweep as soon as this transaction is committed; 22023 for an unknown one';
REVOKE ALL ON FUNCTION amoro_meta.request_sweep(text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.count_row_error(sweep_name text, error_code text, error text) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_count_row_error';
COMMENT ON FUNCTION amoro_meta.count_row_error(text, text, text) IS
	'records in amoro_stat_sweep what failed in a run that went on; in shared memory, whatever becomes of the transaction; 22023 for an unknown sweep';
REVOKE ALL ON FUNCTION amoro_meta.count_row_error(text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.sweeps
(
	OUT sweep_name text, OUT interval_ms bigint, OUT last_run_at timestamptz, OUT last_duration_us bigint,
	OUT last_rows bigint, OUT runs bigint, OUT rows bigint, OUT errors bigint, OUT row_errors bigint, OUT consecutive_failures integer,
	OUT last_error_code text, OUT last_error text, OUT last_error_at timestamptz
)
	RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'amoro_meta_sweeps';
COMMENT ON FUNCTION amoro_meta.sweeps() IS 'what the sweeps of this database did since the server started; see the view amoro_stat_sweep';
REVOKE ALL ON FUNCTION amoro_meta.sweeps() FROM PUBLIC;

CREATE VIEW amoro_stat_sweep AS
	SELECT s.sweep_name, s.interval_ms, s.last_run_at, s.last_duration_us, s.last_rows, s.runs, s.rows, s.errors, s.row_errors,
		s.consecutive_failures, s.last_error_code, s.last_error, s.last_error_at
	FROM amoro_meta.sweeps() s;
COMMENT ON VIEW amoro_stat_sweep IS
	'sweeps, which the coordinator of this database runs at an interval of theirs: each is a function that an operator may call too. '
	'What is shown is of the coordinator''s runs, since the server started';
COMMENT ON COLUMN amoro_stat_sweep.last_rows IS 'rows treated in the last run; a full batch is followed by another run at once';
COMMENT ON COLUMN amoro_stat_sweep.errors IS 'runs that failed';
COMMENT ON COLUMN amoro_stat_sweep.row_errors IS 'what failed in runs that went on without it, and is tried again: a row, or a batch, which is then treated row by row';
COMMENT ON COLUMN amoro_stat_sweep.last_error IS 'of a run, or of a row';
COMMENT ON COLUMN amoro_stat_sweep.consecutive_failures IS 'runs that failed since the last one that did not; the pause between them grows up to five minutes';
REVOKE ALL ON amoro_stat_sweep FROM PUBLIC;
GRANT SELECT ON amoro_stat_sweep TO pg_monitor;
-- a view checks the functions in it against its reader
GRANT EXECUTE ON FUNCTION amoro_meta.sweeps() TO pg_monitor;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'amoro_stat_sweep' FROM unnest(ARRAY['operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', 'amoro_meta.sweeps' FROM unnest(ARRAY['operator', 'admin']) k;
