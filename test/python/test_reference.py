"""docs/reference.md is what the database says, on any server."""

import pytest
from inorder.connection.database import Connection

import reference

pytestmark = pytest.mark.server


def test_the_page_is_up_to_date(fresh: Connection) -> None:
    assert reference.page(fresh) == reference.FILE.read_text(), "run script/reference"
