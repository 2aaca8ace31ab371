"""Tables that are changed after pg_upgrade and before their feeds are read. The next read notices each change."""

from inorder.connection.database import Connection

from ground import FORGED, GROUND, SWITCH, state
from world.sql import run, value

OFF, ON = SWITCH.replace("{1}", "DISABLE"), SWITCH.replace("{1}", "ENABLE ALWAYS")
DROP = SWITCH.replace("'ALTER TABLE {0} {1} TRIGGER %I', g", "'DROP TRIGGER %I ON {0}', g")
OUT, IN = "ALTER TABLE {0} DETACH PARTITION {0}_1", "ALTER TABLE {0} ATTACH PARTITION {0}_1 FOR VALUES IN (1)"
CHANGES = {
    "nothing": (),
    "guard": (OFF, f"INSERT INTO {{0}} {FORGED}", ON),
    "part_guard": (OFF.replace("{0}", "{0}_1"), f"INSERT INTO {{0}}_1 {FORGED}", ON.replace("{0}", "{0}_1")),
    "made_again": (DROP, f"INSERT INTO {{0}} {FORGED}", "SELECT feed_enable('{0}'), feed_enable('{0}')"),
    "attached": (OUT, f"INSERT INTO {{0}}_1 {FORGED}", IN),
    "moved": ("BEGIN", OUT, f"INSERT INTO {{0}}_1 {FORGED}", IN, "COMMIT", "ALTER TABLE {0}_1 RENAME TO {0}_x",
              "ALTER TABLE {0}_x RENAME TO {0}_1"),
}  # fmt: skip
MADE = (
    "CREATE TABLE {0} (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
    "CREATE TABLE {0}_1 PARTITION OF {0} FOR VALUES IN (1)", "CREATE TABLE {0}_2 PARTITION OF {0} FOR VALUES IN (2)",
    "SELECT feed_create('{0}', '{0}'), feed_create('{0}_work', '{0}'), feed_create('{0}_now', '{0}', 'now')",
)  # fmt: skip
INSERT = "INSERT INTO {0} (n) SELECT 1 + i % 2 FROM generate_series(1, 6) AS i"
READS = (
    "SELECT count(*) FROM feed_read('{0}', null::{0})", "SELECT (feed_take_batch('{0}_now', 'w')).number",
    "SELECT * FROM feed_take_batch('{0}_work', 'me')",
)  # fmt: skip
FINISH = "SELECT feed_finish_batch('{0}_work', b.number, b.token) FROM feed_take_batch('{0}_work', 'me') AS b"


def make(connection: Connection) -> None:
    for name in CHANGES:
        run(connection, *(statement.format(name) for statement in (*MADE, INSERT, READS[0], FINISH)))


def check(connection: Connection) -> None:
    for name, changes in CHANGES.items():
        run(connection, *(change.replace("{0}", name) for change in changes), INSERT.format(name))
        states = {read: state(connection, read.format(name)) for read in READS}
        assert states == dict.fromkeys(READS, "" if name == "nothing" else GROUND), (name, states)
        assert value(connection, f"SELECT count(*) FROM {name}") == (12 if name == "nothing" else 17)
    run(connection, INSERT.format("nothing"))
    assert value(connection, READS[0].format("nothing")) == 6
    run(connection, "SELECT feed_seek('guard', 'here')", INSERT.format("guard"))
    assert value(connection, READS[0].format("guard")) == 12
