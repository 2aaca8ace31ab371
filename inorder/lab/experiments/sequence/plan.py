"""What the sequence experiment runs: statements, where their value comes from, and its plan."""

from dataclasses import dataclass

from inorder.lab import setting
from inorder.lab.keys import SCHEMA
from inorder.lab.plan import Plan

SELECT = "select"
INSERT = "insert"
BULK = "bulk"  # one INSERT … SELECT
TABLE = f"{SCHEMA}.tb1"
STATEMENTS = {SELECT: "SELECT {value};\n", INSERT: f"INSERT INTO {TABLE} VALUES ({{value}});\n"}
CONSTANT = "constant"  # what the ratios are to: the same statement without nextval


@dataclass(frozen=True, kw_only=True)
class SequencePlan(Plan):
    """Six rounds in the short run, too, since fewer allow no difference; so fewer clients and sequences."""

    clients: tuple[int, ...] = setting.counts(
        "Sessions of pgbench, several comma-separated.", 1, 1000, (1, 10, 100), quick=(1, 10), sessions=True
    )
    caches: tuple[int, ...] = setting.counts(
        "CACHE of the sequences.", 1, 10**6, (1, 100, 1000), quick=(1, 100), flag="--cache"
    )
    rows: int = setting.count("Rows of one INSERT … SELECT.", 1000, 10**9, 100_000)
    seconds: int = setting.count(
        "Seconds of each measurement.", 1, setting.MOST_SECONDS, 2, quick=1, metavar=setting.SECONDS
    )
    rounds: int = setting.rounds(6, full=15)
    synchronous_commit: str = setting.synchronous_commit("on")
    threads: int = setting.threads()

    @property
    def kinds(self) -> tuple[str, ...]:
        return (CONSTANT, *map(kind_of, self.caches))


def kind_of(cache: int) -> str:
    return f"cache_{cache}"


def step_of(statement: str, clients: int) -> str:
    return f"{statement}_{clients}"


def value_of(kind: str) -> str:
    return "1" if kind == CONSTANT else f"nextval('{SCHEMA}.{kind}')"


def label(kind: str) -> str:
    return "1" if kind == CONSTANT else f"nextval, CACHE {kind.removeprefix('cache_')}"
