-- Calls to leaders as one session sees them: arguments, roles, what a process whose runner is a leader answers. Delivery: test/t.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
DROP EXTENSION IF EXISTS amoro_meta CASCADE;
CREATE EXTENSION amoro_meta;
CREATE ROLE regress_caller;
CREATE ROLE regress_caller_other;
CREATE ROLE regress_caller_reader;
SELECT grant_access('regress_caller', 'writer'), grant_access('regress_caller_other', 'writer'), grant_access('regress_caller_reader', 'reader');
SET SESSION AUTHORIZATION regress_caller;
SELECT call_leader('s', 'POST', '/a?b=c', '{}', request_id => '11111111-0000-0000-0000-000000000000') AS id \gset
SELECT call_leader('s', 'POST', '/a?b=c', '{}', request_id => '11111111-0000-0000-0000-000000000000') = :id AS same;
SELECT state, status, body, truncated, error, attempts, token FROM call_result(:id, '0');
SELECT state FROM call_result(:id, '20 ms');
-- a request_id is of one call, and of one role
\set VERBOSITY terse
SELECT call_leader('s', 'POST', '/other', '{}', request_id => '11111111-0000-0000-0000-000000000000');
SELECT call_leader('s', 'POST', '/a?b=c', NULL, request_id => '11111111-0000-0000-0000-000000000000');
SELECT call_leader('s', 'POST', '/a?b=c', '{}', 'text/plain', request_id => '11111111-0000-0000-0000-000000000000');
\set VERBOSITY default
SET SESSION AUTHORIZATION regress_caller_other;
SELECT call_leader('s', 'POST', '/a?b=c', '{}', request_id => '11111111-0000-0000-0000-000000000000') <> :id AS another;
\set VERBOSITY sqlstate
SELECT call_result(:id, '0');
SET SESSION AUTHORIZATION regress_caller_reader;
SELECT call_leader('s', 'GET', '/');
SELECT call_result(:id, '0');
SELECT * FROM calls;
RESET SESSION AUTHORIZATION;

-- its own time over: expired, and nobody waits any more
SELECT call_leader('s', 'GET', '/', timeout => '50 ms') AS short \gset
SELECT state, status, body, error, attempts FROM call_result(:short);

-- in the transaction that makes it
BEGIN;
SELECT call_leader('s', 'GET', '/transaction') AS own \gset
SELECT call_result(:own);
ROLLBACK;
SELECT call_result(:own);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SAVEPOINT one;
SELECT call_leader('s', 'GET', '/savepoint') > 0 AS made;
ROLLBACK TO one;
SELECT call_leader('s', 'GET', '/serializable') > 0 AS made;
COMMIT;
BEGIN READ ONLY;
SELECT call_leader('s', 'GET', '/');
ROLLBACK;
-- what was committed since is seen in an old snapshot, too
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM calls WHERE state = 'expired';
SELECT state FROM call_result(:short);
COMMIT;
SELECT path FROM calls ORDER BY call_id;

-- bad input changes nothing
SELECT call_leader(NULL, 'GET', '/');
SELECT call_leader('', 'GET', '/');
SELECT call_leader(repeat('x', 256), 'GET', '/');
SELECT call_leader(E's\n', 'GET', '/');
SELECT call_leader('s', NULL, '/');
SELECT call_leader('s', 'get', '/');
SELECT call_leader('s', 'TRACE', '/');
SELECT call_leader('s', E'GET /\r\nX: y', '/');
SELECT call_leader('s', 'GET', NULL);
SELECT call_leader('s', 'GET', '');
SELECT call_leader('s', 'GET', 'x');
SELECT call_leader('s', 'GET', 'http://169.254.169.254/');
SELECT call_leader('s', 'GET', '@example.org/');
SELECT call_leader('s', 'GET', '/a b');
SELECT call_leader('s', 'GET', E'/a\r\nHost: b');
SELECT call_leader('s', 'GET', '/#a');
SELECT call_leader('s', 'GET', '/ä');
SELECT call_leader('s', 'GET', '/' || repeat('x', 8192));
SELECT call_leader('s', 'GET', '/', 'body');
SELECT call_leader('s', 'POST', '/', repeat('x', 1048577));
SELECT call_leader('s', 'POST', '/', 'x', NULL);
SELECT call_leader('s', 'POST', '/', 'x', '');
SELECT call_leader('s', 'POST', '/', 'x', E'text/plain\r\nX: y');
SELECT call_leader('s', 'POST', '/', 'x', repeat('x', 201));
SELECT call_leader('s', 'GET', '/', timeout => NULL);
SELECT call_leader('s', 'GET', '/', timeout => '0');
SELECT call_leader('s', 'GET', '/', timeout => '-1 s');
SELECT call_leader('s', 'GET', '/', timeout => '25 h');
SELECT call_leader('s', 'GET', '/', timeout => '178000000 years');
SELECT call_result(NULL);
SELECT call_result(-1);
SELECT call_result(:id, '-1 ms');
SELECT call_result(:id, '1 month');
SELECT call_result(:id, '-178000000 years');
\set VERBOSITY default
SELECT count(*) FROM calls;
SELECT state FROM call_result(call_leader('a/b ''quoted'' 日本', 'DELETE', '/%2F%00?q="x"', repeat('ä', 1000)) * 0 + :id, '0');

