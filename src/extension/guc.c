/*
 * guc.c
 *		The settings amoro_meta.* (README.md, settings).
 *
 * What must hold between two settings is checked where they are used together,
 * by lease_settings_check: a check hook sees one value at a time, and a
 * configuration file may change both in any order.
 */
#include "postgres.h"

#include <limits.h>

#include "guc.h"
#include "http/http_address.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/varlena.h"

int			guc_ack_timeout = 5000;
int			guc_assignment_interval = 5 * 1000;
int			guc_blocker_lock_timeout = 5000;
int			guc_blocker_timeout = 60000;
int			guc_max_blockers_per_role = 200000;
int			guc_change_history = 100000;
char	   *guc_databases = NULL;
int			guc_debug_clock_offset_ms = 0;
char	   *guc_debug_stop_at = NULL;
int			guc_explore_interval = 180 * 1000;
int			guc_heartbeat_interval = 1000;
int			guc_history_retention = 30 * 24 * 3600;
char	   *guc_http_allowed_hosts = NULL;
char	   *guc_http_ca_file = NULL;
int			guc_http_max_body = 16 * 1024;
int			guc_http_timeout = 30 * 1000;
int			guc_lease_margin_ms = 200;
int			guc_max_blocker_timeout = 24 * 3600 * 1000;
int			guc_max_clock_drift_ppm = 1000;
int			guc_max_nodes = 4096;
int			guc_max_terminal_sessions = 10000;
int			guc_max_terminal_sessions_per_role = 1000;
int			guc_max_removed_share = 20;
int			guc_metadata_lease_fence_ms = 20000;
int			guc_node_offline_timeout = 300 * 1000;
int			guc_optimizer_heartbeat_timeout = 60 * 1000;
int			guc_optimizing_check_interval = 5 * 1000;
int			guc_refresh_interval = 60 * 1000;
bool		guc_require_synchronous_tick = false;
int			guc_task_ack_timeout = 30 * 1000;
int			guc_task_execute_timeout = 3600 * 1000;
int			guc_task_max_retries = 5;
char	   *guc_terminal_sensitive_keys = NULL;
int			guc_terminal_session_timeout = 1800;

/* A list of database names, as search_path is a list of schemas. */
static bool
check_databases(char **newval, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*newval);
	List	   *names = NIL;
	bool		valid = SplitIdentifierString(copy, ',', &names);

	list_free(names);
	pfree(copy);
	if (!valid)
		GUC_check_errdetail("The value is a list of database names, separated by commas.");
	return valid;
}

static bool
check_allowed_hosts(char **newval, void **extra, GucSource source)
{
	if (http_address_list_valid(*newval))
		return true;
	GUC_check_errdetail("The value is a list of host names, addresses and networks like 10.0.0.0/8, separated by commas.");
	return false;
}

/* What a lease is made of. */
static void
define_lease_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.ack_timeout",
							 /* short_desc= */ "How long a live node may take to apply a change before it gets no further leases.",
							 /* long_desc= */ "Must be smaller than amoro_meta.metadata_lease_fence_ms.",
							 /* valueAddr= */ &guc_ack_timeout,
							 /* boot, min, max= */ 5000, 10, 3600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.heartbeat_interval",
							 /* short_desc= */ "How often a node is told to send a heartbeat.",
							 /* long_desc= */ "At most a quarter of amoro_meta.metadata_lease_fence_ms.",
							 /* valueAddr= */ &guc_heartbeat_interval,
							 /* boot, min, max= */ 1000, 10, 600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.lease_margin_ms",
							 /* short_desc= */ "How much longer than the lease itself the server waits.",
							 /* long_desc= */ "Covers what is not clock drift: the resolution of the clocks.",
							 /* valueAddr= */ &guc_lease_margin_ms,
							 /* boot, min, max= */ 200, 1, 60 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.max_clock_drift_ppm",
							 /* short_desc= */ "By how much any two clocks may differ in speed, in parts per million.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_max_clock_drift_ppm,
							 /* boot, min, max= */ 1000, 0, 200000,
							 /* context= */ PGC_SIGHUP, /* flags= */ 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.metadata_lease_fence_ms",
							 /* short_desc= */ "How long a node that hears nothing may go on serving metadata.",
							 /* long_desc= */ "The lease L of docs/protocol.md, section 3.",
							 /* valueAddr= */ &guc_metadata_lease_fence_ms,
							 /* boot, min, max= */ 20000, 100, 24 * 3600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);
}

