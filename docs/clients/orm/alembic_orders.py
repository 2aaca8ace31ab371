"""The model of an existing table that a feed reads, and the names that Alembic compares with the models."""

import re

import sqlalchemy as sa
from models import Base
from sqlalchemy.orm import Mapped, mapped_column


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[str]
    xact: Mapped[int] = mapped_column(sa.BigInteger, server_default=sa.func.xact_id())


def include_name(name: str | None, kind: str, parents: object) -> bool:  # for context.configure() in env.py
    return kind != "index" or re.search(r"_\d+_number$", name or "") is None
