/*
 * time_support.c
 *	  Planner support for comparisons of keys with timestamps.
 *
 * With the simple form, uuid_v1_get_timestamp(id) >= t, the planner can use
 * neither indexes nor statistics nor partition pruning.  A cross-type operator
 * in the btree operator family would allow all three.  But equality in a family
 * must be transitive, and many keys equal one timestamp.  The operators are
 * therefore not in the family, and a planner support function rewrites each
 * operator into comparisons of the key with a bound of the key's own type
 * (time_bounds.c):
 *
 *	  id <~ t	id < floor(t)
 *	  id <=~ t	id < after(t)
 *	  id >~ t	id >= after(t)
 *	  id >=~ t	id >= floor(t)
 *	  id =~ t	id >= floor(t) AND id < after(t)
 *	  id <>~ t	id < floor(t) OR id >= after(t)
 *
 * Since the bounds are functions of t, t may also be a parameter or now().
 *
 * A uuid may have a version that contains no time.  The functions of the operators refuse such a key.  The rewritten
 * form calls uuid_v7_checked(id, t) in addition to the bounds.  This check has a higher cost than the comparisons with
 * the bounds, and needs the same columns.  Every kind of scan and join therefore evaluates the check last, and only for
 * rows that satisfy the comparisons.  If a key without a time does not satisfy the comparisons, there is no error.  If
 * the default of a column generates keys without a time, the comparison is therefore always refused.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "keys/uuid_datum.h"
#include "types/time_bounds.h"
#include "types/uuid_v1_layout.h"

PG_FUNCTION_INFO_V1(uuid_time_support);
PG_FUNCTION_INFO_V1(uuid_v7_checked_support);

/* ---------------------------------------------------------------------------
 * Columns whose default generates keys without a time
 * ---------------------------------------------------------------------------
 */

static const char *const functions_without_time[] = {
	"uuid_sequence_nextval", "uuid_time_nextval", "uuid_xact_nextval", "uuid_v1_nextval"
};
static const char *const server_functions_without_time[] = {"gen_random_uuid", "uuidv4"};

typedef struct TimelessSearch
{
	Oid			namespace;		/* schema of the extension */
	const char *function_name;	/* name of the function that was found */
} TimelessSearch;

static bool
is_timeless(Oid function, void *context)
{
	TimelessSearch *search = (TimelessSearch *) context;
	Oid			namespace = get_func_namespace(function);
	bool		is_own = namespace == search->namespace;
	const char *const *names = is_own ? functions_without_time : server_functions_without_time;
	char	   *name;

	if (!is_own && namespace != PG_CATALOG_NAMESPACE)
		return false;
	name = get_func_name(function);
	for (int i = 0; i < (is_own ? lengthof(functions_without_time) : lengthof(server_functions_without_time)); i++)
		if (strcmp(name, names[i]) == 0)
		{
			search->function_name = names[i];
			return true;
		}
	return false;
}

static bool
calls_timeless(Node *node, void *context)
{
	return node != NULL &&
		(check_functions_in_node(node, is_timeless, context) ||
		 expression_tree_walker(node, calls_timeless, context));
}

/*
 * Return the expression to which a column of a join, a grouping or a subquery refers; NULL if the expression is not
 * available.
 */
static Node *
expression_of_column(RangeTblEntry *rte, AttrNumber column, List **rtable)
{
	List	   *expressions = rte->rtekind == RTE_JOIN ? rte->joinaliasvars : group_expressions(rte);
	TargetEntry *entry;

	if (rte->rtekind != RTE_SUBQUERY)
		return column <= list_length(expressions) ? (Node *) list_nth(expressions, column - 1) : NULL;
	if (rte->subquery == NULL)
		return NULL;
	entry = get_tle_by_resno(rte->subquery->targetList, column);
	*rtable = rte->subquery->rtable;
	return entry == NULL ? NULL : (Node *) entry->expr;
}

