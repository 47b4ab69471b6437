-- The plan of an assignment: whatever there was, afterwards nodes that receive have numbers that differ by at most one, and
-- no plan moves fewer slots. A row below a heading is a violation.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
CREATE EXTENSION amoro_meta;
CREATE FUNCTION pg_temp.plan(slot_count integer, replica_count integer, placed text, receiving bigint[], keeping bigint[] DEFAULT '{}',
							 move boolean DEFAULT true, fixed integer[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s: %s', p.slot, p.node_ids) FROM
		(SELECT coalesce(array_agg(split_part(t, ':', 1)::integer), '{}') AS slots, coalesce(array_agg(split_part(t, ':', 2)::bigint), '{}') AS nodes
		 FROM regexp_split_to_table(placed, ' ') t WHERE t <> '') c,
		amoro_meta.planned_assignment(slot_count, replica_count, slots, nodes, fixed, receiving, keeping, move) p ORDER BY p.slot
	$$;

-- nobody has anything; nobody is there
SELECT pg_temp.plan(5, 1, '', '{1,2}');
SELECT pg_temp.plan(3, 2, '', '{3,1,2}');
SELECT pg_temp.plan(3, 1, '', '{}');
-- fewer nodes than places
SELECT pg_temp.plan(2, 3, '', '{1,2}');
-- one more node takes its share, and nothing else moves
SELECT pg_temp.plan(6, 1, '0:1 1:1 2:1 3:2 4:2 5:2', '{1,2,3}');
-- that is fair enough: no move
SELECT pg_temp.plan(5, 1, '0:1 1:1 2:1 3:2 4:2', '{1,2}');
-- a node that is gone: its slots go to those that have fewest
SELECT pg_temp.plan(6, 1, '0:1 1:1 2:1 3:2 4:3 5:3', '{1,2}');
-- one that is out of touch keeps what it has, whoever comes; and is given nothing
SELECT pg_temp.plan(6, 1, '0:1 1:1 2:1 3:2 4:2 5:2', '{1,3}', '{2}');
SELECT pg_temp.plan(4, 1, '0:2', '{1}', '{2}');
-- without moves only what is free is given away
SELECT pg_temp.plan(6, 1, '0:1 1:1 2:1 3:1 4:1', '{1,2}', move => false);
SELECT pg_temp.plan(6, 2, '0:1 0:2 1:1 1:2 2:1', '{1,2,3}', move => false);
-- somebody else is moving slot 0
SELECT pg_temp.plan(4, 1, '0:1 1:1 2:1 3:1', '{1,2}', fixed => '{0,1}');
-- one too many, or twice the same
SELECT pg_temp.plan(1, 1, '0:1 0:2', '{1,2}');
SELECT pg_temp.plan(4, 1, '0:1 0:2 1:1 1:2 2:1 2:2 3:1 3:3', '{1,2}', move => false);
SELECT pg_temp.plan(3, 2, '0:1 0:2 0:3 1:1 1:2 1:3 2:1', '{1,2,3}', '{}', false);
-- nonsense
SELECT pg_temp.plan(0, 1, '', '{1}');
SELECT pg_temp.plan(1, 0, '', '{1}');
SELECT pg_temp.plan(1, 1, '1:1', '{1}');
SELECT pg_temp.plan(1, 1, '-1:1', '{1}');
SELECT pg_temp.plan(1, 1, '', '{1}', fixed => '{1}');
SELECT pg_temp.plan(1, 1, '', '{1,NULL}');
SELECT amoro_meta.planned_assignment(1, 1, '{0}', '{}', '{}', '{}', '{}', true);

-- Two hundred worlds: up to 60 slots of 1 to 3 places, up to 9 nodes, of which some receive, some keep, some are gone.
SELECT setseed(0.5);
CREATE TEMP TABLE world AS
	SELECT w, 1 + (random() * 59)::integer AS slot_count, 1 + w % 3 AS replica_count, w % 4 <> 0 AS move,
		1 + (random() * 4)::integer AS receiving, (random() * 2)::integer AS keeping, (random() * 2)::integer AS gone
	FROM generate_series(1, 200) w;
CREATE TEMP TABLE before AS
	SELECT w, slot, node FROM
		(SELECT w.w, replica_count, slot, node, row_number() OVER (PARTITION BY w.w, slot ORDER BY random() * node) AS choice
		 FROM world w, generate_series(0, slot_count - 1) slot, generate_series(1, receiving + keeping + gone) node) c
	WHERE choice <= replica_count AND random() < CASE WHEN w % 5 = 0 THEN 0.5 ELSE 1.1 END;
CREATE INDEX ON before (w, slot, node);
ANALYZE world, before;
CREATE TEMP TABLE planned AS
	SELECT w.w, p.slot, p.node_ids FROM world w
		CROSS JOIN LATERAL (SELECT coalesce(array_agg(b.slot), '{}') AS slots, coalesce(array_agg(b.node::bigint), '{}') AS nodes FROM before b WHERE b.w = w.w) b
		CROSS JOIN LATERAL amoro_meta.planned_assignment(slot_count, replica_count, b.slots, b.nodes, '{}',
			ARRAY(SELECT generate_series(1, receiving)::bigint), ARRAY(SELECT generate_series(receiving + 1, receiving + keeping)::bigint), move) p;
CREATE TEMP TABLE after AS
	SELECT p.w, p.slot, i.node FROM planned p, unnest(p.node_ids) i (node)
	UNION ALL SELECT b.w, b.slot, b.node FROM before b WHERE NOT EXISTS (SELECT FROM planned p WHERE p.w = b.w AND p.slot = b.slot);
CREATE INDEX ON after (w, slot, node);
CREATE INDEX ON after (w, node);
ANALYZE planned, after;
SELECT 'planned', count(*) > 1000 FROM planned;
SELECT 'one node twice', w, slot, node FROM after GROUP BY w, slot, node HAVING count(*) > 1;
SELECT 'one that is gone', a.* FROM after a JOIN world w USING (w) WHERE a.node > w.receiving + w.keeping;
SELECT 'given to one that only keeps', a.* FROM after a JOIN world w USING (w) WHERE a.node > w.receiving
	AND NOT EXISTS (SELECT FROM before b WHERE (b.w, b.slot, b.node) = (a.w, a.slot, a.node));
SELECT 'taken from one that keeps', b.* FROM before b JOIN world w USING (w) WHERE b.node > w.receiving AND b.node <= w.receiving + w.keeping
	AND NOT EXISTS (SELECT FROM after a WHERE (b.w, b.slot, b.node) = (a.w, a.slot, a.node));
SELECT 'taken without move', b.* FROM before b JOIN world w USING (w) WHERE NOT w.move AND b.node <= w.receiving
	AND NOT EXISTS (SELECT FROM after a WHERE (b.w, b.slot, b.node) = (a.w, a.slot, a.node));
-- as many as there should be, or can be
SELECT 'too few or too many', w.w, s.slot, s.count FROM world w,
	LATERAL (SELECT slot, (SELECT count(*) FROM after a WHERE a.w = w.w AND a.slot = g.slot) AS count,
				(SELECT count(*) FROM after a WHERE a.w = w.w AND a.slot = g.slot AND a.node > w.receiving) AS kept
			 FROM generate_series(0, w.slot_count - 1) g (slot)) s
	WHERE s.count <> least(w.replica_count, w.receiving + s.kept);
CREATE TEMP VIEW load AS
	SELECT w.w, n.node, (SELECT count(*) FROM before b WHERE (b.w, b.node) = (w.w, n.node)) AS before,
		(SELECT count(*) FROM after a WHERE (a.w, a.node) = (w.w, n.node)) AS after
	FROM world w, generate_series(1, w.receiving) n (node);
SELECT 'not balanced', w, min(after), max(after) FROM load JOIN world USING (w) WHERE move GROUP BY w HAVING max(after) - min(after) > 1;
-- No plan can take fewer from those that receive: who has more than the greater share must give, and the smaller share must be
-- reached by all; what is free anyway goes to whoever lacks most.
SELECT 'moves too much', w.w, taken.count, least_count FROM world w
	CROSS JOIN LATERAL (SELECT count(*) FROM before b WHERE b.w = w.w AND b.node <= w.receiving
		AND NOT EXISTS (SELECT FROM after a WHERE (b.w, b.slot, b.node) = (a.w, a.slot, a.node))) taken
	CROSS JOIN LATERAL (SELECT div(sum(after), w.receiving) AS share, sum(after) % w.receiving AS rest, sum(after) - sum(before) AS free FROM load l WHERE l.w = w.w) s
	CROSS JOIN LATERAL (SELECT greatest(sum(greatest(before - s.share - (s.rest > 0)::integer, 0)),
		sum(greatest(s.share - before, 0)) - s.free, 0) AS least_count FROM load l WHERE l.w = w.w) b
	WHERE w.move AND w.replica_count = 1 AND taken.count > least_count;
SELECT 'moves', count(*) > 100 FROM before b JOIN world w USING (w) WHERE w.replica_count = 1 AND w.move AND b.node <= w.receiving
	AND NOT EXISTS (SELECT FROM after a WHERE (b.w, b.slot, b.node) = (a.w, a.slot, a.node));

-- as many slots and places as there can be, on twice as many nodes as before: a plan that looked at all of them for each move would take minutes
SET statement_timeout = '20s';
SELECT count(*), min(cardinality(p.node_ids)), max(cardinality(p.node_ids)) FROM
	(SELECT array_agg(place / 16) AS slots, array_agg(((place / 16 * 7 + place % 16) % 500 + 1)::bigint) AS nodes FROM generate_series(0, 159999) place) c,
	amoro_meta.planned_assignment(10000, 16, c.slots, c.nodes, '{}', ARRAY(SELECT generate_series(1, 1000)::bigint), '{}', true) p;
RESET statement_timeout;

-- the slot of a name is what anybody can compute: sha256("root.site1.turbine7") begins with these four bytes
SELECT left(encode(sha256('root.site1.turbine7'), 'hex'), 8), amoro_meta.slot_of_name('root.site1.turbine7', 1000),
	('x' || left(encode(sha256('root.site1.turbine7'), 'hex'), 8))::bit(32)::bigint % 1000;
SELECT min(c), max(c) FROM (SELECT count(*) AS c FROM generate_series(1, 100000) i GROUP BY amoro_meta.slot_of_name(i::text, 100)) s;
DROP EXTENSION amoro_meta;
