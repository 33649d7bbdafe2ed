"""Sessions of browsers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "a3gnn_sessions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("expires", sa.Float, nullable=False),
    )
