"""The install script, parsed with the server's own parser: its statements, and the SQL in their bodies."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from pglast import ast, parse_plpgsql
from pglast.enums.parsenodes import FunctionParameterMode, ObjectType
from pglast.parser import ParseError, parse_sql, scan

PUBLIC = "_extschema_"
INTERNAL = "inorder_internal"

# The text before a statement, which the parser counts as part of the statement.
BLANK = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.S)
# The declaration of a variable of one of the extension's composite types. Without a catalog, the parser treats the
# variable as a scalar without fields.
COMPOSITE_VARIABLE = re.compile(rf'(\s*"?\w+"?\s+)(?:{PUBLIC}|{INTERNAL})\.\w+(?=\s*(?:;|:=|DEFAULT\b))')
ASSIGNED = re.compile(r"^.*?:?=", re.S)
KEYWORD_OF_PARSE_MODE = {0: "", 2: "SELECT ", 3: "SELECT ", 4: "SELECT ", 5: "SELECT "}
OUTPUT_MODES = (FunctionParameterMode.FUNC_PARAM_OUT, FunctionParameterMode.FUNC_PARAM_TABLE)


@dataclass(frozen=True, eq=False)
class Statement:
    node: Any
    text: str
    line: int

    @property
    def subject(self) -> str:
        """Return the statement's name in messages: the object that it creates, or the first object of a DO block."""
        if isinstance(self.node, ast.DoStmt):
            objects = (name for piece in in_body(self) if (name := made_by(piece.node)))
            return f"DO {next(objects, '')}".strip()
        return made_by(self.node) or type(self.node).__name__


class Piece(NamedTuple):
    """A parsed piece of SQL: a statement of the script, or a statement or expression in a text body."""

    node: Any
    line: int
    subject: str


def as_parsed(script: str) -> str:
    """Return the script in a form that the parser accepts. psql commands and placeholders are replaced in place.

    >>> as_parsed("\\\\echo no\\nSELECT @extschema@.f();")
    '--cho no\\nSELECT _extschema_.f();'
    """
    plain = re.sub(r"^\\.", "--", script, flags=re.M)
    plain = plain.replace("@extschema@", PUBLIC).replace("@extowner@", "_extowner_")
    return re.sub(r"[^\x00-\x7f]", "?", plain)


@cache
def statements(script: str) -> tuple[Statement, ...]:
    plain, listed = as_parsed(script), []
    for raw in parse_sql(plain):
        end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(plain)
        blank = BLANK.match(plain, raw.stmt_location, end)
        start = blank.end() if blank else raw.stmt_location
        listed.append(Statement(raw.stmt, plain[start:end], 1 + plain.count("\n", 0, start)))
    return tuple(listed)


