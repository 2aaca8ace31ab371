"""The pytest fixture ``lossless``. ``lossless.check(reader)`` fails if a reader loses rows or returns rows twice."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from inorder.lab.check.lossless import Lossless


@pytest.fixture(scope="session")
def lossless() -> Iterator["Lossless"]:
    """Start a temporary server on which readers are checked. Requires ``inorder[lab]``."""
    from inorder.lab.check.lossless import Lossless  # noqa: PLC0415  # pytest loads this module in every run
    from inorder.lab.check.run import throw_away  # noqa: PLC0415

    with throw_away(()) as (target, _place):
        yield Lossless(target)
