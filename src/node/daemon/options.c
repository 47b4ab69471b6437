/*
 * options.c
 *		One table of options; from it come the parser, the environment variables and the help.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "amoro_node.h"
#include "exit_code.h"
#include "log.h"
#include "object_name.h"
#include "route.h"

typedef enum OptionType
{
	OPTION_TEXT,
	OPTION_INTEGER,
	OPTION_BYTES,
	OPTION_KINDS,
	OPTION_LOG_LEVEL
} OptionType;

typedef struct OptionDefinition
{
	const char *name;
	OptionType	type;
	size_t		offset;
	const char *default_text;	/* NULL: none */
	long		minimum;
	long		maximum;
	const char *value_name;
	const char *help;
} OptionDefinition;

#define TEXT(member) OPTION_TEXT, offsetof(DaemonOptions, member)
#define INTEGER(member) OPTION_INTEGER, offsetof(DaemonOptions, member)

static const OptionDefinition definitions[] = {
	{"conninfo", TEXT(conninfo), "", 0, 0, "CONNINFO",
	"database to serve, as libpq reads it (PGHOST, PGSERVICE, ~/.pgpass … count too)"},
	{"name", TEXT(node_name), NULL, 0, 0, "NAME", "name of this node; required, and no other process may use it"},
	{"kind", TEXT(node_kind), "node", 0, 0, "KIND", "kind of node, shown in node_status"},
	{"endpoint", TEXT(endpoint), NULL, 0, 0, "URL", "where clients reach this node, shown in node_status"},
	{"listen", TEXT(listen_address), "127.0.0.1:8080", 0, 0, "HOST:PORT",
	"HTTP address; port 0 takes a free one and logs it; *:PORT is every address"},
	{"http-threads", INTEGER(http_threads), "1", 1, 256, "COUNT", "threads that answer HTTP"},
	{"client-timeout-ms", INTEGER(client_timeout_ms), "60000", 100, 86400000, "MS",
	"cuts off a client that is idle, or too slow to send a request or take an answer"},
	{"loader-connections", INTEGER(loader_connections), "4", 1, 64, "COUNT", "database connections that fill the caches"},
	{"load-timeout-ms", INTEGER(load_timeout_ms), "5000", 10, 600000, "MS", "longest wait for the database in one lookup"},
	{"cache-bytes", OPTION_BYTES, offsetof(DaemonOptions, cache_bytes), "1GB", 0, 0, "SIZE",
	"memory for the caches, in B, kB, MB, GB or TB; 0 is no limit"},
	{"preload", OPTION_KINDS, offsetof(DaemonOptions, preload), "", 0, 0, "KINDS",
	"kinds to load whole before serving, such as table,device; authority always is"},
	{"service", TEXT(service), NULL, 0, 0, "NAME", "campaigns for this service, of which one node is the leader"},
	{"on-gain", TEXT(on_gain), NULL, 0, 0, "PROGRAM", "run when this node has come to lead, without a shell; AMORO_SERVICE and AMORO_TOKEN are set"},
	{"on-loss", TEXT(on_loss), NULL, 0, 0, "PROGRAM", "run likewise when it stops to lead; what on-gain has started is sent SIGTERM"},
	{"stop-timeout-ms", INTEGER(stop_timeout_ms), "5000", 0, 3600000, "MS",
	"how long before the end of its lease it stops to lead, at most half of it; what runs on is killed at the end"},
	{"log-level", OPTION_LOG_LEVEL, offsetof(DaemonOptions, log_level), "info", 0, 0, "LEVEL",
	"error, warning, info or debug"},
};

enum
{
	OPTION_COUNT = sizeof(definitions) / sizeof(definitions[0]),
	OPTION_HELP = OPTION_COUNT,
	OPTION_VERSION,
	OPTION_ROUTES
};

