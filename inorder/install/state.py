"""The state of feeds and counts, taken from one edition and put into another.

Rows are carried as text, since types have other oids afterwards. What the guard's triggers say of themselves, the
transactions that made them, is in positions, batches and counts: nobody could write to the tables meanwhile, so the
stamps of the new guard take the place of those of the old one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from inorder.install.offer import C
from inorder.install.target import Target

Rows = list[dict[str, str | None]]
Stamps = Mapping[str, Sequence[int]]
TABLES = ("feed_table", "feed", "worker_batch", "counted_table", "count_part", "gone_feed")
TABLE_COLUMNS = ("relation", "part")

# A position or batch, with the members at one place, under the new stamps.
MEMBERS = """
CASE WHEN ({value}).members IS NULL THEN NULL ELSE ARRAY(
    SELECT ROW(m.relation, m.name, m.system, m.attached,
               CASE WHEN array_to_string(m.guarded, '/') ~ ('^' || ({map} -> m.relation::text ->> 0) || '$')
                    THEN ARRAY(SELECT e.value::bigint FROM jsonb_array_elements_text({map} -> m.relation::text -> 1)
                                    WITH ORDINALITY AS e(value, place) ORDER BY e.place)
                    ELSE m.guarded END, m.ordered_by)::{schema}.feed_member
    FROM unnest(({value}).members) WITH ORDINALITY AS m(relation, name, system, attached, guarded, ordered_by, place)
    ORDER BY m.place) END
"""
POSITION = """
ROW(({value}).transactions, ({value}).partial, ({value}).last_key, {members}, ({value}).origin)::{schema}.feed_position
"""
BATCH = """
CASE WHEN {value} IS NULL THEN NULL ELSE
ROW(({value}).transactions, ({value}).resumed, ({value}).resumed_after, ({value}).cut, ({value}).cut_after, {members},
    ({value}).origin)::{schema}.feed_batch END
"""
# The end of storage() is the stamps of the part.
STORAGE = """
coalesce(regexp_replace({value}, '(?<=[ /])' || ({map} -> {part}::oid::text ->> 0) || '$', (
    SELECT string_agg(e.value, '/' ORDER BY e.place)
    FROM jsonb_array_elements_text({map} -> {part}::oid::text -> 1) WITH ORDINALITY AS e(value, place))), {value})
