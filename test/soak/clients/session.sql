-- two clients in one session, each with a key of its own, one of them with the database: what it wrote last, it finds
\set n :n + 1
SELECT count(*) FROM execute_in_terminal(:session, format('set client%s = %s; show blockers in lake.sales.orders', :client_id, :n));
INSERT INTO soak.wrong SELECT 'a session has lost a property', :client_id, :n
	WHERE (terminal_context(:session)->'properties'->>('client' || :client_id)) IS DISTINCT FROM :n::text;
\if :client_id = 0
SELECT count(*) FROM execute_in_terminal(:session, CASE WHEN :n % 2 = 0 THEN 'use lake.sales' ELSE 'use lake.other' END);
INSERT INTO soak.wrong SELECT 'a session has lost where it is', :client_id, :n
	WHERE terminal_context(:session)->>'database' IS DISTINCT FROM CASE WHEN :n % 2 = 0 THEN 'sales' ELSE 'other' END;
\endif
