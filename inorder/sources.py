"""Where the sources of the extension are: beside this package in a checkout, inside of it where it was installed."""

from pathlib import Path

from inorder.errors import InputError

PACKAGE = Path(__file__).resolve().parent


def folder() -> Path:
    """The folder with inorder.control, Makefile, sql/ and src/.

    A package has a copy of them in ``extension/``. It imports nothing but Python, as ``make`` runs it too.
    """
    for place in (PACKAGE / "extension", PACKAGE.parent):
        if (place / "inorder.control").exists():
            return place
    raise InputError(f"the sources of the extension are neither in {PACKAGE / 'extension'} nor in {PACKAGE.parent}")
