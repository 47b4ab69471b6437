\set fate random(1, 3)
SELECT soak.attempt(format(CASE WHEN :fate = 1 THEN 'SELECT cancel_process(%s)' ELSE 'SELECT finish_process(%s)' END,
	coalesce((SELECT process_id FROM processes WHERE ended_at IS NULL ORDER BY random() LIMIT 1), 0)));
