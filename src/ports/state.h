/*
 * state.h
 *	  The tables in which the extension remembers feeds and counts.
 */
#ifndef INORDER_STATE_H
#define INORDER_STATE_H

#include "executor/spi.h"

/* An argument or a result of an internal function */
typedef struct Value
{
	Datum		value;
	Oid			type;
	bool		null;
} Value;

/* A call that is prepared once a session; types may be others after the extension was made anew */
#define STATE_ARGUMENTS 7

typedef struct StateCall
{
	const char *query;			/* names the internal schema and pg_catalog only */
	bool		stable;			/* under the snapshot of the calling statement, writing nothing */
	SPIPlanPtr	plan;
	int			count;
	Oid			types[STATE_ARGUMENTS];
} StateCall;

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

extern Value value_of(Datum value, Oid type);
extern Value number_value(int64 number);
extern Value null_of(Oid type);
extern Value argument_value(FunctionCallInfo fcinfo, int number, Oid type);
extern Value caller_value(void);
extern char *text_of(Value value);
extern void take_columns(int wanted, Value *results);

extern void state_call(StateCall *call, int count, const Value *arguments, int wanted, Value *results);

#endif							/* INORDER_STATE_H */
