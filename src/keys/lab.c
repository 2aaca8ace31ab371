/*
 * lab.c
 *	  What the lab needs to time the other functions by themselves.
 *
 * Not part of the extension's SQL: the lab declares these in a temporary
 * schema of its throw-away server.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_call_floor);
PG_FUNCTION_INFO_V1(repeat_text_io);

/* How many calls go by between two looks for a cancel, and between two resets of memory */
#define CALLS_AT_ONCE 1000

/* What every function that returns a uuid costs before it does anything */
Datum
uuid_call_floor(PG_FUNCTION_ARGS)
{
	UuidWords	constant = {0, 0};

	return uuid_datum(uuid_stamp(constant, UUID_VERSION_CUSTOM));
}

static void
repeat_input(Oid type, char *form, int32 times)
{
	FmgrInfo	function;
	Oid			oid;
	Oid			param;

	getTypeInputInfo(type, &oid, &param);
	fmgr_info(oid, &function);
	for (int32 i = 0; i < times; i++)
		(void) InputFunctionCall(&function, form, param, -1);
}

static void
repeat_output(Oid type, Datum value, int32 times)
{
	FmgrInfo	function;
	Oid			oid;
	bool		is_varlena;

	getTypeOutputInfo(type, &oid, &is_varlena);
	fmgr_info(oid, &function);
	for (int32 i = 0; i < times; i++)
		(void) OutputFunctionCall(&function, value);
}

/*
 * repeat_text_io(type regtype, form text, thousands int, output boolean)
 *
 * Call a type's input or output function a thousand times as often as asked.
 */
Datum
repeat_text_io(PG_FUNCTION_ARGS)
{
	Oid			type = PG_GETARG_OID(0);
	char	   *form = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int32		thousands = PG_GETARG_INT32(2);
	bool		output = PG_GETARG_BOOL(3);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "repeated calls", ALLOCSET_DEFAULT_SIZES);
	Oid			input;
	Oid			param;
	Datum		value;

	getTypeInputInfo(type, &input, &param);
	value = OidInputFunctionCall(input, form, param, -1);
	for (int32 i = 0; i < thousands; i++)
	{
		MemoryContext caller = MemoryContextSwitchTo(scratch);

		CHECK_FOR_INTERRUPTS();
		if (output)
			repeat_output(type, value, CALLS_AT_ONCE);
		else
			repeat_input(type, form, CALLS_AT_ONCE);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(scratch);
	}
	MemoryContextDelete(scratch);
	PG_RETURN_VOID();
}
