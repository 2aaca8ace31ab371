"""Classify statements by their syntax trees: polls of a column, counts of a table, and changes of rows.

The package pglast contains the server's parser. Long statements are not parsed, because the parser recurses and
statements are untrusted.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pglast import ast, parse_sql
from pglast.enums import A_Expr_Kind, BoolExprType, SortByDir
from pglast.parser import ParseError

from inorder.advise.polls import Poll, Table, Understood

LONGEST = 10_000  # characters
CLOCKS = ("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp")
LESS, GREATER = ("<", "<="), (">", ">=")
CHANGES = {ast.UpdateStmt: "updated", ast.DeleteStmt: "deleted"}
BETWEEN = (A_Expr_Kind.AEXPR_BETWEEN, A_Expr_Kind.AEXPR_BETWEEN_SYM)

Column = tuple[str, str]  # the table's name or alias, or "", and the column name
Queries = Mapping[str, tuple[Table, ...]]  # WITH queries by name, with the tables that they read


@cache
def understood(text: str) -> Understood | str:
    """Classify a statement, or return the reason why it cannot be classified.

    >>> understood("SELECT * FROM app.events e WHERE $1 < e.id AND n <= $2 ORDER BY e.id LIMIT $3").polls
    (Poll(tables=(('app', 'events'),), column='id', ordered=True, late=False),)
    >>> understood("SELECT count(*) AS n FROM events").counted, understood("DELETE FROM events WHERE id <= $1").changed
    (('', 'events'), (('deleted', ('', 'events')),))
    >>> understood("SELECT FROM WHERE")
    'syntax error at or near "WHERE"'
    """
    try:
        return classified(text) if len(text) <= LONGEST else f"longer than {LONGEST:,} characters"
    except ParseError as error:
        return str(error).partition(", at index")[0]
    except RecursionError:
        return "nested too deeply"


def classified(text: str) -> Understood:
    nodes = list(walk(parse_sql(text)))[::-1]  # inner and earlier WITH queries first
    queries: dict[str, tuple[Table, ...]] = {}
    for query in (node for node in nodes if isinstance(node, ast.CommonTableExpr)):
        queries[query.ctename] = below(query.ctequery, queries)
    stored = [node.selectStmt for node in nodes if isinstance(node, ast.InsertStmt)]
    selects = [node for node in nodes if isinstance(node, ast.SelectStmt) and node.fromClause]
    return Understood(
        tuple(poll for select in selects for poll in polls(select, queries, any(select is node for node in stored))),
        counted(selects[0]) if len(selects) == 1 else None,
        tuple((CHANGES[type(node)], name_of(node.relation)) for node in nodes if type(node) in CHANGES),
    )


def walk(*nodes: Any) -> Iterator[Any]:
    """Yield the nodes of trees, from the last tree to the first. Each node comes before its descendants."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, ast.Node):
            yield node
            stack += [getattr(node, name) for name in node]


def counted(select: Any) -> Table | None:
    """Return the table of a query if the query is only ``SELECT count(*) FROM table``."""
    (table, *more), (target, *targets) = select.fromClause, select.targetList or (None,)
    conditions = (select.whereClause, select.groupClause, select.havingClause, select.distinctClause, *more, *targets)
    call = getattr(target, "val", None)
    is_count = isinstance(call, ast.FuncCall) and call.agg_star and function(call) == "count" and not call.over
    return name_of(table) if isinstance(table, ast.RangeVar) and is_count and not any(conditions) else None


def function(call: Any) -> str:
    return str(call.funcname[-1].sval)


def name_of(table: Any) -> Table:
    return table.schemaname or "", table.relname


def sources(nodes: Any, queries: Queries) -> Iterator[tuple[str, tuple[Table, ...]]]:
    """Yield the names of tables and subqueries in FROM, with the tables that are read under each name."""
    for node in nodes or ():
        alias = node.alias.aliasname if getattr(node, "alias", None) else ""
        if isinstance(node, ast.JoinExpr):
            yield from sources((node.larg, node.rarg), queries)
        elif isinstance(node, ast.RangeVar | ast.RangeSubselect):
            yield alias or getattr(node, "relname", ""), below(node, queries)


def below(tree: Any, queries: Queries) -> tuple[Table, ...]:
    names = [name_of(node) for node in walk(tree) if isinstance(node, ast.RangeVar)]
    return tuple(
        dict.fromkeys(table for name in names for table in (queries.get(name[1], ()) if not name[0] else ()) or (name,))
    )


def bare(node: Any) -> Any:
    while isinstance(node, ast.TypeCast | ast.CollateClause):
        node = node.arg
    return node


def column_of(node: Any) -> Column | None:
    node = bare(node)
    names = [getattr(field, "sval", "") for field in node.fields] if isinstance(node, ast.ColumnRef) else []
    return (names[-2] if len(names) > 1 else "", names[-1]) if names and names[-1] else None


def same(column: Column | None, other: Column) -> bool:
    return column is not None and column[1] == other[1] and (column[0] == other[0] or not (column[0] and other[0]))


def is_clock(node: Any) -> bool:
    calls = (call for call in walk(node) if isinstance(call, ast.FuncCall | ast.SQLValueFunction))
    return any(isinstance(call, ast.SQLValueFunction) or function(call) in CLOCKS for call in calls)


