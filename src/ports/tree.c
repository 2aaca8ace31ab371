/*
 * tree.c
 *	  A table and all partitions below it.
 */
#include "postgres.h"

#include "catalog/pg_inherits.h"
#include "utils/lsyscache.h"

#include "ports/tree.h"

/*
 * The partitions are locked in this mode, unless it is NoLock, the table is not.
 * None if it was dropped, perhaps while its lock was waited for: the server's
 * function would end in an internal error.
 */
List *
tree_of(Oid relation, LOCKMODE mode)
{
	return get_rel_relkind(relation) == '\0' ? NIL : find_all_inheritors(relation, mode, NULL);
}
