"""The function that generated columns call, from one edition to another under the same oid.

An expression refers to its function by that, and PostgreSQL cannot give a column another one without computing all
rows anew. So the function itself stays: it leaves the edition that goes, and gets the body, the owner and the
privileges of that of the edition that comes, whose place it takes.
"""

from psycopg import sql

from inorder.install.offer import SQL, Installed
from inorder.install.target import Target

ASIDE = "inorder_move"  # a schema that is there in between
NAME = sql.SQL("xact_id_generated")
OTHER = sql.SQL("replaced")


def function(schema: str, name: sql.SQL = NAME) -> sql.Composed:
    """It, in a schema."""
    return sql.SQL("FUNCTION {}.{}(bigint)").format(sql.Identifier(schema), name)


def put_aside(target: Target, before: Installed) -> None:
    """Take it out of the edition that goes."""
    if before.edition != SQL:
        target.run(sql.SQL("ALTER EXTENSION inorder DROP {}").format(function(before.schema)))
    target.run(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(ASIDE)))
    move(target, before.schema, ASIDE)


def move(target: Target, schema: str, to: str) -> None:
    """Into another schema."""
    target.run(sql.SQL("ALTER {} SET SCHEMA {}").format(function(schema), sql.Identifier(to)))


def rename(target: Target, name: sql.SQL, to: sql.SQL) -> None:
    """In the schema aside."""
    target.run(sql.SQL("ALTER {} RENAME TO {}").format(function(ASIDE, name), to))


def put_back(target: Target, after: Installed) -> None:
    """Put it in the place of the one that the edition has made, and remove that one."""
    kept, new = function(after.schema), target.rows("install_generator", schema=after.schema)[0]
    callers = target.rows("install_generator", schema=ASIDE)[0]["callers"]
    kept_aside = sql.SQL("kept")
    if after.edition != SQL:
        target.run(sql.SQL("ALTER EXTENSION inorder DROP {}").format(kept))
    rename(target, NAME, kept_aside)
    move(target, after.schema, ASIDE)
    rename(target, NAME, OTHER)
    rename(target, kept_aside, NAME)
    move(target, ASIDE, after.schema)
    for text in (new["definition"], *new["named_by"]):
        target.run(str(text))
    give(target, kept, new["owner"], callers, new["callers"])
    target.run(sql.SQL("COMMENT ON {} IS {}").format(kept, sql.Literal(new["comment"])))
    target.run(sql.SQL("DROP {}").format(function(ASIDE, OTHER)))
    target.run(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(ASIDE)))
    if after.edition != SQL:
        target.run(sql.SQL("ALTER EXTENSION inorder ADD {}").format(kept))


def give(target: Target, kept: sql.Composed, owner: str, before: list[str], after: list[str]) -> None:
    """Another owner, and others who may call it. Roles are as the server writes them."""
    target.run(sql.SQL("ALTER {} OWNER TO {}").format(kept, sql.SQL(owner)))
    for role in before:
        target.run(sql.SQL("REVOKE ALL ON {} FROM {}").format(kept, sql.SQL(role)))
    for role in after:
        target.run(sql.SQL("GRANT EXECUTE ON {} TO {}").format(kept, sql.SQL(role)))
