/*
 * names.c
 *	  How errors name a table.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "names.h"

char *
relation_name(Oid relation)
{
	char	   *name = get_rel_name(relation);

	if (name == NULL)
		return psprintf("with OID %u", relation);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)), name);
}
