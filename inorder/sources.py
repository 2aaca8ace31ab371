"""The installation of this tool: the sources of the extension, and the command that installs an extra.

In a checkout, the sources are next to this package. A wheel has a copy of the sources in ``extension/source``.
"""

import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGE = Path(__file__).resolve().parent
DEBIAN = {"advise": "python3-jinja2 python3-pglast"}  # Debian packages that correspond to an extra


def checkout() -> Path | None:
    return PACKAGE.parent if (PACKAGE.parent / "inorder.control").exists() else None


def extras_of_pipx(file: Path) -> list[str]:
    """Return the extras in the last pipx command. A new command must repeat them, because pipx removes all others."""
    requested = json.loads(file.read_text(encoding="utf-8"))["main_package"]["package_or_url"]
    extras = re.search(r"\[([\w, -]+)\](?= ?@|$)", requested or "")
    return re.findall(r"[\w-]+", extras[1]) if extras else []


def installer(extra: str) -> str:
    """Return the command that installs an extra with the package manager that installed this tool.

    Debian installs into dist-packages. pipx leaves a file in its environments, and pip a file with the source.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  # slow, and rarely needed

    if PACKAGE.parent.name == "dist-packages":
        return f"apt install {DEBIAN[extra]}" if extra in DEBIAN else f"pipx install 'inorder[{extra}]'"
    program = f"{sys.executable} -m pip install"
    of_pipx = Path(sys.prefix) / "pipx_metadata.json"
    if of_pipx.exists():
        program, extra = "pipx install --force", ",".join(sorted({extra, *extras_of_pipx(of_pipx)}))
    try:
        origin = json.loads(distribution("inorder").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a checkout that was not installed
        origin = {"url": PACKAGE.parent.as_uri(), "dir_info": {"editable": True}}
    url = origin.get("url", "")
    if url.startswith("file:"):
        editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
        return f"{program} {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    system = origin.get("vcs_info", {}).get("vcs")
    return f"{program} 'inorder[{extra}]{f' @ {system}+{url}' if system else ''}'"
