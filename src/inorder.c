/*
 * inorder.c
 *	  The module itself: magic block and nothing else.
 *
 * There is no _PG_init: nothing is preloaded or configured, and nothing hooked
 * but the executor, in sessions that call feed_read or changes_read (caller.c).  The functions
 * are in the file of their idea:
 *
 *	  names.c		how errors name a table
 *
 * keys/: how keys are made, and what is in them
 *	  entropy.c		random words out of a per-backend pool
 *	  uuid_layout.h	where the bits of every key lie (pure arithmetic)
 *	  uuid_datum.c	between those bits and uuid values of the server
 *	  sequential.c	uuid_sequence_nextval, uuid_time_nextval
 *	  v7.c			uuid_v7_nextval, uuid_v7_time, uuid_v7_floor, uuid_after_random_nextval
 *	  xact.c		uuid_xact_nextval, xact_id and its like, uuid_xact_id, uuid_xact_floor
 *	  mask.c		uuid_mask, uuid_unmask
 *
 * types/: the type uuid_v1, and what compares keys with times
 *	  uuid_v1.c		the type uuid_v1, which the server's functions for uuid compare, and its generator; min and max
 *	  time_bounds.c	comparing keys with timestamps
 *	  time_support.c	the same by the index: what the planner makes of it
 *
 * ports/: what only C can do of what the SQL of feeds and counts asks for
 *	  numbers.c		sets of numbers as arrays
 *	  snapshot.c	which transactions have ended: ground of feed and count
 *	  origin.c		which server this is, on which timeline
 *	  guard.c		the trigger that keeps a table readable
 *	  notify.c		the trigger that notifies listeners of new rows
 *	  restored.c	what a restore brought, and nobody has accepted yet
 *	  rights.c		what a role may do with a table
 *	  version.c		whether this library and the SQL fit together
 *	  state.c		calls of internal functions, as the owner of the state
 *	  as_owner.c	public functions whose bodies, in SQL, run as the owner of the state
 *	  table_ref.c	how the state names a table
 *	  query.c		queries over one table, with the rights of the caller
 *	  ground.c		what a read stands on, proved before it
 *	  proof.c		whether a table stands as it was made readable, without a query
 *	  files.c		a table with its partitions, and whether a snapshot sees the files that are read
 *	  versions.c	which version of its guard a table has
 *	  parts.c		queries over those partitions only that have rows
 *	  probe.c		whether a table has rows of some numbers, by its indexes
 *	  idle.c		whether it is known at once that nothing follows a position
 *	  walk.c		rows of a batch by the index of their keys
 *	  sample.c		how the rows of a table are distributed over transactions
 *	  wait.c		waiting for rows that others commit
 *	  empty.c		calls that found nothing, and are not made again
 *
 * feed/: what users call of feeds and counts
 *	  apply.c		the statement of feed_apply
 *	  caller.c		who takes the rows of feed_read and changes_read, and whether all of them
 *	  feed.c		rows of feeds and batches
 *
 * changes/: what users call of tables that are updated and deleted from
 *	  changes.c		rows of changes
 *	  logging.c		the trigger that logs them
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"

INORDER_MODULE_MAGIC("inorder");
