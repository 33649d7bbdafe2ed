"""What Alembic runs: the steps, on the connection that `a3gnn.service.database` has opened."""

from __future__ import annotations

from alembic import context

from a3gnn.service.database import TABLES

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TABLES,
    version_table="a3gnn_service_version",
    transactional_ddl=True,
)
context.run_migrations()
