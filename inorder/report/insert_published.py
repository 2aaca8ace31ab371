"""The published figures of studies P1 and P3 beside those of the insert experiment; what was not run is empty."""

from collections.abc import Mapping, Sequence

from inorder.lab.compare import unpaired_ratio
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.lab.stats import Estimate, paired_ratio
from inorder.report import published
from inorder.report.insert_details import median_of
from inorder.report.section import Column, Section, Value, number, ratio, text
from inorder.report.summary import hit_percent, per_insert

NOT_RUN = "Empty: not run. inorder lab run insert --full runs all of it."
SMALLEST = 10_000  # rows that may stand beside a study's empty table


def paired(runs: Sequence[Run], base: Sequence[Run]) -> Estimate | None:
    """The ratio of TPS, within rounds; None where one of the two was not run."""
    speeds = {run.round: per_insert(run, "tps") for run in runs}
    bases = {run.round: per_insert(run, "tps") for run in base}
    common = sorted(speeds.keys() & bases.keys())
    return paired_ratio([speeds[n] for n in common], [bases[n] for n in common]) if common else None


KEYS = (
    Column("key", "Kind of key of the table."),
    Column("rows", f"Rows in the table; beside the study's 0 the smallest here, if that is at most {SMALLEST:,}."),
    Column("published", "TPS of study P1: 8 clients, a spinning disk.", number()),
    Column("vs int8", "Their ratio to those of the sequence (int8).", number(2)),
    Column("here", "TPS here.", number()),
    Column("vs bigint", "Their ratio to those of bigint in the same round.", ratio),
    Column("busy published", "Share of the time in which the study's device was busy.", number(1, "%")),
    Column("busy", "Of the device here (/proc/diskstats).", number(1, "%")),
    Column("await published", "Milliseconds that a request to the study's device took.", number(2, "ms")),
    Column("await", "To the device here (/proc/diskstats).", number(2, "ms")),
)


def keys_section(result: Result) -> Section:
    """TPS by key and rows, with a primary key, and what the device did."""
    smallest = min(result.plan["rows"])
    table: list[list[Value]] = []
    for kind, by_rows in published.INSERT_TPS.items():
        for rows, tps in by_rows.items():
            here = rows or (smallest if smallest <= SMALLEST else -1)
            runs, base = (result.select("insert", one, here) for one in (kind, "bigint"))
            busy, wait = published.INSERT_DEVICE[kind][rows]
            table.append([
                KEY_KINDS[kind].label, f"{rows:,}", tps, tps / published.INSERT_TPS["bigint"][rows],
                median_of(runs, "tps"), None if kind == "bigint" else paired(runs, base),
                busy, median_of(runs, "device_busy_percent"), wait, median_of(runs, "device_await_ms"),
            ])  # fmt: skip
    title = "Beside study P1: TPS with a primary key, UUIDs as char(32)"
    return Section("published_keys", title, KEYS, table, " ".join([NOT_RUN, *faster_device(table)]), data=False)


def faster_device(table: Sequence[Sequence[Value]]) -> list[str]:
    """Why random keys lose less here than in the study, if they do, with the most rows measured: as likely as told."""
    label = KEY_KINDS["random_char"].label
    measured = [row for row in table if row[0] == label and row[1] != "0" and isinstance(row[5], Estimate)]
    if not measured:
        return []
    _, rows, _, share, _, here, _, _, published_wait, wait = measured[-1]
    assert isinstance(here, Estimate) and isinstance(share, float)
    if here.low is None or here.low <= share:
        return []
    told = f"With {rows} rows random keys keep {here.median:.2f} of bigint's speed, in the study {share:.2f}"
    if isinstance(wait, Estimate):
        told += f": a request took its disk {published_wait} ms, the device here {wait.median:.2f} ms"
    return [f"{told}."]


INDEXES = (
    Column("key", "Kind of key, and of index where it is no primary key."),
    Column("published", "TPS of study P1 at 10 M rows.", number()),
    Column("ratio published", "Their ratio to random UUIDs with a primary key; without an index to int8.", number(2)),
    Column("here", "TPS here, at 10 M rows.", number()),
    Column("ratio", "The same ratio here, in the same round.", ratio),
)


def indexes_section(result: Result) -> Section:
    """TPS by kind of index; and of each key without one, where the study found no difference."""
    title = "Beside study P1: TPS by kind of index, 10 M rows"
    table = [
        *index_rows(result, published.INSERT_INDEX_TPS, "random_char"),
        *index_rows(result, published.INSERT_NO_INDEX_TPS, "bigint_none"),
    ]
    return Section("published_indexes", title, INDEXES, table, NOT_RUN, data=False)


