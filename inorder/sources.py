"""Where this tool comes from: the sources of the extension, and the command that brings an extra.

The sources are beside this package in a checkout. A wheel has a copy of them in ``extension/source``.
"""

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    return PACKAGE.parent if (PACKAGE.parent / "inorder.control").exists() else None


def installer(extra: str) -> str:
    """The command that brings an extra into the environment of this tool, also if that was installed from a checkout.

    pipx leaves a file in the environments that it makes; pip leaves one that says what it was given.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  # takes time, and is rarely needed

    program = "pipx install --force" if (Path(sys.prefix) / "pipx_metadata.json").exists() else "pip install"
    try:
        given = json.loads(distribution("inorder").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        given = {}
    url = given.get("url", "")
    if url.startswith("file:"):
        editable = "--editable " if given.get("dir_info", {}).get("editable") else ""
        return f"{program} {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    system = given.get("vcs_info", {}).get("vcs")
    return f"{program} 'inorder[{extra}]{f' @ {system}+{url}' if system else ''}'"
