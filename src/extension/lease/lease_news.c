/*
 * lease_news.c
 *		The newest changes as text in shared memory, so that the answer of a heartbeat can carry
 *		them (docs/protocol.md, section 5).
 *
 * They come with the publication of their version, which is in the order of the
 * commits, and only from the transaction that made them; a version that is
 * published without them, or after a gap, forgets all that is older. So what is
 * here is without gaps up to the published version, or nothing.
 */
#include "postgres.h"

#include "lease/lease.h"

/* lease_news_forget_locked: nothing up to the published version is carried any more. */
void
lease_news_forget_locked(DatabaseEntry *entry)
{
	entry->news.first_version = entry->published_version + 1;
}

/* Copies text into the ring or out of it, where it may go over the end. */
static void
write_bytes(NewsRing *ring, const char *text, int length)
{
	int			at = (int) (ring->written % NEWS_SIZE);
	int			head = Min(length, NEWS_SIZE - at);

	memcpy(ring->bytes + at, text, head);
	memcpy(ring->bytes, text + head, length - head);
	ring->written += length;
}

static void
read_bytes(const NewsRing *ring, uint64 start, char *text, int length)
{
	int			at = (int) (start % NEWS_SIZE);
	int			head = Min(length, NEWS_SIZE - at);

	memcpy(text, ring->bytes + at, head);
	memcpy(text + head, ring->bytes, length - head);
}

/*
 * lease_news_append_locked adds the changes of the version that has just been published; previous is the one that was
 * published before. Without them, NULL or too large, nothing is carried from before this version.
 */
void
lease_news_append_locked(DatabaseEntry *entry, int64 previous, const char *news, int news_length)
{
	NewsRing   *ring = &entry->news;
	int64		version = entry->published_version;

	if (news == NULL || news_length > NEWS_LARGEST)
	{
		lease_news_forget_locked(entry);
		return;
	}
	if (version != previous + 1 || ring->first_version > version)
		ring->first_version = version;
	ring->starts[version % NEWS_VERSIONS] = ring->written;
	write_bytes(ring, news, news_length);
	ring->first_version = Max(ring->first_version, version - NEWS_VERSIONS + 1);
	while (ring->written - ring->starts[ring->first_version % NEWS_VERSIONS] > NEWS_SIZE)
		ring->first_version++;
}

/*
 * lease_news_copy_locked puts into *grant the changes after request->version, if the request wants them, the node may
 * apply them, and all of them are here. AmoroShared->lock is held, in any mode.
 */
void
lease_news_copy_locked(const DatabaseEntry *entry, const LeaseRequest *request, LeaseGrant *grant)
{
	static char copy[NEWS_SIZE];
	const NewsRing *ring = &entry->news;
	uint64		start;

	if (!request->with_news || (grant->answer != GRANT_GRANTED && grant->answer != GRANT_HELD) ||
		request->version >= entry->published_version || request->version + 1 < ring->first_version)
		return;
	start = ring->starts[(request->version + 1) % NEWS_VERSIONS];
	grant->news_length = (int) (ring->written - start);
	read_bytes(ring, start, copy, grant->news_length);
	grant->news = copy;
}
