-- sessions are opened by one, used and closed by others: one of them closes it, and from then on nobody is in it
\set fate random(1, 6)
\if :fate = 1
INSERT INTO soak.session (id) SELECT id FROM (SELECT soak.attempt('SELECT open_terminal_session(''lake'')') AS id OFFSET 0) o WHERE id IS NOT NULL;
\endif
SELECT quote_literal(coalesce((SELECT id FROM (SELECT id FROM soak.session ORDER BY number DESC LIMIT 5) s ORDER BY random() LIMIT 1), '')) AS id \gset
SELECT count(*) AS closed_before FROM soak.closed WHERE id = :id AND first \gset
SELECT coalesce(soak.attempt(format('SELECT count(*) FROM execute_in_terminal(%L, %L)', :id,
	'show catalogs; show databases; show tables in lake.sales; show optimizers; describe lake.sales.orders; select 1'))::integer, -1) AS executed \gset
INSERT INTO soak.wrong SELECT 'a session that was closed is still used', :id, '' WHERE :closed_before > 0 AND :executed >= 0;
\if :fate = 2
INSERT INTO soak.closed SELECT :id, close_terminal_session(:id);
\endif
