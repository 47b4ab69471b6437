/*
 * http_address.c
 *		Which hosts and addresses this server may connect to on behalf of a catalog.
 *
 * Whoever may create a catalog could otherwise have the server ask its neighbours and the metadata service of its
 * cloud. What counts is the address, looked at when the connection is made: a name may mean something else each time
 * it is resolved.
 */
#include "http/http_address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>

#include "guc.h"

#define ADDRESS_BYTES 16
#define ADDRESS_BITS 128
#define MAPPED_BITS 96
#define ENTRY_MAX 255

/* An IPv4 address is looked at as the IPv6 address that it is mapped to. */
typedef struct Network
{
	unsigned char prefix[ADDRESS_BYTES];
	int			bits;
} Network;

#define IPV4(a, b, c, d, bits) {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, MAPPED_BITS + (bits)}

/* Not on the public internet (the registries of IANA for special-purpose addresses). */
static const Network private_networks[] = {
	IPV4(0, 0, 0, 0, 8),
	IPV4(10, 0, 0, 0, 8),
	IPV4(100, 64, 0, 0, 10),
	IPV4(127, 0, 0, 0, 8),
	IPV4(169, 254, 0, 0, 16),
	IPV4(172, 16, 0, 0, 12),
	IPV4(192, 0, 0, 0, 24),
	IPV4(192, 0, 2, 0, 24),		/* documentation */
	IPV4(192, 168, 0, 0, 16),
	IPV4(198, 18, 0, 0, 15),
	IPV4(198, 51, 100, 0, 24),	/* documentation */
	IPV4(203, 0, 113, 0, 24),	/* documentation */
	IPV4(224, 0, 0, 0, 3),		/* multicast, reserved, broadcast */
	{{0xfc}, 7},				/* unique local */
	{{0xfe, 0x80}, 9},			/* link-local and the former site-local */
	{{0xff}, 8},				/* multicast */
	{{0x20, 0x01, 0x00, 0x00}, 32}, /* Teredo hides an IPv4 address */
	{{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}, 96},	/* translated from an IPv4 address */
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48}, /* NAT64 of one's own */
	{{0x01}, 64},				/* to be discarded */
	{{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
	{{0x3f, 0xff}, 20},			/* documentation */
	{{0x5f, 0x00}, 16},			/* segment routing */
};

/* Networks whose addresses carry an IPv4 address, and where it begins. */
static const struct
{
	Network		network;
	int			at;
}			embedding_networks[] = {
	{{{0x00, 0x64, 0xff, 0x9b}, 96}, 12},	/* NAT64 */
	{{{0x20, 0x02}, 16}, 2},	/* 6to4 */
};

static bool
in_network(const unsigned char *address, const Network *network)
{
	int			bytes = network->bits / 8;
	int			rest = network->bits % 8;

	return memcmp(address, network->prefix, bytes) == 0 &&
		(rest == 0 || ((address[bytes] ^ network->prefix[bytes]) & (0xff00 >> rest) & 0xff) == 0);
}

static void
map_ipv4(unsigned char *address, const unsigned char *ipv4)
{
	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, ipv4, 4);
}

static bool
is_public(const unsigned char *address)
{
	static const unsigned char zeros[12] = {0};

	/* unspecified, loopback, and the addresses once called IPv4-compatible */
	if (memcmp(address, zeros, sizeof(zeros)) == 0)
		return false;
	for (int i = 0; i < lengthof(private_networks); i++)
	{
		if (in_network(address, &private_networks[i]))
			return false;
	}
	for (int i = 0; i < lengthof(embedding_networks); i++)
	{
		unsigned char inner[ADDRESS_BYTES];

		if (!in_network(address, &embedding_networks[i].network))
			continue;
		map_ipv4(inner, address + embedding_networks[i].at);
		return is_public(inner);
	}
	return true;
}

/* Reads an address, or a network when bits is not NULL. */
static bool
read_address(const char *text, unsigned char *address, int *bits)
{
	char		copy[ENTRY_MAX + 1];
	char	   *slash;
	unsigned char ipv4[4];
	int			most = ADDRESS_BITS;
	int			given = -1;

	strlcpy(copy, text, sizeof(copy));
	slash = strchr(copy, '/');
	if (slash != NULL)
	{
		char	   *end;

		*slash++ = '\0';
		if (bits == NULL || !isdigit((unsigned char) *slash))
			return false;
		given = (int) strtol(slash, &end, 10);
		if (*end != '\0')
			return false;
	}
	if (inet_pton(AF_INET, copy, ipv4) == 1)
	{
		map_ipv4(address, ipv4);
		most = 32;
	}
	else if (inet_pton(AF_INET6, copy, address) != 1)
		return false;
	if (given > most)
		return false;
	if (bits != NULL)
		*bits = given < 0 ? ADDRESS_BITS : ADDRESS_BITS - most + given;
	return true;
}

/* Copies the next entry of a list, without the space around it; NULL at the end. */
static const char *
next_entry(const char *list, char *entry)
{
	size_t		length;

	list += strspn(list, " ,");
	if (*list == '\0')
		return NULL;
	length = strcspn(list, " ,");
	strlcpy(entry, list, Min(length, ENTRY_MAX) + 1);
	return list + length;
}

static bool
is_listed(const unsigned char *address, const char *host)
{
	const char *list = guc_http_allowed_hosts;
	char		entry[ENTRY_MAX + 1];

	while ((list = next_entry(list, entry)) != NULL)
	{
		Network		network;

		if (pg_strcasecmp(entry, host) == 0)
			return true;
		if (read_address(entry, network.prefix, &network.bits) && in_network(address, &network))
			return true;
	}
	return false;
}

/* See http_address.h. */
bool
http_address_allowed(const struct sockaddr *address, const char *host)
{
	unsigned char bytes[ADDRESS_BYTES];

	if (address->sa_family == AF_INET)
		map_ipv4(bytes, (const unsigned char *) &((const struct sockaddr_in *) address)->sin_addr);
	else if (address->sa_family == AF_INET6)
		memcpy(bytes, &((const struct sockaddr_in6 *) address)->sin6_addr, ADDRESS_BYTES);
	else
		return false;
	return is_public(bytes) || is_listed(bytes, host);
}

/* See http_address.h. */
bool
http_address_text_allowed(const char *address, const char *host)
{
	unsigned char bytes[ADDRESS_BYTES];

	return read_address(address, bytes, NULL) && (is_public(bytes) || is_listed(bytes, host));
}

/* See http_address.h. */
bool
http_address_list_valid(const char *list)
{
	char		entry[ENTRY_MAX + 1];

	while ((list = next_entry(list, entry)) != NULL)
	{
		unsigned char address[ADDRESS_BYTES];
		int			bits;

		if (strlen(entry) >= ENTRY_MAX || strspn(entry, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:/_-") != strlen(entry))
			return false;
		if ((strchr(entry, '/') != NULL || strchr(entry, ':') != NULL) && !read_address(entry, address, &bits))
			return false;
	}
	return true;
}