/*
 * Return the column that an expression consists of; NULL if the expression is not a column.  Binary-compatible casts
 * are skipped.
 */
static Var *
plain_column(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node != NULL && IsA(node, Var) && ((Var *) node)->varattno > 0 ? (Var *) node : NULL;
}

/*
 * Return the range table of the query that is "levels" query levels up, or NIL.  Before the planner builds its
 * relations, it simplifies all expressions of the query; after that it simplifies only CHECK constraints of tables.
 * The result is then NIL, because columns in CHECK constraints do not refer to the range table of the query.
 */
static List *
range_table(PlannerInfo *root, Index levels)
{
	if (root != NULL && root->simple_rel_array != NULL)
		return NIL;
	while (root != NULL && levels-- > 0)
		root = root->parent_root;
	return root == NULL ? NIL : root->parse->rtable;
}

/*
 * Return the table of an expression that is a column, directly or through subqueries and views; InvalidOid for other
 * expressions.  *column is set to the column's number.
 */
static Oid
column_of(PlannerInfo *root, Node *node, AttrNumber *column)
{
	Var		   *var = plain_column(node);
	List	   *rtable = var == NULL ? NIL : range_table(root, var->varlevelsup);

	while (var != NULL && var->varno > 0 && var->varno <= list_length(rtable))
	{
		RangeTblEntry *rte = rt_fetch(var->varno, rtable);

		*column = var->varattno;
		if (rte->rtekind == RTE_RELATION)
			return rte->relid;
		var = plain_column(expression_of_column(rte, var->varattno, &rtable));
		if (var != NULL && var->varlevelsup > 0)	/* the column belongs to an outer query */
			break;
	}
	return InvalidOid;
}

/*
 * Raise an error if the key is a column whose default generates keys without a time.  Keys that were inserted without
 * the default are not considered.
 */
static void
refuse_timeless(PlannerInfo *root, Oid namespace, Node *id)
{
	TimelessSearch search = {namespace, NULL};
	AttrNumber	column = InvalidAttrNumber;
	Oid			table = column_of(root, id, &column);
	Relation	relation;

	if (!OidIsValid(table))
		return;
	relation = table_open(table, NoLock);	/* the planner has locked the table */
	if (calls_timeless(build_column_default(relation, column), &search))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("keys in column \"%s\" of table \"%s\" cannot be compared with a time",
						get_attname(table, column, false), RelationGetRelationName(relation)),
				 errdetail("The default of the column calls %s(), which does not generate version-7 keys.",
						   search.function_name),
				 errhint("Compare a column of type timestamptz, or let uuid_v7_nextval() generate the keys. "
						 "To compare any uuid, use the bound uuid_v7_floor(timestamptz).")));
	table_close(relation, NoLock);
}

/*
 * Support function of uuid_v7_checked(), which never returns false, and therefore
 * does not change the number of rows
 */
Datum
uuid_v7_checked_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (!IsA(request, SupportRequestSelectivity))
		PG_RETURN_POINTER(NULL);
	((SupportRequestSelectivity *) request)->selectivity = 1.0;
	PG_RETURN_POINTER(request);
}

/* ---------------------------------------------------------------------------
 * Rewriting
 * ---------------------------------------------------------------------------
 */

/* The parts of a comparison that is to be rewritten */
typedef struct Comparison
{
	PlannerInfo *root;
	Oid			namespace;		/* schema of the extension */
	Node	   *id;
	Oid			id_type;
	Node	   *moment;			/* timestamptz or tstzrange */
	Oid			less;			/* the operator < of id_type */
	Oid			bound;			/* function that computes the bounds */
	Oid			check;			/* function that refuses keys without a time; none for uuid_v1 */
} Comparison;

/*
 * Return a function of the extension, or InvalidOid if the current user lacks the privilege to execute it.  USAGE on
 * the schema is not checked, because the reader of a view need not have that privilege.
 */
