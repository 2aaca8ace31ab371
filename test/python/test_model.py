"""The TLA+ model: inorder's method passes, and other methods fail.

The functions named in the model exist in the code, and the model accepts each step of a real server.
"""

import random
import re
import shutil

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, ROOT, text
from load.stress.round import SETTINGS, prepare
from model import changes
from model.checks import CHECKS, FOLDER, check
from model.trace import TABLE, Short, record, replay, steps_of
from world.sql import value
from world.world import World

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="the model checker needs Java")
SMALL = [name for name, wanted in CHECKS.items() if wanted.is_small]


@needs_java
@pytest.mark.parametrize("name", SMALL)
def test_each_check_of_the_model_holds_or_fails_as_expected(name: str) -> None:
    result = check(name)
    assert result.failed == CHECKS[name].fails
    assert result.states > 1


def test_each_faulty_variant_is_checked_and_must_fail() -> None:
    for module in ("Reader", "Feed", "Ordered", "Workers", "Changes"):
        text = FOLDER.joinpath(f"{module}.tla").read_text()
        own_methods = re.findall(r'\\\* "(\w+)" is inorder\'s method', text)
        variants = set(re.findall(r'Variant (?:=|#) "(\w+)"', text)) | {
            name for names in re.findall(r"Variant \\in \{(.*?)\}", text) for name in re.findall(r'"(\w+)"', names)
        }
        checked = {
            wanted.constants["Variant"].strip('"'): wanted.fails
            for wanted in CHECKS.values()
            if wanted.module == module
        }
        assert variants <= set(checked)
        assert {name for name, fails in checked.items() if not fails} == set(own_methods)


def test_names_that_the_page_cites_exist_in_the_model_and_the_code() -> None:
    page = (FOLDER / "README.md").read_text().partition("has in common with the code")[2]
    rows = re.findall(r"^\| (.*`.*) \| (.*) \|$", page, re.MULTILINE)
    source = "\n".join(path.read_text() for path in (ROOT / "sql").rglob("*.sql"))
    model = "\n".join(path.read_text() for path in FOLDER.glob("*.tla"))
    assert len(rows) > 8
    for model_names, code_names in rows:
        for name in re.findall(r"`(\w+)", model_names):
            assert re.search(rf"^ *{name}\b.*==|\b{name} \|->|^ +{name},|{name} +\\\*", model, re.MULTILINE), name
        for name in re.findall(r"`(\w+)`", code_names):
            assert re.search(rf"CREATE FUNCTION \S+\.{name}\(", source), name


def test_each_premise_of_a_copy_has_its_function_and_a_failing_variant() -> None:
    """Each premise has a function in the named file, and a variant of the model that fails without it.

    Premises about the sink have only a variant.
    """
    rows = re.findall(r"^\| [^|]+ \| ([^|]*`[^|]*) \| `([\w-]+)` \|$", text("test/model/README.md"), re.MULTILINE)
    assert {name for _, name in rows} == {
        name for name, wanted in CHECKS.items() if wanted.module == "Changes" and wanted.fails
    }
    for checked, _ in rows:
        for name, path in re.findall(r"`(\w+)`[^`]*?\(\[[\w.]+\]\(\.\./\.\./(\S+)\)\)", checked):
            start = f"\n{name}(" if path.endswith(".c") else f"CREATE FUNCTION inorder_internal.{name}("
            assert start in (ROOT / path).read_text(), (name, path)


TRANSACTIONS, SESSIONS = 6, 3


@needs_java
@pytest.mark.server
def test_the_steps_of_a_server_are_a_behaviour_of_the_model(server: Installation) -> None:
    """The steps are transactions of the stress test's writers, snapshots, batches that are cut, and positions."""
    with Cluster(server) as cluster:
        cluster.start(SETTINGS)
        world = World(cluster.dsn, seed=1)
        prepare(world, [])
        writers = [Short(world, number) for number in range(SESSIONS)]
        with connect(cluster.dsn) as connection:
            connection.execute("SELECT feed_enable(%s)", [TABLE])
            position = str(value(connection, "SELECT reader_start(%s, 'now')::text", TABLE))
            first = int(value(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
            for writer in writers:
                writer.start()
            recorded = record(world, connection, position, first, TRANSACTIONS)
            world.stop.set()
            Short.turns.release(1000)
            for writer in writers:
                writer.join()
    assert world.problems == []
    steps = steps_of(recorded)
    assert any(batch.cut for batch in recorded.polls) and any("abort" in step for step in steps)
    assert replay(steps) == (len(steps), "")
    # The model rejects two wrong steps: a batch that ends a row later, and one that leaves out a row.
    (cut, *_) = [place for place, step in enumerate(steps) if re.search(r"upto .-> [1-9]", step)]
    later = re.sub(r"upto .-> (\d)", lambda match: f"upto |-> {int(match[1]) + 1}", steps[cut])
    assert replay([*steps[:cut], later])[0] == cut
    assert replay([*steps[: cut + 1], re.sub(r"(, )?<<\d+, \d+>>>>", ">>", steps[cut + 1])])[0] == cut + 1


@needs_java
@pytest.mark.server
def test_the_steps_of_a_copy_are_a_behaviour_of_the_model(cluster: Cluster, fresh: Connection) -> None:
    """The steps are writes, TRUNCATE, batches that a reader applies in its snapshot, and repeated batches."""
    dsn = f"{cluster.dsn} dbname={fresh.info.dbname}"
    steps = changes.Schedule(dsn, random.Random(20), SESSIONS).run(20)
    assert {name for step in steps for name in re.findall(r'^do .-> "(\w+)"', step)} >= {
        *changes.STATEMENT,
        "truncate",
        "refused",
    }
    assert changes.replay(steps) == (len(steps), "")
    if not LONG_RUN:
        return
    # The model rejects a copy that lacks a row.
    stored = [place for place, step in enumerate(steps) if "<<" in step][-1]
    lacks = re.sub(r"<<\d+, \d+>>(, )?", "", steps[stored], count=1)
    assert changes.replay([*steps[:stored], lacks])[0] == stored
