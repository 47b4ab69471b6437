/* Views over tables: some columns of a table of the same catalog, under names of their own. */

CREATE FUNCTION amoro_meta.view_base(definition jsonb, OUT database_name text, OUT table_name text)
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_view_base';
COMMENT ON FUNCTION amoro_meta.view_base(jsonb) IS
	'the table that the definition of a view is about, database_name null when it does not say. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.view_base(jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.view_definition(definition jsonb, base_definition jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_view_definition';
COMMENT ON FUNCTION amoro_meta.view_definition(jsonb, jsonb) IS
	'validates the definition of a view against that of its table and returns its canonical form, columns by their ids. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.view_definition(jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.altered_view(definition jsonb, changes jsonb, cascade boolean, base_definition jsonb,
										OUT altered_definition jsonb, OUT altered_base jsonb)
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'amoro_meta_altered_view';
COMMENT ON FUNCTION amoro_meta.altered_view(jsonb, jsonb, boolean, jsonb) IS
	'canonical definitions of a view and of its table after the changes of alter_view. Errors: 22023 with the path';
REVOKE ALL ON FUNCTION amoro_meta.altered_view(jsonb, jsonb, boolean, jsonb) FROM PUBLIC;

-- A nested column that is renamed, added or dropped changes the type of the column it is in.
CREATE FUNCTION amoro_meta.changed_columns(definition jsonb, altered_definition jsonb) RETURNS integer[]
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(array_agg((o.field->>'id')::integer), '{}')
	FROM jsonb_array_elements(definition->'columns') o (field)
		LEFT JOIN jsonb_array_elements(altered_definition->'columns') n (field) ON n.field->'id' = o.field->'id'
	WHERE n.field IS NULL OR n.field->'type' <> o.field->'type'
	$$;
