"""Checks of fields that are read from files, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from a3gnn.errors import ConfigError, unknown_name

#: Version of the fields of `TrainConfig` and `Task`.
SCHEMA_VERSION = 1


def check_version(name: str, version: Any) -> None:
    """Raises a `ConfigError` unless `version`, of the fields of the type `name`, is the current one."""
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{name}.schema_version must be {SCHEMA_VERSION}, got {version!r}; tune again with this version of a3gnn"
        )


def check_names(kind: str, fields: Mapping[str, Any], known: set[str]) -> None:
    """Raises a `ConfigError` that names the nearest of `known` where a field of the type `kind` is not among these."""
    for name in fields:
        if name not in known:
            raise ConfigError(str(unknown_name(f"a field of {kind}", name, known)))


def hash_of(fields: Mapping[str, Any]) -> str:
    """Returns a short stable hash of `fields`, JSON types."""
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=8).hexdigest()
