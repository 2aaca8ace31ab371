"""Assemble the SQL edition from the sources in sql/, with PL/pgSQL or SQL bodies in place of C functions.

The bodies are in sql/plain. The module ``files`` writes the finished scripts, which are part of the packages. Both
modules need only Python.

A body in sql/plain/NAME.sql replaces that of a function in sql/FOLDER/NAME.sql. It begins with a line

    ---- function: language [LABELS] [bare] [keys] [reads] [tables] [state] [SET ...]

The arguments and the comment of the function are in sql/FOLDER/NAME.sql. Labels such as STABLE are also taken from that
file, unless the line has labels. Text above the first such line is inserted before the contents of sql/FOLDER/NAME.sql.
It is an error if a C function has no body. Each function sets search_path. A function that users call also has the
settings in ``PINNED``. These words in the line change the settings:

* ``bare``: no settings, because they take time; each name in the body is qualified;
* ``keys``: no settings from ``PINNED``;
* ``reads``: add the settings for queries of user tables;
* ``tables``: add the setting that keeps the planner from evaluating CHECK constraints;
* ``state``: add the settings that make queries of the state use its indexes.
"""

import re
from pathlib import Path
from typing import NamedTuple

# Sources that the SQL edition does not use. If sql/plain has a file of the same name, that file is used instead.
WITHOUT = {
    "header", "after_random", "mask", "table_ref", "dump", "restoring", "trigger", "counting", "uuid_v1", "time_bounds",
    "uuid_extras", "revoke", "rights",
}  # fmt: skip

# Every function that reads user tables needs this setting. Without it, the planner would evaluate CHECK constraints of
# these tables with the privileges of the reader.
TABLES = "constraint_exclusion = off"
READS = (
    "jit = off", "enable_memoize = off", TABLES, "max_parallel_workers_per_gather = 0", "enable_seqscan = off",
    "enable_bitmapscan = off", "datestyle = 'ISO'", "timezone = 'UTC'", "intervalstyle = 'iso_8601'",
    "extra_float_digits = 1", "bytea_output = 'hex'",
)  # fmt: skip
# Settings of functions that users call. They also apply to functions called from there. Other values in the session
# would change how names in a position are quoted, and how string literals, arrays and PL/pgSQL are interpreted.
PINNED = (
    "quote_all_identifiers = off", "standard_conforming_strings = on", "backslash_quote = 'safe_encoding'",
    "transform_null_equals = off", "array_nulls = on", "plpgsql.extra_errors = 'none'",
    "plpgsql.extra_warnings = 'none'",
)  # fmt: skip
# Without enable_seqscan = off, a plan cached while the state was small would later read all dead row versions: see
# state.c. Some plans still have a sequential scan, with a cost of 10^10. Without jit = off, PostgreSQL before 18 would
# compile these plans.
BY_INDEX = ("enable_seqscan = off", "jit = off")
OF_SCHEMA = ("CREATE SCHEMA", "COMMENT ON SCHEMA")
HEADER = re.compile(
    r"^---- (\w+): (sql|plpgsql)((?: (?!SET )[A-Z]+)*)((?: bare| keys| reads| tables| state)*)((?: SET .+)?)$", re.M
)
FUNCTION = re.compile(
    r"CREATE FUNCTION (?P<name>[@\w.]+)(?P<head>\((?:(?!CREATE FUNCTION).)*?)\n"
    r"(?:AS 'MODULE_PATHNAME'(?:, '(?P<symbol>\w+)')? LANGUAGE C(?P<labels>[A-Z ]*);"
    r"|LANGUAGE (?:sql|plpgsql)(?P<own>[A-Z ]*)(?:SET [^\n]*)?\n(?:(?!\nCREATE ).)*?;(?=\nCOMMENT ON|\n\n|\n?\Z))",
    re.S,
)


class EditionError(Exception):
    """The SQL edition or an update of it cannot be assembled from the sources."""


class Body(NamedTuple):
    language: str
    text: str
    settings: frozenset[str] = frozenset()
    labels: str = ""
    more: str = ""


