"""Where `a3gnn profile` keeps measurements, and `a3gnn profiles` and `a3gnn recommend` look for them."""

from __future__ import annotations

from pathlib import Path

#: A file below the working folder, where nothing else is asked for.
DEFAULT_STORE = Path("runs") / "profiles.db"
