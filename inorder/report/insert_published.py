"""The published figures of studies P1 and P3 beside those of the insert experiment; what was not run is empty."""

from collections.abc import Mapping, Sequence

from inorder.lab.compare import unpaired_ratio
from inorder.lab.keys import KEY_KINDS
from inorder.lab.model import PAGE, RANDOM_FILL, leaf_capacity
from inorder.lab.results import Result, Run
from inorder.lab.stats import Estimate, ratio_by_round
from inorder.report import published
from inorder.report.insert_details import median_of
from inorder.report.section import Column, Section, Value, number, ratio, text
from inorder.report.summary import hit_percent, per_insert
from inorder.units import MB

NOT_RUN = "Empty: not run. inorder lab run insert --full runs all of it."
SMALLEST = 10_000  # rows that may stand beside a study's empty table


def paired(runs: Sequence[Run], base: Sequence[Run]) -> Estimate | None:
    """The ratio of TPS, within rounds; None where one of the two was not run."""
    speeds = {run.round: per_insert(run, "tps") for run in runs}
    bases = {run.round: per_insert(run, "tps") for run in base}
    return ratio_by_round(speeds, bases)


KEYS = (
    Column("key", "Kind of key of the table."),
    Column("rows", f"Rows in the table; beside the study's 0 the smallest here, if that is at most {SMALLEST:,}."),
    Column("published", "TPS of study P1: 8 clients, a spinning disk.", number()),
    Column("its runs", "The three runs of which that is the mean, as the study has it.", text, terminal=False),
    Column("vs int8", "Their ratio to those of the sequence (int8).", number(2)),
    Column("here", "TPS here.", number()),
    Column("vs bigint", "Their ratio to those of bigint in the same round.", ratio),
    Column("busy published", "Share of the time in which the study's device was busy.", number(1, "%")),
    Column("busy", "Of the device here (/proc/diskstats).", number(1, "%")),
    Column("await published", "Milliseconds that a request to the study's device took.", number(2, "ms")),
    Column("await", "To the device here (/proc/diskstats).", number(2, "ms")),
)


def runs_text(runs: Sequence[int]) -> str:
    """The runs of a cell.

    >>> runs_text((1193, 1115, 1109))
    '1,193 1,115 1,109'
    """
    return " ".join(f"{tps:,}" for tps in runs)


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
                KEY_KINDS[kind].label, f"{rows:,}", tps, runs_text(published.INSERT_RUNS[kind][rows]),
                tps / published.INSERT_TPS["bigint"][rows],
                median_of(runs, "tps"), None if kind == "bigint" else paired(runs, base),
                busy, median_of(runs, "device_busy_percent"), wait, median_of(runs, "device_await_ms"),
            ])  # fmt: skip
    title = "Beside study P1: TPS with a primary key, UUIDs as char(32)"
    return Section("published_keys", title, KEYS, table, " ".join([NOT_RUN, *faster_device(table)]))


def faster_device(table: Sequence[Sequence[Value]]) -> list[str]:
    """Why random keys lose less here than in the study, if they do, with the most rows measured: as likely as told."""
    label = KEY_KINDS["random_char"].label
    measured = [row for row in table if row[0] == label and row[1] != "0" and isinstance(row[6], Estimate)]
    if not measured:
        return []
    _, rows, _, _, share, _, here, _, _, published_wait, wait = measured[-1]
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
    return Section("published_indexes", title, INDEXES, table, NOT_RUN)


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
    Column("rows", "Which of the study's tables: small is empty, medium fits into memory but not into shared buffers, "
           "large into neither. Here the smallest, the middle and the largest of the sizes, whatever fits.", text),
    Column("published", "TPS of study P3 as a share of those in its small table, where all were equal.", number(2)),
    Column(
        "here",
        "TPS here as a share of those in the smallest table, which was measured at another time: of every two "
        "rounds, not paired (Hodges-Lehmann). Of the smallest itself: to random keys in the same round.",
        ratio,
    ),
    Column("WAL published", "GB of WAL that the study's run of 4 hours wrote, at its TPS.", number(1, "GB")),
    Column("WAL/row", "Bytes of WAL per inserted row here.", number(0, "B")),
    Column("hits published", "The study's share of shared-buffer hits.", number(0, "%")),
    Column("hits", "Share of index blocks found in shared buffers here.", number(0, "%")),
    Column("blocks published", "The study's distinct blocks of the index in the WAL, relative to random keys.", text),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed here.", number(1)),
)


TOLD = (
    "published: as told, in round numbers; random keys under 0.30 in the medium table (about "
    f"{published.SEQUENTIAL_RANDOM_TPS['medium']} TPS to {published.SEQUENTIAL_RANDOM_TPS['small']}), with over 20 GB "
    "of WAL, nearly all of it full-page images; sequence 256 at about three times their TPS in the large one."
)


def relative(result: Result, kind: str, rows: int, smallest: int) -> Estimate | None:
    """TPS to those in the smallest table; of the smallest to random keys in it. None where one was not run."""
    if rows == smallest:
        runs, base = (result.select("insert", one, rows) for one in (kind, "random"))
        return None if kind == "random" else paired(runs, base)
    speeds, small = ([run.metrics["tps"] for run in result.select("insert", kind, size)] for size in (rows, smallest))
    return unpaired_ratio(speeds, small) if speeds and small else None


