"""From one edition to another in one transaction: feeds, batches, counts, guards and defaults stay.

The way of a restore: the rows of the state are put into the new edition, and feed_rebase() accepts them, table by
table. All tables are locked from before the old guard goes until the new one stands.
"""

import re
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from inorder.errors import InorderError, InputError
from inorder.install import change, generator, state
from inorder.install.offer import C, Installed, Offer, chosen
from inorder.install.target import Target
from inorder.text import listed, one_line

MOVED = ("guard", "notify", "default", "clone", "column")
KEPT_TYPES = ("feed_position", "feed_batch")


def move(target: Target, offer: Offer, before: Installed, kind: str, drop_expression: bool) -> Installed:
    """In the transaction that is open."""
    chosen(offer, kind, replaces=True)
    if before.edition == C and not offer.is_superuser:
        raise InputError(f"only a superuser can move {before}: its state belongs to role '{before.owner}'")
    change.refuse_others(target, before, f"{before} cannot be moved")
    dependents = target.dependents(before)
    keeps = not drop_expression
    may_keep = offer.is_superuser or C not in (before.edition, kind)
    check(dependents, before, drop_expression, may_keep)
    try:
        lock(target, dependents)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise InorderError(f"{str(error).splitlines()[0]}; nothing was changed; HINT: try again, or end who uses the "
                           "tables, or give a longer --lock-timeout") from error  # fmt: skip
    dependents = target.dependents(before)  # again, now that nobody changes them
    check(dependents, before, drop_expression, may_keep)
    refuse_strangers(target, dependents, before)
    kept = state.take(target, keeps)
    channels = notified(target)
    changed = [item for item in dependents if item["kind"] != "generated" or not keeps]
    has_generated = len(changed) < len(dependents)
    change.release(target, changed)
    convert(target, dependents, "text")
    if has_generated:
        generator.put_aside(target, before)
    change.drop(target, before)
    after = change.install(target, kind)
    target.run("SET LOCAL search_path = pg_catalog, pg_temp")
    if has_generated:
        generator.put_back(target, after)
    give_defaults(target, changed, before, after)
    restore(target, kept, after)
    convert(target, dependents, after.schema)
    renew_columns(target, dependents, kept, after)
    for relation, channel in channels:
        call(target, after, "feed_notify", relation, channel)
    return after


def renew_columns(target: Target, dependents: list[dict[str, Any]], kept: state.State, after: Installed) -> None:
    """Positions and batches in tables of the user's, as those of the state."""
    for item in dependents:
        if item["kind"] == "column" and not item["is_inherited"]:
            kind = item["definition"].rpartition(".")[2]
            table = sql.SQL(item["relation_name"])
            state.renew_column(target, kept, after.schema, table, item["column_name"], kind, state.stamps(target))


def check(dependents: list[dict[str, Any]], before: Installed, drop_expression: bool, may_keep: bool) -> None:
    """An error if something cannot be kept."""
    check_generated(dependents, before, drop_expression, may_keep)
    change.refuse(dependents, (*MOVED, "generated"), f"{before} cannot be moved")
    wrong = [item for item in dependents if item["kind"] == "column" and not is_kept_type(item, before)]
    if wrong:
        names = ", ".join(f"{item['described']} ({item['definition']})" for item in wrong)
        raise InputError(
            f"{before} cannot be moved: these columns are of its types: {names}; HINT: change them to text"
        )


def check_generated(
    dependents: list[dict[str, Any]], before: Installed, drop_expression: bool, may_keep: bool
) -> None:  # fmt: skip
    """An error if an expression can neither stay, since its function may be changed, nor become a default."""
    generated = [item for item in dependents if item["kind"] == "generated" and not item["is_inherited"]]
    if others := [item for item in generated if item["uses_others"]]:
        raise InputError(
            f"{before} cannot be moved: generated columns use more of it than xact_id_generated(): {named(others)}\n"
            "HINT: ALTER TABLE … ALTER COLUMN … DROP EXPRESSION keeps their values"
        )
    if generated and not (may_keep or drop_expression):
        raise InputError(
            f"{before} cannot be moved: only a superuser can keep generated columns, whose function becomes one in C: "
            f"{named(generated)}\n"
            "HINT: let a superuser move it; --drop-expression makes them columns with a default, of the same values"
        )


def named(columns: Iterable[dict[str, Any]]) -> str:
    """Columns of tables, as a list."""
    return listed(f"{item['column_name']} of {item['relation_name']}" for item in columns)


def refuse_strangers(target: Target, dependents: Iterable[dict[str, Any]], before: Installed) -> None:
    """An error if tables, which are locked, use functions of roles that need not be trusted: they would run here."""
    relations = sorted({int(item["relation"]) for item in dependents})
    if found := [row["described"] for row in target.rows("install_strangers", relations=relations)]:
        raise InputError(
            f"{before} cannot be moved: this would run functions of other roles: {listed(found, '; ')}\n"
            "HINT: let a superuser own these functions, or drop what uses them until it is moved"
        )


