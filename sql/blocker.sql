-- Table blockers: who holds which operation of a table, until when; one session.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE EXTENSION amoro_meta;
-- what does not change from run to run
CREATE FUNCTION shown(b table_blocker) RETURNS text LANGUAGE sql AS
	$$SELECT format('%s.%s.%s %s %s %s', b.catalog_name, b.database_name, b.table_name, b.operations, b.acquired_by,
		b.expires_at - b.created_at)$$;
-- as if so much time had passed
CREATE PROCEDURE pass(passed interval) LANGUAGE sql AS $$
	UPDATE amoro_meta.blocker_head SET optimize_expires_at = optimize_expires_at - passed,
		batch_write_expires_at = batch_write_expires_at - passed, changed_at = changed_at - passed;
	UPDATE amoro_meta.blocker SET check_at = check_at - passed;
$$;
-- message, detail without the moment, and SQLSTATE of what a statement raises
CREATE FUNCTION refused(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text; hint text;
BEGIN
	EXECUTE statement;
	RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, regexp_replace(regexp_replace(detail, '\d{4}-[0-9:. +-]+', 'MOMENT', 'g'), '[Bb]locker \d+', 'blocker N', 'g'), hint);
END;
$$;

-- blockAndRelease: both operations of a table that nobody knows
SELECT count(*) FROM get_blockers('lake', 'db', 't');
SELECT shown(acquire_blocker('lake', 'db', 't', '{BATCH_WRITE,OPTIMIZE,OPTIMIZE}'));
SELECT operation, amoro_meta.table_is_blocked('lake', 'db', 't', operation) FROM unnest('{OPTIMIZE,BATCH_WRITE}'::text[]) operation;
SELECT blocker_id AS b FROM get_blockers('lake', 'db', 't') \gset
SELECT (properties->>'expiration.time')::bigint - (properties->>'create.time')::bigint AS difference, properties->>'blocker.timeout' AS timeout,
	(properties->>'create.time')::bigint = floor(extract(epoch FROM created_at) * 1000) AS created,
	(SELECT array_agg(k ORDER BY k) FROM jsonb_object_keys(properties) k) AS keys
	FROM get_blockers('lake', 'db', 't');
SELECT g = b AS the_view_says_the_same FROM get_blockers('lake', 'db', 't') g, blockers b;
SELECT release_blocker(:b);
SELECT release_blocker(:b) AS again;
SELECT count(*) FROM get_blockers('lake', 'db', 't');
SELECT count(*) FROM blockers;

-- blockConflict: the whole matrix, all pairs of sets of operations
SELECT held, wanted, refused(format('SELECT acquire_blocker(''lake'', ''db'', %1$L, %2$L); SELECT acquire_blocker(''lake'', ''db'', %1$L, %3$L)',
		't' || row_number() OVER (), held, wanted)) ~ '^AM101' AS conflict
	FROM unnest(ARRAY['{OPTIMIZE}', '{BATCH_WRITE}', '{OPTIMIZE,BATCH_WRITE}']) held, unnest(ARRAY['{OPTIMIZE}', '{BATCH_WRITE}', '{OPTIMIZE,BATCH_WRITE}']) wanted;
SELECT amoro_meta.drop_blockers('lake');

-- the refusal says who, what and until when; the first one stays
SELECT shown(acquire_blocker('lake', 'db', 't', '{OPTIMIZE}', '10 s')) AS first;
SELECT shown(acquire_blocker('lake', 'db', 't', '{BATCH_WRITE}', '20 s')) AS disjoint;
SELECT refused($$SELECT acquire_blocker('lake', 'db', 't', '{BATCH_WRITE,OPTIMIZE}')$$);
SELECT refused($$SELECT acquire_blocker('la''ke', 'd.b', 't/"', '{OPTIMIZE}'); SELECT acquire_blocker('la''ke', 'd.b', 't/"', '{OPTIMIZE}')$$);
SELECT shown(g) FROM get_blockers('lake', 'db', 't') g;
-- names are three columns: no two of these are the same table
SELECT shown(acquire_blocker('a.b', 'c', 'd', '{OPTIMIZE}')), shown(acquire_blocker('a', 'b.c', 'd', '{OPTIMIZE}')),
	shown(acquire_blocker('a', 'b', 'c.d', '{OPTIMIZE}'));
