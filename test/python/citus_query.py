"""A stand-in for Spark that makes Spark's calls for the shards of a distributed table."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inorder.connection.database import Connection
from inorder.spark.offsets import Offset
from inorder.spark.options import parsed
from inorder.spark.shards import ShardsDriver

from citus_nodes import Nodes, prepare

NEEDED = "the extra 'spark' is not installed: script/engines installs it"
rows = pytest.importorskip("inorder.spark.rows", reason=NEEDED)

COLUMNS = {"tenant": "int", "n": "string"}
INSERT = "INSERT INTO {} (tenant, n) SELECT g, %s || g FROM generate_series(1, 200) AS g"


class Query:
    def __init__(self, nodes: Nodes, table: str) -> None:
        self.options = parsed({"dsn": nodes.dsn, "table": table, "shards": "true", "parts": "2"})
        self.table = table
        self.plan = ShardsDriver(self.options)
        self.offsets = [self.plan.start()]
        self.columns = COLUMNS

    def restart(self) -> None:
        self.plan.close()
        self.plan = ShardsDriver(self.options)
        self.offsets = json.loads(json.dumps(self.offsets))

    def batch(self, start: Offset, end: Offset) -> Counter[str]:
        values = Counter[str]()
        for task in self.plan.tasks(start, end):
            assert task.node is not None
            for batch in rows.read(task.node.dsn(self.options.read.dsn()), task, self.columns, 60):
                values.update(batch["n"].to_pylist())
        return values

    def run(self, max_rows: int | None = 150) -> None:
        while (after := self.plan.next(self.offsets[-1], max_rows)) != self.offsets[-1]:
            self.offsets.append(after)

    def delivered(self) -> Counter[str]:
        return sum((self.batch(*ends) for ends in itertools.pairwise(self.offsets)), Counter[str]())


@contextmanager
def query_of(nodes: Nodes, table: str, folder: Path) -> Iterator[Query]:
    prepare(nodes, folder, table)
    query = Query(nodes, table)
    try:
        yield query
    finally:
        query.plan.close()


def places(coordinator: Connection, table: str) -> set[str]:
    rows = coordinator.execute(
        "SELECT s.shardid, p.groupid FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) "
        "WHERE s.logicalrelid = %s::regclass",
        [table],
    )
    return {f"{number}@{group}" for number, group in rows}
