"""Generate the SQL edition for the command-line tool, with @extschema@ as the schema of the public functions."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from edition.current import NAMES
from edition.join import made, names, parts, script, version, whole
from edition.update import PLACE, update


def finished(sources: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and content of each file: the script, an update from each released version, and lists of names."""
    new = version(sources)
    yield f"inorder-sql--{new}.sql", whole(script(sources, PLACE))
    for path in sorted((sources / "sql" / "released").glob("inorder-sql--*.sql")):
        if (old := path.stem.partition("--")[2]) != new:
            yield f"inorder-sql--{old}--{new}.sql", whole(update(sources, old, PLACE))
    lists = {"called": names(parts(sources)), "made": made(sources)}
    yield NAMES, json.dumps(lists, indent=1) + "\n"


def write(sources: Path, folder: Path) -> None:
    """Write each file atomically, because other processes may be reading it, and remove files of other versions."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as work:
        files = dict(finished(sources))
        for name, text in files.items():
            (Path(work) / name).write_text(text, encoding="utf-8")
            os.replace(Path(work) / name, folder / name)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink(missing_ok=True)
