/*
 * guc.h
 *		The settings amoro_meta.* (README.md, settings).
 */
#ifndef AMORO_META_GUC_H
#define AMORO_META_GUC_H

#include "postgres.h"

extern int	guc_ack_timeout;			/* ms */
extern int	guc_assignment_interval;	/* ms */
extern int	guc_blocker_lock_timeout;	/* ms */
extern int	guc_blocker_timeout;		/* ms */
extern int	guc_max_blockers_per_role;
extern int	guc_change_history;			/* versions */
extern char *guc_databases;
extern int	guc_debug_clock_offset_ms;	/* ms */
extern char *guc_debug_stop_at;
extern int	guc_explore_interval;		/* ms */
extern int	guc_heartbeat_interval;		/* ms */
extern int	guc_history_retention;		/* s */
extern char *guc_http_allowed_hosts;
extern char *guc_http_ca_file;
extern int	guc_http_max_body;			/* kB */
extern int	guc_http_timeout;			/* ms */
extern int	guc_lease_margin_ms;		/* ms */
extern int	guc_max_blocker_timeout;	/* ms */
extern int	guc_max_clock_drift_ppm;
extern int	guc_max_nodes;
extern int	guc_max_removed_share;		/* percent */
extern int	guc_max_terminal_sessions;
extern int	guc_max_terminal_sessions_per_role;
extern int	guc_metadata_lease_fence_ms;	/* ms */
extern int	guc_node_offline_timeout;	/* ms */
extern int	guc_optimizer_heartbeat_timeout;	/* ms */
extern int	guc_optimizing_check_interval;	/* ms */
extern int	guc_refresh_interval;		/* ms */
extern bool guc_require_synchronous_tick;
extern int	guc_task_ack_timeout;		/* ms */
extern int	guc_task_execute_timeout;	/* ms */
extern int	guc_task_max_retries;
extern char *guc_terminal_sensitive_keys;
extern int	guc_terminal_session_timeout;	/* s */

extern void guc_define(void);

#endif							/* AMORO_META_GUC_H */
