"""Measure the cost of the masks in docs/mask.md: with a constant secret key, in a view, and in a function.

script/price --masks runs this program. The cost is the CPU time of the server process, minus that of a query that
counts the same number of keys without masking them. Each round runs every query once, in random order.
"""

import random
from functools import partial

from inorder.connection.database import connect
from inorder.installations import find_installation
from inorder.lab.analysis.stats import estimate
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster

from examples import blocks

ROWS = 20_000
SETTINGS = {"jit": "off", "max_parallel_workers_per_gather": "0", "autovacuum": "off"}
FLOOR = "no mask"
WORK = {
    FLOOR: "SELECT count(id) FROM customers",
    "uuid_mask, a constant": "SELECT count(uuid_mask(id, '\\x000102030405060708090a0b0c0d0e0f')) FROM customers",
    "the view": "SELECT count(mask) FROM customers_outside",
    "uuid_unmask, a constant": "SELECT count(uuid_unmask(r, '\\x000102030405060708090a0b0c0d0e0f')) FROM random",
    "unmasked": "SELECT count(unmasked(r, 1)) FROM random",
}


def example() -> str:
    """Return the statements that create the objects of the page, changed to insert more rows."""
    texts = [block.text for block in blocks("docs/mask.md") if "CREATE TABLE" in block.text]
    return "\n".join(texts).replace("generate_series(1, 1000)", f"generate_series(1, {ROWS})")


def print_masks(rounds: int) -> None:
    installation = find_installation()
    print(f"{installation.name}, {ROWS:,} rows, medians of {rounds} rounds: µs of CPU per row, minus {WORK[FLOOR]}")
    took: dict[str, list[float]] = {name: [] for name in WORK}
    with Cluster(installation) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            connection.execute(f"CREATE EXTENSION inorder; {example()}".encode())
            connection.execute(
                f"CREATE TABLE random AS SELECT gen_random_uuid() AS r FROM generate_series(1, {ROWS})".encode()
            )
            connection.execute("VACUUM ANALYZE")
            process = ServerProcess(connection)
            for _ in range(rounds):
                for name in random.sample(list(WORK), len(WORK)):
                    work = partial(connection.execute, WORK[name].encode())
                    took[name].append(process.timed(work)["cpu_seconds"])
    for name in [name for name in WORK if name != FLOOR]:
        above = [(seconds - floor) / ROWS * 1e6 for seconds, floor in zip(took[name], took[FLOOR], strict=True)]
        print(f"{name:26}{estimate(above).median:.2f}")