SELECT amoro_meta.drop_blockers(c) FROM unnest('{lake,a.b,a}'::text[]) c;

-- autoIncrementBlockerId: ids are fencing tokens and grow; each knows the one before
SELECT blocker_id AS b1 FROM acquire_blocker('lake', 'db', 'ids', '{OPTIMIZE}') \gset
SELECT release_blocker(:b1);
SELECT blocker_id - :b1 AS difference, prev_blocker_id = :b1 AS prev FROM acquire_blocker('lake', 'db', 'ids', '{OPTIMIZE}');
SELECT assert_blocker(blocker_id) = blocker_id AS token FROM get_blockers('lake', 'db', 'ids');

BEGIN;	-- so that the coordinator does not sweep in between
-- renewBlocker: from now on, with its own timeout or another one
SELECT blocker_id AS r FROM acquire_blocker('lake', 'db', 'renewed', '{OPTIMIZE,BATCH_WRITE}', '30 s') \gset
CALL pass('20 s');
SELECT expires_at BETWEEN clock_timestamp() + '29 s' AND clock_timestamp() + '30 s' AS from_now, expires_at - created_at > '30 s' AS longer,
	operations FROM renew_blocker(:r);
SELECT expires_at BETWEEN clock_timestamp() + '299 s' AND clock_timestamp() + '300 s' AS from_now, properties->>'blocker.timeout' AS timeout
	FROM renew_blocker(:r, '5 min');
SELECT count(*) FROM get_blockers('lake', 'db', 'renewed');

-- expired is expired: not renewed, not asserted, not shown, taken over; whether the sweep was there or not (B05)
CALL pass('5 min');
SELECT replace(refused(format('SELECT %s(%s)', f, :r)), :'r', 'R') FROM unnest('{renew_blocker,assert_blocker}'::text[]) f;
SELECT count(*) FROM get_blockers('lake', 'db', 'renewed');
SELECT amoro_meta.table_is_blocked('lake', 'db', 'renewed', 'OPTIMIZE');
SELECT release_blocker(:r) AS released;
SELECT blocker_id AS r FROM acquire_blocker('lake', 'db', 'renewed', '{OPTIMIZE,BATCH_WRITE}', '30 s') \gset
CALL pass('30 s');
SELECT blocker_id AS taken FROM acquire_blocker('lake', 'db', 'renewed', '{OPTIMIZE}') \gset
SELECT replace(refused(format('SELECT %s(%s)', f, :r)), :'r', 'R'), release_blocker(:r) FROM unnest('{renew_blocker,assert_blocker}'::text[]) f;
SELECT shown(g), blocker_id = :taken AS same FROM get_blockers('lake', 'db', 'renewed') g;
COMMIT;

-- ids of nobody
SELECT id, release_blocker(id), left(refused(format('SELECT renew_blocker(%L)', id)), 5) AS renew, left(refused(format('SELECT assert_blocker(%L)', id)), 5) AS assert
	FROM unnest(ARRAY[0, -1, 1, 9223372036854775807, -9223372036854775808]) id;
SELECT release_blocker(NULL);
SELECT renew_blocker(NULL);
SELECT assert_blocker(NULL);

