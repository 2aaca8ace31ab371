/*
 * shares.h
 *	  How workers divide a feed by a column.
 */
#ifndef INORDER_SHARES_H
#define INORDER_SHARES_H

#include "feed.h"

extern void prove_new_share_column(const Table *table, Value column);
extern void check_shares(Value shares, Value column, bool whole);
extern void refuse_divided(const Feed *feed);
extern void prove_share_key(const Feed *feed);
extern void read_share(Feed *feed, Value share);
extern bool distribute(Feed *feed, Value max_rows);
extern void note_caught_up(const Feed *feed);

#endif							/* INORDER_SHARES_H */
