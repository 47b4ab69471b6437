/*
 * load.h
 *		The rule for filling a cache: note the generations, read, and store only if neither moved (docs/protocol.md,
 *		section 4). The reading itself is the loader's.
 */
#ifndef AMORO_LOAD_H
#define AMORO_LOAD_H

#include "cache.h"
#include "transport.h"

typedef struct LoadNote
{
	uint64_t	lease_generation;
	uint64_t	key_generation;
	int64_t		applied_version;
	bool		listing;		/* of a database, to be set after load_begin: answered, never stored */
} LoadNote;

typedef enum LoadVerdict
{
	LOAD_ANSWERED,				/* result, entry and ticket are set */
	LOAD_OVERTAKEN,				/* a change overtook it: read again */
	LOAD_OTHER_SERVER			/* read in another term, or older than what was applied: read again, a little later */
} LoadVerdict;

/* Before reading; false: fenced, do not read. */
extern bool load_begin(const Lease *lease, const Cache *cache, const KeyParts *key, LoadNote *note);
/* After reading. The caller owns *entry, which is NULL unless *result is AMORO_OK. */
extern LoadVerdict load_finish(const Lease *lease, Cache *cache, AmoroCacheKind kind, const KeyParts *key,
							   const LoadNote *note, const LookupAnswer *answer,
							   AmoroResult *result, AmoroEntry **entry, AmoroTicket *ticket);

#endif							/* AMORO_LOAD_H */
