"""The published figures read a second time, independently, and compared with those that the reports show.

A figure that the studies print with fewer digits, or twice with different ones, is noted where it stands.
"""

import pytest
from inorder.lab.experiments.bulk import report as bulk
from inorder.lab.experiments.insert import studies
from inorder.lab.experiments.sequence import report as sequence
from inorder.lab.experiments.uuid_v1 import report as uuid_v1
from inorder.lab.experiments.writers import report as writers

M = 1_000_000
P1_ROWS = (0, M, 10 * M, 50 * M, 100 * M)
KEYS = ("random_char", "time_char", "bigint")

# A line a key: TPS and three runs, for each of P1_ROWS.
P1_TPS = """
906 919 907 891   365 355 440 302   260 260 292 227    163 162 163 163     131 121 131 143
933 985 882 932   927 948 964 870   870 817 960 883    883 738 933 979     834 819 795 888
1289 1311 1277 1280  1169 1159 1234 1115  1278 1305 1261 1270  1220 1132 1264 1265  1139 1193 1115 1109
"""
# Busy percent and milliseconds a request.
P1_DEVICE = """
99.2 10.66  98.8 13   99.2 16.8  99.6 18.4  99.6 28.2
98.7 4.4    97.2 4.0  97.7 3.9   97.7 3.9   99.2 28.7
97.5 3.4    96.6 3.5  96.8 3.0   96.8 3.5   96.8 11.3
"""
# Statement by statement at 1, 10 and 100 clients; then milliseconds of three runs of 100,000 rows.
P2_TPS = """
26991 97749 97019
17336 61615 69211
19379 69693 76410
4042 19792 30982
4083 18822 27365
3953 18145 28701
"""
P2_MS = """
145.6 156.1 172.9
184.0 183.7 183.4
181.2 144.6 198.5
"""
P3_KEYS = ("random", "time60", "sequence256", "sequence")


def numbers(block: str) -> list[list[float]]:
    """Of each line."""
    return [[float(word) for word in line.split()] for line in block.strip().splitlines()]


