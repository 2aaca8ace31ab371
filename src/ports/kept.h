/*
 * kept.h
 *	  The stored state of a feed.
 */
#ifndef INORDER_KEPT_H
#define INORDER_KEPT_H

#include "ports/probe.h"

/* Columns of feed_state, in the order of sql/ports/state.sql; the last constant is the number of columns. */
enum
{
	STATE_FEED, STATE_SEQ, STATE_PAGE, STATE_RELATION, STATE_POSITION, STATE_BATCH, STATE_BATCH_ORIGIN, STATE_FIRST_BATCH,
	STATE_PLACES, STATE_MOVED, STATE_POLLED, STATE_CAUGHT_UP_AT, STATE_WRITTEN_HERE, STATE_COLUMNS
};

/* Columns of worker_batch, in the order of sql/ports/state.sql; the last constant is the number of columns. */
enum
{
	KEPT_FEED, KEPT_NUMBER, KEPT_RELATION, KEPT_BATCH, KEPT_WORKER, KEPT_TOKEN, KEPT_TAKEN, KEPT_TRIES, KEPT_TRIED,
	KEPT_MAX_TRIES, KEPT_LEASE_END, KEPT_REASON, KEPT_FAILED, KEPT_DEAD_SINCE, KEPT_SHARE, KEPT_PLACE, KEPT_PAGE,
	KEPT_ROWS, KEPT_IS_OPEN, KEPT_WRITTEN_HERE, KEPT_FEED_SHARE, KEPT_COLUMNS
};

/* A feed in its current state */
typedef struct Feed
{
	Row			row;
	Row			state;
	Row			position;
	Row			order;			/* the ordering of the position */
	Datum		table;			/* feed_table: the description of the table of the feed; 0 if there is no description */
	bool		is_divided;		/* workers divide the feed by a column */
	bool		is_shared;		/* workers have unfinished batches of the feed */
	bool		is_poll_due;	/* a poll that finds nothing should be recorded */
	bool		is_renamed;		/* the owner was renamed */
	TimestampTz asked;			/* time at which the caller asked for rows */
} Feed;

extern Oid	state_table(const char *name);
extern void check_state_writer(void);
extern bool find_movable(Datum name, Datum owner, Oid caller, Row *feed);
extern Row	feed_by_id(Datum feed);
extern Row	batch_by_number(Datum feed, Datum number);
extern bool has_free_batch(const Feed *feed, Datum worker);
extern bool open_feed(Datum name, Datum owner, Oid caller, bool moves, Feed *feed);
extern void refuse_concurrent(void);
extern int64 move_feed(const Feed *feed, HeapTupleHeader batch, bool is_all, bool gives);

/* next.c */
/* The request for a batch */
typedef struct BatchRequest
{
	bool		is_limited;		/* the batch must not have more than max_rows rows */
	int			max_rows;
	bool		whole;			/* the batch must not end inside a transaction */
	bool		passes;			/* a batch without rows is accepted */
} BatchRequest;

extern bool is_readable(Table *table, HeapTupleHeader batch);
extern bool find_next_batch(Table *table, const Row *position, const BatchRequest *request, HeapTupleHeader *batch,
							BatchEnd *end);

#endif							/* INORDER_KEPT_H */
