-- optimizers of every group that poll once and leave, or are just not heard of any more
\set name random(0, 3)
\set fate random(1, 3)
SELECT quote_nullable(soak.attempt(format('SELECT register_optimizer(%L, 1, 1)', CASE :name WHEN 0 THEN 'default' ELSE 'group' || :name END))) AS own \gset
SELECT soak.attempt(format('SELECT poll_task(%L, 0)', :own));
SELECT soak.attempt(format('SELECT count(*) FROM touch_optimizer(%L)', :own));
\if :fate > 1
SELECT soak.attempt(format('SELECT unregister_optimizer(%L)', :own));
\endif
