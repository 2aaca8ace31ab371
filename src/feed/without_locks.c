/*
 * without_locks.c
 *	  A look at tables that holds no lock on them afterwards.
 *
 * A reader that waits for rows looks repeatedly, and the view feeds looks at the
 * tables of all feeds: kept to the end of the transaction, their locks would
 * leave ALTER TABLE with a lock_timeout no turn.  So each look is made in a
 * subtransaction, which is always rolled back.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "feed/without_locks.h"

static void
end_subtransaction(MemoryContext context, ResourceOwner owner)
{
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

bool
without_locks(Look look, FunctionCallInfo fcinfo)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext mine = AllocSetContextCreate(context, "inorder wait", ALLOCSET_DEFAULT_SIZES);
	bool		result = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(mine);
	PG_TRY();
	{
		result = look(fcinfo);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		end_subtransaction(context, owner);
		ReThrowError(error);
	}
	PG_END_TRY();
	end_subtransaction(context, owner);
	MemoryContextDelete(mine);
	return result;
}