static Oid
own_function(Oid namespace, const char *name, Oid first_type, Oid second_type)
{
	Oid			types[2] = {first_type, second_type};
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
										   PointerGetDatum(buildoidvector(types, 2)),
										   ObjectIdGetDatum(namespace));

	return OidIsValid(function) && may_execute(function) ? function : InvalidOid;
}

static Oid
bound_function(Oid namespace, Oid id_type, bool is_range)
{
	const char *name = id_type == UUIDOID ?
		(is_range ? "uuid_v7_range_bound" : "uuid_v7_time_bound") :
		(is_range ? "uuid_v1_range_bound" : "uuid_v1_time_bound");

	return own_function(namespace, name, is_range ? TSTZRANGEOID : TIMESTAMPTZOID, BOOLOID);
}

/*
 * floor(t) or, if "second" is true, after(t); for a range, the lower or the
 * upper bound.  If the operand is constant, the result is also a constant.
 */
static Node *
bound_expression(Comparison *comparison, bool second)
{
	List	   *args = list_make2(copyObject(comparison->moment), makeBoolConst(second, false));
	Oid			collation = comparison->id_type == UUIDOID ? InvalidOid : PLANNERS_CALL;

	return eval_const_expressions(comparison->root,
								  (Node *) makeFuncExpr(comparison->bound, comparison->id_type, args,
														InvalidOid, collation, COERCE_EXPLICIT_CALL));
}

static bool
is_above_all(Comparison *comparison, Node *bound)
{
	return comparison->id_type != UUIDOID && IsA(bound, Const) && !((Const *) bound)->constisnull &&
		uuid_load(DatumGetUUIDP(((Const *) bound)->constvalue)).high == V1_ABOVE_ALL;
}

static Node *
clause_of(Comparison *comparison, Oid operator, Node *bound)
{
	Expr	   *clause = make_opclause(operator, BOOLOID, false, (Expr *) copyObject(comparison->id),
									   (Expr *) bound, InvalidOid, InvalidOid);

	set_opfuncid((OpExpr *) clause);
	return (Node *) clause;
}

/*
 * id < bound, or its negation id >= bound.  If the bound is above all values, the
 * key is instead compared with the greatest value by <= or >.  EXPLAIN can show
 * this value, and postgres_fdw can send it to another server.
 */
static Node *
compare_below(Comparison *comparison, bool second, bool negated)
{
	Node	   *bound = bound_expression(comparison, second);
	Oid			operator = comparison->less;

	if (is_above_all(comparison, bound))
	{
		((Const *) bound)->constvalue = uuid_datum((UuidWords) {V1_TICK_MAX, V1_REST_MAX});
		operator = get_negator(get_commutator(operator));	/* <= */
	}
	return clause_of(comparison, negated ? get_negator(operator) : operator, bound);
}

/* Return true if an expression may be evaluated twice */
static bool
is_repeatable(Node *node)
{
	return !contain_volatile_functions(node) && !contain_subplans(node);
}

/* Names of operators, in the order of btree strategies */
typedef enum TimeOperator
{
	TIME_LT, TIME_LE, TIME_EQ, TIME_GE, TIME_GT, TIME_NE
} TimeOperator;

static const char *const operators[] = {"lt", "le", "eq", "ge", "gt", "ne"};

/*
 * Return the comparisons with bounds; NULL if an operand that is volatile, or has a subquery, would be evaluated twice.
 */
static Node *
compare_with_bounds(Comparison *comparison, TimeOperator operator)
{
	bool		equal = operator == TIME_EQ;

	if (!equal && operator != TIME_NE)
		return compare_below(comparison, operator == TIME_LE || operator == TIME_GT, operator >= TIME_GE);
	if (!is_repeatable(comparison->id) || !is_repeatable(comparison->moment))
		return NULL;
	return (Node *) makeBoolExpr(equal ? AND_EXPR : OR_EXPR,
								 list_make2(compare_below(comparison, false, equal),
											compare_below(comparison, true, !equal)), -1);
}

