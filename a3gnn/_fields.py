"""Makes dataclasses from JSON objects, checks schema versions and names, and hashes fields."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from a3gnn.errors import ConfigError, UsageError, unknown_name

T = TypeVar("T")
#: Version of the fields of `TrainConfig` and `Task`.
SCHEMA_VERSION = 1


class Stored:
    """The base of dataclasses that JSON files hold."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the object of `to_dict`."""
        return from_fields(cls, fields)


def from_fields(cls: type[T], fields: Mapping[str, Any]) -> T:
    """Returns `cls(**fields)` with lists as tuples; the error for an unknown or missing field names it.

    Of a `Stored` class, fields that are enumerations, or stored objects themselves, are made of their JSON types.
    """
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in fields:
        if name not in known:
            raise unknown_name(f"a field of {cls.__name__}", name, known)
    for name, field in known.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in fields and not optional:
            raise UsageError(f"{cls.__name__} must have a field {name!r}; the file lacks it")
    # mypy compares the hash of the class with that of its objects.
    makers = _makers(cls) if issubclass(cls, Stored) else {}  # type: ignore[arg-type]
    made = {name: makers[name](value) for name, value in fields.items() if name in makers}
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()} | made)


def _optional(make: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else make(value)


@functools.cache
def _makers(cls: type[Stored]) -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(cls).items():
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, Stored | Enum):
                make: Callable[[Any], Any] = kind.from_dict if issubclass(kind, Stored) else kind
                found[name] = functools.partial(_optional, make) if NoneType in kinds else make
    return found


def check_version(name: str, version: Any) -> None:
    """Raises a `ConfigError` unless `version`, the schema version of a `name`, is the current one."""
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{name}.schema_version must be {SCHEMA_VERSION}, got {version!r}; tune again with this version of a3gnn"
        )


def check_names(kind: str, fields: Mapping[str, Any], known: set[str]) -> None:
    """Raises a `ConfigError` if a field of the type `kind` is not in `known`; the message has the nearest name."""
    for name in fields:
        if name not in known:
            raise ConfigError(str(unknown_name(f"a field of {kind}", name, known)))


def hash_of(fields: Mapping[str, Any]) -> str:
    """Returns a short stable hash of `fields`, JSON types."""
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=8).hexdigest()
