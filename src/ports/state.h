/*
 * state.h
 *	  The tables in which the extension remembers feeds and counts.
 */
#ifndef INORDER_STATE_H
#define INORDER_STATE_H

#include "executor/spi.h"

/* Of the state and the internal functions */
#define INTERNAL_SCHEMA "inorder_internal"

/* An argument or a result of an internal function */
typedef struct Value
{
	Datum		value;
	Oid			type;
	bool		null;
} Value;

/* Who called, while we are the owner of the state */
typedef struct Self
{
	Oid			user;
	int			context;
	int			nest;
	Oid			schema;			/* the internal one, which nobody but this session can drop until the transaction ends */
	Oid			state;			/* a table in it, while we are the caller */
} Self;

extern Self become_owner(void);
extern Self become_caller(Oid caller);
extern void become_self(Self self);

extern Oid	owner_of_table(Oid table);
extern char *relation_name(Oid relation);

extern Value value_of(Datum value, Oid type);
extern Value number_value(int64 number);
extern Value null_of(Oid type);
extern Value argument_value(FunctionCallInfo fcinfo, int number, Oid type);
extern Value caller_value(void);
extern char *text_of(Value value);
extern Datum attribute_of(HeapTupleHeader row, const char *name);

extern Oid	internal_function(Oid schema, const char *name, int count, const Oid *types);
extern Datum internal_call(FunctionCallInfo call);
extern Value owner_call(const char *name, int count, const Value *arguments);
extern void owner_error(const char *name, int count, const Value *arguments);

#endif							/* INORDER_STATE_H */