def index_rows(result: Result, figures: Mapping[str, float], baseline: str) -> list[list[Value]]:
    """Lines of INDEXES, with ratios to one of them."""
    base = result.select("insert", baseline, 10_000_000)
    table: list[list[Value]] = []
    for kind, tps in figures.items():
        runs = result.select("insert", kind, 10_000_000)
        table.append([
            KEY_KINDS[kind].label, tps, tps / figures[baseline], median_of(runs, "tps"),
            None if kind == baseline else paired(runs, base),
        ])  # fmt: skip
    return table


GENERATORS = (
    Column("key", "Kind of key of the table."),
    Column("rows", "Which of the study's tables: medium fits into memory but not into shared buffers, large does not."),
    Column("published", "TPS of study P3 as a share of those in its small table.", number(2)),
    Column(
        "here",
        "TPS here as a share of those in the smallest table, which was measured at another time: of every two "
        "rounds, not paired (Hodges-Lehmann).",
        ratio,
    ),
    Column("WAL published", "GB of WAL that the study's run of 4 hours wrote, at its TPS.", number(1, "GB")),
    Column("WAL/row", "Bytes of WAL per inserted row here.", number(0, "B")),
    Column("hits published", "The study's share of shared-buffer hits.", number(0, "%")),
    Column("hits", "Share of index blocks found in shared buffers here.", number(0, "%")),
    Column("blocks published", "The study's distinct blocks of the index in the WAL, relative to random keys.", text),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed here.", number(1)),
)


def generators_section(result: Result) -> Section:
    """From a small to a medium and a large table, by generator; the middle and the largest of the sizes here."""
    sizes = sorted(result.plan["rows"])
    places = {"medium": sizes[len(sizes) // 2] if len(sizes) > 2 else -1, "large": sizes[-1] if len(sizes) > 1 else -1}
    table: list[list[Value]] = []
    for place, shares in published.SEQUENTIAL_RELATIVE.items():
        for kind, share in shares.items():
            runs, small = (result.select("insert", kind, rows) for rows in (places[place], sizes[0]))
            large = place == "large"
            speeds, base = ([run.metrics["tps"] for run in some] for some in (runs, small))
            table.append([
                KEY_KINDS[kind].label, place, share, unpaired_ratio(speeds, base) if speeds and base else None,
                published.SEQUENTIAL_WAL_GB[place][kind],
                median_of(runs, "wal_bytes", 1), published.SEQUENTIAL_HITS[kind] if large else None,
                hit_percent(runs),
                published.SEQUENTIAL_BLOCKS[kind] if large else None, median_of(runs, "touched_blocks", 1000),
            ])  # fmt: skip
    title = "Beside study P3: what a larger table costs each generator"
    caption = " ".join([NOT_RUN, *causes(result, sizes[-1], table)])
    return Section("published_generators", title, GENERATORS, table, caption, data=False)


WRAP_256 = 256 * 65536  # rows after which blocks of 256 begin again


def causes(result: Result, largest: int, table: Sequence[Sequence[Value]]) -> list[str]:
    """Why a claim of the study does not reappear, where it does not, as likely as can be told."""
    told = []
    random = next(row[3] for row in table if row[:2] == [KEY_KINDS["random"].label, "large"])
    wait = median_of(result.select("insert", "random", largest), "device_await_ms")
    if isinstance(random, Estimate) and random.median > published.SEQUENTIAL_RELATIVE["large"]["random"]:
        answer = f"; this one answered in {wait.median:.2f} ms" if wait else ""
        told.append(f"Random keys keep more of their speed than on the study's turning disks{answer}.")
    if largest < WRAP_256 and result.select("insert", "sequence256", largest):
        told.append(f"Blocks of 256 begin again after {WRAP_256:,} rows; before that they are new ones at one place of "
                    "the index, and neither speed nor distinct blocks can show what the study saw.")  # fmt: skip
    return told


def published_sections(result: Result) -> list[Section]:
    """The tables of which a kind of key that is the study's own was measured."""
    ran = {run.kind for run in result.runs if run.step == "insert"}
    own = {
        keys_section: {"random_char", "time_char"},
        indexes_section: {*published.INSERT_INDEX_TPS, *published.INSERT_NO_INDEX_TPS} - {"random_char"},
        generators_section: {"time60", "sequence256"},
    }
    return [section(result) for section, kinds in own.items() if kinds & ran]
