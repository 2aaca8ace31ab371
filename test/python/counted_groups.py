"""A table that is counted by group, and in what its view is not GROUP BY."""

from inorder.connection.database import Connection

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


def difference(
    connection: Connection, view: str = "orders_by_status", groups: str = GROUPS
) -> list[tuple[object, ...]]:
    """In what the view is not GROUP BY, in one snapshot."""
    return connection.execute(DIFFERENCE.format(view, groups).encode()).fetchall()
