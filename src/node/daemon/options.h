/*
 * options.h
 *		What amoro-node is told: long options, else environment variables, else defaults.
 */
#ifndef AMORO_OPTIONS_H
#define AMORO_OPTIONS_H

#include <stddef.h>

typedef struct DaemonOptions
{
	const char *conninfo;
	const char *node_name;
	const char *node_kind;
	const char *endpoint;
	const char *listen_address; /* host:port */
	int			http_threads;
	int			client_timeout_ms;	/* an idle or slow client is cut off after this */
	int			loader_connections;
	int			load_timeout_ms;
	size_t		cache_bytes;	/* 0: no limit */
	unsigned	preload;		/* kinds of cache to load before serving, bits 1 << kind */
	int			log_level;
	const char *service;		/* to campaign for; NULL: none */
	const char *on_gain;		/* programs; NULL: none */
	const char *on_loss;
	int			stop_timeout_ms;
} DaemonOptions;

typedef enum OptionsOutcome
{
	OPTIONS_RUN,
	OPTIONS_DONE,				/* help or version was printed */
	OPTIONS_WRONG				/* a message was printed to stderr */
} OptionsOutcome;

extern OptionsOutcome options_parse(int argument_count, char **arguments, DaemonOptions *options);

#endif							/* AMORO_OPTIONS_H */