-- a process that a leader runs
SELECT create_optimizer_group('default');
SELECT start_process('c', 'd', 't', 'compact', '[]') AS process \gset
SELECT delegate_process(:process, 's');
SELECT process_type, status, runner_service FROM processes;
SELECT cancel_process(:process, 'because') ~ '^asked: call \d+$' AS asked, cancel_process(:process) = cancel_process(:process) AS once;
SELECT method, path = format('/v1/processes/%s/cancel', :process) AS path, body::json->>'reason' AS reason, body::json->>'table' AS "table" FROM amoro_meta.call WHERE process_id = :process;
SELECT status FROM processes;
SELECT finish_process(:process);
SELECT cancel_process(:process);
\set VERBOSITY sqlstate
SELECT delegate_process(:process, 's');
SELECT delegate_process(NULL, 's');
SELECT delegate_process(-1, 's');
SELECT start_process('c', 'd', 't', 'compact', '[]') AS process \gset
SELECT delegate_process(:process, '');
SELECT delegate_process(:process, NULL);
\set VERBOSITY default
SELECT cancel_process(:process);

-- asked, and waited for
SELECT start_process('c', 'd', 't', 'compact', '[]') AS process \gset
SELECT delegate_process(:process, 's');
CALL cancel_process_and_wait(:process, timeout => '50 ms') \gset
SELECT :'answer' AS answer, :call_id > 0 AS called;
BEGIN;
CALL cancel_process_and_wait(:process);
ROLLBACK;
CREATE FUNCTION pg_temp.cancel(INOUT process_id bigint, OUT answer text, OUT call_id bigint, OUT status integer, OUT body text) LANGUAGE plpgsql AS
	$$BEGIN CALL cancel_process_and_wait(process_id, NULL, '50 ms', answer, call_id, status, body); END$$;
SELECT * FROM pg_temp.cancel(:process);
-- nor anything that commits by itself
DO $$
DECLARE
	answer text; call_id bigint; status integer; body text;
BEGIN
	CALL cancel_process_and_wait(-1, NULL, '50 ms', answer, call_id, status, body);
	RAISE WARNING '%', answer;
END$$;
-- nothing was asked there
SELECT count(*) FROM amoro_meta.call WHERE process_id = :process AND ended_at IS NULL;
CALL cancel_process_and_wait(-1);
\set VERBOSITY terse
CALL cancel_process_and_wait(NULL);
CALL cancel_process_and_wait(:process, timeout => NULL);
CALL cancel_process_and_wait(:process, timeout => '0');
CALL cancel_process_and_wait(:process, timeout => '25 h');
SELECT cancel_process(:process, timeout => '-1 s');
SELECT cancel_process(:process, repeat('x', 1048576));
SET SESSION AUTHORIZATION regress_caller;
CALL cancel_process_and_wait(:process);
RESET SESSION AUTHORIZATION;
-- whoever has the name of what it calls in his path gets what it is
CREATE SCHEMA regress_trap;
CREATE FUNCTION regress_trap.cancel_process(bigint, text, interval) RETURNS text LANGUAGE sql AS $$SELECT 'trapped'$$;
CREATE FUNCTION regress_trap.same(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$SELECT false$$;
CREATE OPERATOR regress_trap.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_trap.same);
SET search_path = regress_trap, public, pg_catalog;
SELECT finish_process(:process);
CALL cancel_process_and_wait(:process);
RESET search_path;
DROP SCHEMA regress_trap CASCADE;
\set VERBOSITY default

-- not more than ten thousand wait for one service
INSERT INTO amoro_meta.call (call_id, service, method, path, request_id, requested_by, created_at, deadline, next_at)
	SELECT -i, 'full', 'GET', '/', gen_random_uuid(), 'regress_caller'::regrole, clock_timestamp(), clock_timestamp() + interval '1 h', clock_timestamp()
	FROM generate_series(1, 10000) i;
SELECT call_leader('full', 'GET', '/');
-- one that waits already may be asked for again
UPDATE amoro_meta.call SET requested_by = current_user::regrole, request_id = '22222222-0000-0000-0000-000000000000' WHERE call_id = -1;
SELECT call_leader('full', 'GET', '/', request_id => '22222222-0000-0000-0000-000000000000') AS known;
SELECT call_leader('not full', 'GET', '/') > 0 AS made;
DROP EXTENSION amoro_meta CASCADE;
DROP ROLE regress_caller, regress_caller_other, regress_caller_reader;
