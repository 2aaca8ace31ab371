"""A pgbench run: its command line, progress and output."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from inorder.errors import InorderError, on_error

PROGRESS = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps")
FACTS = {
    "transactions": re.compile(r"^number of transactions actually processed: (\d+)", re.M),
    "failed": re.compile(r"^number of failed transactions: (\d+)", re.M),
    "latency_ms": re.compile(r"^latency average = ([\d.]+) ms", re.M),
    "tps": re.compile(r"^tps = ([\d.]+) \(without initial connection time\)", re.M),
}
STATEMENT = re.compile(r"^ +([\d.]+) +\d+ +\S", re.M)  # a line of the report by statement: latency, failures, statement

# The latency of one transaction in ten is logged, because logging all latencies would add to the load.
SAMPLED = 0.1
PERCENTILES = {"p50_ms": 50.0, "p90_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0, "p99_9_ms": 99.9}


@dataclass(frozen=True)
class Load:
    """A pgbench load, limited by its duration in seconds, or by the number of transactions per client.

    ``rate``: transactions per second of all clients together.
    """

    clients: int
    threads: int
    seconds: int | None = None
    transactions: int | None = None
    protocol: str = "prepared"
    rate: int | None = None

    def arguments(self) -> list[str]:
        """Return the load as pgbench options.

        >>> Load(8, 2, seconds=3).arguments()
        ['-M', 'prepared', '-c', '8', '-j', '2', '-T', '3']
        >>> Load(8, 2, transactions=1000, protocol="simple").arguments()
        ['-M', 'simple', '-c', '8', '-j', '2', '-t', '1000']
        >>> Load(8, 2, seconds=3, rate=1000).arguments()[-2:]
        ['-R', '1000']
        """
        length = ["-T", str(self.seconds)] if self.transactions is None else ["-t", str(self.transactions)]
        threads = str(min(self.threads, self.clients))
        rate = [] if self.rate is None else ["-R", str(self.rate)]
        return ["-M", self.protocol, "-c", str(self.clients), "-j", threads, *length, *rate]


@dataclass(frozen=True)
class PgbenchResult:
    transactions: int
    tps: float
    latency_ms: float
    tps_by_second: tuple[float, ...]
    statements_ms: tuple[float, ...] = ()
    percentiles_ms: dict[str, float] = field(default_factory=dict)

    def times(self, rows: int) -> "PgbenchResult":
        """Return the result in rows, for transactions of ``rows`` rows. Latencies still refer to transactions."""
        tps = tuple(tps * rows for tps in self.tps_by_second)
        return replace(self, transactions=self.transactions * rows, tps=self.tps * rows, tps_by_second=tps)


def parse(report: str, progress: Sequence[float]) -> PgbenchResult:
    facts = {}
    for name, pattern in FACTS.items():
        match = pattern.search(report)
        if match is None:
            raise InorderError(f"pgbench reported no {name}:\n{report}")
        facts[name] = match.group(1)
    if int(facts["failed"]) > 0:
        raise InorderError(f"pgbench reported {facts['failed']} failed transactions:\n{report}")
    statements = tuple(float(latency) for latency in STATEMENT.findall(report))
    return PgbenchResult(
        int(facts["transactions"]), float(facts["tps"]), float(facts["latency_ms"]), tuple(progress), statements
    )


def progress_of(line: str) -> tuple[float, float] | None:
    match = PROGRESS.match(line)
    return (float(match.group(1)), float(match.group(2))) if match else None


def run(
    program: Path, script: Path, load: Load, seed: int, environment: Mapping[str, str],
    on_progress: Callable[[float], None] = lambda _tps: None,
    by_statement: bool = False, log: Path | None = None, database: str = "",
) -> PgbenchResult:  # fmt: skip
    """Run pgbench, and kill it after an error.

    ``database``: "" for libpq's default. ``log``: a prefix of file names.
    """
    command = [str(program), "-n", "-P", "1", f"--random-seed={seed}", "-f", str(script)]
    command += ["-r"] if by_statement else []
    if log is not None:
        command += ["-l", f"--sampling-rate={SAMPLED}", f"--log-prefix={log}"]
    command += [*load.arguments(), *([database] if database else [])]
    # The report contains the script, and may be larger than the buffer of a pipe.
    with TemporaryFile("w+", encoding="utf-8") as report:
        piped = subprocess.Popen(command, env=dict(environment), text=True, stdout=report, stderr=subprocess.PIPE)
        with piped as process, on_error(process.kill):
            progress = follow(process, on_progress)
        report.seek(0)
        result = parse(report.read(), progress)
    if result.transactions == 0:
        raise InorderError(f"pgbench completed no transaction of {script.name}")
    return result if log is None else replace(result, percentiles_ms=take_percentiles(log))


def follow(process: subprocess.Popen[str], on_progress: Callable[[float], None]) -> list[float]:
    """Collect the TPS of each second until pgbench exits. Raise InorderError if pgbench fails."""
    assert process.stderr
    progress, messages = [], []
    for line in process.stderr:
        sample = progress_of(line)
        if sample:
            progress.append(sample[1])
            on_progress(sample[1])
        else:
            messages.append(line)
    if process.wait() != 0:
        raise InorderError(f"pgbench ended with status {process.returncode}:\n{''.join(messages)}")
    return progress


def insert_script(script: Path, table: str, rows: int = 1) -> Path:
    source = "DEFAULT VALUES" if rows == 1 else f"SELECT FROM generate_series(1, {rows})"
    script.write_text(f"INSERT INTO {table} {source};\n", encoding="utf-8")
    return script


def take_percentiles(log: Path) -> dict[str, float]:
    latencies = []
    for file in sorted(log.parent.glob(f"{log.name}.*")):
        latencies += [int(line.split()[2]) for line in file.read_text(encoding="ascii").splitlines()]
        file.unlink()
    return percentiles(latencies)


def percentiles(microseconds: Sequence[int]) -> dict[str, float]:
    """Return the percentiles p50 to p99.9 in milliseconds, except those with less than one value above them.

    Percentiles of 0 are left out, too. pgbench reads its clock once for several steps (pg_time_now_lazy in pgbench.c),
    so that a transaction that is answered in the meantime has a latency of 0. On a fast machine, these were more than
    half of the transactions.

    >>> percentiles(range(1, 101))
    {'p50_ms': 0.0505, 'p90_ms': 0.0901, 'p95_ms': 0.09505, 'p99_ms': 0.09901}
    >>> percentiles([]), percentiles([0] * 50 + [9] * 50)
    ({}, {'p90_ms': 0.009, 'p95_ms': 0.009, 'p99_ms': 0.009})
    """
    untimed = 100 * sum(value == 0 for value in microseconds) / max(1, len(microseconds))
    percents = {
        name: percent
        for name, percent in PERCENTILES.items()
        if percent > untimed and len(microseconds) * (100 - percent) >= 100
    }
    return {name: round(float(np.percentile(microseconds, percent)) / 1000, 6) for name, percent in percents.items()}
