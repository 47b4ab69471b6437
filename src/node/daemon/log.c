/*
 * log.c
 *		Log lines that neither block, nor forge each other.
 */
#include "log.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "amoro_node.h"

/* A pipe that poll() calls writable takes this much without blocking (PIPE_BUF), so a line is never longer. */
enum
{
	LINE_SIZE = 4096
};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static int	log_level = AMORO_LOG_INFO;
static int	log_descriptor = STDERR_FILENO;
static const char *log_node_name = "";
static atomic_llong lost_messages;

int
log_level_of(const char *name)
{
	for (int level = AMORO_LOG_ERROR; level <= AMORO_LOG_DEBUG; level++)
		if (strcmp(name, level_names[level]) == 0)
			return level;
	return -1;
}

int64_t
log_lost_count(void)
{
	return atomic_load(&lost_messages);
}

/* Appends text with its control characters (and the backslash that marks them) escaped; returns the new length. */
static size_t
append_escaped(char *line, size_t length, size_t size, const char *text, size_t text_length)
{
	for (size_t i = 0; i < text_length; i++)
	{
		unsigned char byte = (unsigned char) text[i];

		if (length + sizeof("\\xff") + 1 > size)
			break;
		if (byte < 0x20 || byte == 0x7f || byte == '\\')
			length += (size_t) snprintf(line + length, size - length, "\\x%02x", byte);
		else
			line[length++] = (char) byte;
	}
	return length;
}

static void
emit(int level, const char *text, size_t text_length)
{
	char		line[LINE_SIZE];
	struct timespec now;
	struct tm	utc;
	struct pollfd descriptor = {.fd = log_descriptor, .events = POLLOUT};
	size_t		length;

	if (level > log_level)
		return;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	length = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
	length += (size_t) snprintf(line + length, sizeof(line) - length, ".%03ldZ %s ",
								now.tv_nsec / 1000000, level_names[level]);
	length = append_escaped(line, length, sizeof(line), log_node_name, strlen(log_node_name));
	length = append_escaped(line, length, sizeof(line), ": ", 2);
	length = append_escaped(line, length, sizeof(line), text, text_length);
	line[length++] = '\n';

	/* Nobody reads the pipe: lose the line rather than hold up a heartbeat. */
	if (poll(&descriptor, 1, 0) != 1 || write(log_descriptor, line, length) < 0)
		atomic_fetch_add(&lost_messages, 1);
}

void
log_write(int level, const char *format,...)
{
	char		text[LINE_SIZE];
	va_list		arguments;
	int			length;

	if (level > log_level)
		return;
	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	emit(level, text, length < (int) sizeof(text) ? (size_t) length : sizeof(text) - 1);
}

void
log_node_message(void *argument, int level, const char *message)
{
	emit(level, message, strlen(message));
}

static ssize_t
write_foreign(void *cookie, const char *text, size_t size)
{
	size_t		length = size;

	while (length > 0 && text[length - 1] == '\n')
		length--;
	emit(AMORO_LOG_WARNING, text, length);
	return (ssize_t) size;
}

/*
 * What libraries print to stderr goes through here as well: it may quote what a client sent, decoded, and so forge
 * lines or send escape sequences to a terminal.
 */
static void
capture_stderr(void)
{
	static char buffer[LINE_SIZE];
	FILE	   *stream = fopencookie(NULL, "w", (cookie_io_functions_t) {.write = write_foreign});

	if (stream == NULL)
		return;
	setvbuf(stream, buffer, _IOLBF, sizeof(buffer));
	stderr = stream;
}

void
log_open(int level, const char *node_name)
{
	log_level = level;
	log_node_name = node_name;
	capture_stderr();
}