/*
 * Add the check of the key to the comparisons.  In places where the planner
 * keeps the order of conditions, such as the select list, the check is
 * evaluated first, and a key without a time is not compared.  The second
 * argument only determines where the check is evaluated.  A constant is
 * replaced by true, so that all checks of a key are equal.  Otherwise the
 * planner could not prove predicates of partial indexes.
 */
static Node *
with_check(Comparison *comparison, Node *compared)
{
	bool		has_operand = !IsA(comparison->moment, Const) && is_repeatable(comparison->moment);
	Node	   *operand = has_operand ? copyObject(comparison->moment) : makeBoolConst(true, false);
	FuncExpr   *check = makeFuncExpr(comparison->check, BOOLOID, list_make2(copyObject(comparison->id), operand),
									 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);

	return (Node *) make_andclause(is_andclause(compared) ?
								   lcons(check, ((BoolExpr *) compared)->args) :
								   list_make2(check, compared));
}

/*
 * Return the rewritten comparison.  Return NULL if the key is a constant, or must not be evaluated twice: the operator
 * is then kept, and its function checks the key.
 */
static Node *
rewrite(Comparison *comparison, TimeOperator operator)
{
	Node	   *compared;

	if (comparison->id_type != UUIDOID)
		return compare_with_bounds(comparison, operator);
	refuse_timeless(comparison->root, comparison->namespace, comparison->id);
	comparison->check = own_function(comparison->namespace, "uuid_v7_checked", UUIDOID, ANYOID);
	if (!OidIsValid(comparison->check) || IsA(comparison->id, Const) || !is_repeatable(comparison->id))
		return NULL;
	compared = compare_with_bounds(comparison, operator);
	return compared == NULL ? NULL : with_check(comparison, compared);
}

/*
 * Find the operator by the name of its function, such as uuid_v1_lt_time or time_lt_uuid_v1.  If the key is on the
 * right, the operator is commuted.  Return false for other functions.
 */
static bool
find_operator(Oid function, bool id_first, TimeOperator *operator)
{
	const char *name = get_func_name(function);

	for (int i = 0; i < lengthof(operators); i++)
		if (strstr(name, psprintf("_%s_", operators[i])) != NULL)
		{
			*operator = id_first || i > TIME_GT ? i : TIME_GT - i;
			return true;
		}
	return false;
}

/* Return the replacement for a call, or NULL to leave the call as it is */
static Node *
simplify(SupportRequestSimplify *request)
{
	Comparison	comparison;
	TimeOperator operator = TIME_EQ;	/* a range is rewritten like =~, with its two bounds */
	List	   *args = request->fcall->args;
	bool		id_first = exprType(linitial(args)) != TIMESTAMPTZOID && exprType(linitial(args)) != TSTZRANGEOID;
	bool		is_range;

	comparison.root = request->root;
	comparison.namespace = get_func_namespace(request->fcall->funcid);
	comparison.id = id_first ? linitial(args) : lsecond(args);
	comparison.moment = id_first ? lsecond(args) : linitial(args);
	comparison.id_type = exprType(comparison.id);
	comparison.less = lookup_type_cache(comparison.id_type, TYPECACHE_LT_OPR)->lt_opr;
	is_range = exprType(comparison.moment) == TSTZRANGEOID;
	comparison.bound = bound_function(comparison.namespace, comparison.id_type, is_range);
	if (!OidIsValid(comparison.less) || !OidIsValid(comparison.bound) ||
		(!is_range && !find_operator(request->fcall->funcid, id_first, &operator)))
		return NULL;
	return rewrite(&comparison, operator);
}

/* Support function of all comparisons with a timestamptz or tstzrange */
Datum
uuid_time_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *request = (SupportRequestSimplify *) PG_GETARG_POINTER(0);

	if (!IsA(request, SupportRequestSimplify) || list_length(request->fcall->args) != 2)
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(simplify(request));
}
