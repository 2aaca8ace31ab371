"""The Spark data source: streams and batch reads between positions on a server.

Spark stores the offsets, and schedules and retries the partitions. A batch has the same rows whenever it is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from inorder.errors import InputError
from inorder.spark.columns import ddl
from inorder.spark.driver import Driver, Task
from inorder.spark.offsets import Offset
from inorder.spark.options import Options, parsed
from inorder.spark.rows import read
from inorder.spark.shards import ShardsDriver

IDLE_SECONDS = 0.1  # without a trigger, Spark polls a hundred times a second


@dataclass(frozen=True)
class Part(InputPartition):
    task: Task


def plan_of(options: Options) -> Driver:
    return ShardsDriver(options) if options.shards else Driver(options)


class InorderDataSource(DataSource):
    """The data source ``format("inorder")``. Register it with ``spark.dataSource.register(InorderDataSource)``."""

    @classmethod
    def name(cls) -> str:
        return "inorder"

    def schema(self) -> str:
        with plan_of(parsed(self.options)) as plan:
            return ddl(plan.fields())

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(parsed(self.options), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        return StreamReader(parsed(self.options), schema)


class Parts:
    def __init__(self, options: Options, schema: StructType) -> None:
        self.options, self.schema = options, schema

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for the executors, which do not plan."""
        return {"options": self.options, "schema": self.schema}

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Part):
            return  # Spark creates an empty partition for an empty batch
        task, dsn = partition.task, self.options.read.dsn()
        names = {field.name: field.dataType.simpleString() for field in self.schema.fields}
        yield from read(dsn if task.node is None else task.node.dsn(dsn), task, names, self.options.wait)


class BatchReader(Parts, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        with plan_of(self.options) as plan:
            start = plan.start()
            return [Part(task) for task in plan.tasks(start, plan.end(start))]


class StreamReader(Parts, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.end is not None:
            raise InputError("the option end is for spark.read: a stream has no end")
        self.plan = plan_of(options)
        self.last: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        self.last = self.plan.start()
        return self.last

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.max_rows is None else ReadMaxRows(self.options.max_rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        max_rows = getattr(limit, "max_rows", None)
        self.last = self.plan.next(start, max_rows, 0 if self.plan.targets else IDLE_SECONDS)
        return self.last

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return the backlog of the server, or of each shard. Spark shows it as latestOffset in the query progress."""
        return None if self.last is None else self.plan.backlog(self.last)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [Part(task) for task in self.plan.tasks(start, end)]

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.plan.stop_here()

    def commit(self, end: Offset) -> None:
        """Do nothing: Spark stores the offset."""

    def stop(self) -> None:
        self.plan.close()
