"""Generate update scripts for the SQL edition.

sql/update/inorder-sql--OLD--NEW.sql changes tables and types, and is written by hand. This module adds the functions,
views, comments and privileges in which this version differs from the released script of OLD. When NEW is released, the
generated statements are added to the file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from edition.join import EditionError, script, version

SCHEMA = "inorder"  # the schema in released scripts
PLACE = "@extschema@"
# Ends of statements, and tokens that may contain a semicolon.
TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|(\$\w*\$).*?\1|\bBEGIN ATOMIC\b.*?\nEND;|;", re.S)
BLANK = re.compile(r"(?:\s|--[^\n]*\n)*")
AGAIN = ("DO ", "GRANT ", "REVOKE ")  # statements that can be repeated, to set privileges on new objects
FUNCTION = re.compile(r"CREATE FUNCTION ([\w.]+\([^)]*\))")
DEFAULT = re.compile(r" DEFAULT (?:'[^']*'|[^,)]+)")
STATE = re.compile(r"CREATE (?:TABLE|TYPE|SCHEMA) [^\s(;]+")
VIEW = re.compile(r"CREATE VIEW \S+")
BEGINNING = """-- inorder, the SQL edition: {old} to {new}, in one transaction, by the role that installed it."""
CHECK = """DO $$
BEGIN
    IF to_regprocedure('inorder_internal.sql_edition()') IS NULL THEN
        RAISE 'this database has no SQL edition of inorder' USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF inorder_internal.sql_edition() <> '{old}' THEN
        RAISE 'this script updates inorder {old}, and this database has inorder %', inorder_internal.sql_edition()
        USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;"""


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script, without the comments before them.

    >>> list(statements("-- so; it is\\nSELECT ';', $$;$$; CREATE FUNCTION f() BEGIN ATOMIC\\nSELECT 1;\\nEND;"))
    ["SELECT ';', $$;$$;", 'CREATE FUNCTION f() BEGIN ATOMIC\\nSELECT 1;\\nEND;']
    """
    start = 0
    for match in TOKEN.finditer(text):
        if match[0] == ";" or match[0].startswith("BEGIN ATOMIC"):
            blank = BLANK.match(text, start, match.start())
            yield text[blank.end() if blank else start : match.end()]
            start = match.end()


def identities(script: list[str]) -> list[str]:
    """Return the name and arguments of the function that each statement creates, or "" for other statements.

    >>> identities(["CREATE FUNCTION f(a int DEFAULT 1, b text) RETURNS int RETURN 1;", "SELECT 1;"])
    ['f(a int, b text)', '']
    """
    matches = (FUNCTION.match(statement) for statement in script)
    return [" ".join(DEFAULT.sub("", match[1]).split()) if match else "" for match in matches]


def difference(before: list[str], after: list[str], templates: list[str]) -> Iterator[str]:
    """Yield the statements that update a database installed by one script to the state of another script.

    ``templates`` are the statements of ``after`` with a placeholder for the schema.
    """
    functions, existing = set(identities(before)), set(before)
    named = {match[0] for statement in before for kind in (STATE, VIEW) if (match := kind.match(statement))}
    for statement, function, template in zip(after, identities(after), templates, strict=True):
        state, view = STATE.match(statement), VIEW.match(statement)
        if (statement in existing and not statement.startswith(AGAIN)) or (state and state[0] in named):
            continue
        replaces = function in functions if function else view is not None and view[0] in named
        yield template.replace("CREATE ", "CREATE OR REPLACE ", 1) if replaces else template


def removed(before: list[str], after: list[str]) -> Iterator[str]:
    remaining = set(identities(after))
    for function in identities(before):
        if function not in remaining:
            yield "DROP FUNCTION " + re.sub(rf"(?<!\w){SCHEMA}\.", f"{PLACE}.", function) + ";"


def step(sources: Path, path: Path) -> str:
    """Return the complete update for a file in sql/update, with @extschema@ as the schema."""
    text = path.read_text(encoding="utf-8")
    _, old, new = path.stem.split("--")
    if new != version(sources):
        return text
    released = sources / "sql" / "released" / f"inorder-sql--{old}.sql"
    if not released.exists():
        raise EditionError(f"{path.name} needs {released.name}, which is not in sql/released")
    before = list(statements(released.read_text(encoding="utf-8")))
    after, templates = (list(statements(script(sources, schema))) for schema in (SCHEMA, PLACE))
    first, *middle, last = difference(before, after, templates)
    beginning, check = BEGINNING.format(old=old, new=new), CHECK.format(old=old)
    texts = [beginning, first, check, text, *middle, *removed(before, after), last]
    text = "\n".join(text.rstrip() + "\n" for text in texts)
    return text.replace("is_update boolean := false", "is_update boolean := true")


def steps(sources: Path, old: str) -> list[Path]:
    """Return the files in sql/update that lead from an old version to this one, in order."""
    files, reached = [], old
    while reached != version(sources):
        following = sorted((sources / "sql" / "update").glob(f"inorder-sql--{reached}--*.sql"))
        if not following:
            raise EditionError(f"no update of the SQL edition begins with version {reached}")
        files.append(following[-1])
        reached = following[-1].stem.rpartition("--")[2]
    return files


def update(sources: Path, old: str, schema: str) -> str:
    return "".join(step(sources, path) for path in steps(sources, old)).replace(PLACE, schema)
