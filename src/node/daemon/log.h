/*
 * log.h
 *		The daemon's log: one line a message on stderr, "TIME LEVEL NODE: text", time in UTC.
 */
#ifndef AMORO_LOG_H
#define AMORO_LOG_H

#include <stdarg.h>
#include <stdint.h>

/* Levels are those of amoro_node.h; messages above the level are dropped. Call once, before any thread is made. */
extern void log_open(int level, const char *node_name);
extern void log_write(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For AmoroNodeOptions.log. */
extern void log_node_message(void *argument, int level, const char *message);
/* The level of a name (error, warning, info, debug), or -1. */
extern int	log_level_of(const char *name);
/* Messages that were dropped because nobody read stderr. */
extern int64_t log_lost_count(void);

#endif							/* AMORO_LOG_H */
