/*
 * resolver.c
 *		Preloaded into amoro-node: the name lake.test has the address in the file $AMORO_ADDRESS, and changes with it
 *		(fault H09).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	int			(*original) (const char *, const char *, const struct addrinfo *, struct addrinfo **);
	const char *path = getenv("AMORO_ADDRESS");
	char		address[64] = "";

	*(void **) &original = dlsym(RTLD_NEXT, "getaddrinfo");
	if (path != NULL && name != NULL && strcmp(name, "lake.test") == 0)
	{
		FILE	   *file = fopen(path, "r");

		if (file == NULL || fgets(address, sizeof(address), file) == NULL)
			return EAI_AGAIN;
		fclose(file);
		name = address;
	}
	return original(name, service, hints, found);
}
