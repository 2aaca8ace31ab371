"""A condition that holds for all rows of a partition lets readers without rights on partitions read the table."""

import pytest
from inorder.connection.database import Connection

from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

# For each tree: the type of the column, the partition key, the bounds of the partitions, and the values of the rows.
# Each partition is itself partitioned by n.
TREES = {
    "range": ("int", "RANGE (v)", ("FROM (MINVALUE) TO (10)", "FROM (10) TO (20)", "FROM (20) TO (MAXVALUE)"),
              "generate_series(-5, 40)"),
    "default": ("int", "RANGE (v)", ("FROM (0) TO (10)", "FROM (10) TO (20)", ""), "generate_series(-5, 40)"),
    "list": ("text", "LIST (v)", ("IN ('it''s', 'b')", "IN (NULL, '\\')", "IN ('c')"),
             "unnest(ARRAY['it''s', 'b', NULL, '\\', 'c'])"),
    "times": ("timestamptz", "RANGE (v)", ("FROM ('2024-01-01') TO ('2024-01-02')",
              "FROM ('2024-01-02') TO ('infinity')"),
              "generate_series('2024-01-01', '2024-01-03', interval '1 hour')"),
    "two columns": ("int", "RANGE (v, n)", ("FROM (0, 0) TO (10, 0)", "FROM (10, 0) TO (10, 2)",
                    "FROM (10, 2) TO (99, 0)"),
                    "generate_series(0, 40)"),
    "a type of others": ("kind", "LIST (v)", ("IN ('x')", "IN ('y')"), "unnest('{x,y}'::kind[])"),
    "hash": ("int", "HASH (v)", ("WITH (MODULUS 2, REMAINDER 0)", "WITH (MODULUS 2, REMAINDER 1)"),
             "generate_series(0, 9)"),
    "an expression": ("int", "LIST ((v % 2))", ("IN (0)", "IN (1)"), "generate_series(0, 9)"),
}  # fmt: skip
PLAIN = ("range", "list", "times")
BOUNDS = "SELECT inorder_internal.partition_bounds('t', '{}')"
SCANNED = "EXPLAIN SELECT FROM t AS e WHERE {}"


@pytest.mark.parametrize("name", TREES)
def test_all_rows_of_a_partition_are_within_its_bounds(fresh: Connection, name: str) -> None:
    kind, key, bounds, values = TREES[name]
    run(fresh, "CREATE TYPE kind AS ENUM ('x', 'y')", "SET datestyle = 'German'", "SET timezone = 'Asia/Kathmandu'",
        f"CREATE TABLE t (v {kind}, n int) PARTITION BY {key}")  # fmt: skip
    for number, bound in enumerate(bounds):
        run(fresh, f"CREATE TABLE t_{number} PARTITION OF t {f'FOR VALUES {bound}' if bound else 'DEFAULT'} "
                   f"PARTITION BY LIST (n)", f"CREATE TABLE t_{number}_1 PARTITION OF t_{number} FOR VALUES IN (1)",
            f"CREATE TABLE t_{number}_2 PARTITION OF t_{number} DEFAULT")  # fmt: skip
    run(fresh, f"INSERT INTO t SELECT v, n FROM {values} AS v, generate_series(0, 2) AS n")
    for leaf in (f"t_{number}_{below}" for number in range(len(bounds)) for below in (1, 2)):
        condition = str(value(fresh, BOUNDS.format(leaf)))
        within = f"SELECT count(*) FROM t AS e WHERE ({condition}) AND e.tableoid = '{leaf}'::regclass"
        assert value(fresh, within) == value(fresh, f"SELECT count(*) FROM {leaf}") != 0, (leaf, condition)
        scanned = [row[0] for row in fresh.execute(SCANNED.format(condition).encode()) if "Seq Scan" in str(row[0])]
        if name in PLAIN and leaf.endswith("_1"):
            assert len(scanned) == 1, (leaf, condition)