def test_study_p1() -> None:
    """TPS, runs, device, indexes, latencies, loads, sizes."""
    for key, tps, device in zip(KEYS, numbers(P1_TPS), numbers(P1_DEVICE), strict=True):
        for place, rows in enumerate(P1_ROWS):
            mean, *runs = tps[4 * place : 4 * place + 4]
            assert (studies.INSERT_TPS[key][rows], list(studies.INSERT_RUNS[key][rows])) == (mean, runs)
            assert list(studies.INSERT_DEVICE[key][rows]) == device[2 * place : 2 * place + 2]
    assert list(studies.INSERT_INDEX_TPS.values()) == [260, 222, 231, 1234]
    assert [round(tps) for tps in (221.7, 230.6)] == [222, 231]  # as printed elsewhere there
    assert list(studies.INSERT_NO_INDEX_TPS.values()) == [1235, 1233, 1272]
    assert list(studies.INSERT_LATENCY_MS.values()) == [(8.974, 9.006), (36.080, 38.512), (34.693, 36.410)]
    assert pytest.approx(891, abs=1) == 53_494 / 60  # the run of which the first latency is
    assert list(studies.INSERT_IOSTAT.values()) == [96, 2048 * 1024, 1.02, 10.67, 99.2]
    assert (studies.INSERT_SUMMARY_TPS, studies.INSERT_PAGE_ENTRIES) == (960, 8000 // 22)
    assert studies.INSERT_FOLDS == {"time_char": 6, "bigint": 9} and studies.INSERT_FOLD_ROWS == 100 * M


def test_the_loads_of_study_p1() -> None:
    """Seconds with the key, without an index, of adding the key; sizes; builds of both indexes."""
    seconds = bulk.PUBLISHED_SECONDS
    assert list(seconds) == [("with_key", M), ("no_index", 50 * M), ("add_key", 50 * M)]
    with_key, no_index, add_key = (list(by_key.values()) for by_key in seconds.values())
    assert [round(value, 1) for value in with_key] == [43.4, 30.6, 9.8] and with_key[0] / with_key[2] == pytest.approx(
        4.42, 1e-3
    )
    assert (no_index, add_key) == ([1159.7, 454.0, 352.2], [845.2, 932.2, 148.1])
    assert list(bulk.PUBLISHED_TOTAL_MB.values()) == [6072, 6072, 2800] and bulk.PUBLISHED_TOTAL_ROWS == 50 * M
    assert list(bulk.PUBLISHED_INDEX_SECONDS.values()) == [316.367, 153.373] and bulk.PUBLISHED_INDEX_ROWS == 10 * M
    assert round(bulk.PUBLISHED_INDEX_RATIO, 2) == 2.06


def test_study_p2() -> None:
    """TPS of six statements, and of one in bulk."""
    assert [list(by_clients.values()) for by_clients in sequence.PUBLISHED_TPS.values()] == numbers(P2_TPS)
    assert list(sequence.PUBLISHED_TPS) == [
        (statement, value) for statement in ("select", "insert") for value in ("constant", "cache_1", "cache_100")
    ]  # fmt: skip
    assert [list(runs) for runs in sequence.PUBLISHED_MS.values()] == numbers(P2_MS)
    assert (sequence.PUBLISHED_CLIENTS, sequence.PUBLISHED_CACHES, sequence.PUBLISHED_ROWS) == (
        (1, 10, 100),
        (1, 100),
        10**5,
    )


def test_study_p3() -> None:
    """Relative TPS, WAL in 4 hours, hits, blocks: all rounded there, some only in words."""
    shares = {"small": (1, 1, 1, 1), "medium": (0.30, 1, 1, 1), "large": (0.20, 1, 0.50, 1)}
    wal = {"small": (3.5,) * 4, "medium": (20, 2.5, 2.5, 5), "large": (13, "less", 20, "less")}
    for place, relative in shares.items():
        assert studies.SEQUENTIAL_RELATIVE[place] == dict(zip(P3_KEYS, relative, strict=True))
        assert studies.SEQUENTIAL_WAL_GB[place] == dict(zip(P3_KEYS, wal[place], strict=True))
    assert studies.SEQUENTIAL_MEDIUM_TPS == {"random": 260, "others": 840}
    assert dict(zip(P3_KEYS, (85, 99, 93, 99), strict=True)) == studies.SEQUENTIAL_HITS
    assert dict(zip(P3_KEYS, ("1", "less", "more than 2", "less"), strict=True)) == studies.SEQUENTIAL_BLOCKS


def test_study_p4() -> None:
    """Ratios, rates, and bloat as what is left of a page."""
    assert list(uuid_v1.PUBLISHED.values()) == ["7.8", "23.8", "1.5", "1", f"<{100 - 30}:{100 - 20}–{100 - 10}", "4–5",
                                                "4–5", "1.1–1.2"]  # fmt: skip
    assert uuid_v1.PUBLISHED_RATES == {
        "copy_from": {"uuid_v1": 623_000, "uuid": 80_000}, "copy_more": {"uuid_v1": 618_000, "uuid": 26_000},
    }  # fmt: skip
    assert round(618 / 26, 1) == 23.8 and round(623 / 80, 1) == 7.8


def test_study_p5() -> None:
    """Rows a second, TPS, milliseconds. Three of its TPS it prints twice, with different last digits."""
    rates = {("plain", 1, 1): 10_796, ("plain", 600, 1): 76_200, ("cached", 1, 1): "unchanged",
             ("cached", 600, 1): 88_613, ("lock_cached", 1, 16): 3_863, ("lock_cached", 600, 16): 79_800}  # fmt: skip
    assert rates == writers.PUBLISHED_ROWS_PER_SECOND
    assert writers.PUBLISHED_TPS == {("plain", 600, 1): 127.2, ("lock_cached", 600, 16): 133.0}
    assert list(writers.PUBLISHED_LATENCY_MS.values()) == [0.093, 7.862, 4.1, 118.871]
    assert [list(one.values()) for one in writers.PUBLISHED_STATEMENTS_MS.values()] == [
        [3.877, 0.047, 0.117, 0.090], [112.007, 0.115, 7.137, 0.169]
    ]  # fmt: skip
    assert writers.PUBLISHED_MISPLACED == 0
    assert writers.PRINTED_TWICE == {
        ("plain", 1, 1): 10_797,
        ("lock_cached", 1, 16): 3_867,
        ("lock_cached", 600, 16): 133.2,
    }
