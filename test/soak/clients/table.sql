-- tables go to another group, also one that is not there, and are dropped and created while they have processes
\set name random(1, 20)
\set group random(0, 3)
\set fate random(1, 5)
SELECT soak.attempt(format(CASE :fate WHEN 1 THEN 'SELECT drop_table(%1$L, %2$L, %3$L)' WHEN 2 THEN 'SELECT create_table(%1$L, %2$L, %3$L, %4$L)'
	ELSE 'SELECT alter_table(%1$L, %2$L, %3$L, %5$L)' END, 'lake', 'sales', 'table ' || :name,
	'{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}',
	jsonb_build_array(jsonb_build_object('op', 'set_properties', 'properties', jsonb_build_object('self-optimizing.group',
		CASE :group WHEN 0 THEN 'default' ELSE 'group' || :group END)))));
