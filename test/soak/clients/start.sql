\set name random(1, 30)
\set count random(0, 40)
\set priority random(-1, 1)
SELECT soak.attempt(format('SELECT start_process(%L, %L, %L, %L,
	(SELECT coalesce(jsonb_agg(jsonb_build_object()), %L) FROM generate_series(1, %s)), %s, quota => 2)',
	'lake', 'sales', 'table ' || :name, 'MINOR', '[]', :count, :priority));
