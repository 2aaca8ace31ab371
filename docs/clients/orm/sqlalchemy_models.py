"""Models with keys that the server generates."""

import uuid
from datetime import datetime

from sqlalchemy import DateTime, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=func.uuid_v7_nextval())
    name: Mapped[str]


class Event(Base):  # read in batches
    __tablename__ = "events"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=func.uuid_xact_nextval())
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    body: Mapped[str]
