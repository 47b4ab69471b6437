/*
 * stall.c
 *		Preloaded into amoro-node: stalls one lookup between its test of the lease and its answer (fault L02).
 *
 * A lookup that has found a document allocates, through libh2o, a holder for it of the size of a pointer; the ticket is
 * checked after that. When the file $AMORO_STALL exists, the next such allocation renames it to $AMORO_STALL.stalled
 * and waits until that is gone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct st_h2o_mem_pool_t;

extern void *h2o_mem_alloc_shared(struct st_h2o_mem_pool_t *pool, size_t size, void (*dispose) (void *));

void *
h2o_mem_alloc_shared(struct st_h2o_mem_pool_t *pool, size_t size, void (*dispose) (void *))
{
	void	   *(*original) (struct st_h2o_mem_pool_t *, size_t, void (*) (void *));
	const char *file = getenv("AMORO_STALL");
	char		stalled[4096];

	if (file != NULL && pool != NULL && dispose != NULL && size == sizeof(void *))
	{
		snprintf(stalled, sizeof(stalled), "%s.stalled", file);
		if (rename(file, stalled) == 0)
			while (access(stalled, F_OK) == 0)
				usleep(1000);
	}
	*(void **) &original = dlsym(RTLD_NEXT, "h2o_mem_alloc_shared");
	return original(pool, size, dispose);
}
