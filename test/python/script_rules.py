"""Rules for the install script. Each rule is a function that yields its findings in the script.

The script runs as a superuser in a schema that other roles may have filled. No name in the script may therefore be
looked up in a schema where others could have created an object. Names of the extension's objects are schema-qualified,
which the script's search_path and plpgsql_check also require. No rule can see the text of queries that a function
builds.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from pglast import ast
from pglast.keywords import COL_NAME_KEYWORDS, RESERVED_KEYWORDS, TYPE_FUNC_NAME_KEYWORDS
from pgspot.state import Counter, State  # type: ignore[import-untyped]
from pgspot.visitors import SQLVisitor  # type: ignore[import-untyped]

from install_script import (
    PUBLIC,
    Statement,
    as_parsed,
    dotted,
    in_body,
    inputs,
    language,
    literals,
    made_by,
    pieces,
    statements,
    text_body,
    type_name,
    walk,
)

LONGEST_LINE = 120
LONGEST_BODY = 40
PATH = ["pg_catalog", "pg_temp"]
QUOTED_KEYWORDS = RESERVED_KEYWORDS | COL_NAME_KEYWORDS | TYPE_FUNC_NAME_KEYWORDS
NO_QUOTES = re.compile(r"[a-z_][a-z0-9_$]*")
NOT_NEW = re.compile(r"\bCREATE\s+OR\s+REPLACE\b|\b(?:CREATE|ADD)\s+(?:\w+\s+){1,3}IF\s+NOT\s+EXISTS\b", re.I)
PASSED = re.compile(r"'[^'\n]*\bOR\s+REPLACE\b[^'\n]*'", re.I)
SQL_BODY = re.compile(r"\b(?:RETURN\b|BEGIN\s+ATOMIC\b)")
BACKSLASH = re.compile(r"'[^\\]*\\", re.S)


class Finding(NamedTuple):
    line: int
    rule: str
    subject: str
    problem: str


Found = Iterator[tuple[int, str, str]]


def ascii_only(script: str) -> Found:
    """Report characters beyond ASCII.

    CREATE EXTENSION converts the script to the database's encoding, which may lack such characters.
    """
    for number, line in enumerate(script.splitlines(), 1):
        if not line.isascii():
            yield number, "", f"not ASCII: {''.join(sorted({sign for sign in line if not sign.isascii()}))}"


def short_lines(script: str) -> Found:
    """Report lines that are too long to show two files side by side."""
    for number, line in enumerate(script.splitlines(), 1):
        if len(line) > LONGEST_LINE:
            yield number, "", f"{len(line)} characters"


def short_bodies(script: str) -> Found:
    """Report functions that do not fit on a screen."""
    for statement in statements(script):
        body = text_body(statement.node)
        if isinstance(statement.node, ast.CreateFunctionStmt) and statement.node.sql_body is not None:
            start = SQL_BODY.search(statement.text)
            body = statement.text[start.start() :] if start else statement.text
        lines = 1 + (body or "").strip("\n").count("\n")
        if lines > LONGEST_BODY:
            yield statement.line, statement.subject, f"a body of {lines} lines"


def is_pinned(setting: Any) -> bool:
    return setting.name == "search_path" and [each.val.sval for each in setting.args or ()] == PATH


def pinned_script(script: str) -> Found:
    """Report a script that does not first set a search_path without objects of other roles."""
    first = statements(script)[0]
    if not (isinstance(first.node, ast.VariableSetStmt) and first.node.is_local and is_pinned(first.node)):
        yield first.line, "", "the script does not begin with SET LOCAL search_path TO pg_catalog, pg_temp"


def functions(script: str) -> Iterator[Statement]:
    return (each for each in statements(script) if isinstance(each.node, ast.CreateFunctionStmt))


def pinned_functions(script: str) -> Found:
    """Report functions with a text body that do not set search_path.

    Names in a text body are looked up whenever the body runs, by default with the caller's search_path.
    """
    for statement in functions(script):
        settings = [each.arg for each in statement.node.options if each.defname == "set"]
        if text_body(statement.node) is not None and not any(is_pinned(each) for each in settings):
            yield statement.line, statement.subject, "no SET search_path = pg_catalog, pg_temp"


def no_schema_in_text(script: str) -> Found:
    """Report text bodies that name the extension's schema.

    They would keep the former name of a renamed schema, which anybody could then create.
    """
    for statement in statements(script):
        if PUBLIC in (text_body(statement.node) or ""):
            yield statement.line, statement.subject, "@extschema@ in a text body"


def made_anew(script: str) -> Found:
    """Report OR REPLACE and IF NOT EXISTS.

    An existing object belongs to another role, but the script would use it as an object of the extension.
    """
    plain = re.sub(r"--[^\n]*", "", as_parsed(script))
    for match in NOT_NEW.finditer(plain):
        yield 1 + plain.count("\n", 0, match.start()), "", " ".join(match[0].split())
    for statement in statements(script):
        if PASSED.search(re.sub(r"--[^\n]*", "", statement.text)):
            yield statement.line, statement.subject, "OR REPLACE as a part of a statement"


def no_backslashes(script: str) -> Found:
    """Report backslashes, which are escapes in a plain literal if standard_conforming_strings is off."""
    for literal, line in literals(as_parsed(script)):
        if BACKSLASH.match(literal) or literal[:2].upper() == "U&":
            yield line, "", f"backslash in {literal[:60]}"


def invokers_rights(script: str) -> Found:
    """Report functions and views that run with the privileges of the superuser who created the extension."""
    for piece in pieces(script):
        for node in walk(piece.node):
            if isinstance(node, ast.DefElem) and node.defname == "security" and node.arg.boolval:
                yield piece.line, piece.subject, "SECURITY DEFINER"
            if isinstance(node, ast.ViewStmt) and tables_of(node.query):
                options = {each.defname: getattr(each.arg, "sval", "") for each in node.options or ()}
                if options.get("security_invoker") != "true":
                    yield piece.line, piece.subject, "reads a table without security_invoker = true"


def tables_of(query: ast.Node) -> list[str]:
    """Return the tables and views that a query reads, except those that its WITH clause defines."""
    parts = list(walk(query))
    with_names = {node.ctename for node in parts if isinstance(node, ast.CommonTableExpr)}
    named = [node for node in parts if isinstance(node, ast.RangeVar)]
    return [node.relname for node in named if node.schemaname or node.relname not in with_names]


def plain_arguments(script: str) -> Found:
    """Report argument names that users would have to quote."""
    for statement in functions(script):
        if statement.node.funcname[0].sval == PUBLIC:
            for name in (each.name for each in statement.node.parameters or () if each.name):
                if not NO_QUOTES.fullmatch(name) or name in QUOTED_KEYWORDS:
                    yield statement.line, statement.subject, f"the argument {name} has to be quoted"


def is_untyped(node: Any) -> bool:
    value = node.arg if isinstance(node, ast.NamedArgExpr) else node
    return isinstance(value, ast.A_Const) and not isinstance(value.val, ast.Boolean)


@cache
def amounts_of_inputs(script: str) -> dict[str, set[int]]:
    """Return the numbers of each function's arguments; -1 stands for a function with an argument of type anyelement."""
    amounts: dict[str, set[int]] = {}
    for statement in functions(script):
        types = [type_name(each) for each in inputs(statement.node)]
        # Another role's function with the exact type would be a better match than a function with anyelement.
        amounts.setdefault(dotted(statement.node.funcname), set()).add(-1 if "anyelement" in types else len(types))
    return amounts


