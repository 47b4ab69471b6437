-- threads of an optimizer; the pair of a claim and its record is one statement, so neither is without the other
\set fate random(1, 100)
WITH p AS MATERIALIZED (SELECT process_id, task_id, attempt FROM poll_task(:token::uuid, :client_id, wait => '100ms')),
	g AS (INSERT INTO soak.given SELECT process_id, task_id, attempt, 1 FROM p WHERE process_id IS NOT NULL
		ON CONFLICT (process_id, task_id, attempt) DO UPDATE SET times = soak.given.times + 1)
	SELECT coalesce(max(process_id), 0) AS process_id, coalesce(max(task_id), 0) AS task_id, coalesce(max(attempt), 0) AS attempt FROM p \gset
\if :process_id > 0 and :fate > 5
SELECT soak.attempt(format('SELECT ack_task(%L, %s, %s, %s, %s)', :token, :client_id, :process_id, :task_id, :attempt));
\if :fate > 10
WITH c AS MATERIALIZED (SELECT complete_task(:token::uuid, :client_id, :process_id, :task_id, :attempt,
		error => CASE WHEN :fate < 20 THEN 'failed' END) AS answer),
	d AS (INSERT INTO soak.done SELECT :process_id, :task_id, 1 FROM c WHERE answer = 'success'
		ON CONFLICT (process_id, task_id) DO UPDATE SET times = soak.done.times + 1)
	INSERT INTO soak.told SELECT answer FROM c;
\endif
\endif
