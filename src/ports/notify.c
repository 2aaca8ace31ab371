/*
 * notify.c
 *	  The trigger that notifies listeners of new rows.
 *
 * It fires once per statement, and the server keeps one notification of a
 * channel per transaction, which it delivers after the commit, when the rows
 * are visible.  It says nothing but that: anyone may listen.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/async.h"
#include "commands/trigger.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(feed_notify_trigger);

/* Anyone may make a trigger of it by hand. */
static void
refuse(const char *fault)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("%s", fault),
			 errhint("feed_notify() makes the right triggers.")));
}

/* feed_notify_trigger() -> trigger */
Datum
feed_notify_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		refuse("feed_notify_trigger() must be called as a trigger");
	if (!TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
		refuse(psprintf("trigger \"%s\" is not for each statement", data->tg_trigger->tgname));
	if (data->tg_trigger->tgnargs != 1)
		refuse(psprintf("trigger \"%s\" has %d arguments instead of a channel", data->tg_trigger->tgname,
						data->tg_trigger->tgnargs));
	/* A statement that inserted no row in a transaction that wrote nothing else has no number, and no listener's rows. */
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		Async_Notify(data->tg_trigger->tgargs[0], NULL);
	return PointerGetDatum(NULL);
}
