"""The figures of studies P1 and P3 beside those of the insert experiment; what was not run is empty."""

from collections.abc import Callable, Mapping, Sequence

from inorder.lab.analysis.compare import unpaired_ratio
from inorder.lab.analysis.figures import Metric, by_round, last_of, median_of, per, ratio_of
from inorder.lab.analysis.model import PAGE, RANDOM_FILL, leaf_capacity
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments.insert import studies
from inorder.lab.experiments.insert.beside_p1 import (
    RANDOM_KINDS,
    SMALLEST,
    device_section,
    folds_section,
    latency_section,
    rows_beside,
)
from inorder.lab.experiments.insert.beside_p3 import equal_section
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import hit_percent
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import KEY_KINDS, PACKED
from inorder.lab.results import Result
from inorder.report.section import Column, Section, Value, number, ratio, text
from inorder.units import MB

NOT_RUN = "Empty: not run. inorder lab run insert --full runs all of it."
P1_ROWS = 10_000_000  # of its kinds of index
NO_ROWS = -1  # no table here is of that size

KEYS = (
    Column("key", "Kind of key of the table."),
    Column("rows", f"Rows in the table; beside the study's 0 the smallest here, if that is at most {SMALLEST:,}."),
    Column("published", "TPS of study P1: 8 clients, a spinning disk.", number(), bar=True),
    Column("its runs", "The three runs of which that is the mean, as the study has it.", text, terminal=False),
    Column("vs int8", "Their ratio to those of the sequence (int8).", number(2)),
    Column("here", "TPS here.", number(), bar=True),
    Column("vs bigint", "Their ratio to those of bigint in the same round.", ratio),
    Column("busy published", "Share of the time in which the study's device was busy.", number(1, "%")),
    Column("busy", "Of the device here (/proc/diskstats).", number(1, "%")),
    Column("await published", "Milliseconds that a request to the study's device took.", number(2, "ms")),
    Column("await", "To the device here (/proc/diskstats).", number(2, "ms")),
    Column(
        "packed",
        "TPS here with a key added after loading (--index packed), as the study added it at 50 M rows.",
        number(),
        terminal=False,
    ),
)


OTHERWISE = (
    f"The study's summary prints {studies.INSERT_SUMMARY_TPS} TPS for random keys without rows, where the mean of its "
    f"three runs is {studies.INSERT_TPS['random_char'][0]}.",
    f"It reckons {studies.INSERT_PAGE_ENTRIES} UUIDs an index page (8000 / 22, without tuple header and line pointer); "
    f"by the model they are {leaf_capacity('random')}.",
    "Its time-prefixed keys have blocks of a minute, here of a second; its random keys are of uuid-ossp (--keys "
    "random_ossp).",
)


def runs_text(runs: Sequence[int]) -> str:
    """The runs of a cell.

    >>> runs_text((1193, 1115, 1109))
    '1,193 1,115 1,109'
    """
    return " ".join(f"{tps:,}" for tps in runs)


def keys_section(result: Result, plan: InsertPlan) -> Section:
    """TPS by key and rows, with a primary key, and what the device did."""
    table: list[list[Value]] = []
    for kind, by_rows in studies.INSERT_TPS.items():
        for rows, tps in by_rows.items():
            here = rows_beside(rows, plan) or NO_ROWS
            busy, wait = studies.INSERT_DEVICE[kind][rows]
            table.append([
                KEY_KINDS[kind].label, f"{rows:,}", tps, runs_text(studies.INSERT_RUNS[kind][rows]),
                tps / studies.INSERT_TPS["bigint"][rows],
                median_of(result, INSERT, kind, "tps", here), ratio_of(result, INSERT, kind, "bigint", "tps", here),
                busy, median_of(result, INSERT, kind, "device_busy_percent", here),
                wait, median_of(result, INSERT, kind, "device_await_ms", here),
                median_of(result, INSERT, KEY_KINDS[kind].with_index(PACKED).name, "tps", here),
            ])  # fmt: skip
    title = "Beside study P1: TPS with a primary key, UUIDs as char(32)"
    return Section("published_keys", title, KEYS, table, " ".join([NOT_RUN, *OTHERWISE, *faster_device(table)]))


def faster_device(table: Sequence[Sequence[Value]]) -> list[str]:
    """Why random keys lose less here than in the study, if they do, with the most rows measured: the likely cause."""
    label = KEY_KINDS["random_char"].label
    measured = [row for row in table if row[0] == label and row[1] != "0" and isinstance(row[6], Estimate)]
    if not measured:
        return []
    _, rows, _, _, share, _, here, _, _, published_wait, wait, _ = measured[-1]
    assert isinstance(here, Estimate) and isinstance(share, float)
    if here.low is None or here.low <= share:
        return []
    words = f"With {rows} rows random keys keep {here.median:.2f} of bigint's speed, in the study {share:.2f}"
    if isinstance(wait, Estimate):
        words += f": a request took its disk {published_wait} ms, the device here {wait.median:.2f} ms"
    return [f"{words}."]


