"""Uses of existing tunes that need no trial: pick, compare, export."""
