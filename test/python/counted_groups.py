"""A table whose rows are counted by group, and the difference between its view and GROUP BY."""

from collections.abc import Sequence

from inorder.connection.database import Connection

from world.sql import run, value

PLAIN = ("CREATE TABLE orders (id int PRIMARY KEY, status text, tenant int, note text)",)
PARTS = (
    "CREATE TABLE orders (id int PRIMARY KEY, status text, tenant int, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (-100) TO (100)",
    "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (100) TO (10000) PARTITION BY RANGE (id)",
    "CREATE TABLE high_1 PARTITION OF high FOR VALUES FROM (100) TO (150)",
    "CREATE TABLE high_2 PARTITION OF high FOR VALUES FROM (150) TO (10000)",
)
ROWS = "INSERT INTO orders SELECT n, 's' || nullif(n % 4, 0), n % 3, 'first' FROM generate_series(1, 200) AS n"
START = "SELECT exact_count_start('orders', by => '{status}')"
FOLD = "SELECT exact_count_fold('orders')"
GROUPS = "SELECT status, count(*) FROM orders GROUP BY status"
DIFFERENCE = "(TABLE {0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL TABLE {0})"
STANDS = """SELECT (
    SELECT f.proof = exact_count_proof('orders', 'orders_by_status_deltas', '{status}')
           AND NOT EXISTS (SELECT FROM orders_by_status_deltas AS d WHERE d.xact < '9223372036854775808'
                           AND d.proof IS DISTINCT FROM CASE c.relkind WHEN 'p' THEN split_part(f.proof, ' ', -1) END)
    FROM orders_by_status_deltas AS f JOIN pg_class AS c ON c.oid = 'orders'::regclass
    WHERE f.open IS NOT NULL AND f.proof IS NOT NULL ORDER BY f.xact DESC LIMIT 1)"""


def admit(connection: Connection, *names: str) -> None:
    """Let roles write, and read counts, which the SQL edition does not allow by default."""
    if value(connection, "SELECT to_regproc('feed_admit') IS NOT NULL"):
        run(connection, *(f"SELECT feed_admit('{name}', only_writes => true)" for name in names))


def difference(
    connection: Connection, view: str = "orders_by_status", groups: str = GROUPS
) -> list[tuple[object, ...]]:
    """Return the rows in which the view differs from a query with GROUP BY in the same snapshot."""
    return connection.execute(DIFFERENCE.format(view, groups).encode()).fetchall()


def stands(connection: Connection) -> bool:
    """Return True if the view reads the stored counts, and False if it counts the rows of the table."""
    return connection.execute(STANDS.encode()).fetchall() == [(True,)]


def start(connection: Connection, tables: Sequence[str] = PLAIN) -> None:
    run(connection, *tables, ROWS, START, FOLD)
    assert stands(connection) and difference(connection) == []
