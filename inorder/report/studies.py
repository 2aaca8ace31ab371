"""The published studies that the experiments follow: what each was, in a line."""

STUDIES = {
    "P1": "random UUIDs against ordered ones and a sequence, as char(32) on a spinning disk (2018, PostgreSQL 10.4).",
    "P2": "whether the sequence is the bottleneck of inserts (PostgreSQL 9.3.4, a virtual machine with 4 cores).",
    "P3": "generators of sequential UUIDs, four hours a run on three spinning disks (the extension sequential_uuids).",
    "P4": "version-1 UUIDs stored in the order of time (2019, the extension uuid_v1).",
    "P5": "reading an insert-only table without losing rows, and counting it (2013, a development version of 9.4).",
}