COMMENT ON FUNCTION amoro_meta.changed_columns(jsonb, jsonb) IS 'columns of a table, by id, that are gone or have another type afterwards';
REVOKE ALL ON FUNCTION amoro_meta.changed_columns(jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION amoro_meta.views_notice(definition jsonb, altered_definition jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT definition->'ttl' IS DISTINCT FROM altered_definition->'ttl' OR EXISTS
		(SELECT jsonb_array_elements(definition->'columns') EXCEPT SELECT jsonb_array_elements(altered_definition->'columns'))
	$$;
COMMENT ON FUNCTION amoro_meta.views_notice(jsonb, jsonb) IS 'whether a change of a table changes what its views can say of it';
REVOKE ALL ON FUNCTION amoro_meta.views_notice(jsonb, jsonb) FROM PUBLIC;

-- The first ten by name: a table may have thousands.
CREATE FUNCTION amoro_meta.described_views(base_id bigint, except_id bigint, column_ids integer[] DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT format('The views are %s%s.', string_agg(u.name, ', ' ORDER BY u.name) FILTER (WHERE u.number <= 10),
		CASE WHEN count(*) > 10 THEN format(' and %s more', count(*) - 10) END)
	FROM (SELECT amoro_meta.quoted_name(d.database_name, v.table_name) AS name,
			row_number() OVER (ORDER BY d.database_name, v.table_name) AS number
		  FROM amoro_meta.table_metadata v JOIN amoro_meta.database d USING (database_id)
		  WHERE v.base_id = described_views.base_id AND v.table_id <> except_id AND (column_ids IS NULL OR EXISTS
			(SELECT FROM jsonb_array_elements(v.definition->'columns') c WHERE (c->>'column_id')::integer = ANY (column_ids)))) u
	HAVING count(*) > 0
	$$;
COMMENT ON FUNCTION amoro_meta.described_views(bigint, bigint, integer[]) IS
	'the views of a table, but for one, that show one of the columns (null: whatever they show), as a sentence; null: there are none';
REVOKE ALL ON FUNCTION amoro_meta.described_views(bigint, bigint, integer[]) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_change_under_views(base_id bigint, definition jsonb, altered_definition jsonb, except_id bigint) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	described text := amoro_meta.described_views(base_id, except_id, amoro_meta.changed_columns(definition, altered_definition));
BEGIN
	IF described IS NOT NULL THEN
		RAISE EXCEPTION 'columns that change are shown by views' USING ERRCODE = 'dependent_objects_still_exist', DETAIL = described,
			HINT = 'With cascade => true they follow: they lose columns that are dropped, and get types that change.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_change_under_views(bigint, jsonb, jsonb, bigint) IS
	'raises 2BP01 when views of the table, but for one, show columns that are gone or have another type afterwards';
REVOKE ALL ON FUNCTION amoro_meta.refuse_change_under_views(bigint, jsonb, jsonb, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_drop_under_views(base_id bigint, except_id bigint) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	described text := amoro_meta.described_views(base_id, except_id);
BEGIN
	IF described IS NOT NULL THEN
		RAISE EXCEPTION 'views show the table' USING ERRCODE = 'dependent_objects_still_exist', DETAIL = described,
			HINT = CASE WHEN except_id = 0 THEN 'With cascade => true they are dropped as well.' ELSE 'Drop them first.' END;
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_drop_under_views(bigint, bigint) IS 'raises 2BP01 when the table has views, but for one';
REVOKE ALL ON FUNCTION amoro_meta.refuse_drop_under_views(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION amoro_meta.refuse_views_elsewhere(database_id bigint) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	dependent record;
BEGIN
	SELECT amoro_meta.quoted_name(e.database_name, v.table_name) AS view_name, t.table_name INTO dependent
		FROM amoro_meta.table_metadata v JOIN amoro_meta.table_metadata t ON t.table_id = v.base_id
			JOIN amoro_meta.database e ON e.database_id = v.database_id
		WHERE t.database_id = refuse_views_elsewhere.database_id AND v.database_id <> refuse_views_elsewhere.database_id
		ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'views in other databases show tables of the database' USING ERRCODE = 'dependent_objects_still_exist',
			DETAIL = format('View %s shows table "%s".', dependent.view_name, dependent.table_name), HINT = 'Drop the views first.';
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_views_elsewhere(bigint) IS 'raises 2BP01 when a view in another database shows a table of this one';
REVOKE ALL ON FUNCTION amoro_meta.refuse_views_elsewhere(bigint) FROM PUBLIC;

-- Whoever works on a view claims the name of its table first, and whoever works on a table claims the names of its views after it.
CREATE FUNCTION amoro_meta.claim_base(procedure_id bigint, catalog_name text, database_name text, view_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	base record;
BEGIN
	SELECT b.table_id, b.table_name, e.database_name INTO base
		FROM amoro_meta.table_metadata v JOIN amoro_meta.database d ON d.database_id = v.database_id
			JOIN amoro_meta.catalog c ON c.catalog_id = d.catalog_id
			JOIN amoro_meta.table_metadata b ON b.table_id = v.base_id JOIN amoro_meta.database e ON e.database_id = b.database_id
		WHERE c.catalog_name = claim_base.catalog_name AND d.database_name = claim_base.database_name AND v.table_name = claim_base.view_name;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	PERFORM amoro_meta.claim_name(procedure_id, 'table', catalog_name, base.database_name, base.table_name),
		amoro_meta.lock_parent_database(catalog_name, base.database_name);
	PERFORM FROM amoro_meta.table_metadata b JOIN amoro_meta.database e USING (database_id)
		WHERE b.table_id = base.table_id AND (e.database_name, b.table_name) = (base.database_name, base.table_name);
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the table of view %."%" was renamed meanwhile', amoro_meta.quoted_name(catalog_name, database_name), view_name
			USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
	END IF;
	RETURN base.table_id;
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_base(bigint, text, text, text) IS
	'claims the name of the table that a view shows and returns its id; null: there is no such view. Errors: AM401, 40001';
REVOKE ALL ON FUNCTION amoro_meta.claim_base(bigint, text, text, text) FROM PUBLIC;

CREATE FUNCTION amoro_meta.claim_views(procedure_id bigint, base_id bigint, except_id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	PERFORM amoro_meta.claim_name(procedure_id, 'table', v.catalog_name, v.database_name, v.table_name),
			amoro_meta.lock_parent_database(v.catalog_name, v.database_name)
		FROM (SELECT c.catalog_name, d.database_name, t.table_name
			  FROM amoro_meta.table_metadata t JOIN amoro_meta.database d USING (database_id) JOIN amoro_meta.catalog c USING (catalog_id)
			  WHERE t.base_id = claim_views.base_id AND t.table_id <> except_id
			  ORDER BY d.database_name COLLATE "C", t.table_name COLLATE "C") v;
END;
$$;
COMMENT ON FUNCTION amoro_meta.claim_views(bigint, bigint, bigint) IS 'claims the names of the views of a table, but for one; raises AM401';
REVOKE ALL ON FUNCTION amoro_meta.claim_views(bigint, bigint, bigint) FROM PUBLIC;

CREATE FUNCTION create_view(catalog_name text, database_name text, view_name text, definition jsonb, if_not_exists boolean DEFAULT false,
							request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	base record;
	base_parent bigint;
	target record;
	present record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('view_name', view_name), amoro_meta.check_not_null('definition', definition IS NOT NULL),
		amoro_meta.check_not_null('if_not_exists', if_not_exists IS NOT NULL);
	SELECT coalesce(v.database_name, create_view.database_name) AS database_name, v.table_name INTO base FROM amoro_meta.view_base(definition) v;
	SELECT * INTO submission FROM amoro_meta.begin_procedure('create_view', catalog_name, database_name, view_name,
		jsonb_build_array(catalog_name, database_name, view_name, definition, if_not_exists), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, base.database_name, base.table_name);
	IF (base.database_name, base.table_name) <> (database_name, view_name) THEN
		PERFORM amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, view_name);
	END IF;
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	base_parent := amoro_meta.require_parent_database(catalog_name, base.database_name);
	SELECT * INTO present FROM amoro_meta.find_table(parent, view_name);
	IF present.relation_kind = 'view' AND if_not_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('view "%s"."%s"."%s" already exists, skipping', catalog_name, database_name, view_name));
	END IF;
	PERFORM amoro_meta.require_free_name(present.relation_kind, catalog_name, database_name, view_name);
	SELECT * INTO target FROM amoro_meta.find_table(base_parent, base.table_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, base.database_name, base.table_name);
	IF target.relation_kind <> 'table' THEN
		RAISE EXCEPTION '"%"."%"."%" is a view', catalog_name, base.database_name, base.table_name USING ERRCODE = 'wrong_object_type',
			DETAIL = 'A view shows columns of a table.';
	END IF;
	PERFORM amoro_meta.view_definition(definition, target.definition);
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, amoro_meta.next_id(),
		jsonb_build_object('database_id', parent, 'base_id', target.table_id, 'definition', definition));
END;
$$;
COMMENT ON FUNCTION create_view(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits the creation of a view and returns the procedure''s id. definition: base, the table with its database (without: that of the view), '
	'columns, each a name or an object of name, source (its name in the table) and comment (without columns: all), comment, properties, ttl in '
	'milliseconds. Tables and views of a database share their names. if_not_exists: a NOTICE and a procedure that is done already when there is one. '
	'request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such database or table, 42710 the name is taken, 42809 its base is a view, AM401 a procedure works on it, its table or a database '
	'of them, AM005, 22004, 22023, 25006';
REVOKE ALL ON FUNCTION create_view(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION alter_view(catalog_name text, database_name text, view_name text, changes jsonb, cascade boolean DEFAULT false,
						   request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	target record;
	base_definition jsonb;
	altered jsonb;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('view_name', view_name), amoro_meta.check_not_null('changes', changes IS NOT NULL),
		amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('alter_view', catalog_name, database_name, view_name,
		jsonb_build_array(catalog_name, database_name, view_name, changes, cascade), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_base(submission.procedure_id, catalog_name, database_name, view_name),
		amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, view_name);
	parent := amoro_meta.require_parent_database(catalog_name, database_name);
	SELECT * INTO target FROM amoro_meta.find_table(parent, view_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, database_name, view_name, target.relation_kind, 'view');
	SELECT t.definition INTO STRICT base_definition FROM amoro_meta.table_metadata t WHERE t.table_id = target.base_id;
	SELECT v.altered_base INTO altered FROM amoro_meta.altered_view(target.definition, changes, cascade, base_definition) v;
	IF NOT cascade THEN
		PERFORM amoro_meta.refuse_change_under_views(target.base_id, base_definition, altered, target.table_id);
	END IF;
	IF amoro_meta.views_notice(base_definition, altered) THEN
		PERFORM amoro_meta.claim_views(submission.procedure_id, target.base_id, target.table_id);
	END IF;
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.table_id,
		jsonb_build_object('changes', changes, 'cascade', cascade));
END;
$$;
COMMENT ON FUNCTION alter_view(text, text, text, jsonb, boolean, uuid, interval) IS
	'submits a list of changes of a view, made all or none, and returns the procedure''s id. Each has "op": add_column (column, source, type, '
	'comment), drop_column, rename_column (of the view alone), retype_column (of the table''s column), set_properties, remove_properties, set_ttl or '
	'unset_ttl. cascade: a column that the table has not is added to it, one that is dropped goes from it, its time to live is set as well, and other '
	'views follow; without it what would reach other views is refused. request_id: a retry with the same one returns the same procedure. '
	'timeout: rolled back after it. '
	'Errors: 42704 no such view, 42809 it is a table, 22023 a change that is not possible, 2BP01 other views show a column that changes, '
	'AM401 a procedure works on it, its table or another view of that, AM005, 22004, 25006, 40001';
REVOKE ALL ON FUNCTION alter_view(text, text, text, jsonb, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION rename_view(catalog_name text, database_name text, view_name text, new_database_name text, new_view_name text,
							request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT amoro_meta.submit_rename('view', catalog_name, database_name, view_name, new_database_name, new_view_name, request_id, timeout)
	$$;
COMMENT ON FUNCTION rename_view(text, text, text, text, text, uuid, interval) IS
	'submits a new name for a view, in the same or another database of its catalog, and returns the procedure''s id. '
	'Errors: 42704 no such view or database, 42809 it is a table, 42710 the name is taken, AM401 a procedure works on one of the names or on its '
	'table, AM005, 22004, 22023, 25006, 40001';
REVOKE ALL ON FUNCTION rename_view(text, text, text, text, text, uuid, interval) FROM PUBLIC;

CREATE FUNCTION drop_view(catalog_name text, database_name text, view_name text, if_exists boolean DEFAULT false,
						  cascade boolean DEFAULT false, request_id uuid DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	submission record;
	parent bigint;
	target record;
BEGIN
	PERFORM amoro_meta.check_database_names(catalog_name, database_name),
		amoro_meta.check_name('view_name', view_name), amoro_meta.check_not_null('if_exists', if_exists IS NOT NULL),
		amoro_meta.check_not_null('cascade', cascade IS NOT NULL);
	SELECT * INTO submission FROM amoro_meta.begin_procedure('drop_view', catalog_name, database_name, view_name,
		jsonb_build_array(catalog_name, database_name, view_name, if_exists, cascade), request_id, timeout);
	IF submission.known THEN
		RETURN submission.procedure_id;
	END IF;
	PERFORM amoro_meta.claim_base(submission.procedure_id, catalog_name, database_name, view_name),
		amoro_meta.claim_name(submission.procedure_id, 'table', catalog_name, database_name, view_name);
	parent := amoro_meta.lock_parent_database(catalog_name, database_name);
	SELECT * INTO target FROM amoro_meta.find_table(parent, view_name);
	IF target.table_id IS NULL AND if_exists THEN
		RETURN amoro_meta.end_unneeded_procedure(submission.procedure_id,
			format('view "%s"."%s"."%s" does not exist, skipping', catalog_name, database_name, view_name));
	END IF;
	PERFORM amoro_meta.require_database(parent, catalog_name, database_name);
	PERFORM amoro_meta.require_table(target.table_id, catalog_name, database_name, view_name, target.relation_kind, 'view');
	RETURN amoro_meta.set_procedure_object(submission.procedure_id, target.table_id, jsonb_build_object('cascade', cascade));
END;
$$;
COMMENT ON FUNCTION drop_view(text, text, text, boolean, boolean, uuid, interval) IS
	'submits the drop of a view and returns the procedure''s id. if_exists: a NOTICE and a procedure that is done already when there is none. '
	'cascade: when the view shows all columns of its table, that is dropped with it, unless other views show it; otherwise the table stays. '
	'request_id: a retry with the same one returns the same procedure. timeout: rolled back after it. '
	'Errors: 42704 no such view, 42809 it is a table, AM401 a procedure works on it, its table or its database, AM005, 22004, 22023, 25006, 40001; '
	'rolled back with 2BP01 when other views show a table that was to go along';
REVOKE ALL ON FUNCTION drop_view(text, text, text, boolean, boolean, uuid, interval) FROM PUBLIC;

CREATE FUNCTION amoro_meta.view_columns(definition jsonb, base_definition jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT jsonb_agg(jsonb_build_object('name', v.field->'name', 'source', b.field->'name', 'column_id', v.field->'column_id',
			'type', b.field->'type', 'required', b.field->'required')
			|| CASE WHEN v.field ? 'comment' THEN jsonb_build_object('comment', v.field->'comment') ELSE '{}' END ORDER BY v.ordinal)
	FROM jsonb_array_elements(definition->'columns') WITH ORDINALITY v (field, ordinal)
		LEFT JOIN jsonb_array_elements(base_definition->'columns') b (field) ON b.field->'id' = v.field->'column_id'
	$$;
COMMENT ON FUNCTION amoro_meta.view_columns(jsonb, jsonb) IS 'the columns of a view with what the table says of them';
REVOKE ALL ON FUNCTION amoro_meta.view_columns(jsonb, jsonb) FROM PUBLIC;

CREATE VIEW views AS
	SELECT c.catalog_name, d.database_name, v.table_name AS view_name, v.table_id AS view_id,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.state ELSE v.state END AS state,
		CASE WHEN d.state IN ('pre_create', 'pre_drop') THEN d.procedure_id ELSE v.procedure_id END AS procedure_id,
		e.database_name AS base_database_name, b.table_name AS base_table_name, v.base_id,
		amoro_meta.view_columns(v.definition, b.definition) AS columns, v.definition->>'comment' AS comment,
		v.definition->'properties' AS properties, (v.definition->'ttl')::bigint AS ttl_ms, v.version
	FROM amoro_meta.table_metadata v JOIN amoro_meta.database d ON d.database_id = v.database_id
		JOIN amoro_meta.catalog c ON c.catalog_id = d.catalog_id
		LEFT JOIN amoro_meta.table_metadata b ON b.table_id = v.base_id LEFT JOIN amoro_meta.database e ON e.database_id = b.database_id
	WHERE v.relation_kind = 'view';
COMMENT ON VIEW views IS
	'views over tables, with the table and the names and types of its columns as they are now; a state other than normal is the marker of the '
	'procedure that works on one or on its database. A row in state pre_create without columns is the new name of a view that is being renamed';

CREATE FUNCTION amoro_meta.refuse_view(catalog_name text, database_name text, view_name text) RETURNS void
	LANGUAGE plpgsql STABLE
	SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	base_name text;
BEGIN
	SELECT amoro_meta.quoted_name(c.catalog_name, e.database_name, b.table_name) INTO base_name
		FROM amoro_meta.catalog c JOIN amoro_meta.database d USING (catalog_id) JOIN amoro_meta.table_metadata v USING (database_id)
			JOIN amoro_meta.table_metadata b ON b.table_id = v.base_id JOIN amoro_meta.database e ON e.database_id = b.database_id
		WHERE c.catalog_name = refuse_view.catalog_name AND d.database_name = refuse_view.database_name AND v.table_name = refuse_view.view_name;
	IF FOUND THEN
		RAISE EXCEPTION '"%"."%"."%" is a view', catalog_name, database_name, view_name USING ERRCODE = 'wrong_object_type',
			DETAIL = format('It has no files of its own; it shows table %s.', base_name);
	END IF;
END;
$$;
COMMENT ON FUNCTION amoro_meta.refuse_view(text, text, text) IS 'raises 42809 when there is a view of that name';
REVOKE ALL ON FUNCTION amoro_meta.refuse_view(text, text, text) FROM PUBLIC;

INSERT INTO amoro_meta.access_rule (access_kind, object_kind, object_name)
	SELECT k, 'view', 'views' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', 'amoro_meta.view_columns' FROM unnest(ARRAY['reader', 'operator', 'admin']) k
	UNION ALL
	SELECT k, 'function', n FROM unnest(ARRAY['operator', 'admin']) k, unnest(ARRAY['create_view', 'alter_view', 'rename_view', 'drop_view']) n;
