"""The keys by which a repeated request finds the job that it has made, and digests of these requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Adds the columns."""
    op.add_column("a3gnn_jobs", sa.Column("key", sa.String(64)))
    op.add_column("a3gnn_jobs", sa.Column("asked", sa.String(64)))
    op.create_index("ix_a3gnn_jobs_key", "a3gnn_jobs", ["key"], unique=True)
