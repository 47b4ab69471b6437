\set name random(1, 3)
\set fate random(1, 3)
SELECT soak.attempt(format(CASE :fate WHEN 1 THEN 'SELECT create_optimizer_group(%L, properties => %L)' WHEN 2 THEN 'SELECT drop_optimizer_group(%L)'
	ELSE 'SELECT alter_optimizer_group(%L, properties => %L)' END, 'group' || :name,
	jsonb_build_object('break-quota-limit-enabled', 'false', 'note', random()::text)));
