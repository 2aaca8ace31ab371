"""Create tables of the models, and a feed."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS inorder")
    op.create_table(
        "customers",
        sa.Column("id", sa.Uuid(), server_default=sa.func.uuid_v7_nextval(), primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Uuid(), server_default=sa.func.uuid_xact_nextval(), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
    )
    op.execute("SELECT feed_create('mailer', 'events')")


def downgrade() -> None:
    op.execute("SELECT feed_drop('mailer')")
    op.drop_table("events")
    op.drop_table("customers")