BEGIN;	-- so that the coordinator does not sweep in between
-- a retry with the same key gets the same blocker, as long as that holds (B08)
SELECT blocker_id AS k FROM acquire_blocker('lake', 'db', 'keyed', '{OPTIMIZE}', '10 s', request_id => '11111111-1111-1111-1111-111111111111') \gset
SELECT blocker_id = :k AS same FROM acquire_blocker('lake', 'db', 'keyed', '{OPTIMIZE}', '10 s', request_id => '11111111-1111-1111-1111-111111111111');
SELECT left(refused($$SELECT acquire_blocker('lake', 'db', 'keyed', '{OPTIMIZE}')$$), 5) AS without_key,
	left(refused($$SELECT acquire_blocker('lake', 'db', 'keyed', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111112')$$), 5) AS other_key;
SELECT refused($$SELECT acquire_blocker('lake', 'db', 'keyed', '{BATCH_WRITE}', request_id => '11111111-1111-1111-1111-111111111111')$$);
SELECT blocker_id > :k AS of_another_table FROM acquire_blocker('lake', 'db', 'keyed too', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111111');
CALL pass('10 s');
SELECT blocker_id > :k AS new FROM acquire_blocker('lake', 'db', 'keyed', '{OPTIMIZE}', '10 s', request_id => '11111111-1111-1111-1111-111111111111');
COMMIT;

-- savepoints (B13): what is rolled back was never there
BEGIN;
SAVEPOINT s;
SELECT shown(acquire_blocker('lake', 'db', 'saved', '{OPTIMIZE}'));
ROLLBACK TO s;
SELECT count(*) FROM get_blockers('lake', 'db', 'saved');
SELECT shown(acquire_blocker('lake', 'db', 'saved', '{BATCH_WRITE,OPTIMIZE}'));
SAVEPOINT s;
SELECT release_blocker(blocker_id) FROM get_blockers('lake', 'db', 'saved');
SELECT count(*) FROM get_blockers('lake', 'db', 'saved');
ROLLBACK TO s;
SELECT count(*) FROM get_blockers('lake', 'db', 'saved');
COMMIT;
SELECT shown(g) FROM get_blockers('lake', 'db', 'saved') g;
-- twice in one statement
SELECT left(refused($$SELECT acquire_blocker('lake', 'db', 'twice', '{OPTIMIZE}'), acquire_blocker('lake', 'db', 'twice', '{OPTIMIZE}')$$), 5);

-- the clock is that of the call, not of the transaction (B03)
BEGIN;
SELECT shown(acquire_blocker('lake', 'db', 'late', '{OPTIMIZE}', '50 ms'));
SELECT left(refused($$SELECT acquire_blocker('lake', 'db', 'late', '{OPTIMIZE}')$$), 5) AS while_it_holds;
DO $$
BEGIN
	WHILE amoro_meta.table_is_blocked('lake', 'db', 'late', 'OPTIMIZE') LOOP NULL; END LOOP;
END;
$$;
SELECT created_at > now() + '50 ms' AS now_and_not_then, expires_at > clock_timestamp() + '900 ms' AS whole
	FROM acquire_blocker('lake', 'db', 'late', '{OPTIMIZE}', '1 s');
COMMIT;
BEGIN;	-- so that the coordinator does not sweep in between
-- a wall clock that goes back lets blockers last longer, and never takes a token back
SELECT blocker_id AS before FROM acquire_blocker('lake', 'db', 'clock', '{OPTIMIZE}', '10 s') \gset
CALL pass('-1 hour');
SELECT left(refused($$SELECT acquire_blocker('lake', 'db', 'clock', '{OPTIMIZE}')$$), 5);
SELECT expires_at < clock_timestamp() + '11 s' AS renewal_heals FROM renew_blocker(:before);
CALL pass('1 hour');
SELECT blocker_id > :before AS grows FROM acquire_blocker('lake', 'db', 'clock', '{OPTIMIZE}');
COMMIT;

-- timeouts (B10)
SELECT timeout, refused(format('SELECT acquire_blocker(''lake'', ''db'', ''limits'', ''{OPTIMIZE}'', %L)', timeout))
	FROM unnest(ARRAY['0', '-1 s', '999 us', '1 day 1 ms', '2147483648 ms', '178000000 years', '-178000000 years', '9223372036854 s', '2147483647 days', '1 month -40 days']) timeout;
SELECT shown(acquire_blocker('lake', 'db', 'limits', '{OPTIMIZE}', NULL)) AS null_is_the_setting, shown(acquire_blocker('lake', 'db', 'limits2', '{OPTIMIZE}', '1 day')),
	shown(acquire_blocker('lake', 'db', 'limits3', '{OPTIMIZE}', '1.0015 ms'));
SELECT refused(format('SELECT renew_blocker(%s, ''0'')', blocker_id)) FROM get_blockers('lake', 'db', 'limits');

-- operations (B11)
SELECT operations, refused(format('SELECT acquire_blocker(''lake'', ''db'', ''odd'', %L)', operations))
	FROM unnest(ARRAY['{}', NULL, '{NULL}', '{optimize}', '{"OPTIMIZE "}', '{OPTIMIZE,COMPACT}', '{""}', '{{OPTIMIZE},{BATCH_WRITE}}']) operations;
SELECT shown(acquire_blocker('lake', 'db', 'odd', (SELECT array_agg('OPTIMIZE'::text) FROM generate_series(1, 10000)))) AS ten_thousand_times;
SELECT length(refused(format('SELECT acquire_blocker(''lake'', ''db'', ''odd'', ARRAY[%L])', repeat('x', 100000)))) AS length;
SELECT amoro_meta.table_is_blocked('lake', 'db', 'odd', 'COMPACT');
SELECT amoro_meta.table_is_blocked('lake', 'db', 'odd', NULL);

-- names
SELECT left(name, 20), refused(format('SELECT acquire_blocker(%L, ''db'', ''t'', ''{OPTIMIZE}'')', name))
	FROM unnest(ARRAY[NULL, '', repeat('ü', 256), E'a\tb']) name;
SELECT shown(acquire_blocker('ключ', repeat('ü', 3), E'"; DROP TABLE x; --', '{OPTIMIZE}'));

-- properties (B16)
SELECT left(properties, 20), refused(format('SELECT acquire_blocker(''lake'', ''db'', ''properties'', ''{OPTIMIZE}'', properties => %L)', properties))
	FROM unnest(ARRAY[NULL, '[]', '1', '"x"', 'null', '{"a": 1}', '{"a": {"b": "c"}}', '{"a": null}', '{"": "x"}', '{"a": "\u0000"}', '{"a": "' || repeat('x', 65536) || '"}',
		(SELECT jsonb_object_agg(n, 'x')::text FROM generate_series(1, 1001) n)]) properties;
SELECT properties->'b' AS empty, properties->>'a' AS "ours wins", properties->>'create.time' <> 'mine' AS reserved
	FROM acquire_blocker('lake', 'db', 'properties', '{OPTIMIZE}', properties => '{"a": "x''y", "b": "", "create.time": "mine"}');

-- nothing came of all that was refused
SELECT table_name FROM blockers WHERE table_name IN ('odd', 'properties', 'twice') ORDER BY 1;

-- roles (X08): a blocker belongs to the role that acquired it
CREATE ROLE regress_amoro_writer;
CREATE ROLE regress_amoro_other;
CREATE ROLE regress_amoro_boss IN ROLE regress_amoro_writer;
CREATE ROLE regress_amoro_operator;
SELECT grant_access(r, 'writer') FROM unnest('{regress_amoro_writer,regress_amoro_other,regress_amoro_boss}'::text[]) r;
SELECT grant_access('regress_amoro_operator', 'operator');
SET ROLE regress_amoro_writer;
SELECT blocker_id AS w, acquired_by FROM acquire_blocker('lake', 'db', 'owned', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111111') \gset
SET ROLE regress_amoro_other;
SELECT replace(refused(format('SELECT %s(%s)', f, :w)), :'w', 'W') FROM unnest('{renew_blocker,release_blocker,assert_blocker,force_release_blocker}'::text[]) f;
SELECT purge_blockers();
SELECT refused($$SELECT acquire_blocker('lake', 'db', 'owned', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111111')$$) AS "key of another role";
SET ROLE regress_amoro_boss;
SELECT assert_blocker(:w) = :w AS asserted, (renew_blocker(:w)).acquired_by;
SET ROLE regress_amoro_operator;
SELECT refused(format('SELECT release_blocker(%s)', :w));
SELECT acquired_by FROM blockers WHERE blocker_id = :w;
SELECT force_release_blocker(:w), force_release_blocker(:w) AS again;
SELECT purge_blockers() >= 0 AS swept;
RESET ROLE;
SELECT revoke_access(r, 'writer') FROM unnest('{regress_amoro_writer,regress_amoro_other,regress_amoro_boss}'::text[]) r;
SELECT revoke_access('regress_amoro_operator', 'operator');
DROP ROLE regress_amoro_writer, regress_amoro_other, regress_amoro_boss, regress_amoro_operator;

BEGIN;	-- so that the coordinator does not sweep in between
-- the sweep removes what has expired, of names that nobody knows too, and nothing else; in batches
SELECT count(*) FROM (SELECT acquire_blocker('lake', 'swept', 't' || n, '{OPTIMIZE}', '10 s') FROM generate_series(1, 1100) n) a;
-- plans: every statement of the calls goes through an index
CREATE FUNCTION plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line ~ 'Scan' THEN RETURN NEXT btrim(line, ' ->'); END IF;
	END LOOP;
END;
$$;
ANALYZE amoro_meta.blocker_head, amoro_meta.blocker;
SELECT * FROM plan($$SELECT FROM amoro_meta.blocker_head WHERE catalog_name = 'a' AND database_name = 'b' AND table_digest = sha256('c')$$);
SELECT * FROM plan($$UPDATE amoro_meta.blocker_head SET version = version + 1 WHERE head_id = 1 AND version = 2$$);
SELECT * FROM plan($$DELETE FROM amoro_meta.blocker WHERE blocker_id = 1$$);
SELECT * FROM plan($$SELECT blocker_id FROM amoro_meta.blocker WHERE check_at <= '2000-01-01' ORDER BY check_at LIMIT 1000 FOR UPDATE SKIP LOCKED$$);
CALL pass('10 s');
SELECT count(*) FROM (SELECT acquire_blocker('lake', 'live', 't' || n, '{OPTIMIZE}', '1 hour') FROM generate_series(1, 3) n) a;
-- renewed, so the sweep comes too early and looks later
SELECT blocker_id AS late FROM acquire_blocker('lake', 'live', 'renewed', '{BATCH_WRITE}', '1 s') \gset
SELECT count(renew_blocker(:late, '1 hour'));
UPDATE amoro_meta.blocker SET check_at = clock_timestamp() - interval '1 ms' WHERE blocker_id = :late;
SELECT purge_blockers() = amoro_meta.sweep_batch() AS full_batch;
SELECT purge_blockers() > 100 AS rest, purge_blockers() AS nothing;
SELECT count(*) FROM amoro_meta.blocker b JOIN amoro_meta.blocker_head h USING (head_id) WHERE h.database_name = 'swept';
SELECT table_name FROM blockers WHERE database_name = 'live' ORDER BY 1;
SELECT check_at > clock_timestamp() + '50 min' AS later FROM amoro_meta.blocker WHERE blocker_id = :late;
-- heads of tables that nobody has blocked for ten minutes go as well; a later blocker has a larger token all the same
SELECT max(newest_blocker_id) AS newest FROM amoro_meta.blocker_head WHERE database_name = 'swept' \gset
UPDATE amoro_meta.blocker_head SET changed_at = changed_at - interval '10 min';
SELECT sum(purge_blockers()) >= 1100 AS heads FROM generate_series(1, 4);
SELECT count(*) FROM amoro_meta.blocker_head WHERE database_name = 'swept';
SELECT count(*) FROM blockers WHERE database_name = 'live';
SELECT blocker_id > :newest AS grows, prev_blocker_id FROM acquire_blocker('lake', 'swept', 't1', '{OPTIMIZE}');
-- even if somebody set the sequence back
SELECT newest_blocker_id AS newest FROM amoro_meta.blocker_head WHERE database_name = 'swept' AND table_name = 't1' \gset
SELECT amoro_meta.drop_blockers('lake', 'swept');
SELECT last_value AS kept FROM amoro_meta.id_sequence \gset
SELECT setval('amoro_meta.id_sequence', 1);
SELECT blocker_id > :newest AS grows FROM acquire_blocker('lake', 'swept', 't1', '{OPTIMIZE}');
SELECT setval('amoro_meta.id_sequence', :kept) > 0 AS back;
-- and where the row is that of a dump
SELECT blocker_id AS newest FROM get_blockers('lake', 'swept', 't1') \gset
INSERT INTO amoro_meta.blocker_era (era, swept_head_id) VALUES (0, 0);
SELECT blocker_id > :newest + (1::bigint << 39) AS grows FROM acquire_blocker('lake', 'swept', 'restored', '{OPTIMIZE}');
SELECT count(*) FROM amoro_meta.blocker_era;
COMMIT;

-- dropping a table, a database, a catalog
SELECT count(acquire_blocker(c, d, t, '{OPTIMIZE}')) FROM unnest('{c1,c2}'::text[]) c, unnest('{d1,d2}'::text[]) d, unnest('{t1,t2}'::text[]) t;
SELECT amoro_meta.drop_blockers('c1', 'd1', 't1'), amoro_meta.drop_blockers('c1', 'd2'), amoro_meta.drop_blockers('c2');
SELECT catalog_name, database_name, table_name FROM blockers WHERE catalog_name ~ '^c\d' ORDER BY 1, 2, 3;
SELECT count(*) FROM amoro_meta.blocker b LEFT JOIN amoro_meta.blocker_head h USING (head_id) WHERE h.head_id IS NULL;

-- a change of the head moves no index
SELECT pg_stat_force_next_flush();
SELECT n_tup_hot_upd > 0.9 * n_tup_upd AS hot FROM pg_stat_user_tables WHERE relid = 'amoro_meta.blocker_head'::regclass;

-- nobody fills the server with names (X09)
SET amoro_meta.max_blockers_per_role = 100;
SELECT refused($$SELECT count(acquire_blocker('lake', 'many', 't' || n, '{OPTIMIZE}')) FROM generate_series(1, 1000) n$$);
RESET amoro_meta.max_blockers_per_role;
-- counters
SELECT amoro_stat_reset();
BEGIN;	-- so that the coordinator does not sweep in between
SELECT blocker_id AS c FROM acquire_blocker('lake', 'db', 'counted', '{OPTIMIZE}', '1 ms') \gset
CALL pass('1 s');
SELECT blocker_id AS c FROM acquire_blocker('lake', 'db', 'counted', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111111') \gset
COMMIT;
SELECT count(acquire_blocker('lake', 'db', 'counted', '{OPTIMIZE}', request_id => '11111111-1111-1111-1111-111111111111'));
SELECT left(refused($$SELECT acquire_blocker('lake', 'db', 'counted', '{OPTIMIZE}')$$), 5);
SELECT count(renew_blocker(:c)), count(assert_blocker(:c)), count(release_blocker(:c));
SELECT left(refused(format('SELECT renew_blocker(%s)', :c)), 5), release_blocker(:c);
SELECT * FROM amoro_stat_blocker;

-- read only
BEGIN READ ONLY;
SELECT acquire_blocker('lake', 'db', 'read only', '{OPTIMIZE}');
ROLLBACK;
DROP FUNCTION shown, refused, plan;
DROP PROCEDURE pass;
DROP EXTENSION amoro_meta;
