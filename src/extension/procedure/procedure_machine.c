/*
 * procedure_machine.c
 *		The machine of the procedures: for every kind and state, what is done there and what comes next.
 *
 * The shape of all that change an object: a marker that readers see (reversible) -> every node knows it ->
 * the change itself, in one transaction that also takes the marker away (the point of no return) -> every node
 * knows that -> done. A node never caches an object that carries a marker, so the change appears on all nodes at
 * the moment it commits.
 */
#include "postgres.h"

#include "authority/authority_action.h"
#include "device/device_action.h"
#include "device/template_action.h"
#include "fmgr.h"
#include "funcapi.h"
#include "node/node_action.h"
#include "object/object_action.h"
#include "object/ttl_action.h"
#include "partition/assignment_action.h"
#include "procedure/procedure_machine.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_procedure_machine_rows);

#define NAMED(function) #function, function
#define NO_WAY_BACK NULL, NULL
#ifdef AMORO_WITHOUT_RELEASE
#define WAITS_FOR_RELEASE false
#else
#define WAITS_FOR_RELEASE true
#endif

static const ProcedureStep machine[] = {
	{"create_database", "submitted", NAMED(database_create_mark), "pre_create", NAMED(object_undo_nothing),
	false, false, "insert the database with its marker"},
	{"create_database", "pre_create", NAMED(database_create_commit), "committed", NAMED(object_unmark),
	true, true, "take the marker away: the database exists"},
	{"create_database", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_database", "submitted", NAMED(database_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the database; readers of anything in it see the marker"},
	{"drop_database", "pre_drop", NAMED(database_drop_begin), "dropping", NAMED(object_unmark),
	true, true, "no node serves anything of it: drop the first tables"},
	{"drop_database", "dropping", NAMED(database_drop_continue), "committed", NO_WAY_BACK,
	false, false, "drop the other tables in batches, then the database"},
	{"drop_database", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_table", "submitted", NAMED(table_create_mark), "pre_create", NAMED(object_undo_nothing),
	false, false, "insert the table with its marker"},
	{"create_table", "pre_create", NAMED(table_create_commit), "committed", NAMED(object_unmark),
	true, true, "take the marker away: the table exists"},
	{"create_table", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_table", "submitted", NAMED(table_alter_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the table; its definition stays as it is"},
	{"alter_table", "pre_alter", NAMED(table_alter_commit), "committed", NAMED(object_unmark),
	true, true, "no node has it cached: write the new definition"},
	{"alter_table", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"rename_table", "submitted", NAMED(table_rename_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the table and reserve the new name"},
	{"rename_table", "pre_alter", NAMED(table_rename_commit), "committed", NAMED(object_unmark),
	true, true, "no node has it cached: give it the new name"},
	{"rename_table", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_table", "submitted", NAMED(table_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the table"},
	{"drop_table", "pre_drop", NAMED(table_drop_commit), "committed", NAMED(object_unmark),
	true, true, "no node serves it: delete it"},
	{"drop_table", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_view", "submitted", NAMED(view_create_mark), "pre_create", NAMED(object_undo_nothing),
	false, false, "insert the view with its marker"},
	{"create_view", "pre_create", NAMED(view_create_commit), "committed", NAMED(object_unmark),
	true, true, "take the marker away: the view exists"},
	{"create_view", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_view", "submitted", NAMED(view_alter_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the view, and its table and the other views of that where the changes reach them"},
	{"alter_view", "pre_alter", NAMED(view_alter_commit), "committed", NAMED(object_unmark),
	true, true, "no node has them cached: write the new definitions"},
	{"alter_view", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"rename_view", "submitted", NAMED(table_rename_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the view and reserve the new name"},
	{"rename_view", "pre_alter", NAMED(table_rename_commit), "committed", NAMED(object_unmark),
	true, true, "no node has it cached: give it the new name"},
	{"rename_view", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_view", "submitted", NAMED(view_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the view, and its table where it goes along"},
	{"drop_view", "pre_drop", NAMED(view_drop_commit), "committed", NAMED(object_unmark),
	true, true, "no node serves them: delete them"},
	{"drop_view", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_user", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "insert the user"},
	{"create_user", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_user", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "give the user another password, state or properties"},
	{"alter_user", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"rename_user", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "give the user its new name"},
	{"rename_user", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_user", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "delete the user and what it has"},
	{"drop_user", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_role", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "insert the role"},
	{"create_role", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"rename_role", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "give the role its new name"},
	{"rename_role", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_role", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "delete the role and what it has"},
	{"drop_role", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"grant_role", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "put the member into the role"},
	{"grant_role", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"revoke_role", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "take the member out of the role"},
	{"revoke_role", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"grant_privilege", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "grant the privileges"},
	{"grant_privilege", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"revoke_privilege", "submitted", NAMED(authority_commit), "committed", NAMED(authority_undo),
	false, true, "take the privileges away"},
	{"revoke_privilege", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"set_ttl", "submitted", NAMED(ttl_commit), "committed", NAMED(object_undo_nothing),
	false, true, "write the value"},
	{"set_ttl", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"unset_ttl", "submitted", NAMED(ttl_commit), "committed", NAMED(object_undo_nothing),
	false, true, "take the value away"},
	{"unset_ttl", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_devices", "submitted", NAMED(device_create_mark), "pre_create", NAMED(object_undo_nothing),
	false, false, "insert the devices with their markers"},
	{"create_devices", "pre_create", NAMED(device_create_commit), "committed", NAMED(object_unmark),
	true, true, "take the markers away: the devices exist"},
	{"create_devices", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_device", "submitted", NAMED(device_alter_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the device, or the pattern: readers of all that match see it"},
	{"alter_device", "pre_alter", NAMED(device_alter_begin), "altering", NAMED(object_unmark),
	true, true, "no node has one cached: look whether all can be changed, then change the first"},
	{"alter_device", "altering", NAMED(device_alter_continue), "committed", NO_WAY_BACK,
	false, false, "change the others in batches, then take the marker away"},
	{"alter_device", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_devices", "submitted", NAMED(device_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the device, or the pattern: readers of all that match see it"},
	{"drop_devices", "pre_drop", NAMED(device_drop_begin), "dropping", NAMED(object_unmark),
	true, true, "no node serves one: delete the first"},
	{"drop_devices", "dropping", NAMED(device_drop_continue), "committed", NO_WAY_BACK,
	false, false, "delete the others in batches, then take the marker away"},
	{"drop_devices", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_service_buckets", "submitted", NAMED(bucket_create), "committed", NAMED(object_undo_nothing),
	false, true, "insert the buckets, owned by nobody"},
	{"create_service_buckets", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows them"},

	{"balance_buckets", "submitted", NAMED(bucket_release), "releasing", NAMED(object_undo_nothing),
	false, false, "mark the buckets that are to have another owner: nobody owns them"},
	{"balance_buckets", "releasing", NAMED(bucket_hand_over), "committed", NAMED(object_unmark),
	WAITS_FOR_RELEASE, true, "whoever owned them has let go, or surely serves nothing: give them to the next owners"},
	{"balance_buckets", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_service_buckets", "submitted", NAMED(bucket_alter_release), "releasing", NAMED(object_undo_nothing),
	false, false, "mark the buckets: nobody owns them"},
	{"alter_service_buckets", "releasing", NAMED(bucket_alter_commit), "committed", NAMED(object_unmark),
	WAITS_FOR_RELEASE, true, "whoever owned them has let go: there are so many now, those that are left go back to their owners"},
	{"alter_service_buckets", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_service_buckets", "submitted", NAMED(bucket_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the buckets: nobody owns them"},
	{"drop_service_buckets", "pre_drop", NAMED(bucket_drop_commit), "committed", NAMED(object_unmark),
	true, true, "whoever owned them has let go: delete them"},
	{"drop_service_buckets", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_partitions", "submitted", NAMED(partition_create), "committed", NAMED(object_undo_nothing),
	false, true, "insert the slots and give them to live nodes"},
	{"create_partitions", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows them"},

	{"move_partition", "submitted", NAMED(partition_move_release), "releasing", NAMED(object_undo_nothing),
	false, false, "mark the slot: neither of the two nodes has it"},
	{"move_partition", "releasing", NAMED(partition_hand_over), "committed", NAMED(object_unmark),
	WAITS_FOR_RELEASE, true, "every node has heard of it, or surely serves nothing: give it to the other node"},
	{"move_partition", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"balance_partitions", "submitted", NAMED(partition_balance_release), "releasing", NAMED(object_undo_nothing),
	false, false, "mark the slots that are to have other nodes"},
	{"balance_partitions", "releasing", NAMED(partition_hand_over), "committed", NAMED(object_unmark),
	WAITS_FOR_RELEASE, true, "every node has heard of it, or surely serves nothing: give them to the other nodes"},
	{"balance_partitions", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_partitions", "submitted", NAMED(partition_alter_release), "releasing", NAMED(object_undo_nothing),
	false, false, "mark the slots that are to have more nodes, or fewer"},
	{"alter_partitions", "releasing", NAMED(partition_alter_commit), "committed", NAMED(object_unmark),
	WAITS_FOR_RELEASE, true, "every node has heard of it, or surely serves nothing: give them to the other nodes"},
	{"alter_partitions", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_partitions", "submitted", NAMED(partition_drop_mark), "pre_drop", NAMED(object_undo_nothing),
	false, false, "mark the slots"},
	{"drop_partitions", "pre_drop", NAMED(partition_drop_commit), "committed", NAMED(object_unmark),
	true, true, "no node serves them: delete them"},
	{"drop_partitions", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"create_template", "submitted", NAMED(template_create_commit), "committed", NAMED(object_undo_nothing),
	false, true, "insert the template: no node has anything of it"},
	{"create_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"alter_template", "submitted", NAMED(template_alter_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the template: readers of all its devices see it"},
	{"alter_template", "pre_alter", NAMED(template_alter_commit), "committed", NAMED(object_unmark),
	true, true, "no node has one of them cached: look whether all can have the measurements, then append"},
	{"alter_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"drop_template", "submitted", NAMED(template_drop_commit), "committed", NAMED(object_undo_nothing),
	false, true, "delete the template, which is active on no device"},
	{"drop_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"set_template", "submitted", NAMED(template_set_commit), "committed", NAMED(object_undo_nothing),
	false, true, "let it be activated below the path"},
	{"set_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"unset_template", "submitted", NAMED(template_unset_commit), "committed", NAMED(object_undo_nothing),
	false, true, "no longer, unless it is active there"},
	{"unset_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"activate_template", "submitted", NAMED(template_activate_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the devices; insert those that are not there, with their markers"},
	{"activate_template", "pre_alter", NAMED(template_activate_commit), "committed", NAMED(object_unmark),
	true, true, "no node has one cached: they have the template"},
	{"activate_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"deactivate_template", "submitted", NAMED(template_deactivate_mark), "pre_alter", NAMED(object_undo_nothing),
	false, false, "mark the device, or the pattern: readers of all that match see it"},
	{"deactivate_template", "pre_alter", NAMED(template_deactivate_begin), "deactivating", NAMED(object_unmark),
	true, true, "no node has one cached: take it from the first"},
	{"deactivate_template", "deactivating", NAMED(template_deactivate_continue), "committed", NO_WAY_BACK,
	false, false, "take it from the others in batches, then take the marker away"},
	{"deactivate_template", "committed", NAMED(object_finish), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "every node knows it"},

	{"remove_node", "submitted", NAMED(node_remove_mark), "leaving", NAMED(object_undo_nothing),
	false, false, "refuse the node further leases and registrations"},
	{"remove_node", "leaving", NAMED(node_remove_commit), "forgetting", NAMED(node_remove_undo),
	false, true, "wait until its lease is released or over, then delete it"},
	{"remove_node", "forgetting", NAMED(node_remove_forget), PROCEDURE_DONE, NO_WAY_BACK,
	true, false, "no node says any more that it has a slot or a bucket: free its place in shared memory"},
};

/*
 * procedure_machine_find returns the step of a kind in a state, or NULL.
 */
const ProcedureStep *
procedure_machine_find(const char *kind, const char *state)
{
	for (int i = 0; i < lengthof(machine); i++)
	{
		if (strcmp(machine[i].kind, kind) == 0 && strcmp(machine[i].state, state) == 0)
			return &machine[i];
	}
	return NULL;
}

/*
 * amoro_meta_procedure_machine_rows shows the machine in SQL; a NULL undo means that there is only forward.
 */
Datum
amoro_meta_procedure_machine_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < lengthof(machine); i++)
	{
		const ProcedureStep *step = &machine[i];
		Datum		values[8];
		bool		nulls[8] = {false};

		values[0] = CStringGetTextDatum(step->kind);
		values[1] = CStringGetTextDatum(step->state);
		values[2] = CStringGetTextDatum(step->action_name);
		values[3] = CStringGetTextDatum(step->next_state);
		nulls[4] = step->undo_name == NULL;
		values[4] = nulls[4] ? (Datum) 0 : CStringGetTextDatum(step->undo_name);
		values[5] = BoolGetDatum(step->waits_for_verdict);
		values[6] = BoolGetDatum(step->irreversible);
		values[7] = CStringGetTextDatum(step->comment);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