"""
RENEWED = {"feed_position": POSITION, "feed_batch": BATCH}


@dataclass(frozen=True)
class State:
    """What the tables of the state have, and the stamps of the guards at that time."""

    rows: dict[str, Rows]
    stamps: Stamps
    placed: Stamps  # as feeds may know them that have not moved since
    generated: frozenset[str]  # of these the tables whose numbers are generated

    def relations(self, table: str) -> list[str]:
        """The tables that a table of the state names, by oid."""
        return sorted({str(row["relation"]) for row in self.rows[table]}, key=int)


def stamps(target: Target, form: str = "stamps") -> Stamps:
    """Of each table and partition that has a guard, by oid."""
    return {row["relation"]: row[form] for row in target.rows("install_stamps")}


def expected(target: Target, state: State, edition: str) -> Stamps:
    """The stamps of guards that this transaction will make: it made each of their triggers, of which C has one less.

    It changes no expression; one that it has dropped is no longer there.
    """
    row = target.connection.execute("SELECT pg_current_xact_id()::xid::text::bigint").fetchone()
    assert row is not None
    xid = int(str(row[0]))
    triggers = [xid] * (2 if edition == C else 3)
    return {name: [*triggers, *(old[-1:] if name in state.generated else [])] for name, old in state.stamps.items()}


def columns(target: Target, table: str) -> dict[str, str]:
    """Name and type."""
    return {row["name"]: row["type"] for row in target.rows("install_state_columns", table=table)}


def take(target: Target, keeps_expressions: bool) -> State:
    """The state of the edition that is there; the tables are locked. That of dropped tables is left out."""
    # Their numbers stay.
    target.run("DELETE FROM inorder_internal.feed WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation)")
    found = {}
    generated = frozenset(
        row["relation"] for row in target.rows("install_stamps") if row["is_generated"] and keeps_expressions
    )
    for table in TABLES:
        # A table by its oid, and anything else as it is written.
        shown = [sql.SQL("{0}::oid::text" if name in TABLE_COLUMNS else "{0}::text").format(sql.Identifier(name))
                 for name in columns(target, table)]  # fmt: skip
        names = list(columns(target, table))
        exists = "EXISTS (SELECT FROM pg_class AS c WHERE c.oid = s.relation)" if "relation" in names else "true"
        statement = sql.SQL("SELECT {} FROM inorder_internal.{} AS s WHERE {}").format(
            sql.SQL(", ").join(shown), sql.Identifier(table), sql.SQL(exists)
        )
        rows = target.connection.execute(statement).fetchall()
        found[table] = [dict(zip(names, [None if v is None else str(v) for v in row], strict=True)) for row in rows]
    return State(found, stamps(target), stamps(target, "placed"), generated)


def put(target: Target, state: State, schema: str, table: str, now: Stamps) -> None:
    """The rows of one table of the state, under the stamps that the guards have now, or will have."""
    types = columns(target, table)
    pairs = stamp_pairs(state, now)
    for row in state.rows[table]:
        given = {name: text for name, text in row.items() if name in types}
        statement = sql.SQL("INSERT INTO inorder_internal.{} ({}) VALUES ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, given)),
            sql.SQL(", ").join(value(name, types[name], schema) for name in given),
        )
        target.connection.execute(statement, given | {"map": pairs})


def value(name: str, kind: str, schema: str) -> sql.Composable:
    """The expression for a column. A parameter is read by the input function of its type, not by a cast of ours."""
    by_oid = "oid::regclass::" if name in TABLE_COLUMNS else ""
    typed = sql.SQL("{}::{}{}").format(sql.Placeholder(name), sql.SQL(by_oid), sql.SQL(kind))
    if name == "storage":
        return sql.SQL(STORAGE).format(value=typed, map=stamp_map(), part=sql.Placeholder("part"))
    name = kind.rpartition(".")[2]
    return renewed(sql.SQL("({})").format(typed), name, schema, sql.Placeholder("map")) if name in RENEWED else typed


def renewed(given: sql.Composable, kind: str, schema: str, pairs: sql.Composable) -> sql.Composable:
    """The expression for a position or batch under the new stamps."""
    parts = {"value": given, "schema": sql.Identifier(schema), "map": sql.SQL("{}::jsonb").format(pairs)}
    return sql.SQL(RENEWED[kind]).format(members=sql.SQL(MEMBERS).format(**parts), **parts)


def renew_column(
    target: Target, state: State, schema: str, table: sql.SQL, column: str, kind: str, now: Stamps
) -> None:  # fmt: skip
    """The same in a column of a table of the user's."""
    name = sql.Identifier(column)
    statement = sql.SQL("UPDATE {0} SET {1} = {2} WHERE {1} IS DISTINCT FROM NULL")
    # Without parameters: a name may have a percent sign.
    target.run(statement.format(table, name, renewed(name, kind, schema, sql.Literal(stamp_pairs(state, now)))))


def stamp_pairs(state: State, now: Stamps) -> str:
    """By table the expression that finds the old stamps, separated by slashes, and the new ones, as JSON."""
    found = {
        name: "/".join(f"(?:{one}|{placed})" for one, placed in zip(old, state.placed[name], strict=True))
        for name, old in state.stamps.items()
    }
    return json.dumps({name: [pattern, list(now[name])] for name, pattern in found.items() if name in now})


def stamp_map() -> sql.Composable:
    """Old and new stamps by table."""
    return sql.SQL("{}::jsonb").format(sql.Placeholder("map"))