INDEXES = (
    Column("key", "Kind of key, and of index where it is no primary key."),
    Column("published", "TPS of study P1 at 10 M rows.", number(), bar=True),
    Column("ratio published", "Their ratio to random UUIDs with a primary key; without an index to int8.", number(2)),
    Column("here", "TPS here, at 10 M rows.", number(), bar=True),
    Column("ratio", "The same ratio here, in the same round.", ratio),
)


def indexes_section(result: Result, _plan: InsertPlan) -> Section:
    """TPS by kind of index; and of each key without one, where the study found no difference."""
    title = "Beside study P1: TPS by kind of index, 10 M rows"
    table = [
        *index_rows(result, studies.INSERT_INDEX_TPS, "random_char"),
        *index_rows(result, studies.INSERT_NO_INDEX_TPS, "bigint_none"),
    ]
    none = [figures["random_char_none"] for figures in (studies.INSERT_INDEX_TPS, studies.INSERT_NO_INDEX_TPS)]
    one_run = f"{none[0]:,.0f} and {none[1]:,.0f} are one run of the study, printed in two of its tables."
    return Section("published_indexes", title, INDEXES, table, f"{NOT_RUN} {one_run}")


def index_rows(result: Result, figures: Mapping[str, float], baseline: str) -> list[list[Value]]:
    """Lines of INDEXES, with ratios to one of them."""
    return [
        [KEY_KINDS[kind].label, tps, tps / figures[baseline], median_of(result, INSERT, kind, "tps", P1_ROWS),
         ratio_of(result, INSERT, kind, baseline, "tps", P1_ROWS)]
        for kind, tps in figures.items()
    ]  # fmt: skip


GENERATORS = (
    Column("key", "Kind of key of the table."),
    Column(
        "rows",
        "Which of the study's tables: small is empty, medium fits into memory but not into shared buffers, "
        "large into neither. Here with --page-cache the largest size of each; without the smallest, the middle and the "
        "largest of the sizes, whatever fits.",
        text,
    ),
    Column(
        "published",
        "TPS of study P3 as a share of those of time and sequence in the same table, which were about the same in all.",
        number(2),
    ),
    Column(
        "here",
        "TPS here as a share of those in the smallest table, which was measured at another time: of every two "
        "rounds, not paired (Hodges-Lehmann). Of the smallest itself: to random keys in the same round.",
        ratio,
    ),
    Column("hits published", "The study's share of shared-buffer hits.", number(0, "%")),
    Column("hits", "Share of index blocks found in shared buffers here.", number(0, "%")),
    Column("blocks published", "The study's distinct blocks of the index in the WAL, relative to random keys.", text),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed here.", number(1), bar=True),
)


NARRATED = (
    "published: as the study has it, in round numbers; random keys under 0.30 in the medium table (about "
    f"{studies.SEQUENTIAL_MEDIUM_TPS['random']} TPS to {studies.SEQUENTIAL_MEDIUM_TPS['others']} of the other "
    "generators), with over 20 GB of WAL, nearly all of it full-page images; sequence 256 at about three times their "
    "TPS in the large one. In the small table WAL differed little."
)


def relative(result: Result, kind: str, rows: int, smallest: int) -> Estimate | None:
    """TPS to those in the smallest table; of the smallest to random keys in it. None where one was not run."""
    if rows == smallest:
        return ratio_of(result, INSERT, kind, "random", "tps", rows)
    speeds, small = (list(by_round(result, INSERT, kind, "tps", size).values()) for size in (rows, smallest))
    return unpaired_ratio(speeds, small) if speeds and small else None


