"""The measured profiles that come with a3gnn."""

from __future__ import annotations

from pathlib import Path

from a3gnn.measurement import Measurement, distinct
from a3gnn.profiling.store.jsonl import read_measurements


def shipped_profiles() -> Path | None:
    """Returns the folder of the shipped profiles: in the package if it was built, beside it in a checkout, or None."""
    package = Path(__file__).parents[2]
    folders = (package / "_profiles", package.parent / "profiles")
    return next((folder for folder in folders if folder.is_dir()), None)


def shipped_measurements() -> list[Measurement]:
    """Returns every shipped measurement once, files in the order of their names; empty where none are shipped."""
    folder = shipped_profiles()
    files = sorted(folder.glob("*.jsonl.gz")) if folder else []
    return distinct(measurement for file in files for measurement in read_measurements(file))