static void
define_blocker_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.blocker_lock_timeout",
							 /* short_desc= */ "How long a call waits for another transaction that works on blockers of the same table.",
							 /* long_desc= */ "It fails with 55P03 then; a smaller lock_timeout of the caller comes first.",
							 /* valueAddr= */ &guc_blocker_lock_timeout,
							 /* boot, min, max= */ 5000, 1, 600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.blocker_timeout",
							 /* short_desc= */ "How long a table blocker holds unless its holder says otherwise.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_blocker_timeout,
							 /* boot, min, max= */ 60000, 1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.max_blockers_per_role",
							 /* short_desc= */ "How many table blockers a role may have, about.",
							 /* long_desc= */ "Counted now and then, when a table is blocked for the first time.",
							 /* valueAddr= */ &guc_max_blockers_per_role,
							 /* boot, min, max= */ 200000, 1, INT_MAX,
							 /* context= */ PGC_SUSET, /* flags= */ 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.max_blocker_timeout",
							 /* short_desc= */ "The longest time for which a table blocker can be acquired or renewed.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_max_blocker_timeout,
							 /* boot, min, max= */ 24 * 3600 * 1000, 1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);
}

static void
define_other_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.change_history",
							 /* short_desc= */ "How many metadata versions are kept for nodes that are behind.",
							 /* long_desc= */ "A node that is further behind loads everything anew.",
							 /* valueAddr= */ &guc_change_history,
							 /* boot, min, max= */ 100000, 1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable( /* name= */ "amoro_meta.databases",
								/* short_desc= */ "Databases in which a coordinator runs.",
								/* long_desc= */ "Empty means every database that has the extension.",
								/* valueAddr= */ &guc_databases,
								/* boot= */ "",
								/* context= */ PGC_SIGHUP, /* flags= */ GUC_LIST_INPUT,
								check_databases, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.debug_clock_offset_ms",
							 /* short_desc= */ "Developer setting: shifts the lease clock of the server.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_debug_clock_offset_ms,
							 /* boot, min, max= */ 0, 0, INT_MAX,
							 /* context= */ PGC_SUSET, /* flags= */ GUC_UNIT_MS | GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);

	DefineCustomStringVariable( /* name= */ "amoro_meta.debug_stop_at",
								/* short_desc= */ "Developer setting: the named point at which the coordinator stops until this is changed.",
								/* long_desc= */ NULL,
								/* valueAddr= */ &guc_debug_stop_at,
								/* boot= */ "",
								/* context= */ PGC_SUSET, /* flags= */ GUC_NOT_IN_SAMPLE,
								NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.history_retention",
							 /* short_desc= */ "How long ended procedures are kept.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_history_retention,
							 /* boot, min, max= */ 30 * 24 * 3600, 60, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_S,
							 NULL, NULL, NULL);

	/* Only where it can still take effect, in the postmaster. */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable( /* name= */ "amoro_meta.max_nodes",
								 /* short_desc= */ "How many nodes shared memory has room for, over all databases.",
								 /* long_desc= */ NULL,
								 /* valueAddr= */ &guc_max_nodes,
								 /* boot, min, max= */ 4096, 1, 1000000,
								 /* context= */ PGC_POSTMASTER, /* flags= */ 0,
								 NULL, NULL, NULL);
}

/* How catalogs are explored that are kept elsewhere. */
static void
define_explorer_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.explore_interval",
							 /* short_desc= */ "How often catalogs are explored that are kept elsewhere.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_explore_interval,
							 /* boot, min, max= */ 180 * 1000, 1000, 24 * 3600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomStringVariable( /* name= */ "amoro_meta.http_allowed_hosts",
								/* short_desc= */ "Hosts, addresses and networks that may be connected to though they are not public.",
								/* long_desc= */ "Empty means public addresses only.",
								/* valueAddr= */ &guc_http_allowed_hosts,
								/* boot= */ "",
								/* context= */ PGC_SIGHUP, /* flags= */ 0,
								check_allowed_hosts, NULL, NULL);

	DefineCustomStringVariable( /* name= */ "amoro_meta.http_ca_file",
								/* short_desc= */ "File with the certificates of authorities that are trusted.",
								/* long_desc= */ "Empty means those that the system trusts.",
								/* valueAddr= */ &guc_http_ca_file,
								/* boot= */ "",
								/* context= */ PGC_SIGHUP, /* flags= */ GUC_SUPERUSER_ONLY,
								NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.http_max_body",
							 /* short_desc= */ "How large an answer may be once it is decompressed.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_http_max_body,
							 /* boot, min, max= */ 16 * 1024, 16, 256 * 1024,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_KB,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.http_timeout",
							 /* short_desc= */ "How long a request may take altogether.",
							 /* long_desc= */ "A third of it may pass until there is a connection, and without data.",
							 /* valueAddr= */ &guc_http_timeout,
							 /* boot, min, max= */ 30 * 1000, 100, 3600 * 1000,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.max_removed_share",
							 /* short_desc= */ "How many percent of the tables of a catalog may disappear at once.",
							 /* long_desc= */ "If there are more, they are kept until confirm_removal is called.",
							 /* valueAddr= */ &guc_max_removed_share,
							 /* boot, min, max= */ 20, 0, 100,
							 /* context= */ PGC_SIGHUP, /* flags= */ 0,
							 NULL, NULL, NULL);
}

