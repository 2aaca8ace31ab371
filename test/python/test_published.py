"""The figures of the published studies: that they are whole, and shown as they were told."""

from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.bulk import report as bulk_report
from inorder.lab.experiments.bulk.plan import BulkPlan
from inorder.lab.experiments.insert import InsertExperiment, beside_p1, studies
from inorder.lab.experiments.insert.newer import SOURCES
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.published import places_of
from inorder.lab.experiments.sequence.plan import SequencePlan
from inorder.lab.experiments.sequence.report import PUBLISHED_ROWS, PUBLISHED_TPS
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.report.catalogue import Report

from on_paper import a_result, insert_run

INSERT = Report(all_experiments()["insert"])


def test_published_figures_agree_with_each_other() -> None:
    """Means with their runs but for one; what is published in words stands there as words."""
    assert [
        (kind, rows) for kind, by_rows in studies.INSERT_TPS.items() for rows, tps in by_rows.items()
        if abs(tps - sum(studies.INSERT_RUNS[kind][rows]) / 3) > 1
    ] == [("time_char", 10_000_000)]  # fmt: skip
    result = a_result()
    result.runs += [insert_run("time60", 1, 1.0, 1.0)]
    (section,) = (one for one in INSERT.sections(result) if one.name == "published_generators")
    wal = named(result, "published_wal")
    assert [row[2] for row in wal] == ["3.5 GB"] * 4 + [
        "20 GB", "2.5 GB", "2.5 GB", "5 GB", "13 GB", "less", "20 GB", "less"
    ]  # fmt: skip
    assert [row[3:5] for row in wal[4:]] == [
        ["66.7 GB", "26.7"], ["2.5 GB", ""], ["2.5 GB", "1.0"], ["5.0 GB", "2.0"],
        ["65.0 GB", ""], ["", ""], ["40.0 GB", ""], ["", ""],
    ]  # fmt: skip
    assert "under 0.30" in section.caption and "260 TPS to 840 of the other generators" in section.caption
    assert {"published_generators"} < {record["table"] for record in INSERT.records(result)}


def named(result: Result, name: str) -> list[list[str]]:
    """The rows of one section of the insert experiment."""
    (section,) = (section for section in INSERT.sections(result) if section.name == name)
    return section.shown()


def caption(result: Result, name: str) -> str:
    """What is said beneath one section."""
    (section,) = (section for section in INSERT.sections(result) if section.name == name)
    return section.caption


def test_what_the_studies_print_twice_is_noted() -> None:
    """A summary that differs from its table, and one run in two tables."""
    result = a_result()
    add(result, "random_char", 100.0, 1000)
    add(result, "random_char_none", 100.0, 1000)
    assert "prints 960 TPS" in caption(result, "published_keys") and "runs is 906." in caption(result, "published_keys")
    assert "1,234 and 1,235 are one run" in caption(result, "published_indexes")


def add(result: Result, kind: str, tps: float, rows: int) -> None:
    """Six rounds of the same speed."""
    result.runs += [insert_run(kind, number, tps, 1.0, rows) for number in range(1, 7)]


def test_published_figures_stand_beside_measured_ones() -> None:
    """Every cell of the studies' tables; what was not run is empty, and nothing is shown of which no kind was run."""
    result = a_result()
    assert [section.name for section in INSERT.sections(result)] == ["rows_1000", "quality"]
    add(result, "random_char", 100.0, 1000)
    keys = named(result, "published_keys")
    assert len(keys) == 15 and keys[0][:6] == [
        "random, char(32)", "0", "906", "919 907 891", "0.70", "100"
    ]  # fmt: skip
    assert keys[0][6].startswith("0.1") and keys[0][7:] == ["99.2 %", "", "10.66 ms", "", ""]
    assert keys[1][5:7] == ["", ""] and keys[-1][2] == "1,139"
    result.plan["rows"] = [1000, 2000]
    for kind, rows, tps in (("time60", 1000, 100.0), ("time60", 2000, 50.0), ("random_char_plain", 10_000_000, 9.0)):
        add(result, kind, tps, rows)
    generators = named(result, "published_generators")
    assert [row[:4] for row in generators if row[0] == "time, 60 s"] == [
        ["time, 60 s", "small", "1.00", "0.40 [0.20–0.80]"], ["time, 60 s", "medium", "1.00", ""],
        ["time, 60 s", "large", "1.00", "0.50 [0.50–0.50]"]
    ]  # fmt: skip
    assert generators[8] == ["random", "large", "0.20", "", "85 %", "", "1", ""]
    for run, hits in zip(result.select("insert", "time60", 2000), (90.0, 0.0, 0.0, 0.0, 0.0, 80.0), strict=True):
        run.metrics.update({"tps": 50.0 * run.round, "index_hits": hits, "index_reads": 100.0 - hits})
    (large,) = (row for row in named(result, "published_generators") if row[:2] == [KEY_KINDS["time60"].label, "large"])
    assert large[3].startswith("1.75") and large[5] == "0 %"  # every two rounds, and the median
    indexes = named(result, "published_indexes")
    assert indexes[1] == ["random, char(32), plain", "222", "0.85", "9", ""]
    assert [row[1:4] for row in indexes[4:]] == [["1,235", "0.97", ""], ["1,233", "0.97", ""], ["1,272", "1.00", ""]]


