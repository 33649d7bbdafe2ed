"""`existing_store`: opens stores that exist, and never makes one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from a3gnn.errors import StoreError
from a3gnn.measurement import Measurement

if TYPE_CHECKING:
    from a3gnn.profiling.store.store import ProfileStore

#: The default store of `a3gnn profile`, `profiles`, `recommend` and `surrogate`, below the working folder.
DEFAULT_STORE = Path("runs") / "profiles.db"


def existing_store(place: str | Path | None = None) -> ProfileStore | None:
    """Opens the store at `place`, a path or an SQLAlchemy URL; makes no file.

    Args:
        place: The store; None for `DEFAULT_STORE` if that exists, else for no store.

    Raises:
        StoreError: There is no store at `place`, or it can't be opened.
    """
    from a3gnn.profiling.store.store import ProfileStore

    if place is None:
        return ProfileStore.open(DEFAULT_STORE) if DEFAULT_STORE.exists() else None
    if "://" not in str(place) and not Path(place).exists():
        raise StoreError(
            f"no profile store exists at {place}; give the --store of an a3gnn profile, or the profiles.sqlite in the "
            "folder of a tune"
        )
    return ProfileStore.open(place)


def existing_rows(place: str | Path | None = None) -> list[Measurement]:
    """Returns the measurements of the current version in the store at `place`; see `existing_store`.

    Raises:
        StoreError: There is no store at `place`, or it can't be read.
    """
    opened = existing_store(place)
    if opened is None:
        return []
    with opened as store:
        return store.rows()
