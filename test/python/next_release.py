"""A fictitious next version, which script/release creates in a copy of the tree, as it would for a maintainer.

The version adds a C function, an SQL function, a column of a state table, and an attribute of positions, and changes
existing functions.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from inorder import __version__
from inorder.extension.building import build_folder, locked, run_make
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import make_readable

from edition.update import statements

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = ROOT / "test" / "upgrade"
COPIED = (
    ".gitignore", "src", "sql", "script", "debian", "docs", "inorder", "Makefile", "META.json", "CHANGELOG.md",
    "inorder.control",
)  # fmt: skip
NEXT = re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), __version__)
COLUMN = "times_renamed"
# The changes: a file, its current text, and its text in the next version.
CHANGES = (
    ("Makefile", "    revoke.sql \\\n", "    added.sql \\\n    revoke.sql \\\n"),
    (
        "sql/ports/state.sql",
        "    UNIQUE (name, owner, system)\n",
        f"    {COLUMN} int,\n    UNIQUE (name, owner, system)\n",
    ),
    (
        "sql/feed/feed.sql",
        "SET name = new_name WHERE",
        f"SET name = new_name,\n        {COLUMN} = coalesce({COLUMN}, 0) + 1 WHERE",
    ),
    ("sql/ports/position.sql", "    walked_from bigint\n);", "    walked_from bigint,\n    noted bigint\n);"),
    *(
        ("sql/ports/position.sql", f"    origin text\n);\nCOMMENT ON TYPE @extschema@.{name}",
         f"    origin text,\n    noted text\n);\nCOMMENT ON TYPE @extschema@.{name}")
        for name in ("feed_position", "feed_batch")
    ),
    ("sql/ports/position.sql", "RETURN 1;\n", "RETURN 2;\n"),
)  # fmt: skip
# The end of an expression that creates a value of a type with the new attribute.
MADE = re.compile(r"\)(\s*::@extschema@\.feed_(?:order|position|batch)\b)")
GRANT = "GRANT EXECUTE ON FUNCTION inorder_internal.added_in_c(bigint) TO PUBLIC;\n"


def git(tree: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", f"safe.directory={tree}"]
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True, cwd=tree).stdout


def copy_tree(tree: Path) -> None:
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    git(tree, "init", "--quiet")
    commit(tree)


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "all")


def release(tree: Path, version: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([tree / "script" / "release", version], check=False, capture_output=True, text=True, cwd=tree)


def begin_next(tree: Path) -> None:
    if not (tree / "sql" / "released" / f"inorder--{__version__}.sql").exists():
        done = release(tree, __version__)
        assert done.returncode == 0, done.stderr
        commit(tree)
    done = release(tree, NEXT)
    assert done.returncode == 0, done.stderr


def sql_statements(tree: Path) -> list[str]:
    folders = ("keys", "types", "ports", "feed")
    paths = [path for folder in folders for path in sorted((tree / "sql" / folder).glob("*.sql"))]
    return [statement for path in paths for statement in statements(path.read_text())]


def make_changes(tree: Path) -> None:
    """Change the sources, and write the update scripts with CREATE for new objects and OR REPLACE for changed ones."""
    before = sql_statements(tree)
    for name, old, new in CHANGES:
        text = (tree / name).read_text()
        assert text.count(old) == 1, f"{name}: {old}"
        (tree / name).write_text(text.replace(old, new))
    for path in (tree / "sql").rglob("*.sql"):
        if not path.is_relative_to(tree / "sql" / "released"):
            path.write_text(MADE.sub(r",\n    NULL)\1", path.read_text()))
    changed = [
        statement
        for statement in sql_statements(tree)
        if statement not in before and statement.startswith("CREATE FUNCTION")
    ]
    assert len(changed) > 3
    comment = (MADE_UP / "state.sql").read_text().partition("\n")[2]
    for name, added in (("sql/ports/state.sql", comment), ("sql/rights.sql", GRANT)):
        with (tree / name).open("a") as file:
            file.write(added)
    shutil.copy(MADE_UP / "added.c", tree / "src")
    shutil.copy(MADE_UP / "added.sql", tree / "sql")
    shutil.copy(MADE_UP / "added_plain.sql", tree / "sql" / "plain" / "added.sql")
    state = (MADE_UP / "state.sql").read_text() + (MADE_UP / "positions.sql").read_text()
    replaced = "".join(statement.replace("CREATE ", "CREATE OR REPLACE ", 1) + "\n" for statement in changed)
    with (tree / "sql" / "update" / f"inorder--{__version__}--{NEXT}.sql").open("a") as file:
        file.write(f"{state}{replaced}{(MADE_UP / 'added.sql').read_text()}")
    with (tree / "sql" / "update" / f"inorder-sql--{__version__}--{NEXT}.sql").open("a") as file:
        file.write(state)


def tool(tree: Path, cluster: Cluster, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "inorder", *arguments], check=False, capture_output=True, text=True, cwd="/",
        env=cluster.environment() | {"PYTHONPATH": str(tree)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(server: Installation, tree: Path, folder: Path) -> Path:
    objects = build_folder(server, ROOT)
    folder.mkdir()
    with locked(objects):
        shutil.copytree(objects / "src", folder / "src")
    stage = folder / "stage"
    run_make(server, tree / "Makefile", folder, "install", f"DESTDIR={stage}")
    return stage


def install(cluster: Cluster, stage: Path, *, library: bool = True, scripts: bool = True) -> None:
    root = Path(str(cluster.server.pkglibdir).removesuffix(str(cluster.original.pkglibdir.resolve())))
    for path in (path for path in stage.rglob("*") if path.is_file()):
        if library if path.suffix == ".so" else scripts:
            target = root / path.relative_to(stage)
            shutil.copy(path, f"{target}.new")
            os.replace(f"{target}.new", target)
    make_readable(root)
