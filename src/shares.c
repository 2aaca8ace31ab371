/*
 * shares.c
 *	  How workers divide a feed by a column: the column, and the next piece.
 *
 * Why the rows of a key are in order is said in sql/shares.sql.  Here the column
 * is proved before each use, since a key that changed its share would be lost
 * or repeated, and a piece is counted by share, with the rights of the reader.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "column.h"
#include "ground.h"
#include "next_batch.h"
#include "shares.h"

static StateCall check = {"SELECT inorder_internal.check_shares($1, $2)"};
static StateCall key_of = {
	"SELECT ($1).column_name, ($1).attnum, ($1).kind,"
	" ($1).fingerprint IS DISTINCT FROM inorder_internal.fingerprint(($1).kind)"
};
static StateCall kind_of = {"SELECT inorder_internal.share_kind($1)"};
static StateCall check_fingerprint = {"SELECT inorder_internal.check_fingerprint($1, $2)"};
static StateCall say_divided = {"SELECT inorder_internal.say_divided($1, $2)"};
static StateCall of_share = {"SELECT inorder_internal.of_share($1, $2, $3)"};
static StateCall share_text = {"SELECT inorder_internal.share_text($1)"};
static StateCall add = {"SELECT inorder_internal.distribute($1, $2, $3, $4, $5, $6)"};
static StateCall caught_up = {"SELECT inorder_internal.note_caught_up($1, $2)"};

#define USE "Workers divide its feed by the hash of that column."

/* The hash function for a column; null if its type has none */
static Value
kind_of_column(Oid relation, AttrNumber number)
{
	Value		type = value_of(ObjectIdGetDatum(get_atttype(relation, number)), OIDOID);
	Value		kind;

	state_call(&kind_of, 1, &type, 1, &kind);
	return kind;
}

/* What must hold for the column of the table and of each partition: then a row is in one share, always the same */
static void
prove_column(Relation relation, AttrNumber number, const char *column, Oid root)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);
	Oid			oid = RelationGetRelid(relation);

	if (attribute->attgenerated != '\0')
		refuse_column(column, oid, "is generated", USE,
					  "Choose a column whose values are stored as they are inserted.");
	prove_not_null(relation, number, column, root, USE);
	if (OidIsValid(attribute->attcollation) && !get_collation_isdeterministic(attribute->attcollation))
		refuse_column(column, oid, "has a nondeterministic collation", USE,
					  "Keys that are equal by it may be in different shares. Choose a column whose equal values have equal bytes.");
}

/* The column by which a new feed is to be divided */
void
prove_new_share_column(const Table *table, Value column)
{
	const char *name = NameStr(*DatumGetName(column.value));
	AttrNumber	number = existing_column(table, name);

	if (kind_of_column(table->oid, number).null)
		refuse_column(name, table->oid, "is not a smallint, integer, bigint, uuid, text or varchar", USE,
					  "Choose another column.");
	prove_in_tree(table, name, prove_column);
}

/* Error unless a feed can be divided by a column, or is not to be */
void
check_shares(Value shares, Value column, bool whole)
{
	Value		nothing;

	state_call(&check, 2, (Value[]) {shares, value_of(BoolGetDatum(!column.null), BOOLOID)}, 1, &nothing);
	if (whole && !column.null)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("whole_transactions and partition_by exclude each other"),
				 errdetail("The rows of a transaction may be of several keys, which are in different batches.")));
}

/* Error if workers divide the feed, and it is read in another way */
void
refuse_divided(const Feed *feed)
{
	Value		nothing;

	if (!feed->share_key.null)
		state_call(&say_divided, 2, (Value[]) {feed->name, feed->share_key}, 1, &nothing);
}

/*
 * Error if the column is not what it was when the feed was divided, or keys may
 * have other hashes.  What is proved is kept with the ground, as for an order
 * column.
 */
void
prove_share_key(const Feed *feed)
{
	const Table *table = &feed->table;
	Value		key[4];
	Value		kind;
	AttrNumber	number;
	const char *column;

	state_call(&key_of, 1, &feed->share_key, 4, key);
	column = text_of(key[0]);
	number = DatumGetInt16(key[1].value);
	if (DatumGetBool(key[3].value))
		state_call(&check_fingerprint, 2, (Value[]) {feed->name, feed->share_key}, 1, &kind);
	kind = number > 0 && get_attnum(table->oid, column) == number ? kind_of_column(table->oid, number) : null_of(TEXTOID);
	if (kind.null || strcmp(text_of(kind), text_of(key[2])) != 0)
		refuse_column(column, table->oid, "is not the one by which its feed was divided", USE,
					  "It was renamed, dropped or made anew, or its type was changed: give the table that column back. Or go on by feed_seek(), which takes the column that has the name now.");
	if (table->ground->stands && table->ground->share_column == number)
		return;
	prove_in_tree(table, column, prove_column);
	table->ground->share_column = number;
}

/* Read one share of the rows from now on */
void
read_share(Feed *feed, Value share)
{
	Value		description;

	prove_share_key(feed);
	state_call(&of_share, 3, (Value[]) {feed->table.description, feed->share_key, share}, 1, &description);
	feed->table.description = description;
}

/* How many rows each share has in a piece, as two arrays; false if it has none */
static bool
count_shares(const Feed *feed, Value piece, Value *counts)
{
	Value		share;
	const char *rows;

	state_call(&share_text, 1, &feed->share_key, 1, &share);
	rows = batch_query(&feed->table, piece, psprintf("%s AS share", text_of(share)), false);
	return query_row(&feed->table,
					 psprintf("SELECT pg_catalog.array_agg(s.share ORDER BY s.share), pg_catalog.array_agg(s.rows ORDER BY s.share)"
							  " FROM (SELECT e.share, pg_catalog.count(*) AS rows FROM (%s) AS e GROUP BY e.share) AS s", rows),
					 false, 2, counts) && !counts[0].null;
}

/* Give each share the rows that it has in the next piece of the feed, of at most so many rows; false if there is nothing new */
bool
distribute(Feed *feed, Value max_rows)
{
	Value		piece;
	Value		counts[2];
	Value		nothing;
	bool		found = find_batch(feed, max_rows, true, &piece);

	if (!found || !count_shares(feed, piece, counts))
	{
		check_ground(&feed->table);
		note_empty_poll(feed, found ? piece : null_of(feed->pending.type));
		return false;
	}
	check_ground(&feed->table);
	state_call(&add, 6, (Value[]) {feed->id, piece, feed->asked, counts[0], counts[1], max_rows}, 1, &nothing);
	feed->position = position_after(feed->position, piece);
	return true;
}

/* Workers were given all rows that were committed when one asked, unless batches wait for one. */
void
note_caught_up(const Feed *feed)
{
	Value		nothing;

	state_call(&caught_up, 2, (Value[]) {feed->id, feed->asked}, 1, &nothing);
}
