"""Classify statements by their syntax trees: readers that poll a column, counts of a table, changes of rows. Pure.

The parser is the server's own, in pglast. It recurses, and anybody can write statements: long ones are not parsed.
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

Column = tuple[str, str]  # the name or alias of its table, or "", and the name
Queries = Mapping[str, tuple[Table, ...]]  # names of WITH, each with the tables that its query reads


@cache
def understood(text: str) -> Understood | str:
    """The classification, or why there is none.

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
    nodes = list(walk(parse_sql(text)))[::-1]  # inner and earlier queries of WITH come first
    queries: dict[str, tuple[Table, ...]] = {}
    for one in (one for one in nodes if isinstance(one, ast.CommonTableExpr)):
        queries[one.ctename] = below(one.ctequery, queries)
    stored = [one.selectStmt for one in nodes if isinstance(one, ast.InsertStmt)]
    selects = [one for one in nodes if isinstance(one, ast.SelectStmt) and one.fromClause]
    return Understood(
        tuple(poll for one in selects for poll in polls(one, queries, any(one is each for each in stored))),
        next(counted(selects[0]), None) if len(selects) == 1 else None,
        tuple((CHANGES[type(one)], name_of(one.relation)) for one in nodes if type(one) in CHANGES),
    )


def walk(*nodes: Any) -> Iterator[Any]:
    """The nodes of trees, each before those below it, from the last to the first."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, ast.Node):
            yield node
            stack += [getattr(node, name) for name in node]


def counted(select: Any) -> Iterator[Table]:
    (table, *more), (target, *others) = select.fromClause, select.targetList or (None,)
    conditions = (select.whereClause, select.groupClause, select.havingClause, select.distinctClause, *more, *others)
    call = getattr(target, "val", None)
    if isinstance(table, ast.RangeVar) and isinstance(call, ast.FuncCall) and not any(conditions):
        yield from [name_of(table)] * (call.agg_star and function(call) == "count" and not call.over)


def function(call: Any) -> str:
    return str(call.funcname[-1].sval)


def name_of(table: Any) -> Table:
    return table.schemaname or "", table.relname


def sources(nodes: Any, queries: Queries) -> Iterator[tuple[str, tuple[Table, ...]]]:
    """Names of what a query reads, each with the tables that are below it."""
    for node in nodes or ():
        alias = node.alias.aliasname if getattr(node, "alias", None) else ""
        if isinstance(node, ast.JoinExpr):
            yield from sources((node.larg, node.rarg), queries)
        elif isinstance(node, ast.RangeVar | ast.RangeSubselect):
            yield alias or getattr(node, "relname", ""), below(node, queries)


def below(tree: Any, queries: Queries) -> tuple[Table, ...]:
    names = [name_of(one) for one in walk(tree) if isinstance(one, ast.RangeVar)]
    return tuple(
        dict.fromkeys(table for one in names for table in (queries.get(one[1], ()) if not one[0] else ()) or (one,))
    )


def bare(node: Any) -> Any:
    while isinstance(node, ast.TypeCast | ast.CollateClause):
        node = node.arg
    return node


def column_of(node: Any) -> Column | None:
    node = bare(node)
    names = [getattr(one, "sval", "") for one in node.fields] if isinstance(node, ast.ColumnRef) else []
    return (names[-2] if len(names) > 1 else "", names[-1]) if names and names[-1] else None


def same(one: Column | None, other: Column) -> bool:
    return one is not None and one[1] == other[1] and (one[0] == other[0] or not (one[0] and other[0]))


def is_clock(node: Any) -> bool:
    calls = (one for one in walk(node) if isinstance(one, ast.FuncCall | ast.SQLValueFunction))
    return any(isinstance(one, ast.SQLValueFunction) or function(one) in CLOCKS for one in calls)


def is_position(node: Any, tables: set[Table], queries: Queries) -> bool:
    """A parameter, or a query of another table: where a reader may keep what it has read."""
    node = bare(node)
    if isinstance(node, ast.CoalesceExpr | ast.MinMaxExpr):
        return any(is_position(one, tables, queries) for one in node.args)
    if isinstance(node, ast.SubLink):
        return not {*below(node.subselect, queries)} & tables
    kinds = {type(one) for one in walk(node)}
    return ast.ParamRef in kinds and not kinds & {ast.ColumnRef, ast.SubLink} and not is_clock(node)


def comparisons(node: Any) -> Iterator[tuple[str, Column, Any]]:
    """Operators between a column, which stands on their left, and something else, in a condition joined by AND."""
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.AND_EXPR:
        for one in node.args:
            yield from comparisons(one)
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
    """Columns that a condition compares as greater than a position; of OR those that all its terms compare."""
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.AND_EXPR:
        return [column for one in node.args for column in after(one, tables, queries)]
    if isinstance(node, ast.BoolExpr) and node.boolop == BoolExprType.OR_EXPR:
        terms = [one for one in node.args if any(isinstance(each, ast.ColumnRef) for each in walk(one))]
        named = [{column for name, column, _ in comparisons(one) if name in (*GREATER, "=")} for one in terms]
        return [column for one in terms for column in after(one, tables, queries) if all(column in n for n in named)]
    every = comparisons(node)
    return [column for name, column, value in every if name in GREATER and is_position(value, tables, queries)]


def sort_keys(select: Any) -> Iterator[tuple[Column | None, bool]]:
    """The columns of ORDER BY, also by number, alias or within an expression, and whether they descend."""
    targets = select.targetList or ()
    for key in select.sortClause or ():
        node, column = key.node, column_of(key.node)
        named = [one.val for one in targets if column == ("", one.name)]
        number = getattr(getattr(node, "val", None), "ival", None)
        if isinstance(node, ast.A_Const) and number and number <= len(targets):
            named = [targets[number - 1].val]
        inner = {column_of(one) for one in walk(*named or [node]) if isinstance(one, ast.ColumnRef)}
        yield inner.pop() if len(inner) == 1 else None, key.sortby_dir == SortByDir.SORTBY_DESC


def returns(select: Any, column: Column, names: Mapping[str, object]) -> bool:
    """Without the column, a reader could not go on from there."""
    fields = [one.fields for one in walk(select.targetList) if isinstance(one, ast.ColumnRef)]
    return any(
        isinstance(one[-1], ast.A_Star) or one[-1].sval == column[1] or (len(one) == 1 and one[0].sval in names)
        for one in fields
    )


def polls(select: Any, queries: Queries, stored: bool) -> Iterator[Poll]:
    """Polls of a query; ``stored``: its rows are inserted somewhere, so that totals of them are kept, too."""
    names = dict(sources(select.fromClause, queries))
    every = tuple(dict.fromkeys(table for tables in names.values() for table in tables))
    calls = (function(one) for one in walk(select) if isinstance(one, ast.FuncCall))
    # A function of snapshots takes open transactions into account.
    if not every or (select.groupClause and not stored) or any("snapshot" in one for one in calls):
        return
    compared = list(comparisons(select.whereClause))
    fixed = [column for name, column, _ in compared if name == "="]
    keys = [key for key in sort_keys(select) if not any(same(key[0], one) for one in fixed)]
    for column in dict.fromkeys(after(select.whereClause, {*every}, queries)):
        ordered = bool(keys) and same(keys[0][0], column)
        late = any(name in LESS and same(one, column) and is_clock(value) for name, one, value in compared)
        elsewhere = keys and (keys[0][1] if ordered else select.limitCount)
        if not elsewhere and (ordered or stored or returns(select, column, names)):
            yield Poll(names.get(column[0], every), column[1], ordered, late)
