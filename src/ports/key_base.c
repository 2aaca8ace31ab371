/*
 * key_base.c
 *	  The base of an expression that computes transaction numbers.
 *
 * Such an expression is a call of a function, without an argument or with a
 * constant.  The expression is examined as a tree, and never evaluated, because
 * it was written by the owner of a table.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(key_base);

/*
 * Get the value of a constant of one of the integer types; false for null, and
 * for constants of other types
 */
static bool
is_number(const Const *constant, int64 *number)
{
	if (constant->constisnull)
		return false;
	if (constant->consttype == INT8OID)
		*number = DatumGetInt64(constant->constvalue);
	else if (constant->consttype == INT4OID)
		*number = DatumGetInt32(constant->constvalue);
	else
		return false;
	return true;
}

/*
 * Get the value of an argument that is a constant integer; false for other
 * arguments.  The argument may be named, and the parser may have added a cast
 * to bigint.
 */
static bool
is_constant(Node *argument, int64 *number)
{
	if (IsA(argument, NamedArgExpr))
		argument = (Node *) ((NamedArgExpr *) argument)->arg;
	if (IsA(argument, FuncExpr))
	{
		FuncExpr   *conversion = (FuncExpr *) argument;

		if (conversion->funcid != F_INT8_INT4)
			return false;
		argument = linitial(conversion->args);
	}
	return IsA(argument, Const) && is_number((Const *) argument, number);
}

/*
 * Return the function that an expression calls; InvalidOid for other expressions.  Sets *base to the constant argument
 * of the call, or to 0 without an argument.
 */
Oid
base_of_call(char *expression, int64 *base)
{
	FuncExpr   *call = stringToNode(expression);

	*base = 0;
	if (call == NULL || !IsA(call, FuncExpr) || (call->args != NIL && !is_constant(linitial(call->args), base)))
		return InvalidOid;
	return call->funcid;
}

/*
 * key_base(expression pg_node_tree, function oid) -> bigint
 *
 * Null unless the expression is a call of this function, without an argument or
 * with a constant.
 */
Datum
key_base(PG_FUNCTION_ARGS)
{
	int64		base;

	if (base_of_call(TextDatumGetCString(PG_GETARG_DATUM(0)), &base) != PG_GETARG_OID(1))
		PG_RETURN_NULL();
	PG_RETURN_INT64(base);
}

/*
 * Return true if a predicate has the form x <> 0 or x > 0, where x is a column of type bigint: see leaves_out_old() in
 * SQL
 */
bool
leaves_out_old(char *predicate, AttrNumber column)
{
	OpExpr	   *comparison = stringToNode(predicate);
	Var		   *variable;
	int64		number;

	if (comparison == NULL || !IsA(comparison, OpExpr) || list_length(comparison->args) != 2)
		return false;
	variable = linitial(comparison->args);
	switch (get_opcode(comparison->opno))
	{
		case F_INT8NE:
		case F_INT84NE:
		case F_INT8GT:
		case F_INT84GT:
			return IsA(variable, Var) && variable->varattno == column && IsA(lsecond(comparison->args), Const) &&
				is_number(lsecond(comparison->args), &number) && number == 0;
	}
	return false;
}
