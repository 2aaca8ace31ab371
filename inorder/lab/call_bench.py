"""What the generators experiment does, done to a server."""

from inorder.cluster import Cluster
from inorder.lab.experiments.generators import CALLS, FLOOR, SERVER_CALLS
from inorder.lab.keys import SCHEMA
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.throw_away import Bench, place_of

CALL_SETTINGS = {
    "shared_buffers": "1GB",
    "fsync": "off",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}
SESSION_SETTINGS = {
    "max_parallel_workers_per_gather": "0",
    "enable_mergejoin": "off",
    "enable_nestloop": "off",
}
WORK_MEM, OWN_WORK_MEM = "2GB", "256MB"  # enough for a million values; the user's server has other work, too

SETUP = (
    f"CREATE SEQUENCE {SCHEMA}.cached CACHE 100",
    f"CREATE TABLE {SCHEMA}.number_keys (id bigint PRIMARY KEY)",
    f"CREATE TABLE {SCHEMA}.uuid_keys (id uuid PRIMARY KEY)",
)
# These two are not part of the extension's SQL; declaring them needs the superuser of a throw-away server.
C_FUNCTIONS = (
    "CREATE FUNCTION pg_temp.uuid_call_floor() RETURNS uuid AS '$libdir/inorder' LANGUAGE C VOLATILE STRICT",
    "CREATE FUNCTION pg_temp.repeat_text_io(regtype, text, int, boolean) RETURNS void "
    "AS '$libdir/inorder' LANGUAGE C VOLATILE STRICT",
)
# Where they may not be declared: a function of the server's that has no argument and does next to nothing.
OWN_FLOOR = "pg_backend_pid()"

QUERIES = {
    "sort": "SELECT id FROM {table} ORDER BY id OFFSET {values}",
    "group": "SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id) AS g",
    "join": "SELECT count(*) FROM {table} AS a JOIN {table} AS b USING (id)",
}
EXAMPLE = "fb2893ae-9265-11e8-90d8-e03f496e733b"


class CallBench(Bench):
    """A GeneratorsBench over a throw-away server or the user's own: one session does everything."""

    def __init__(self, server: Cluster | Place) -> None:
        self.place = place_of(server)
        self.shuffled = 0
        self.place.serve(CALL_SETTINGS)
        own = self.place.cluster is None
        self.connection = self.place.connect(**SESSION_SETTINGS, work_mem=OWN_WORK_MEM if own else WORK_MEM)
        self.major = self.connection.info.server_version // 10000
        self.floor = {FLOOR: OWN_FLOOR} if own else {}
        self.place.create_extensions(self.connection)
        self.place.create_schema(self.connection)
        for statement in SETUP if own else (*SETUP, *C_FUNCTIONS):
            self.connection.execute(statement.encode())

    def close(self) -> None:
        """End the session."""
        self.connection.close()

    def calls(self) -> dict[str, str]:
        """The extension's generators, and the server's own where it has them."""
        own = {name: expression for name, (expression, since) in SERVER_CALLS.items() if self.major >= since}
        return {name: expression.format(schema=SCHEMA) for name, expression in (CALLS | self.floor).items()} | own

    def call(self, expression: str, values: int) -> dict[str, float]:
        """Evaluate it once a row; count() of it costs the same for every one."""
        return self.timed(f"SELECT count({expression}) FROM generate_series(1, {values})")

    def task(self, name: str, values: int) -> dict[str, float]:
        """Call a type's input or output function in a loop inside the server, or sort, group or join its values."""
        type_name, task = name.split()
        if task in ("in", "out"):
            arguments = f"'{type_name}', '{EXAMPLE}', {values // 1000}, {task == 'out'}"
            return self.timed(f"SELECT pg_temp.repeat_text_io({arguments})")
        self.shuffle(values)
        self.connection.execute(f"SET enable_sort = {task == 'sort'}".encode())
        measured = self.timed(QUERIES[task].format(table=f"{SCHEMA}.shuffled_{type_name}", values=values))
        self.connection.execute("RESET enable_sort")
        return measured

    def shuffle(self, values: int) -> None:
        """The same version-1 values in the same random order, a table for each type; made once."""
        if self.shuffled == values:
            return
        self.connection.execute(f"DROP TABLE IF EXISTS {SCHEMA}.shuffled_uuid_v1, {SCHEMA}.shuffled_uuid".encode())
        keys = f"SELECT uuid_v1_nextval() AS id FROM generate_series(1, {values})"
        for statement in (
            f"CREATE TABLE {SCHEMA}.shuffled_uuid_v1 AS SELECT id FROM ({keys} OFFSET 0) AS k ORDER BY md5(id::text)",
            f"CREATE TABLE {SCHEMA}.shuffled_uuid AS SELECT id::uuid FROM {SCHEMA}.shuffled_uuid_v1",
            f"VACUUM ANALYZE {SCHEMA}.shuffled_uuid_v1",
            f"VACUUM ANALYZE {SCHEMA}.shuffled_uuid",
        ):
            self.connection.execute(statement.encode())
        self.shuffled = values

    def insert(self, expression: str, rows: int) -> dict[str, float]:
        """Insert into an empty table with a primary key, just after a checkpoint."""
        table = f"{SCHEMA}.{'number' if expression.startswith('nextval') else 'uuid'}_keys"
        self.connection.execute(f"TRUNCATE {table}".encode())
        self.place.checkpoint(self.connection)
        return self.timed(f"INSERT INTO {table} SELECT {expression} FROM generate_series(1, {rows})")

    def timed(self, statement: str) -> dict[str, float]:
        """Wall-clock seconds, and CPU seconds of the server process, which a busy machine disturbs less, if seen."""
        return self.place.timed(self.connection, lambda: self.connection.execute(statement.encode()))