def walk(value: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it. Each node comes before the nodes below it."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Node):
            yield node
            pending += [getattr(node, attribute) for attribute in node][::-1]
        elif isinstance(node, tuple | list):
            pending += node[::-1]


def option(node: Any, name: str) -> Any:
    """Return the value of an option of CREATE FUNCTION or DO, or None if the statement does not have the option."""
    options = node.args if isinstance(node, ast.DoStmt) else node.options
    return next((each.arg for each in options or () if each.defname == name), None)


def language(node: Any) -> str:
    if not isinstance(node, ast.CreateFunctionStmt | ast.DoStmt):
        return ""
    named = option(node, "language")
    return str(named.sval) if named is not None else "plpgsql" if isinstance(node, ast.DoStmt) else "sql"


def text_body(node: Any) -> str | None:
    """Return the body of a function or DO block if it is a string that is parsed when it runs, otherwise None."""
    if language(node) not in {"sql", "plpgsql"}:
        return None
    body = option(node, "as")
    first = body[0] if isinstance(body, tuple) else body
    return None if first is None else str(first.sval)


def plpgsql_expressions(tree: Any, line: int = 0) -> Iterator[tuple[str, int]]:
    if isinstance(tree, list):
        for item in tree:
            yield from plpgsql_expressions(item, line)
    elif isinstance(tree, dict):
        line = tree.get("lineno", line)
        for kind, value in tree.items():
            if kind == "PLpgSQL_expr":
                mode = value.get("parseMode", 0)
                query = ASSIGNED.sub("", value["query"], count=1) if mode >= 3 else value["query"]
                yield KEYWORD_OF_PARSE_MODE[mode] + query, line
            else:
                yield from plpgsql_expressions(value, line)


def parsed_plpgsql(statement: Statement) -> list[tuple[str, int]]:
    """Return the SQL in a PL/pgSQL body. If the parser rejects a statement, the error names the line."""
    try:
        return list(plpgsql_expressions(parse_plpgsql(scalar_fields(statement.text))))
    except ParseError as error:
        raise ValueError(f"line {statement.line}: {made_by(statement.node) or 'DO'}: {error}") from error


def scalar_fields(text: str) -> str:
    return COMPOSITE_VARIABLE.sub(r"\1record", text)


@cache
def in_body(statement: Statement) -> tuple[Piece, ...]:
    body = text_body(statement.node)
    if body is None:
        return ()
    first = statement.line + statement.text.count("\n", 0, max(statement.text.find(body), 0))
    texts = [(body, 1)] if language(statement.node) == "sql" else parsed_plpgsql(statement)
    name = made_by(statement.node) or "DO"
    parsed = ((raw.stmt, first + max(line, 1) - 1) for text, line in texts for raw in parse_sql(text))
    return tuple(Piece(node, line, name) for node, line in parsed)


def pieces(script: str) -> Iterator[Piece]:
    for statement in statements(script):
        yield Piece(statement.node, statement.line, statement.subject)
        yield from in_body(statement)


def dotted(names: Any) -> str:
    parts = [each.sval for each in names]
    return ".".join(parts[1:] if len(parts) > 1 and parts[0] == "pg_catalog" else parts)


def type_name(node: Any) -> str:
    return dotted(node.names) + "[]" * len(node.arrayBounds or ())


def relation_name(node: Any) -> str:
    """Return the name of a table, view or composite type."""
    return f"{node.schemaname}.{node.relname}" if node.schemaname else str(node.relname)


def signature(names: Any, types: Any) -> str:
    return f"{dotted(names)}({', '.join('none' if each is None else type_name(each) for each in types or ())})"


def inputs(node: ast.CreateFunctionStmt) -> list[Any]:
    return [each.argType for each in node.parameters or () if each.mode not in OUTPUT_MODES]


def made_by_define(node: ast.DefineStmt) -> str:
    """Return the type, operator or aggregate that a statement creates."""
    options = {each.defname: each.arg for each in node.definition or ()}
    match node.kind:
        case ObjectType.OBJECT_OPERATOR:
            return f"operator {signature(node.defnames, [options.get('leftarg'), options.get('rightarg')])}"
        case ObjectType.OBJECT_AGGREGATE:
            listed = node.args[0] or ()
            return f"aggregate {signature(node.defnames, [each.argType for each in listed])}"
        case _:
            return f"type {dotted(node.defnames)}"


# A function for each class of statement that returns the created object's name in the form of COMMENT ON. These are all
# objects that can have a COMMENT.
MAKERS: dict[type[Any], Callable[[Any], str]] = {
    ast.CreateFunctionStmt: lambda node: f"function {signature(node.funcname, inputs(node))}",
    ast.DefineStmt: made_by_define,
    ast.CompositeTypeStmt: lambda node: f"type {relation_name(node.typevar)}",
    ast.CreateEnumStmt: lambda node: f"type {dotted(node.typeName)}",
    ast.CreateRangeStmt: lambda node: f"type {dotted(node.typeName)}",
    ast.CreateDomainStmt: lambda node: f"type {dotted(node.domainname)}",
    ast.CreateStmt: lambda node: f"table {relation_name(node.relation)}",
    ast.ViewStmt: lambda node: f"view {relation_name(node.view)}",
    ast.CreateSeqStmt: lambda node: f"sequence {relation_name(node.sequence)}",
    ast.CreateSchemaStmt: lambda node: f"schema {node.schemaname}",
    ast.CreateCastStmt: lambda node: f"cast {type_name(node.sourcetype)} as {type_name(node.targettype)}",
    ast.CreateOpClassStmt: lambda node: f"operator class {dotted(node.opclassname)} using {node.amname}",
    ast.CreateOpFamilyStmt: lambda node: f"operator family {dotted(node.opfamilyname)} using {node.amname}",
}


def made_by(node: Any) -> str | None:
    """Return the object that a statement creates, or None if it cannot have a COMMENT."""
    maker = MAKERS.get(type(node))
    return maker(node) if maker else None


def literals(text: str, line: int = 1) -> Iterator[tuple[str, int]]:
    for token in scan(text):
        if token.name in {"SCONST", "USCONST"}:
            written, at = text[token.start : token.end + 1], line + text.count("\n", 0, token.start)
            yield written, at
            if written.startswith("$"):
                quote = written[: written.index("$", 1) + 1]
                yield from literals(written.removeprefix(quote).removesuffix(quote), at)