def bodies(sources: Path, name: str) -> tuple[str, dict[str, Body]]:
    """Return the text before the first body in a file of sql/plain, and the bodies by function name."""
    path = sources / "sql" / "plain" / f"{name}.sql"
    if not path.exists():
        return "", {}
    beginning, *parts = HEADER.split(path.read_text(encoding="utf-8"))
    by_function = {}
    for function, language, labels, settings, more, text in zip(*[iter(parts)] * 6, strict=True):
        by_function[function] = Body(language, text.strip(), frozenset(settings.split()), labels, more)
    return beginning, by_function


def definition(head: str, labels: str, body: Body) -> str:
    text, settings, labels = body.text, body.settings, body.labels or labels
    if body.language == "sql":
        return f"CREATE FUNCTION {head}\nLANGUAGE sql{labels}\n{text}"
    if "bare" in settings:
        return f"CREATE FUNCTION {head}\nLANGUAGE plpgsql{labels} AS $$\n{text}\n$$;"
    clauses = ["search_path = pg_catalog, pg_temp"]
    clauses += READS if "reads" in settings else [TABLES] if "tables" in settings else []
    clauses += BY_INDEX if "state" in settings else []
    clauses += PINNED if head.startswith(("@extschema@", "inorder_text")) and "keys" not in settings else []
    sets = " ".join(f"SET {clause}" for clause in clauses) + body.more
    return f"CREATE FUNCTION {head}\nLANGUAGE plpgsql{labels} {sets} AS $$\n{text}\n$$;"


def as_caller(name: str, head: str) -> Body:
    """Return the body of a function that C runs as the owner (as_owner.c): a call of inorder_internal.NAME.

    Text arguments get the default collation, because another name could compare equal under the caller's collation.

    >>> as_caller("f", "(name text, owner regrole DEFAULT NULL) RETURNS boolean").text
    'BEGIN\\n    RETURN inorder_internal.f(inorder_internal.caller(), name COLLATE "default", owner);\\nEND'
    """
    names = re.findall(r"[(,]\s*(OUT )?(\w+) (text\b)?", head)
    passed = (name + (' COLLATE "default"' if is_text else "") for is_result, name, is_text in names if not is_result)
    arguments = ", ".join(["inorder_internal.caller()", *passed])
    call = f"inorder_internal.{name}({arguments})"
    if results := ", ".join(name for is_result, name, _ in names if is_result):
        statement = f"SELECT t.* INTO {results} FROM {call} AS t"
    elif re.search(r"\sRETURNS SETOF ", head):
        statement = f"RETURN QUERY SELECT * FROM {call}"
    else:
        statement = f"{'PERFORM' if head.endswith('RETURNS void') else 'RETURN'} {call}"
    return Body("plpgsql", f"BEGIN\n    {statement};\nEND", frozenset({"state"}))


def joined(sources: Path, source: str) -> str:
    beginning, own_bodies = bodies(sources, Path(source).name)
    used_names = set()

    def replace(match: re.Match[str]) -> str:
        name = match["name"].rpartition(".")[2]
        symbol = name if name in own_bodies else match["symbol"] or name
        is_c = match["labels"] is not None
        if symbol.endswith("as_owner"):
            body = as_caller(name, match["head"])
        elif symbol in own_bodies:
            used_names.add(symbol)
            body = own_bodies[symbol]
        elif not is_c:
            return match[0]
        else:
            raise EditionError(f"sql/{source}.sql: {symbol} is in C, and has no body in sql/plain")
        return definition(match["name"] + match["head"], match["labels"] if is_c else match["own"].rstrip(), body)

    text = FUNCTION.sub(replace, (sources / "sql" / f"{source}.sql").read_text(encoding="utf-8"))
    if missing := set(own_bodies) - used_names:
        raise EditionError(
            f"sql/plain/{Path(source).name}.sql: sql/{source}.sql has no function {', '.join(sorted(missing))}"
        )
    return beginning + text


