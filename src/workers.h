/*
 * workers.h
 *	  Batches of workers, of which a feed may have several at once.
 */
#ifndef INORDER_WORKERS_H
#define INORDER_WORKERS_H

#include "feed.h"

extern Value worker_batch(Feed *feed, Value number);
extern bool has_free_batch(const Feed *feed);
extern void finish_worker_batch(FunctionCallInfo fcinfo);
extern bool drop_aside(const Feed *feed, Value number);

#endif							/* INORDER_WORKERS_H */
