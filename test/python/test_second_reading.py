"""The published figures read a second time, independently, and compared with those that the reports show.

A figure that the studies print with fewer digits, or twice with different ones, is noted where it stands.
"""

from inorder.lab.report.published import STUDIES, of_table

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


def numbers(block: str) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in block.strip().splitlines()]


def values(study: str, name: str) -> list[float | str]:
    return [cell.value for cell in of_table(study, name)]


def in_columns(study: str, name: str, columns: int = 3) -> list[list[float | str]]:
    found = values(study, name)
    return [found[place : place + columns] for place in range(0, len(found), columns)]


def notes(study: str) -> str:
    return " ".join(one.get("note", "") for one in STUDIES[study]["tables"])


def test_study_p1() -> None:
    cells = of_table("P1", "insert keys")
    for line, (key, tps, device) in enumerate(zip(KEYS, numbers(P1_TPS), numbers(P1_DEVICE), strict=True)):
        for place, rows in enumerate(P1_ROWS):
            cell, (mean, *runs) = cells[5 * line + place], tps[4 * place : 4 * place + 4]
            assert (cell.kind, cell.rows, cell.value) == (key, rows, mean)
            assert [float(run) for run in cell.detail.split()] == runs
            assert (abs(mean - sum(runs) / 3) > 1) == ((key, rows) == ("time_char", 10 * M))  # one mean is misprinted
        assert in_columns("P1", "insert busy", 5)[line] == device[::2]
        assert in_columns("P1", "insert await", 5)[line] == device[1::2]
    assert values("P1", "insert indexes") == [260, 222, 231, 1234]
    assert [round(tps) for tps in (221.7, 230.6)] == [222, 231]  # as printed elsewhere there
    assert values("P1", "insert no_index") == [1235, 1233, 1272]
    assert values("P1", "insert latency") == [8.974, 36.080, 34.693]
    assert [cell.detail.split()[0] for cell in of_table("P1", "insert latency")] == ["9.006", "38.512", "36.410"]
    assert values("P1", "insert device") == [96, 2, 1.02, 10.67, 99.2]
    assert [(cell.value, cell.rows) for cell in of_table("P1", "insert folds")] == [(6, 100 * M), (9, 100 * M)]
    assert "prints 960 TPS" in notes("P1") and f"{8000 // 22} UUIDs" in notes("P1")


def test_the_loads_of_study_p1() -> None:
    loads = {name: values("P1", f"bulk {name}")[1:] for name in ("with_key", "no_index", "add_key", "size")}
    assert loads == {
        "with_key": [43.390, 30.585, 9.819], "no_index": [1159.7, 454.0, 352.2], "add_key": [845.2, 932.2, 148.1],
        "size": [6072, 6072, 2800],
    }  # fmt: skip
    rows = {name: {cell.rows for cell in of_table("P1", f"bulk {name}")} for name in (*loads, "builds")}
    assert rows == {"with_key": {M}, "no_index": {50 * M}, "add_key": {50 * M}, "size": {50 * M}, "builds": {10 * M}}
    assert values("P1", "bulk builds") == [316.367, 153.373]


def test_study_p2() -> None:
    assert in_columns("P2", "sequence select") + in_columns("P2", "sequence insert") == numbers(P2_TPS)
    assert [[float(run) for run in cell.detail.split()] for cell in of_table("P2", "sequence bulk")] == numbers(P2_MS)
    assert values("P2", "sequence bulk") == [sorted(runs)[1] for runs in numbers(P2_MS)]


def test_study_p3() -> None:
    assert in_columns("P3", "insert generators") == [[1, 1, 1], [0.30, 1, 1], [0.20, 0.50, 1]]
    assert values("P3", "insert hits") == [85, 99, 93, 99]
    assert values("P3", "insert blocks") == ["less", "more than 2", "less"]
    printed = [cell.detail.partition(" ")[0] for cell in of_table("P3", "insert wal")]
    assert printed == ["3.5"] * 4 + ["20", "2.5", "2.5", "5", "13", "less", "20", "less"]
    assert values("P3", "insert wal")[4:] == [round(20 / 0.30, 1), 2.5, 2.5, 5, round(13 / 0.20), "", 20 / 0.50, ""]
    assert f"{840 * 4 * 3600:,} of 4 hours" in notes("P3")
    assert of_table("P3", "insert wal")[0].metric.endswith(f"*{840 * 4 * 3600 / 10**9:.6f}")


def test_study_p4() -> None:
    bloat = f"<{100 - 30}:{100 - 20}–{100 - 10}"
    assert values("P4", "uuid-v1 steps") == [7.8, round(618 / 26, 1), 1.5, 1, bloat, "4–5", "4–5", "1.1–1.2"]
    assert in_columns("P4", "uuid-v1 rates", 2) == [[623_000, 80_000], [618_000, 26_000]]
    assert round(623 / 80, 1) == 7.8


def test_study_p5() -> None:
    assert values("P5", "writers speed") == [10_796, 76_200, "unchanged", 88_613, 3_863, 79_800]
    assert values("P5", "writers tps") == [10_796, 127.2, 3_863, 133.0]
    assert [cell.detail for cell in of_table("P5", "writers tps")] == ["10,797", "", "3,867", "133.2"]
    assert values("P5", "writers latency") == [
        0.093, 7.862, 4.1, 3.877, 0.047, 0.117, 0.090, 118.871, 112.007, 0.115, 7.137, 0.169
    ]  # fmt: skip