def exact_calls(script: str, called: str = "") -> Found:
    """Report calls of the extension's functions whose arguments may not have exactly the declared types.

    The user's schema may have functions with the same names that are a better match for other types.

    ``called`` is the script that creates the functions, if it is not the script itself.
    """
    amounts = amounts_of_inputs(called or script)
    for piece in pieces(script):
        for node in walk(piece.node):
            if isinstance(node, ast.FuncCall) and node.funcname[0].sval == PUBLIC:
                name, arguments = dotted(node.funcname), node.args or ()
                if len(arguments) not in amounts.get(name, {len(arguments)}):
                    yield piece.line, piece.subject, f"{name} is called without all of its arguments, or takes any type"
            elif isinstance(node, ast.A_Expr) and len(node.name) > 1 and node.name[0].sval == PUBLIC:
                name, arguments = dotted(node.name), (node.lexpr, node.rexpr)
            else:
                continue
            if any(is_untyped(each) for each in arguments):
                yield piece.line, piece.subject, f"{name} is called with a literal that is not cast to its type"


class Collector(Counter):  # type: ignore[misc]
    """Keeps the findings that pgspot would otherwise print."""

    def __init__(self) -> None:
        options = {"plpgsql": False, "ignore": [], "ignore_lang": [], "proc_without_search_path": [], "sql_fn": []}
        super().__init__(Namespace(summary_only=False, **options))
        self.line = 0
        self.found: list[Finding] = []

    def print_issue(self, code: str, context: str) -> None:
        """Record an error or a warning."""
        self.found.append(Finding(self.line, code, context, "pgspot"))

    def unknown(self, message: str) -> None:
        """Record a statement that pgspot cannot check."""
        self.found.append(Finding(self.line, "unknown", message, "pgspot"))


class Spotter(SQLVisitor):  # type: ignore[misc]
    """pgspot's visitor. It skips functions with an SQL-standard body, which are checked like the script."""

    def visit_CreateFunctionStmt(self, ancestors: Any, node: Any) -> None:  # noqa: N802
        if node.sql_body is None:
            super().visit_CreateFunctionStmt(ancestors, node)


def state_in_body(state: Any, node: Any) -> Any:
    """Return the state for a body, with the search_path that the function sets or inherits from the script."""
    if isinstance(node, ast.DoStmt):
        return state
    inner = State(state.counter)
    path = next((each.arg for each in node.options if each.defname == "set" and each.arg.name == "search_path"), None)
    inner.searchpath_secure = path is not None and state.is_secure_searchpath(path)
    return inner


def spotted(script: str) -> list[Finding]:
    """Return pgspot's findings. PL/pgSQL is parsed here, because pgspot's parser skips ELSIF, CASE and RETURN QUERY."""
    collector = Collector()
    state = State(collector)
    for statement in statements(script):
        collector.line = statement.line
        try:
            Spotter(state)(statement.node)
            for piece in in_body(statement) if language(statement.node) == "plpgsql" else ():
                collector.line = piece.line
                Spotter(state_in_body(state, statement.node))(piece.node)
        except Exception as error:  # any exception is a finding: pgspot cannot judge the statement
            collector.unknown(f"{made_by(statement.node) or 'DO'}: {error}")
    return collector.found


RULES: tuple[Callable[[str], Found], ...] = (
    ascii_only,
    short_lines,
    short_bodies,
    pinned_script,
    pinned_functions,
    no_schema_in_text,
    made_anew,
    no_backslashes,
    invokers_rights,
    plain_arguments,
    exact_calls,
)


def broken(script: str, rule: Callable[[str], Found]) -> list[Finding]:
    return [Finding(line, rule.__name__, subject, problem) for line, subject, problem in rule(script)]
