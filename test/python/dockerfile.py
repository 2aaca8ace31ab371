"""Run the instructions of a Dockerfile in folders, without Docker. The root of each stage is a folder.

Only the forms of FROM, RUN and COPY that this project's Dockerfile uses are supported.
"""

import re
import shutil
from pathlib import Path

import trees


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = dockerfile.read_text().replace("\\\n", " ")
    return [(name, words) for name, words in re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE)]


def stages(dockerfile: Path) -> list[list[tuple[str, str]]]:
    blocks: list[list[tuple[str, str]]] = []
    for instruction in instructions(dockerfile):
        if instruction[0] == "FROM":
            blocks.append([])
        blocks[-1].append(instruction)
    return blocks


def run_dockerfile(dockerfile: Path, image: trees.Tree, environment: dict[str, str]) -> None:
    """Run the last stage in the image, and each earlier stage in a separate system."""
    exports = "".join(f"export {name}={value}; " for name, value in environment.items())
    built: dict[str, trees.Tree] = {}
    *earlier, last = stages(dockerfile)
    for stage in (*earlier, last):
        (_, base), *steps = stage
        name = base.partition(" AS ")[2]
        tree = image if stage is last else trees.Tree(image.name, image.base, image.folder / "stages" / name)
        built[name] = tree
        for instruction, words in steps:
            if instruction == "RUN":
                tree.run(exports + words)
            else:
                assert instruction == "COPY", f"{instruction} is not known here"
                copy(words, dockerfile.parent, tree, built)


def copy(words: str, context: Path, tree: trees.Tree, built: dict[str, trees.Tree]) -> None:
    match = re.fullmatch(r"(?:--from=(\S+) )?(\S+) (\S+)", words)
    assert match, words
    stage, source, target = match.groups()
    folder = built[stage].changes / source.lstrip("/") if stage else context / source
    ignored = () if stage else (context / ".dockerignore").read_text().split()
    shutil.copytree(
        folder, tree.changes / target.lstrip("/"), dirs_exist_ok=True, symlinks=True,
        ignore=lambda place, names: {n for n in names if str((Path(place) / n).relative_to(folder)) in ignored},
    )  # fmt: skip
