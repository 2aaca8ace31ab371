"""What studies P1 and P3 found, beside which the insert experiment stands.

Their machines and servers were others. What can be compared are ratios.
"""

# P1, PostgreSQL 10.4, 8 CPUs, 32 GB of memory, a spinning disk; UUIDs as char(32): TPS of single inserts with a primary
# key, 8 clients, by key and rows in the table.
INSERT_TPS: dict[str, dict[int, float]] = {
    "random_char": {0: 906, 1_000_000: 365, 10_000_000: 260, 50_000_000: 163, 100_000_000: 131},
    "time_char": {0: 933, 1_000_000: 927, 10_000_000: 870, 50_000_000: 883, 100_000_000: 834},
    "bigint": {0: 1289, 1_000_000: 1169, 10_000_000: 1278, 50_000_000: 1220, 100_000_000: 1139},
}

# Its three runs each. The figure is their mean, but for time_char at 10 M rows, where that is 887.
INSERT_RUNS: dict[str, dict[int, tuple[int, int, int]]] = {
    "random_char": {
        0: (919, 907, 891), 1_000_000: (355, 440, 302), 10_000_000: (260, 292, 227), 50_000_000: (162, 163, 163),
        100_000_000: (121, 131, 143),
    },
    "time_char": {
        0: (985, 882, 932), 1_000_000: (948, 964, 870), 10_000_000: (817, 960, 883), 50_000_000: (738, 933, 979),
        100_000_000: (819, 795, 888),
    },
    "bigint": {
        0: (1311, 1277, 1280), 1_000_000: (1159, 1234, 1115), 10_000_000: (1305, 1261, 1270),
        50_000_000: (1132, 1264, 1265), 100_000_000: (1193, 1115, 1109),
    },
}  # fmt: skip

# P1's summary prints another TPS for random keys without rows than its table, whose three runs have this mean: 906.
INSERT_SUMMARY_TPS = 960

# P1: TPS of random keys at 10 M rows by kind of index. The run without one is that of INSERT_NO_INDEX_TPS.
INSERT_INDEX_TPS: dict[str, float] = {
    "random_char": 260, "random_char_plain": 222, "random_char_unique": 231, "random_char_none": 1234,
}  # fmt: skip

# P1: TPS of each key with every index dropped.
INSERT_NO_INDEX_TPS: dict[str, float] = {"random_char_none": 1235, "time_char_none": 1233, "bigint_none": 1272}

# P1: busy percent and milliseconds a request of the device, by key and rows.
INSERT_DEVICE: dict[str, dict[int, tuple[float, float]]] = {
    "random_char": {
        0: (99.2, 10.66), 1_000_000: (98.8, 13), 10_000_000: (99.2, 16.8), 50_000_000: (99.6, 18.4),
        100_000_000: (99.6, 28.2),
    },
    "time_char": {
        0: (98.7, 4.4), 1_000_000: (97.2, 4.0), 10_000_000: (97.7, 3.9), 50_000_000: (97.7, 3.9),
        100_000_000: (99.2, 28.7),
    },
    "bigint": {
        0: (97.5, 3.4), 1_000_000: (96.6, 3.5), 10_000_000: (96.8, 3.0), 50_000_000: (96.8, 3.5),
        100_000_000: (96.8, 11.3),
    },
}  # fmt: skip

# P1: milliseconds of a transaction and of its INSERT: random keys without rows (the run of 891 TPS), and at 10 M rows.
INSERT_LATENCY_MS = {
    ("random_char", 0): (8.974, 9.006), ("random_char_plain", 10_000_000): (36.080, 38.512),
    ("random_char_unique", 10_000_000): (34.693, 36.410),
}  # fmt: skip

# P1: what iostat shows while random keys come.
INSERT_IOSTAT = {
    "device_writes_per_s": 96.0, "device_written_per_s": 2048 * 1024.0, "device_queue": 1.02, "device_await_ms": 10.67,
    "device_busy_percent": 99.2,
}  # fmt: skip

# P1: how many times as fast as random keys, with 100 M rows; and its entries of an index page, 8000 / 22.
INSERT_FOLDS = {"time_char": 6, "bigint": 9}
INSERT_FOLD_ROWS = 100_000_000
INSERT_PAGE_ENTRIES = 363

# P3, three SATA disks of 7200 rpm, shared_buffers of 4 GB, 4 hours a run: TPS relative to that of time and sequence in
# the same table: an empty one (small), one that fits into memory but not shared buffers (medium), one that does not
# (large); GB of WAL of a run; hit ratio of shared buffers and distinct blocks of the index in the WAL, large, as
# published. Nearly all are rounded there: random keys reach "under" 0.30 and write "over" 20 GB.
SEQUENTIAL_RELATIVE: dict[str, dict[str, float]] = {
    "small": {"random": 1.0, "time60": 1.0, "sequence256": 1.0, "sequence": 1.0},
    "medium": {"random": 0.30, "time60": 1.0, "sequence256": 1.0, "sequence": 1.0},
    "large": {"random": 0.20, "time60": 1.0, "sequence256": 0.50, "sequence": 1.0},
}
SEQUENTIAL_MEDIUM_TPS = {"random": 260, "others": 840}  # about
SEQUENTIAL_ROWS = SEQUENTIAL_MEDIUM_TPS["others"] * 4 * 3600  # of 4 hours
SEQUENTIAL_WAL_GB: dict[str, dict[str, float | str]] = {
    "small": {"random": 3.5, "time60": 3.5, "sequence256": 3.5, "sequence": 3.5},
    "medium": {"random": 20, "time60": 2.5, "sequence256": 2.5, "sequence": 5},
    "large": {"random": 13, "time60": "less", "sequence256": 20, "sequence": "less"},
}
SEQUENTIAL_HITS: dict[str, float] = {"random": 85, "time60": 99, "sequence256": 93, "sequence": 99}
SEQUENTIAL_BLOCKS: dict[str, str] = {
    "random": "1", "time60": "less", "sequence256": "more than 2", "sequence": "less",
}  # fmt: skip
