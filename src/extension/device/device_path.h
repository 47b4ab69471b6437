/*
 * device_path.h
 *		Paths of devices in the tree model: nodes with dots between them, the first one "root".
 */
#ifndef AMORO_META_DEVICE_PATH_H
#define AMORO_META_DEVICE_PATH_H

#include "postgres.h"

#include "json/json_place.h"

/* In characters, of the canonical form. */
#define DEVICE_PATH_MAX 255

/*
 * Returns the canonical form of a path: nodes that need no backticks have none. Raises 22023 for what is no path;
 * argument says what it is. wildcards: the nodes * (any one node) and ** (one or more nodes) are allowed.
 */
extern char *device_path_canonical(const char *argument, const char *path, bool wildcards);
/* The same for the name of a measurement or an alias, which is one node; raises 22023 with its place. */
extern char *device_node_name(const JsonPlace *place);

/* Of canonical forms: */

/* Whether some path matches both, each of which may have wildcards. */
extern bool device_paths_overlap(const char *left, const char *right);
/* Whether it has wildcards; a name cannot have an asterisk, not even in backticks. */
#define device_path_is_pattern(path) (strchr(path, '*') != NULL)
/*
 * All paths that match are, byte by byte, from *from (inclusive) to *to (exclusive): a range of an index.
 */
extern void device_path_range(const char *path, char **from, char **to);
/* The smallest text after a path, in the order of bytes: no name has a control character. */
#define device_path_after(path) psprintf("%s\x01", path)

#endif							/* AMORO_META_DEVICE_PATH_H */
