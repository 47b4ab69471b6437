/* The node registry. */

CREATE TABLE amoro_meta.node
(
	node_id			bigint PRIMARY KEY,
	node_name		text NOT NULL UNIQUE,
	node_kind		text NOT NULL,
	incarnation		uuid NOT NULL,
	endpoint		text,
	protocol_version integer NOT NULL,
	registered_by	regrole NOT NULL,
	registered_at	timestamptz NOT NULL,
	removing		boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE amoro_meta.node IS 'nodes that have registered; whether they live is in shared memory, see node_status';
SELECT pg_catalog.pg_extension_config_dump('amoro_meta.node', '');