def generators_section(result: Result) -> Section:
    """From a small to a medium and a large table, by generator; the middle and the largest of the sizes here."""
    sizes = sorted(result.plan["rows"])
    medium, large = sizes[len(sizes) // 2] if len(sizes) > 2 else -1, sizes[-1] if len(sizes) > 1 else -1
    places = {"small": sizes[0], "medium": medium, "large": large}
    table: list[list[Value]] = []
    for place, shares in published.SEQUENTIAL_RELATIVE.items():
        for kind, share in shares.items():
            runs, of_large = result.select("insert", kind, places[place]), place == "large"
            table.append([
                KEY_KINDS[kind].label, place, share, relative(result, kind, places[place], sizes[0]),
                published.SEQUENTIAL_WAL_GB.get(place, {}).get(kind),
                median_of(runs, "wal_bytes", 1), published.SEQUENTIAL_HITS[kind] if of_large else None,
                hit_percent(runs),
                published.SEQUENTIAL_BLOCKS[kind] if of_large else None, median_of(runs, "touched_blocks", 1000),
            ])  # fmt: skip
    title = "Beside study P3: what a larger table costs each generator"
    caption = " ".join([NOT_RUN, TOLD, *causes(result, sizes[-1], table)])
    return Section("published_generators", title, GENERATORS, table, caption)


WRAP_256 = 256 * 65536  # rows after which blocks of 256 begin again
HELD_PERCENT = 97  # of hits: the study's generators that stay at one place had 99, random keys 85
LEAF_ROWS = leaf_capacity("sequence") * RANDOM_FILL  # of a page within a block


def causes(result: Result, largest: int, table: Sequence[Sequence[Value]]) -> list[str]:
    """Why a claim of the study does not reappear, where it does not, as likely as can be told."""
    random = next(row[3] for row in table if row[:2] == [KEY_KINDS["random"].label, "large"])
    told = faster_than_its_disks(result, largest, random) if isinstance(random, Estimate) else []
    return [*told, *wide_block(result, largest), *narrow_block(result, largest)]


def faster_than_its_disks(result: Result, largest: int, random: Estimate) -> list[str]:
    """Random keys that lose less: of the device, or of a small table that is none."""
    if (random.low or 0) <= published.SEQUENTIAL_RELATIVE["large"]["random"]:
        return []
    smallest = result.select("fill", "random", min(result.plan["rows"]))
    if any(run.metrics.get("index_bytes", 0) > result.plan["memory_bytes"] for run in smallest):
        return ["The index of the smallest table is larger than the memory already, so that it is none of the study's "
                "small ones, and shares of its speed say little."]  # fmt: skip
    wait = median_of(result.select("insert", "random", largest), "device_await_ms")
    answer = f"; this one answered in {wait.median:.2f} ms" if wait and not result.plan.get("iops") else ""
    return [f"Random keys keep more of their speed than on the study's turning disks{answer}."]


def wide_block(result: Result, largest: int) -> list[str]:
    """Of a minute, if it is larger than memory and that shows: keys are random within a block."""
    runs = result.select("insert", "time60", largest)
    speed, hits = median_of(runs, "tps"), hit_percent(runs)
    pages = 60 * speed.median / LEAF_ROWS if speed else 0
    if hits is None or hits.median > HELD_PERCENT or pages * PAGE < result.plan["memory_bytes"]:
        return []
    return [f"{KEY_KINDS['time60'].label}: at the speed here a block is {pages * PAGE / MB:,.0f} MB of the index, more "
            "than the memory, and is written as random keys are; at the study's 840 TPS it was 2 MB. What can be "
            "compared are blocks of a second (time)."]  # fmt: skip


def narrow_block(result: Result, largest: int) -> list[str]:
    """Of 256 values: what it costs depends on how far it is spread by the rows of earlier passes."""
    if not result.select("insert", "sequence256", largest):
        return []
    if largest < WRAP_256:
        return [f"Blocks of 256 begin again after {WRAP_256:,} rows; before that they are new ones at one place of the "
                "index, and neither speed nor distinct blocks can show what the study saw."]  # fmt: skip
    pages = largest / 65536 / LEAF_ROWS
    return [f"Blocks of 256 are spread over {max(pages, 1):,.0f} leaf pages each by the rows of earlier passes, and "
            "touch each several times. Only where these are many, in tables of hundreds of millions of rows, does "
            "nearly every insert touch another page, as it did in the study."]  # fmt: skip


def published_sections(result: Result) -> list[Section]:
    """The tables of which a kind of key that is the study's own was measured."""
    ran = {run.kind for run in result.runs if run.step == "insert"}
    own = {
        keys_section: {"random_char", "time_char"},
        indexes_section: {*published.INSERT_INDEX_TPS, *published.INSERT_NO_INDEX_TPS} - {"random_char"},
        generators_section: {"time60", "sequence256"},
    }
    return [section(result) for section, kinds in own.items() if kinds & ran]
