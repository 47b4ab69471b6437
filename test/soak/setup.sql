-- What the clients of the soak find: groups, a catalog with tables, and the tables in which they record what they were told.
CREATE EXTENSION amoro_meta;
SELECT create_optimizer_group('default', properties => '{"break-quota-limit-enabled": "false"}');
SELECT create_optimizer_group('group1', properties => '{"break-quota-limit-enabled": "false"}');
SELECT create_catalog('lake');
DO $$
BEGIN
	WHILE amoro_meta.identity_key() IS NULL OR amoro_meta.current_term() = 0 LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;
SELECT create_database('lake', 'sales') AS id \gset
SELECT wait_for_procedure(:id);
SELECT create_database('lake', 'other') AS id \gset
SELECT wait_for_procedure(:id);
-- the first 20 of 30 names that are used: of the others nothing is known but the name
SELECT create_table('lake', 'sales', 'table ' || n, '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}') AS id
	FROM generate_series(1, 20) n;
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM procedures WHERE outcome IS NULL) LOOP
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END;
$$;

CREATE SCHEMA soak;
CREATE TABLE soak.wrong (what text, a text, b text);
-- every attempt that was handed out, and how many times
CREATE TABLE soak.given (process_id bigint, task_id integer, attempt integer, times integer, PRIMARY KEY (process_id, task_id, attempt));
CREATE INDEX ON soak.given (times) WHERE times > 1;
-- every task whose success was accepted, and how many times
CREATE TABLE soak.done (process_id bigint, task_id integer, times integer, PRIMARY KEY (process_id, task_id));
CREATE INDEX ON soak.done (times) WHERE times > 1;
CREATE TABLE soak.told (answer text);
-- locked by who has asserted a blocker
CREATE TABLE soak.place (name integer, operation integer, PRIMARY KEY (name, operation));
INSERT INTO soak.place SELECT n, o FROM generate_series(1, 30) n, generate_series(1, 2) o;
CREATE TABLE soak.refused (sqlstate text, message text);
-- sessions that several clients are in, and who was told that it was they who closed it
CREATE TABLE soak.session (id text PRIMARY KEY, number bigserial);
CREATE TABLE soak.closed (id text, first boolean);
CREATE UNIQUE INDEX ON soak.closed (id) WHERE first;

-- Runs what may rightly be refused, and returns its value, or null and a record of the refusal.
CREATE FUNCTION soak.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN others THEN
	INSERT INTO soak.refused VALUES (SQLSTATE, regexp_replace(SQLERRM, '\d+', 'N', 'g'));
	RETURN NULL;
END;
$$;
