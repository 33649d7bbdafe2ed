"""How the service's tables came to be, step by step: Alembic brings a database of any released schema to this one."""
