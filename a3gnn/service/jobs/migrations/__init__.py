"""Migrations of the service's tables: Alembic brings a database of any released schema to the current one."""
