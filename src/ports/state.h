/*
 * state.h
 *	  Rows of the tables in which the extension keeps its state, and calls of its internal functions.
 */
#ifndef INORDER_STATE_H
#define INORDER_STATE_H

#include "executor/spi.h"

/* Schema of the state and the internal functions */
#define INTERNAL_SCHEMA "inorder_internal"

/* An argument or a result of an internal function */
typedef struct Value
{
	Datum		value;
	Oid			type;
	bool		null;
} Value;

/* The role and the settings that restore_role() restores */
typedef struct SavedRole
{
	Oid			user;
	int			context;
	int			nest;
	Oid			schema;			/* the internal schema, which only this session can drop until the transaction ends */
	Oid			state;			/* set by become_caller(): a table that must still exist in restore_role() */
} SavedRole;

/* Maximum number of columns in a row of the state */
#define MANY_COLUMNS 24

/* A row as arrays of its columns */
typedef struct Row
{
	HeapTuple	tuple;			/* the row as it was read from a table; null if it was not read from a table */
	Datum		values[MANY_COLUMNS];
	bool		nulls[MANY_COLUMNS];
} Row;

/* Columns of the table feed, in the order of sql/ports/state.sql; the last constant is the number of columns. */
enum
{
	FEED_ID, FEED_NAME, FEED_OWNER, FEED_OWNER_NAME, FEED_SYSTEM, FEED_MOVERS, FEED_RELATION, FEED_WHOLE, FEED_SHARED_BY,
	FEED_CREATED, FEED_COLUMNS
};

/* Attributes of the types in sql/ports/position.sql; the last constant of a type is the number of attributes. */
enum
{
	MEMBER_RELATION, MEMBER_NAME, MEMBER_SYSTEM, MEMBER_ATTACHED, MEMBER_GUARDED, MEMBER_ORDERED_BY, MEMBER_COLUMNS
};
enum
{
	ORDER_COLUMN_NAME, ORDER_ATTNUM, ORDER_FROZEN, ORDER_FROM_VALUE, ORDER_NEXT_VALUE, ORDER_UP_TO, ORDER_WALKED_FROM,
	ORDER_COLUMNS
};
enum
{
	POSITION_FORMAT, POSITION_TRANSACTIONS, POSITION_PARTIAL, POSITION_LAST_KEY, POSITION_ORDERING, POSITION_MEMBERS,
	POSITION_ORIGIN, POSITION_COLUMNS
};
enum
{
	BATCH_FORMAT, BATCH_TRANSACTIONS, BATCH_RESUMED, BATCH_RESUMED_AFTER, BATCH_CUT, BATCH_CUT_AFTER, BATCH_ORDERING,
	BATCH_MEMBERS, BATCH_ORIGIN, BATCH_COLUMNS
};

extern Oid	state_owner(Oid *schema);
extern void take_turn(Datum feed);
extern SavedRole become_owner(void);
extern SavedRole become_caller(Oid caller);
extern void restore_role(SavedRole saved);

extern Oid	owner_of_table(Oid table);
extern char *relation_name(Oid relation);

extern Value value_of(Datum value, Oid type);
extern Value number_value(int64 number);
extern Value null_of(Oid type);
extern Value argument_value(FunctionCallInfo fcinfo, int number, Oid type);
extern Value caller_value(void);
extern Value owner_argument(FunctionCallInfo fcinfo, int number);
extern char *text_of(Value value);
extern Datum attribute_of(HeapTupleHeader row, const char *name);
extern Oid	attribute_type(const char *type, const char *attribute);
extern void expect_columns(TupleDesc columns, int count, const char *what);
extern Row	empty_row(void);
extern Row	row_of(Datum value, bool is_null, int count);
extern void set_column(Row *row, int column, Datum value);
extern Datum row_datum(Row *row, int count, Oid type);
extern Datum result_row(FunctionCallInfo fcinfo, Row *row, int count);

extern Oid	internal_function(Oid schema, const char *name, int count, const Oid *types);
extern Datum internal_call(FunctionCallInfo call);
extern Value owner_call(const char *name, int count, const Value *arguments);
extern void owner_error(const char *name, int count, const Value *arguments);

extern Datum as_owner(PG_FUNCTION_ARGS);

#endif							/* INORDER_STATE_H */
