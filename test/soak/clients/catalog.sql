-- catalogs come, name another group as that of their tables, have a database, and go
\set name random(1, 4)
\set group random(1, 3)
\set fate random(1, 6)
SELECT soak.attempt(format(CASE :fate WHEN 1 THEN 'SELECT create_catalog(%1$L, properties => %2$L)' WHEN 2 THEN 'SELECT alter_catalog(%1$L, %2$L)'
	WHEN 3 THEN 'SELECT drop_catalog(%1$L)' WHEN 4 THEN 'SELECT create_database(%1$L, %3$L)' ELSE 'SELECT drop_database(%1$L, %3$L, cascade => true)' END,
	'catalog' || :name, jsonb_build_object('table.self-optimizing.group', 'group' || :group), 'd'));
