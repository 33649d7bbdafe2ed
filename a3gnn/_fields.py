"""Dataclasses from JSON objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from a3gnn.errors import UsageError, unknown_name

T = TypeVar("T")


def from_fields(cls: type[T], fields: Mapping[str, Any]) -> T:
    """Returns `cls(**fields)` with lists as tuples; a field that is unknown or missing is named in the error."""
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in fields:
        if name not in known:
            raise unknown_name(f"a field of {cls.__name__}", name, known)
    for name, field in known.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in fields and not optional:
            raise UsageError(f"{cls.__name__} must have a field {name!r}; the file lacks it")
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
