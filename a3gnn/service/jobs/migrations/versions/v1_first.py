"""The first schema: graphs and jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "a3gnn_graphs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False, index=True),
        sa.Column("home", sa.String(32)),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "a3gnn_jobs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("graph", sa.Integer, nullable=False, index=True),
        sa.Column("study", sa.Integer, index=True),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("stop_asked", sa.Boolean, nullable=False),
        sa.Column("home", sa.String(32), index=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("started", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("error", sa.Text),
        sa.Column("summary", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
