"""Reads `tuned.json`: finds the file, and checks its schema version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from a3gnn._fields import SCHEMA_VERSION
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError, UsageError
from a3gnn.task import Task

T = TypeVar("T")


def read_tuned(path: Any, of: Callable[[dict[str, Any]], T]) -> T:
    """Returns what `of` makes of the fields of the tuned.json at `path`, or in the folder `path`.

    Raises:
        UsageError: `path` is no path.
        ConfigError: The file is missing, broken, another kind of file, or of another schema version.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(
            "config must be a TrainConfig, a dict of its fields, a TunedConfig, or the path of a tuned.json, got "
            f"{path!r}"
        )
    file = Path(path) / "tuned.json" if Path(path).is_dir() else Path(path)
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't read {file}: {error.strerror}; a3gnn tune --out DIR writes one") from error
    except ValueError as error:
        raise ConfigError(f"{file} must be the tuned.json of a tune, but is not JSON: {error}") from error
    if not isinstance(fields, dict) or "schema_version" not in fields:
        raise ConfigError(f"{file} must be the tuned.json of a tune, but holds something else; tune again")
    if fields["schema_version"] != SCHEMA_VERSION:
        raise ConfigError(
            f"{file} must have schema version {SCHEMA_VERSION}, got {fields['schema_version']!r}; tune again"
        )
    try:
        return of(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} must be a complete tuned.json, but a field is missing or has the wrong type ({error}); tune again"
        ) from error
    except A3GNNError as error:
        raise ConfigError(f"{file}: {error}") from error


def tuned_config(path: Any) -> tuple[TrainConfig, Task | None]:
    """Returns the configuration in the tuned.json at `path`, or in the folder `path`, and what it trains, if known.

    Raises:
        UsageError: `path` is no path.
        ConfigError: The file is missing, broken, or not a tuned.json of this version.
    """

    def of(fields: dict[str, Any]) -> tuple[TrainConfig, Task | None]:
        task, config = fields.get("task"), TrainConfig.from_dict(fields["config"])
        return config, None if task is None else config.task_of(Task.from_dict(task))

    return read_tuned(path, of)
