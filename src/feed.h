/*
 * feed.h
 *	  What the functions of feeds and counts share.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "query.h"

typedef struct Feed
{
	Value		id;
	Value		name;
	Table		table;
	Value		position;
	Value		batch;			/* number of the last one handed out */
	Value		finished;		/* number of the last one finished */
	Value		pending;		/* the last one handed out, while it is not finished */
	Value		shared;			/* workers have unfinished batches */
	Value		share_key;		/* by which workers divide it; null if they do not */
	bool		poll_due;		/* one that finds nothing is recorded */
	Value		asked;			/* when the reader asked for rows */
	bool		is_all;			/* the batch found has all rows that were committed then */
} Feed;

/* What a call needs of the table */
typedef enum Need
{
	NEED_NOTHING,
	NEED_ROWS,
	NEED_ROWS_UNLESS_PENDING,
	NEED_TABLE					/* for a new position, whatever the old one is */
} Need;

extern Feed find_feed(FunctionCallInfo fcinfo, int owner);
extern void look_at(Feed *feed, Need need);
extern Feed take_feed(FunctionCallInfo fcinfo, int owner, Need need);
extern bool find_batch(Feed *feed, Value max_rows, bool moves, Value *batch);
extern void note_empty_poll(const Feed *feed, Value batch);
extern bool find_rows(Feed *feed, Value max_rows, Value *batch);
extern Value is_all_value(const Feed *feed);
extern bool is_held_elsewhere(const Feed *feed, Value session, Value *pid);
extern Value session_value(void);
extern Value pid_value(void);
extern void make_durable(void);

extern Oid readable_argument(FunctionCallInfo fcinfo, int number);
extern Oid owned_argument(FunctionCallInfo fcinfo, int number);
extern Value composite_argument(FunctionCallInfo fcinfo, int number);
extern Table open_table(Oid relation);
extern Value relation_value(Oid relation);
extern Value start_position(const Table *table, Value start, Value order_column);
extern void ensure_enabled(Oid relation, Value key_column);

#endif							/* INORDER_FEED_H */
