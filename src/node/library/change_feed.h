/*
 * change_feed.h
 *		Applying the metadata log: forgetting what the changes touch.
 */
#ifndef AMORO_CHANGE_FEED_H
#define AMORO_CHANGE_FEED_H

#include "node.h"

/*
 * Applies the changes of a page, in order, up to the version newest, and returns the last version applied; after when
 * there was none. Each version is in the page whole, or not at all.
 */
extern int64_t change_feed_apply(AmoroNode *node, const MetadataChange *changes, int count,
								 int64_t after, int64_t newest);

#endif							/* AMORO_CHANGE_FEED_H */
