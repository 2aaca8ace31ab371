/*
 * as_owner.c
 *	  Public functions whose bodies run as the owner of the extension's tables.
 *
 * A public function that is declared AS 'MODULE_PATHNAME', 'as_owner' calls its
 * twin: a PL/pgSQL function of the same name in the internal schema, whose
 * first argument is the role of the caller, followed by the arguments of the
 * public function.  A twin accesses only catalogs and the state, but no
 * user-defined object: see state.c.  A set is computed completely before the
 * caller sees its first row.
 *
 * Only the owner may execute a twin, or a PL/pgSQL function that a twin calls.
 * PL/pgSQL keeps plans per session, and not per role.  If another role could
 * execute such a function, a plan that was parsed under the settings of that
 * role would later run as the owner.
 */
#include "postgres.h"

#include "catalog/pg_collation_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "ports/state.h"

PG_FUNCTION_INFO_V1(as_owner);

/* Return the twin of a public function */
static Oid
twin_of(Oid public_function, Oid schema)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(public_function));
	Form_pg_proc form;
	Oid			types[FUNC_MAX_ARGS] = {OIDOID};
	Oid			twin;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", public_function);
	form = (Form_pg_proc) GETSTRUCT(tuple);
	memcpy(types + 1, form->proargtypes.values, sizeof(Oid) * form->pronargs);
	twin = internal_function(schema, NameStr(form->proname), form->pronargs + 1, types);
	ReleaseSysCache(tuple);
	return twin;
}

/*
 * Prepare to call the twin.  The twin is looked up at each call, under the lock of
 * become_owner(), because the extension may have been created again since the last
 * call.
 */
static FmgrInfo *
body_of(FunctionCallInfo public_call, Oid schema)
{
	FmgrInfo   *body = (FmgrInfo *) public_call->flinfo->fn_extra;
	Oid			twin = twin_of(public_call->flinfo->fn_oid, schema);

	if (body == NULL)
		public_call->flinfo->fn_extra = body =
			(FmgrInfo *) MemoryContextAllocZero(public_call->flinfo->fn_mcxt, sizeof(FmgrInfo));
	if (body->fn_oid != twin)
		fmgr_info_cxt(twin, body, public_call->flinfo->fn_mcxt);
	return body;
}

/*
 * Make a set-returning function use materialize mode.  Returns the modes that
 * were allowed before.  In value-per-call mode, later rows would be computed
 * with the privileges of the caller.
 */
static int
allow_materialize_only(ReturnSetInfo *set)
{
	int			modes;

	if (set == NULL || !IsA(set, ReturnSetInfo) || (set->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	modes = set->allowedModes;
	/* A SQL function requires that both modes are allowed, and uses the preferred mode. */
	set->allowedModes = SFRM_ValuePerCall | SFRM_Materialize | SFRM_Materialize_Preferred;
	return modes;
}

Datum
as_owner(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, FUNC_MAX_ARGS);
	ReturnSetInfo *set = fcinfo->flinfo->fn_retset ? (ReturnSetInfo *) fcinfo->resultinfo : NULL;
	int			modes = fcinfo->flinfo->fn_retset ? allow_materialize_only(set) : 0;
	Value		caller = caller_value();
	SavedRole	saved = become_owner();
	Datum		result;

	/* Under the collation of the caller, different names might be equal. */
	InitFunctionCallInfoData(*call, body_of(fcinfo, saved.schema), PG_NARGS() + 1, DEFAULT_COLLATION_OID, NULL,
							 (Node *) set);
	call->args[0] = (NullableDatum) {caller.value, caller.null};
	memcpy(call->args + 1, fcinfo->args, sizeof(NullableDatum) * PG_NARGS());
	result = internal_call(call);
	fcinfo->isnull = call->isnull;
	restore_role(saved);
	if (set != NULL)
	{
		if (set->returnMode != SFRM_Materialize)
			elog(ERROR, "function %u did not return its set at once", fcinfo->flinfo->fn_oid);
		set->allowedModes = modes;
	}
	return result;
}