def plain(sources: Path, name: str) -> str:
    path = sources / "sql" / "plain" / f"{name}.sql"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def version(sources: Path) -> str:
    control = (sources / "inorder.control").read_text(encoding="utf-8")
    return str(re.findall(r"^default_version *= *'(.*)'", control, re.M)[0])


def listed(sources: Path) -> list[str]:
    """Return the sources of the extension in sql/, without suffix, in the order of the Makefile."""
    makefile = (sources / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    return str(re.findall(r"^SQL_SOURCES = (.*)$", makefile, re.M)[0]).replace(".sql", "").split()


def names(text: str) -> list[str]:
    """Return the names in a script that begin with pg_. Some servers do not let every role use all of these objects.

    >>> names("SELECT pg_x(a.pg_y) FROM pg_z; -- pg_dump")
    ['pg_x', 'pg_y', 'pg_z']
    """
    code = re.sub(r"--.*|^COMMENT ON (?:[^';]|'[^']*')*;", "", text, flags=re.M)
    return sorted({name for name in re.findall(r"\bpg_\w+", code) if name not in ("pg_catalog", "pg_temp")})


def made(sources: Path) -> list[str]:
    """Return the names that this or a released version creates in the two schemas of the SQL edition."""
    released = sorted((sources / "sql" / "released").glob("inorder-sql--*.sql"))
    text = "".join([script(sources, "inorder"), *(path.read_text(encoding="utf-8") for path in released)])
    return sorted(
        set(re.findall(r"^CREATE (?:FUNCTION|VIEW|TABLE|TYPE|DOMAIN) inorder(?:_internal)?\.(\w+)", text, re.M))
    )


def parts(sources: Path) -> str:
    texts = []
    for source in listed(sources):
        name = Path(source).name
        texts.append(plain(sources, name) if name in WITHOUT else joined(sources, source))
    # The SQL edition has no schema inorder_text.
    return "".join(texts).replace("inorder_text.", "inorder_internal.")


def script(sources: Path, schema: str) -> str:
    text = parts(sources)
    # Tests use the schema public, which exists already.
    if schema == "public":
        text = re.sub(rf"^({'|'.join(OF_SCHEMA)}) @extschema@[^;]*;\n", "", text, flags=re.M)
    return filled(text, sources, schema)


WHOLE = """DO $_inorder_do_$
DECLARE
    said text;
    detail text;
    hint text;
BEGIN
    EXECUTE $_inorder_sql_$
{text}$_inorder_sql_$;
EXCEPTION
    -- Without these handlers, the CONTEXT of an error would be the whole script.
    WHEN QUERY_CANCELED THEN
        RAISE '%', SQLERRM USING ERRCODE = SQLSTATE;
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        -- Clients would show an empty DETAIL or HINT.
        IF detail <> '' AND hint <> '' THEN
            RAISE '%', said USING ERRCODE = SQLSTATE, DETAIL = detail, HINT = hint;
        ELSIF detail <> '' THEN
            RAISE '%', said USING ERRCODE = SQLSTATE, DETAIL = detail;
        ELSIF hint <> '' THEN
            RAISE '%', said USING ERRCODE = SQLSTATE, HINT = hint;
        END IF;
        RAISE '%', said USING ERRCODE = SQLSTATE;
END $_inorder_do_$;
"""


def whole(text: str) -> str:
    """Wrap a script in a single DO statement, which any client can send.

    With separate statements, a client that continues after an error could create objects in the wrong schema, and a
    client that splits a script at semicolons would break functions with BEGIN ATOMIC.
    """
    assert "$_inorder_" not in text
    beginning = re.match(r"(?:--[^\n]*\n)*", text)
    assert beginning is not None
    return beginning[0] + WHOLE.format(text=text[beginning.end() :])


def filled(text: str, sources: Path, schema: str) -> str:
    values = {
        "extschema": schema, "version": version(sources), "pinned": " SET ".join(PINNED),
        "reads": " SET ".join(READS),
        "names": ",".join(names(text)),
    }  # fmt: skip
    return re.sub(rf"@({'|'.join(values)})@", lambda match: values[match[1]], text)
