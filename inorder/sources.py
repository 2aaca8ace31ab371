"""Where this tool comes from: the sources of the extension, and the command that brings an extra.

The sources are beside this package in a checkout, and inside of it where it was installed.
"""

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from inorder.errors import InputError

PACKAGE = Path(__file__).resolve().parent


def folder() -> Path:
    """The folder with inorder.control, Makefile, sql/ and src/.

    A wheel has a copy of them in ``extension/source``. This imports nothing but Python, as ``make`` runs it too.
    """
    for place in (PACKAGE.parent, PACKAGE / "extension" / "source"):
        if (place / "inorder.control").exists():
            return place
    raise InputError("the sources of the extension are not installed with this tool")


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