def places_of(result: Result, plan: InsertPlan) -> dict[str, int]:
    """The sizes here that stand beside the study's tables: by what they fit into, or else smallest, middle, largest."""
    sizes = sorted(plan.rows)
    if plan.page_cache:
        found = {"small": NO_ROWS, "medium": NO_ROWS, "large": NO_ROWS}
        return found | {place_of(result, plan, rows): rows for rows in sizes}
    medium = sizes[len(sizes) // 2] if len(sizes) > 2 else NO_ROWS
    return {"small": sizes[0], "medium": medium, "large": sizes[-1] if len(sizes) > 1 else NO_ROWS}


def place_of(result: Result, plan: InsertPlan, rows: int) -> str:
    """What table and index of random keys fit into: shared buffers, these with the page cache, neither."""
    size = sum(last_of(result, FILL, "random", part, rows) or 0 for part in ("table_bytes", "index_bytes"))
    if size <= plan.memory_bytes:
        return "small"
    return "medium" if size <= plan.memory_bytes + (plan.page_cache or 0) else "large"


def generators_section(result: Result, plan: InsertPlan) -> Section:
    """From a small to a medium and a large table, by generator; the middle and the largest of the sizes here."""
    places = places_of(result, plan)
    smallest = places["small"] if places["small"] != NO_ROWS else min(plan.rows)
    table: list[list[Value]] = []
    for place, shares in studies.SEQUENTIAL_RELATIVE.items():
        for kind, share in shares.items():
            rows, of_large = places[place], place == "large"
            table.append([
                KEY_KINDS[kind].label, place, share, relative(result, kind, rows, smallest),
                studies.SEQUENTIAL_HITS[kind] if of_large else None,
                median_of(result, INSERT, kind, hit_percent, rows),
                studies.SEQUENTIAL_BLOCKS[kind] if of_large else None,
                median_of(result, INSERT, kind, per("touched_blocks", "inserts", 1000), rows),
            ])  # fmt: skip
    title = "Beside study P3: what a larger table costs each generator"
    caption = " ".join([NOT_RUN, NARRATED, *causes(result, plan, table)])
    return Section("published_generators", title, GENERATORS, table, caption)


WRAP_256 = 256 * 65536  # rows after which blocks of 256 begin again
HELD_PERCENT = 97  # of hits: the study's generators that stay at one place had 99, random keys 85
LEAF_ROWS = leaf_capacity("sequence") * RANDOM_FILL  # of a page within a block


def causes(result: Result, plan: InsertPlan, table: Sequence[Sequence[Value]]) -> list[str]:
    """Why a claim of the study does not reappear, where it does not, the likely causes."""
    random = next(row[3] for row in table if row[:2] == [KEY_KINDS["random"].label, "large"])
    words = faster_than_its_disks(result, plan, random) if isinstance(random, Estimate) else []
    return [*words, *wide_block(result, plan), *narrow_block(result, max(plan.rows))]


def faster_than_its_disks(result: Result, plan: InsertPlan, random: Estimate) -> list[str]:
    """Random keys that lose less: of the device, or of a small table that is none."""
    if (random.low or 0) <= studies.SEQUENTIAL_RELATIVE["large"]["random"]:
        return []
    if (last_of(result, FILL, "random", "index_bytes", min(plan.rows)) or 0) > plan.memory_bytes:
        return ["The index of the smallest table is larger than the memory already, so that it is none of the study's "
                "small ones, and shares of its speed are not comparable."]  # fmt: skip
    wait = median_of(result, INSERT, "random", "device_await_ms", max(plan.rows))
    answer = f"; this one answered in {wait.median:.2f} ms" if wait and not plan.iops else ""
    return [f"Random keys keep more of their speed than on the study's spinning disks{answer}."]


def wide_block(result: Result, plan: InsertPlan) -> list[str]:
    """Of a minute, if it is larger than memory and that shows: keys are random within a block."""
    metrics: tuple[Metric, ...] = ("tps", hit_percent)
    speed, hits = (median_of(result, INSERT, "time60", metric, max(plan.rows)) for metric in metrics)
    pages = 60 * speed.median / LEAF_ROWS if speed else 0
    if hits is None or hits.median > HELD_PERCENT or pages * PAGE < plan.memory_bytes:
        return []
    return [f"{KEY_KINDS['time60'].label}: at the speed here a block is {pages * PAGE / MB:,.0f} MB of the index, more "
            "than the memory, and is written as random keys are; at the study's 840 TPS it was 2 MB. What can be "
            "compared are blocks of a second (time)."]  # fmt: skip


def narrow_block(result: Result, largest: int) -> list[str]:
    """Of 256 values: what it costs depends on how far it is spread by the rows of earlier passes."""
    if not result.select(INSERT, "sequence256", largest):
        return []
    if largest < WRAP_256:
        return [f"Blocks of 256 begin again after {WRAP_256:,} rows; before that they are new ones at one place of the "
                "index, and neither speed nor distinct blocks can show what the study saw."]  # fmt: skip
    pages = largest / 65536 / LEAF_ROWS
    return [f"Blocks of 256 are spread over {max(pages, 1):,.0f} leaf pages each by the rows of earlier passes, and "
            "touch each several times. Only where these are many, in tables of hundreds of millions of rows, does "
            "nearly every insert touch another page, as it did in the study."]  # fmt: skip


def published_sections(result: Result, plan: InsertPlan) -> list[Section]:
    """The tables of which a kind of key that is the study's own was measured."""
    ran = {run.kind for run in result.runs if run.step == INSERT}
    p1_keys = {"random_char", "time_char"}
    own: dict[Callable[[Result, InsertPlan], Section], set[str]] = {
        keys_section: p1_keys,
        folds_section: p1_keys,
        latency_section: {kind for kind, _ in studies.INSERT_LATENCY_MS},
        device_section: set(RANDOM_KINDS),
        indexes_section: {*studies.INSERT_INDEX_TPS, *studies.INSERT_NO_INDEX_TPS} - {"random_char"},
        generators_section: {"time60", "sequence256"},
        lambda result, plan: equal_section(result, plan, places_of(result, plan)): {"time60", "sequence256"},
    }
    return [section(result, plan) for section, kinds in own.items() if kinds & ran]