def is_position(node: Any, tables: set[Table], queries: Queries) -> bool:
    """Return whether an expression may be the position of a reader: a parameter, or a query on another table."""
    node = bare(node)
    if isinstance(node, ast.CoalesceExpr | ast.MinMaxExpr):
        return any(is_position(argument, tables, queries) for argument in node.args)
    if isinstance(node, ast.SubLink):
        return not {*below(node.subselect, queries)} & tables
    kinds = {type(inner) for inner in walk(node)}
    return ast.ParamRef in kinds and not kinds & {ast.ColumnRef, ast.SubLink} and not is_clock(node)


def comparisons(node: Any) -> Iterator[tuple[str, Column, Any]]:
    """Yield the comparisons of a condition joined with AND: the operator, the column on its left, the other operand."""
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.AND_EXPR:
        for term in node.args:
            yield from comparisons(term)
    elif isinstance(node, ast.A_Expr) and node.kind in BETWEEN and (column := column_of(node.lexpr)):
        yield from ((">=", column, node.rexpr[0]), ("<=", column, node.rexpr[1]))
    elif isinstance(node, ast.A_Expr) and node.kind == A_Expr_Kind.AEXPR_OP:
        left, right, name = node.lexpr, node.rexpr, node.name[-1].sval
        if isinstance(left, ast.RowExpr) and isinstance(right, ast.RowExpr):
            left, right = left.args[0], right.args[0]
        if column := column_of(left):
            yield name, column, right
        if column := column_of(right):
            yield name.translate(str.maketrans("<>", "><")), column, left


def after(node: Any, tables: set[Table], queries: Queries) -> list[Column]:
    """Return the columns that a condition requires to be greater than a position.

    In a condition with OR, one term must require the column to be greater than a position. Every other term that names
    a column must compare the same column with >, >= or =.
    """
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.AND_EXPR:
        return [column for term in node.args for column in after(term, tables, queries)]
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.OR_EXPR:
        terms = [term for term in node.args if any(isinstance(inner, ast.ColumnRef) for inner in walk(term))]
        named = [{column for name, column, _ in comparisons(term) if name in (*GREATER, "=")} for term in terms]
        return [column for term in terms for column in after(term, tables, queries) if all(column in n for n in named)]
    pairs = comparisons(node)
    return [column for name, column, value in pairs if name in GREATER and is_position(value, tables, queries)]


def sort_keys(select: Any) -> Iterator[tuple[Column | None, bool]]:
    """Yield the columns of ORDER BY, with True for DESC. ORDER BY may contain numbers, aliases and expressions."""
    targets = select.targetList or ()
    by_alias: dict[Column | None, set[Column | None]] = {}
    for target in targets:
        by_alias.setdefault(("", target.name), set()).update(columns_in(target.val))
    for key in select.sortClause or ():
        node, column = key.node, column_of(key.node)
        number = getattr(getattr(node, "val", None), "ival", None)
        if isinstance(node, ast.A_Const) and number and number <= len(targets):
            inner = columns_in(targets[number - 1].val)
        else:
            inner = by_alias[column] if column in by_alias else columns_in(node)
        yield next(iter(inner)) if len(inner) == 1 else None, key.sortby_dir == SortByDir.SORTBY_DESC


def columns_in(tree: Any) -> set[Column | None]:
    return {column_of(reference) for reference in walk(tree) if isinstance(reference, ast.ColumnRef)}


def returns(select: Any, column: Column, names: Mapping[str, object]) -> bool:
    """Return whether the query returns the column. Otherwise, a reader could not continue after its last value."""
    fields = [reference.fields for reference in walk(select.targetList) if isinstance(reference, ast.ColumnRef)]
    return any(
        isinstance(path[-1], ast.A_Star) or path[-1].sval == column[1] or (len(path) == 1 and path[0].sval in names)
        for path in fields
    )


def polls(select: Any, queries: Queries, stored: bool) -> Iterator[Poll]:
    """Yield the polls in a query.

    ``stored`` is true if the rows of the query are inserted into a table. The query may then have GROUP BY, and need
    not return the column.
    """
    if not select.whereClause:
        return
    names = dict(sources(select.fromClause, queries))
    all_tables = tuple(dict.fromkeys(table for tables in names.values() for table in tables))
    calls = (function(call) for call in walk(select) if isinstance(call, ast.FuncCall))
    # A query that calls a snapshot function is not reported, because it takes open transactions into account.
    if not all_tables or (select.groupClause and not stored) or any("snapshot" in name for name in calls):
        return
    compared = list(comparisons(select.whereClause))
    fixed = [column for name, column, _ in compared if name == "="]
    keys = [key for key in sort_keys(select) if not any(same(key[0], column) for column in fixed)]
    for column in dict.fromkeys(after(select.whereClause, {*all_tables}, queries)):
        ordered = bool(keys) and same(keys[0][0], column)
        late = any(name in LESS and same(operand, column) and is_clock(value) for name, operand, value in compared)
        elsewhere = keys and (keys[0][1] if ordered else select.limitCount)
        if not elsewhere and (ordered or stored or returns(select, column, names)):
            yield Poll(names.get(column[0], all_tables), column[1], ordered, late)