static void
print_help(void)
{
	printf("amoro-node serves lakehouse metadata from memory, for as long as its lease lasts.\n\n"
		   "Usage: amoro-node --name NAME [OPTION]...\n\n");
	for (int i = 0; i < OPTION_COUNT; i++)
	{
		const OptionDefinition *definition = &definitions[i];
		char		left[64];

		snprintf(left, sizeof(left), "--%s=%s", definition->name, definition->value_name);
		printf("  %-28s %s", left, definition->help);
		if (definition->default_text != NULL && definition->default_text[0] != '\0')
			printf(" (default: %s)", definition->default_text);
		printf("\n");
	}
	printf("  %-28s %s\n  %-28s %s\n  %-28s %s\n", "--routes", "prints what it answers over HTTP", "--help", "prints this",
		   "--version", "prints the version");
	printf("\nEach option may be an environment variable instead: --log-level is AMORO_NODE_LOG_LEVEL.\n"
		   "A password belongs into a password file or PGPASSWORD, not into --conninfo, which others can see.\n"
		   "\nExit codes: %d stopped, %d failed, %d wrong options, %d cannot listen, %d refused by the database,\n"
		   "%d superseded by a newer process of the same name, %d removed by an operator.\n",
		   EXIT_CODE_STOPPED, EXIT_CODE_FAILED, EXIT_CODE_USAGE, EXIT_CODE_CANNOT_LISTEN, EXIT_CODE_REFUSED,
		   EXIT_CODE_SUPERSEDED, EXIT_CODE_REMOVED);
}

static bool
parse_integer(const char *text, long minimum, long maximum, int *value)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || number < minimum || number > maximum)
		return false;
	*value = (int) number;
	return true;
}

/* Units are powers of 1024, as in postgresql.conf. */
static bool
parse_bytes(const char *text, size_t *value)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	char	   *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0 || !isdigit((unsigned char) text[0]))
		return false;
	while (*end == ' ')
		end++;
	for (unsigned int i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		if (strcmp(end, units[i]) != 0 && !(i == 0 && *end == '\0'))
			continue;
		if (number > SIZE_MAX >> (10 * i))
			return false;
		*value = (size_t) number << (10 * i);
		return true;
	}
	return false;
}

/* Names of kinds, with commas in between; none is none. */
static bool
parse_kinds(const char *text, unsigned *kinds)
{
	*kinds = 0;
	while (*text != '\0')
	{
		size_t		length = strcspn(text, ",");
		int			kind = 0;

		while (kind < AMORO_CACHE_KIND_COUNT && (strlen(amoro_cache_kind_name((AmoroCacheKind) kind)) != length ||
												  memcmp(amoro_cache_kind_name((AmoroCacheKind) kind), text, length) != 0))
			kind++;
		if (kind == AMORO_CACHE_KIND_COUNT)
			return false;
		*kinds |= 1U << kind;
		text += length;
		text += *text == ',';
	}
	return true;
}

/* Stores one value; source is what the user typed it as. */
static bool
set_option(DaemonOptions *options, const OptionDefinition *definition, const char *text, const char *source)
{
	void	   *target = (char *) options + definition->offset;

	switch (definition->type)
	{
		case OPTION_TEXT:
			*(const char **) target = text;
			return true;
		case OPTION_INTEGER:
			if (parse_integer(text, definition->minimum, definition->maximum, target))
				return true;
			fprintf(stderr, "amoro-node: %s must be an integer from %ld to %ld, not \"%s\"\n",
					source, definition->minimum, definition->maximum, text);
			return false;
		case OPTION_BYTES:
			if (parse_bytes(text, target))
				return true;
			fprintf(stderr, "amoro-node: %s must be a number of bytes such as 512MB, not \"%s\"\n", source, text);
			return false;
		case OPTION_KINDS:
			if (parse_kinds(text, target))
				return true;
			fprintf(stderr, "amoro-node: %s must be of table, partition, device, authority and bucket, with commas, not \"%s\"\n",
					source, text);
			return false;
		case OPTION_LOG_LEVEL:
			if ((*(int *) target = log_level_of(text)) >= 0)
				return true;
			fprintf(stderr, "amoro-node: %s must be error, warning, info or debug, not \"%s\"\n", source, text);
			return false;
	}
	return false;
}

