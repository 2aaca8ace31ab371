/*
 * workers.h
 *	  Batches of workers, of which a feed may have several at once.
 */
#ifndef INORDER_WORKERS_H
#define INORDER_WORKERS_H

#include "feed.h"

extern Value worker_batch(Feed *feed, Value number);
extern bool has_free_batch(const Feed *feed);

#endif							/* INORDER_WORKERS_H */
