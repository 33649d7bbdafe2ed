"""Alembic's entry: runs the migrations on the connection opened by `a3gnn.service.jobs.database`."""

from __future__ import annotations

from alembic import context

from a3gnn.service.jobs.database import TABLES

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TABLES,
    version_table="a3gnn_service_version",
    transactional_ddl=True,
)
context.run_migrations()
