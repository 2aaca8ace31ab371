"""Calls that evaluate or deparse expressions of a table's owner are listed with the reason why they are safe.

The server evaluates more expressions than one might expect. When a session loads partition keys, indexes, domains or
statistics, the server simplifies their expressions, and calls immutable functions of their owner as the role of that
session.
"""

import re
from pathlib import Path

from sources import C_FILES, PLAIN_FILES, ROOT, SQL_FILES

IN_C = re.compile(
    r"\b(pg_get_\w+|Build(?:Dummy)?IndexInfo|FormIndexDatum|RelationGetPartition\w+|CreatePartitionDirectory"
    r"|get_partition_qual\w*|get_qual_from_partbound|RelationGet(?:Dummy)?Index(?:Expressions|Predicate)"
    r"|eval_const_expressions|expression_planner\w*|estimate_expression_value|build_column_default|TupleDescGetDefault"
    r"|stringToNode|Exec(?:Prepare\w+|InitExpr\w*|InitQual|OpenIndices|InsertIndexTuples|SetupPartitionTupleRouting|Constraints|PartitionCheck"
    r"|ComputeStoredGenerated)|(?:Oid)?(?:Output|Input|Send|Receive)FunctionCall|Oid(?:Output|Input)FunctionCall"
    r"|OidFunctionCall\d\w*|FunctionCall\d\w*|FunctionCallInvoke|InitDomainConstraintRef|domain_check"
    r"|TYPECACHE_DOMAIN_\w+|SPI_(?:execute|exec|prepare|cursor)\w*|raw_parser|pg_parse_query|parse_analyze\w*"
    r"|pg_plan_quer\w+)\("
)
IN_SQL = re.compile(
    r"\b(pg_get_(?!userbyid)\w+|satisfies_hash_partition|ts_stat|(?:query|table|schema|cursor|database)_to_xml\w*"
    r"|stavalues(?=\d))|^ +(?:RETURN QUERY |FOR \w+ IN )?(EXECUTE)(?= (?!FUNCTION|ON\b))",
    re.M,
)
C_COMMENT, SQL_COMMENT = re.compile(r"/\*.*?\*/", re.S), re.compile(r"--.*")

