"""What the server is asked for in the place of a column, as templates of SQL with its name as {column}."""

# Of a composite its fields, without their names: one that is dropped meanwhile could be a function of that name. The
# driver takes no null one, or loses which of them are null.
FIELDS = "({column}).*"
IS_NULL = "pg_catalog.num_nulls({column}) OPERATOR(pg_catalog.=) 1"
# By the type's output function: a cast could be anybody's.
AS_TEXT = "CASE WHEN pg_catalog.num_nulls({column}) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.format('%s', {column}) END"

# The driver makes lists of all arrays, or refuses them, without a name: those that are none come as null, and
# DIMENSIONS says which.
IS_LIST = (
    "pg_catalog.array_ndims({column}) OPERATOR(pg_catalog.=) 1 AND pg_catalog.array_lower({column}, 1) "
    "OPERATOR(pg_catalog.=) 1"
)
IS_EMPTY = "pg_catalog.cardinality({column}) OPERATOR(pg_catalog.=) 0"
LIST = "CASE WHEN " + IS_LIST + " OR " + IS_EMPTY + " THEN {column}SENT END"
DIMENSIONS = (  # 0 if the first index is another than 1
    "CASE WHEN pg_catalog.array_ndims({column}) OPERATOR(pg_catalog.>) 1 THEN pg_catalog.array_ndims({column}) "
    "WHEN pg_catalog.array_lower({column}, 1) OPERATOR(pg_catalog.<>) 1 THEN 0 ELSE 1 END"
)
