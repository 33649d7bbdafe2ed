"""The default store of `a3gnn profile`, `a3gnn profiles` and `a3gnn recommend`."""

from __future__ import annotations

from pathlib import Path

#: A file below the working folder.
DEFAULT_STORE = Path("runs") / "profiles.db"