STATE = "indexes of a state table, whose predicates use only built-in operators"
SERVERS = "a built-in function, for values of built-in types"
AS_CALLER = "runs as the caller, and is checked before planning (check_query)"
WRITER = "as the writer of the table"
SCRIPT = "in the script, on objects that the script has created"
CONSTANTS = "constants in the caller's own statement"
PLAIN = "as the caller: the SQL edition has no other role"
ALLOWED = {
    # --- C ---
    "src/changes/logging.c ExecOpenIndices": f"the indexes of the log, as an INSERT would; {WRITER}",
    "src/changes/logging.c ExecSetupPartitionTupleRouting": f"the partitions of the log, as an INSERT would; {WRITER}",
    "src/changes/partitions.c CreatePartitionDirectory": f"partitions of the log that belong to its owner; {WRITER}",
    "src/feed/groups.c ExecConstraints": f"the constraints of the deltas, as an INSERT would; {WRITER}",
    "src/feed/groups.c ExecOpenIndices": f"the indexes of the deltas, as an INSERT would; {WRITER}",
    "src/feed/groups.c FunctionCallInvoke": f"another trigger's function, called as that trigger would; {WRITER}",
    "src/feed/apply.c eval_const_expressions": f"LIMIT and OFFSET: {CONSTANTS}",
    "src/compat.h ExecInsertIndexTuples": f"for batches: {STATE}; for deltas: {WRITER}",
    "src/ports/batches.c ExecOpenIndices": STATE,
    "src/feed/apply.c SPI_execute_plan": "the caller's own statement, as the caller",
    "src/ports/numbers.c OidFunctionCall2": SERVERS,
    "src/ports/parts.c stringToNode": "partition bounds, which are constants: nothing is planned or evaluated",
    "src/ports/parts.c OidOutputFunctionCall": f"{SERVERS} that are listed there",
    "src/ports/key_base.c stringToNode": "reads a node tree of the catalog, and evaluates nothing",
    "src/ports/query.c SPI_execute": "DDL and folds, as the caller, who owns the table or its deltas",
    "src/ports/query.c SPI_execute_plan_extended": AS_CALLER,
    "src/ports/plan.c SPI_prepare_cursor": f"{AS_CALLER}, each time",
    "src/ports/query.c SPI_prepare_cursor": AS_CALLER,
    "src/ports/state.c FunctionCallInvoke": "a function of inorder, whose own calls are in this list",
    "src/types/time_support.c build_column_default": "inspected but not evaluated, by the role that plans the query",
    "src/types/time_support.c eval_const_expressions": "operands, like the planner, for the role that plans the query",
    # --- SQL ---
    "sql/ports/restoring.sql EXECUTE": SCRIPT,
    "sql/ports/table.sql EXECUTE": "the Citus catalog, which is in pg_catalog and a member of that extension",
    "sql/feed/groups.sql pg_get_expr": "deparses a default, and evaluates nothing; search_path is pinned",
    "sql/ports/table.sql pg_get_expr": "deparses a predicate, and evaluates nothing; search_path is pinned",
    "sql/feed/groups.sql pg_get_triggerdef": "deparses, and evaluates nothing; search_path is pinned",
    "sql/feed/groups.sql pg_get_viewdef": "deparses, and evaluates nothing; search_path is pinned",
    "sql/ports/table.sql pg_get_indexdef": "returns a column name, and evaluates nothing; search_path is pinned",
    "sql/ports/table.sql pg_get_triggerdef": "deparses, and evaluates nothing; search_path is pinned",
    "sql/revoke.sql EXECUTE": SCRIPT,
    "sql/rights.sql EXECUTE": SCRIPT,
    "sql/types/time_bounds.sql EXECUTE": SCRIPT,
    "sql/types/uuid_v1.sql EXECUTE": SCRIPT,
    # --- the SQL edition ---
    "sql/plain/changes.sql EXECUTE": PLAIN,
    "sql/plain/feed.sql EXECUTE": PLAIN,
    "sql/plain/guard.sql EXECUTE": f"output functions of the row; {WRITER}",
    "sql/plain/ports.sql EXECUTE": PLAIN,
    "sql/plain/ports.sql pg_get_partition_constraintdef": f"partition keys that are columns of built-in types; {PLAIN}",
    "sql/plain/reader.sql EXECUTE": PLAIN,
    "sql/plain/rights.sql EXECUTE": "GRANT and REVOKE, as the role that installed inorder",
    "sql/plain/snapshot.sql EXECUTE": PLAIN,
    "sql/plain/table.sql pg_get_expr": "deparses, and evaluates nothing; search_path is pinned",
    "sql/plain/rights.sql pg_get_functiondef": "deparses functions of inorder, and evaluates nothing",
}


def calls(path: Path, text: str) -> set[str]:
    """Return the listed functions that a source file calls, each with the name of the file.

    >>> sorted(calls(ROOT / "src" / "x.c", "/* stringToNode( */ a = BuildIndexInfo(index); FunctionCallInfo fcinfo;"))
    ['src/x.c BuildIndexInfo']
    >>> sorted(calls(ROOT / "sql" / "x.sql", "RETURN pg_get_indexdef(i); -- pg_get_expr\\n    EXECUTE text INTO a;"))
    ['sql/x.sql EXECUTE', 'sql/x.sql pg_get_indexdef']
    """
    is_c = path.suffix in (".c", ".h")
    code = (C_COMMENT if is_c else SQL_COMMENT).sub("", text)
    names = (next(filter(None, match.groups())) for match in (IN_C if is_c else IN_SQL).finditer(code))
    return {f"{path.relative_to(ROOT)} {name}" for name in names}


def test_each_call_that_evaluates_or_deparses_is_listed_with_a_reason() -> None:
    """A new call needs a reason why it evaluates no user's expression as another role.

    A removed call must also be removed from the list.
    """
    sites: set[str] = set()
    for path in (*C_FILES, *SQL_FILES, *PLAIN_FILES):
        sites |= calls(path, path.read_text())
    assert sites == ALLOWED.keys()
