/*
 * key_base.c
 *	  What the default of a column says about the numbers in it.
 *
 * Read off the expression's tree: nothing is evaluated, since anyone may put
 * a function of his into the argument of ours.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/primnodes.h"
#include "nodes/readfuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

PG_FUNCTION_INFO_V1(key_base);

/* A constant bigint, also one that was written as a smaller number, or with the name of the argument */
static bool
constant_base(Node *argument, int64 *base)
{
	Const	   *constant;

	if (IsA(argument, NamedArgExpr))
		argument = (Node *) ((NamedArgExpr *) argument)->arg;
	if (IsA(argument, FuncExpr) &&
		(((FuncExpr *) argument)->funcid == F_INT8_INT4 || ((FuncExpr *) argument)->funcid == F_INT8_INT2))
		argument = linitial(((FuncExpr *) argument)->args);
	if (!IsA(argument, Const))
		return false;
	constant = (Const *) argument;
	if (constant->constisnull)
		return false;
	switch (constant->consttype)
	{
		case INT2OID:
			*base = DatumGetInt16(constant->constvalue);
			return true;
		case INT4OID:
			*base = DatumGetInt32(constant->constvalue);
			return true;
		case INT8OID:
			*base = DatumGetInt64(constant->constvalue);
			return true;
		default:
			return false;
	}
}

/* Whether an expression is a call of a function with no argument (base 0) or a constant, and nothing else */
static bool
base_of_call(Node *expression, Oid function, int64 *base)
{
	FuncExpr   *call = (FuncExpr *) expression;

	*base = 0;
	return expression != NULL && IsA(expression, FuncExpr) && call->funcid == function &&
		(call->args == NIL || (list_length(call->args) == 1 && constant_base(linitial(call->args), base)));
}

/* key_base(expression pg_node_tree, functions oid[]) -> bigint, null for any other expression */
Datum
key_base(PG_FUNCTION_ARGS)
{
	Node	   *expression = stringToNode(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	Datum	   *functions;
	int			count;
	int64		base;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &functions, NULL, &count);
	for (int i = 0; i < count; i++)
		if (base_of_call(expression, DatumGetObjectId(functions[i]), &base))
			PG_RETURN_INT64(base);
	PG_RETURN_NULL();
}
