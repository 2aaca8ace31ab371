"""Where the sources of the extension are: beside this package in a checkout, inside of it where it was installed."""

from pathlib import Path

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