def test_latency_device_and_folds_of_study_p1() -> None:
    """Beside its own; of an empty table the smallest here; what was not run is empty."""
    result = a_result()
    for kind, tps in (("random_char", 100.0), ("time_char", 500.0), ("random_char_plain", 10.0)):
        add(result, kind, tps, 1000)
    for run in result.select("insert", "random_char"):
        run.metrics.update(latency_ms=2.5, device_writes_per_s=50.0, device_written_per_s=2.0**20)
    assert named(result, "published_latency") == [
        ["random, char(32)", "0", "8.974", "9.006", "2.500"],
        ["random, char(32), plain", "10,000,000", "36.080", "38.512", ""],
        ["random, char(32), unique", "10,000,000", "34.693", "36.410", ""],
    ]
    assert named(result, "published_device") == [
        ["writes per second", "96.0", "50.0", ""], ["MB written per second", "2.00", "1.00", ""],
        ["requests in the queue", "1.02", "", ""], ["ms a request", "10.7", "", ""], ["% busy", "99.2", "", ""],
    ]  # fmt: skip
    folds = named(result, "published_folds")
    assert folds[0][:4] == ["time, char(32)", "6", "6.37", "1,000"] and folds[0][4].startswith("5.00")
    assert folds[1][:3] == ["bigint", "9", "8.69"]
    assert "do not wait for the disk here" in caption(result, "published_latency")
    assert "363 UUIDs" in caption(result, "published_keys") and "they are 290" in caption(result, "published_keys")
    result.plan |= {"rows": [20_000], "synchronous_commit": "on"}
    assert named(result, "published_latency")[0][4] == ""
    assert "Commits wait for the disk here" in caption(result, "published_latency")


def test_wal_of_study_p3_at_equal_throughput() -> None:
    """Bytes a row times the study's rows; the model for the same turns, by the generator's own blocks."""
    result = a_result()
    for kind, wal in (("random", 4000.0), ("time60", 200.0), ("sequence256", 200.0), ("sequence", 400.0)):
        add(result, kind, 1000.0, 1000)
        for run in result.select("insert", kind, 1000):
            run.metrics.update(wal_bytes=wal * run.metrics["inserts"], rows_before=1_000_000.0)
    rows = {row[0]: row[5:] for row in named(result, "published_wal")[:4]}
    assert [row[0] for row in rows.values()] == ["48.4 GB", "2.4 GB", "2.4 GB", "4.8 GB"]
    assert [row[2][:5].strip() for row in rows.values()] == ["20.00", "", "1.00", "2.00"]
    model = {kind: float(row[1].split()[0]) for kind, row in rows.items()}
    assert model["random"] > max(model[kind] for kind in rows if kind != "random") and min(model.values()) > 0
    result.plan["max_wal_size"] = 2**25  # a checkpoint within a turn, which the model does not have
    for run in result.select("insert", "random", 1000):
        run.metrics["wal_bytes"] = 2.0**25
    assert [row[6] for row in named(result, "published_wal")[:2]] == ["", f"{model['time, 60 s']} GB"]


def test_newer_measurements_stand_beside() -> None:
    """Where both kinds were measured; each figure of the same quantity, of the largest table."""
    result = a_result()
    result.plan.update(kinds=["bigint", "random", "v7"], rows=[1000])
    for kind, tps, size, leaf in (
        ("random", 1000.0, 3.0, 69.0),
        ("v7", 2000.0, 2.0, 90.0),
        ("bigint", 4000.0, 1.0, 90.0),
    ):
        result.runs = [run for run in result.runs if run.kind != kind]
        add(result, kind, tps, 1000)
        result.runs.append(Run("fill", kind, 1000, 1, {"table_bytes": size, "index_bytes": size}))
        result.runs.append(Run("sizes", kind, 1000, 1, {"leaf_density": leaf}))
    rows = named(result, "newer")
    assert [row[3:] for row in rows] == [
        ["410", "1,000", ""], ["375", "1,000", "1,000"], ["290", "1,000", "500"],
        ["1.74", "1,000", ""], ["1.07", "1,000", "1.50"], ["1", "1,000", "1.00"],
        ["97.64", "1,000", "90.0"], ["79.06", "1,000", "69.0"], ["90.09", "1,000", "90.0"],
        ["40–50", "1,000", "25.0"], ["85–95", "1,000", "50.0"],
    ]  # fmt: skip
    assert all(source.setup in caption(result, "newer") for source in SOURCES)
    result.plan["kinds"] = ["bigint", "random"]
    assert "newer" not in {section.name for section in INSERT.sections(result)}