/* Defaults first, the environment over them. */
static bool
set_from_environment(DaemonOptions *options)
{
	for (int i = 0; i < OPTION_COUNT; i++)
	{
		char		variable[64];
		const char *text;
		size_t		length = (size_t) snprintf(variable, sizeof(variable), "AMORO_NODE_%s", definitions[i].name);

		for (size_t j = 0; j < length; j++)
			variable[j] = variable[j] == '-' ? '_' : (char) toupper((unsigned char) variable[j]);
		if ((text = getenv(variable)) != NULL)
		{
			if (!set_option(options, &definitions[i], text, variable))
				return false;
		}
		else if (definitions[i].default_text != NULL)
			set_option(options, &definitions[i], definitions[i].default_text, definitions[i].name);
	}
	return true;
}

/* A hook that cannot be run is found now, and not when the node has come to lead. */
static bool
check_hook(const char *option, const char *program)
{
	if (program == NULL || strchr(program, '/') == NULL || access(program, X_OK) == 0)
		return true;
	fprintf(stderr, "amoro-node: --%s: %s: %s\n", option, program, strerror(errno));
	return false;
}

static bool
check_service(const DaemonOptions *options)
{
	const char *problem;

	if (options->service == NULL && (options->on_gain != NULL || options->on_loss != NULL))
	{
		fprintf(stderr, "amoro-node: hooks are for a service: --service NAME\n");
		return false;
	}
	problem = options->service != NULL ? object_name_check(options->service, strlen(options->service)) : NULL;
	if (problem != NULL)
	{
		fprintf(stderr, "amoro-node: --service %s\n", problem);
		return false;
	}
	return check_hook("on-gain", options->on_gain) && check_hook("on-loss", options->on_loss);
}

static bool
check_options(const DaemonOptions *options)
{
	const char *problem;
	char	   *message = NULL;
	PQconninfoOption *parsed;

	if (options->node_name == NULL || options->node_name[0] == '\0')
	{
		fprintf(stderr, "amoro-node: a name is needed: --name NAME\n");
		return false;
	}
	/* It goes into every line of the log and a header of every answer. */
	problem = object_name_check(options->node_name, strlen(options->node_name));
	if (problem != NULL)
	{
		fprintf(stderr, "amoro-node: --name %s\n", problem);
		return false;
	}
	if (!check_service(options))
		return false;
	if ((parsed = PQconninfoParse(options->conninfo, &message)) == NULL)
	{
		fprintf(stderr, "amoro-node: --conninfo: %s", message != NULL ? message : "out of memory\n");
		PQfreemem(message);
		return false;
	}
	PQconninfoFree(parsed);
	return true;
}

OptionsOutcome
options_parse(int argument_count, char **arguments, DaemonOptions *options)
{
	struct option long_options[OPTION_COUNT + 4] = {0};
	char		source[64];
	int			chosen;

	memset(options, 0, sizeof(*options));
	for (int i = 0; i < OPTION_COUNT; i++)
		long_options[i] = (struct option) {definitions[i].name, required_argument, NULL, i};
	long_options[OPTION_HELP] = (struct option) {"help", no_argument, NULL, OPTION_HELP};
	long_options[OPTION_ROUTES] = (struct option) {"routes", no_argument, NULL, OPTION_ROUTES};
	long_options[OPTION_VERSION] = (struct option) {"version", no_argument, NULL, OPTION_VERSION};

	if (!set_from_environment(options))
		return OPTIONS_WRONG;
	while ((chosen = getopt_long(argument_count, arguments, "", long_options, NULL)) != -1)
	{
		if (chosen == OPTION_HELP)
			print_help();
		else if (chosen == OPTION_VERSION)
			printf("amoro-node %s\n", amoro_node_library_version());
		else if (chosen == OPTION_ROUTES)
			route_print(stdout);
		if (chosen == OPTION_HELP || chosen == OPTION_VERSION || chosen == OPTION_ROUTES)
			return OPTIONS_DONE;
		if (chosen < 0 || chosen >= OPTION_COUNT)
			return OPTIONS_WRONG;	/* getopt has said why */
		snprintf(source, sizeof(source), "--%s", definitions[chosen].name);
		if (!set_option(options, &definitions[chosen], optarg, source))
			return OPTIONS_WRONG;
	}
	if (optind < argument_count)
	{
		fprintf(stderr, "amoro-node: unexpected argument \"%s\"; try --help\n", arguments[optind]);
		return OPTIONS_WRONG;
	}
	return check_options(options) ? OPTIONS_RUN : OPTIONS_WRONG;
}