def is_kept_type(item: dict[str, Any], before: Installed) -> bool:
    """Whether a column's values are text that every edition reads."""
    return item["definition"] in [f"{before.quoted}.{name}" for name in KEPT_TYPES]


def lock(target: Target, dependents: Iterable[dict[str, Any]]) -> None:
    """Nobody reads or writes the tables, or moves a feed. Tables first, as readers take their locks."""
    tables = sorted({(item["relation"], item["relation_name"]) for item in dependents if item["kind"] != "clone"})
    for relation, name in tables:
        target.run(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.SQL(name)))
        if target.rows("is_locked", table=int(relation)) != [{"exists": True}]:
            raise InorderError(
                f"table {one_line(name)} was renamed while it was locked; nothing was changed; HINT: try again"
            )
    for name in (*state.TABLES, "share_worker"):
        target.run(sql.SQL("LOCK TABLE inorder_internal.{} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(name)))


def notified(target: Target) -> list[tuple[str, str]]:
    """The tables that notify, with their channels; partitions follow their table."""
    statement = """
        SELECT g.tgrelid::text,
               convert_from(substring(g.tgargs FROM 1 FOR length(g.tgargs) - 1), getdatabaseencoding())
        FROM pg_trigger AS g JOIN inorder_internal.feed_table AS t ON t.relation = g.tgrelid
        WHERE g.tgname = 'inorder_notify'
        ORDER BY g.tgrelid
    """
    return [(str(relation), str(channel)) for relation, channel in target.connection.execute(statement)]


def convert(target: Target, dependents: Iterable[dict[str, Any]], to: str) -> None:
    """Columns of the user's that keep positions and batches: into text, or back into the type in a schema."""
    for item in dependents:
        if item["kind"] != "column" or item["is_inherited"]:
            continue
        name = sql.Identifier(to, item["definition"].rpartition(".")[2]) if to != "text" else sql.Identifier("text")
        target.run(
            sql.SQL("ALTER TABLE {1} ALTER COLUMN {0} TYPE {2} USING {0}::text::{2}").format(
                sql.Identifier(item["column_name"]), sql.SQL(item["relation_name"]), name
            )
        )


def give_defaults(target: Target, dependents: Iterable[dict[str, Any]], before: Installed, after: Installed) -> None:
    """The defaults that there were, by the functions of the new edition; one in the place of an expression."""
    for item in dependents:
        if item["kind"] not in ("default", "generated"):
            continue
        text = re.sub(rf"(?<![\w$\".]){re.escape(before.quoted)}\.", lambda _: f"{after.quoted}.", item["definition"])
        if item["kind"] == "generated":
            text = text.replace("xact_id_generated(", "xact_id(")
        target.run(
            sql.SQL("ALTER TABLE ONLY {} ALTER COLUMN {} SET DEFAULT {}").format(
                sql.SQL(item["relation_name"]), sql.Identifier(item["column_name"]), sql.SQL(text)
            )
        )


def call(target: Target, after: Installed, function: str, relation: str, more: str | None = None) -> None:
    """A function of the edition, of a table by its oid."""
    rest = sql.SQL("") if more is None else sql.SQL(", {}").format(sql.Literal(more))
    target.run(
        sql.SQL("SELECT {}.{}({}::oid::regclass{})").format(
            sql.Identifier(after.schema), sql.Identifier(function), sql.Literal(relation), rest
        )
    )


def restore(target: Target, kept: state.State, after: Installed) -> None:
    """The state; the guards, to whose stamps it refers already; then the counts.

    Once for each table, as feed_rebase() reads all of it if its index is a BRIN index.
    """
    stamps = state.expected(target, kept, after.edition)
    for table in ("feed_table", "feed", "worker_batch", "counted_table", "gone_feed"):
        state.put(target, kept, after.schema, table, stamps)
    for relation in kept.relations("feed_table"):
        call(target, after, "feed_rebase", relation)
    if state.stamps(target) != stamps:
        raise InorderError("the guards are not as expected, so nothing was changed; HINT: feed_enable() for each table")
    restore_counts(target, kept, after, stamps)


def restore_counts(target: Target, kept: state.State, after: Installed, stamps: state.Stamps) -> None:
    """Stored numbers, where the role may write them; otherwise the rows are counted anew."""
    may = target.connection.execute("SELECT has_table_privilege('inorder_internal.count_part', 'INSERT')").fetchone()
    if may == (True,):
        state.put(target, kept, after.schema, "count_part", stamps)
        return
    for relation in kept.relations("counted_table"):
        call(target, after, "exact_count_fold", relation)
