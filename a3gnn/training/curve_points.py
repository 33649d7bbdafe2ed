"""Where a learning curve is evaluated first."""