/* Optimizers and their tasks. */
static void
define_task_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.optimizer_heartbeat_timeout",
							 /* short_desc= */ "How long an optimizer may be out of touch before it is unregistered and its tasks are reset.",
							 /* long_desc= */ "0 or less means for ever.",
							 /* valueAddr= */ &guc_optimizer_heartbeat_timeout,
							 /* boot, min, max= */ 60 * 1000, -1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.task_ack_timeout",
							 /* short_desc= */ "How long a thread may take to acknowledge a task before it is given to another.",
							 /* long_desc= */ "0 or less means for ever.",
							 /* valueAddr= */ &guc_task_ack_timeout,
							 /* boot, min, max= */ 30 * 1000, -1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.task_execute_timeout",
							 /* short_desc= */ "How long a thread may work on a task, from its last acknowledgement on, before it is given to another.",
							 /* long_desc= */ "0 or less means for ever.",
							 /* valueAddr= */ &guc_task_execute_timeout,
							 /* boot, min, max= */ 3600 * 1000, -1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.task_max_retries",
							 /* short_desc= */ "How often a task that failed is tried again before its process fails.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_task_max_retries,
							 /* boot, min, max= */ 5, 0, 1000000,
							 /* context= */ PGC_SIGHUP, /* flags= */ 0,
							 NULL, NULL, NULL);
}

/* How often the coordinator does what needs to be done again and again (sweep.c). */
static void
define_sweep_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.assignment_interval",
							 /* short_desc= */ "How often it is looked whether buckets and partitions should have other nodes.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_assignment_interval,
							 /* boot, min, max= */ 5 * 1000, 10, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.node_offline_timeout",
							 /* short_desc= */ "How long a node may hold no lease before its buckets are given to others.",
							 /* long_desc= */ "Buckets of a node that is removed are given to others at once.",
							 /* valueAddr= */ &guc_node_offline_timeout,
							 /* boot, min, max= */ 300 * 1000, 0, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.optimizing_check_interval",
							 /* short_desc= */ "How often optimizers and tasks are looked at whose time may be over.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_optimizing_check_interval,
							 /* boot, min, max= */ 5 * 1000, 10, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.refresh_interval",
							 /* short_desc= */ "How often the runtimes of the tables are compared with the properties of the tables.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_refresh_interval,
							 /* boot, min, max= */ 60 * 1000, 10, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_MS,
							 NULL, NULL, NULL);
}

/* Terminal sessions; all but the names are read in SQL. */
static void
define_terminal_settings(void)
{
	DefineCustomIntVariable( /* name= */ "amoro_meta.max_terminal_sessions",
							 /* short_desc= */ "How many terminal sessions may be open at once.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_max_terminal_sessions,
							 /* boot, min, max= */ 10000, 0, 1000000,
							 /* context= */ PGC_SUSET, /* flags= */ 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.max_terminal_sessions_per_role",
							 /* short_desc= */ "How many terminal sessions one role may have open at once.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_max_terminal_sessions_per_role,
							 /* boot, min, max= */ 1000, 0, 1000000,
							 /* context= */ PGC_SUSET, /* flags= */ 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable( /* name= */ "amoro_meta.terminal_sensitive_keys",
								/* short_desc= */ "Words that make the value of a property of a terminal session a secret.",
								/* long_desc= */ "A key is sensitive when one of them occurs in it, in capitals or not.",
								/* valueAddr= */ &guc_terminal_sensitive_keys,
								/* boot= */ "password, secret, token, credential, access-key, accesskey, private-key",
								/* context= */ PGC_SIGHUP, /* flags= */ 0,
								NULL, NULL, NULL);

	DefineCustomIntVariable( /* name= */ "amoro_meta.terminal_session_timeout",
							 /* short_desc= */ "How long a terminal session stays after its last use.",
							 /* long_desc= */ NULL,
							 /* valueAddr= */ &guc_terminal_session_timeout,
							 /* boot, min, max= */ 1800, 1, INT_MAX,
							 /* context= */ PGC_SIGHUP, /* flags= */ GUC_UNIT_S,
							 NULL, NULL, NULL);
}

/*
 * guc_define defines all settings and reserves their prefix. Called from _PG_init.
 */
void
guc_define(void)
{
	define_lease_settings();
	define_blocker_settings();
	define_other_settings();
	define_terminal_settings();
	define_explorer_settings();
	define_sweep_settings();
	define_task_settings();
	DefineCustomBoolVariable( /* name= */ "amoro_meta.require_synchronous_tick",
							 /* short_desc= */ "Grants leases only while a synchronous standby confirms that this server is the primary.",
							 /* long_desc= */ "It must confirm a tick every eighth of amoro_meta.metadata_lease_fence_ms.",
							 /* valueAddr= */ &guc_require_synchronous_tick,
							 /* boot= */ false,
							 /* context= */ PGC_SIGHUP, /* flags= */ 0,
							 NULL, NULL, NULL);

	MarkGUCPrefixReserved("amoro_meta");
}
