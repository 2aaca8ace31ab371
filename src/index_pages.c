/*
 * index_pages.c
 *	  How full the leaf pages of a btree are: ground of the lab's densities
 *	  where the server has no pgstattuple, whose pgstatindex() gives the same.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_class_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(btree_leaf_pages);

/* What has been seen of an index so far */
typedef struct LeafPages
{
	int64		leaf;			/* in the tree, searched by scans */
	int64		empty;			/* half dead: VACUUM was cut off while it took them out */
	int64		deleted;		/* out of the tree, to be reused */
	uint64		available;		/* bytes that the leaf pages have for keys */
	uint64		free;			/* and how many of these are not used */
} LeafPages;

/*
 * The extension is trusted, so that a right to call is not enough: its installer could grant that.  Before the
 * index is locked, since nobody else may do that either.
 */
static void
check_rights(Oid index)
{
	char	   *name = get_rel_name(index);

	if (name == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", index)));
	if (!is_owner_of_relation(index) && !has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for relation \"%s\"", name),
				 errdetail("Its owner and members of pg_stat_scan_tables may read its pages.")));
}

static void
check_readable(Relation index)
{
	const char *name = RelationGetRelationName(index);

	if (index->rd_rel->relkind != RELKIND_INDEX || index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a btree index", name),
				 index->rd_rel->relkind != RELKIND_PARTITIONED_INDEX ? 0 :
				 errdetail("It is partitioned and has no pages of its own; the index of each partition has.")));
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read the temporary index \"%s\" of another session", name)));
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", name)));
}

static void
add_page(LeafPages *pages, Relation index, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	BTPageOpaque opaque;

	if (PageIsNew(page))
		return;					/* a crash may leave such a one; it is free */
	_bt_checkpage(index, buffer);
	opaque = BTPageGetOpaque(page);
	if (P_ISDELETED(opaque))
		pages->deleted++;
	else if (P_IGNORE(opaque))
		pages->empty++;
	else if (P_ISLEAF(opaque))
	{
		pages->leaf++;
		pages->available += ((PageHeader) page)->pd_special - SizeOfPageHeaderData;
		pages->free += free_space_for_density(page);
	}
}

/* Block 0 is the metapage; pages that come while we read are left out. */
static LeafPages
read_pages(Relation index)
{
	LeafPages	pages = {0};
	BlockNumber end = RelationGetNumberOfBlocks(index);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);

	for (BlockNumber block = 1; block < end; block++)
	{
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		add_page(&pages, index, buffer);
		UnlockReleaseBuffer(buffer);
	}
	FreeAccessStrategy(strategy);
	return pages;
}

/* btree_leaf_pages(index regclass) -> leaf_pages, empty_pages, deleted_pages, avg_leaf_density */
Datum
btree_leaf_pages(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	Relation	index;
	LeafPages	pages;
	TupleDesc	columns;
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	check_rights(oid);
	index = try_relation_open(oid, AccessShareLock);
	if (index == NULL)			/* dropped meanwhile */
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", oid)));
	check_readable(index);
	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	pages = read_pages(index);
	relation_close(index, AccessShareLock);

	values[0] = Int64GetDatum(pages.leaf);
	values[1] = Int64GetDatum(pages.empty);
	values[2] = Int64GetDatum(pages.deleted);
	if (pages.available > 0)
		values[3] = Float8GetDatum(100.0 - (double) pages.free / (double) pages.available * 100.0);
	else
		nulls[3] = true;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
