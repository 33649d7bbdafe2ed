"""The time at which a job was deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Adds the column."""
    op.add_column("a3gnn_jobs", sa.Column("deleted", sa.Float))
