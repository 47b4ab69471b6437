-- while a blocker is asserted, nobody else may have the operation: the row would be locked. (Not an advisory lock: that goes a moment after
-- the commit can be seen, when somebody else may have taken over what has expired.)
\set name random(1, 30)
\set operation random(1, 2)
\set fate random(1, 4)
SELECT coalesce((soak.attempt(format('SELECT (acquire_blocker(%L, %L, %L, %L, timeout => %L)).blocker_id', 'lake', 'sales', 'table ' || :name,
	CASE :operation WHEN 1 THEN '{OPTIMIZE}' ELSE '{BATCH_WRITE}' END, CASE :fate WHEN 1 THEN '20ms' ELSE '1s' END)))::bigint, 0) AS blocker_id \gset
\if :blocker_id > 0
SELECT soak.attempt(format('SELECT (renew_blocker(%s)).blocker_id', :blocker_id));
BEGIN;
SELECT CASE WHEN soak.attempt(format('SELECT assert_blocker(%s)', :blocker_id)) IS NOT NULL
	THEN (SELECT count(*) FROM (SELECT FROM soak.place p WHERE p.name = :name AND p.operation = :operation FOR UPDATE SKIP LOCKED) l) ELSE 2 END AS alone \gset
COMMIT;
\if :alone = 0
INSERT INTO soak.wrong VALUES ('two blockers are asserted for one operation', 'table ' || :name, :operation);
\endif
SELECT soak.attempt(format('SELECT release_blocker(%s)', :blocker_id));
\endif