def test_tables_of_study_p3_by_what_they_fit_into() -> None:
    """The largest of each; what there is none of is empty."""
    result = a_result()
    result.plan.update(rows=[1000, 2000, 3000, 4000], memory_bytes=2**20, page_cache=2**22)
    for rows, size in ((1000, 2**19), (2000, 2**20 + 1), (3000, 5 * 2**20), (4000, 5 * 2**20 + 1)):
        result.runs.append(Run("fill", "random", rows, 1, {"table_bytes": 0.0, "index_bytes": size}))
    plan = InsertExperiment.plan_in(result)
    assert places_of(result, plan) == {"small": 1000, "medium": 3000, "large": 4000}
    result.plan["page_cache"] = None
    assert places_of(result, InsertExperiment.plan_in(result)) == {"small": 1000, "medium": 3000, "large": 4000}
    result.plan.update(rows=[1000], page_cache=2**22)
    assert places_of(result, InsertExperiment.plan_in(result)) == {"small": 1000, "medium": -1, "large": -1}


def test_why_random_keys_keep_more_than_in_study_p1() -> None:
    """With the most rows measured, and what the device answered; nothing if they do not."""
    result = a_result()
    for place in range(1, 7):
        result.runs += [insert_run("random_char", place, 90.0 * place, 1.0, 1_000_000),
                        insert_run("bigint", place, 100.0 * place, 1.0, 1_000_000)]  # fmt: skip
    told = caption(result, "published_keys")
    assert told.endswith("With 1,000,000 rows random keys keep 0.90 of bigint's speed, in the study 0.31.")
    for run in result.select("insert", "random_char"):
        run.metrics["device_await_ms"] = 0.05
    assert "took its disk 13 ms, the device here 0.05 ms." in caption(result, "published_keys")
    for run in result.select("insert", "random_char"):
        run.metrics["tps"] /= 4
    assert "random keys keep" not in caption(result, "published_keys")


def test_why_random_keys_keep_more_than_in_study_p3() -> None:
    """The device, unless the smallest table was none, or the disk was held."""
    result = a_result()
    result.plan.update(rows=[1000, 2000], memory_bytes=2**27)
    add(result, "time60", 1.0, 2000)
    assert "Random keys keep more" not in caption(result, "published_generators")
    add(result, "random", 500.0, 2000)
    for run in result.select("insert", "random", 2000):
        run.metrics["device_await_ms"] = 0.05
    assert "spinning disks; this one answered in 0.05 ms." in caption(result, "published_generators")
    result.plan["iops"] = 3000
    assert "than on the study's spinning disks." in caption(result, "published_generators")
    result.runs.append(Run("fill", "random", 1000, 1, {"index_bytes": 2.0**30}))
    told = caption(result, "published_generators")
    assert "none of the study's small ones" in told and "Random keys keep" not in told


def test_why_blocks_do_not_do_what_they_did_in_study_p3() -> None:
    """Those of 256 before and after they begin again; those of a minute if they are read again."""
    result = a_result()
    result.plan["rows"] = [1000, 2000]
    add(result, "sequence256", 1.0, 2000)
    assert "after 16,777,216 rows" in caption(result, "published_generators")
    result.plan["rows"] = [1000, 50_000_000]
    add(result, "sequence256", 1.0, 50_000_000)
    add(result, "time60", 200_000.0, 50_000_000)
    told = caption(result, "published_generators")
    assert "spread over 4 leaf pages each" in told and "after 16,777,216 rows" not in told
    assert "time, 60 s: at the speed here" not in told
    for run in result.select("insert", "time60", 50_000_000):
        run.metrics["index_reads"] = 30.0  # to 300 hits
    told = caption(result, "published_generators")
    assert "a block is 466 MB of the index, more than the memory" in told  # 12 M rows at 69 % of 290 a page


def test_the_full_runs_have_every_published_cell() -> None:
    """Kinds, rows, clients and sizes of statements of studies P1, P2 and P3."""
    insert, bulk = InsertPlan.of_size("full", {}), BulkPlan.of_size("full", {})
    sequence = SequencePlan.of_size("full", {})
    kinds = (studies.INSERT_TPS, studies.INSERT_INDEX_TPS, studies.INSERT_NO_INDEX_TPS,
             studies.SEQUENTIAL_HITS)  # fmt: skip
    assert {kind for table in kinds for kind in table} <= set(insert.variants)
    assert {rows for by_rows in studies.INSERT_TPS.values() for rows in by_rows if rows} < set(insert.rows)
    assert min(insert.rows) <= beside_p1.SMALLEST
    wanted = {*(rows for _, rows in bulk_report.PUBLISHED_SECONDS), bulk_report.PUBLISHED_TOTAL_ROWS,
              bulk_report.PUBLISHED_INDEX_ROWS}  # fmt: skip
    assert wanted <= set(bulk.rows) and set(bulk_report.PUBLISHED_TOTAL_MB) <= set(bulk.kinds)
    clients = {count for by_clients in PUBLISHED_TPS.values() for count in by_clients}
    assert clients <= set(sequence.clients) and {kind for _, kind in PUBLISHED_TPS} <= set(sequence.kinds)
    assert sequence.rows == PUBLISHED_ROWS
