"""`schema_of`: the JSON schema of a type, such as the answers of commands are made of."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Never,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from a3gnn.config import TrainConfig

#: The JSON types of Python's.
_TYPES = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
#: The attributes in a docstring: a name, and its text, which may go on in further lines.
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


class Changed:
    """Fields of a JSON object that differ from the type's: `Annotated[Holding, Changed(hardware=str)]`.

    A type replaces the field's or adds one, `NotRequired` makes it optional, and `Never` removes it.
    """

    def __init__(self, **fields: Any) -> None:
        self.fields = fields


#: The classes whose `to_dict` has other fields than the class.
_CHANGED: dict[type, Changed] = {
    TrainConfig: Changed(batch_size=NotRequired[int | Literal["all"]], searched=NotRequired[dict[str, Any]])
}


class Member(NamedTuple):
    """A field of a JSON object."""

    kind: Any  # its Python type
    required: bool  # whether it is always present
    text: str  # its meaning; "" if the type does not say it


def schema_of(kind: Any) -> dict[str, Any]:
    """Returns the JSON schema (draft 2020-12) of values of the type `kind`: each class among them is in `$defs`.

    Types are JSON's own as Python has them, and dataclasses, named tuples, typed dicts and pydantic models of such.
    Objects have no further fields. Meanings are texts in `Annotated`, or come from the section Attributes of the
    classes' docstrings.
    """
    found = _Schemas()
    root = found.of(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": found.definitions}


class _Schemas:
    """Makes schemas, and collects the classes' in `definitions`, by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._classes: dict[str, type] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Returns the schema of the type `kind`."""
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is Any:
            return {}
        if kind in _TYPES:
            return {"type": _TYPES[kind]}
        if origin is Annotated:
            return self._object(arguments[0], arguments[1].fields)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return self._any_of([self.of(one) for one in arguments])
        if inspect.isclass(kind) and issubclass(kind, Enum):
            return {"enum": [one.value for one in kind]}
        if origin is not None and issubclass(origin, Mapping):
            inner = self.of(arguments[1])
            return {"type": "object"} | ({"additionalProperties": inner} if inner else {})
        if origin is not None and issubclass(origin, Collection):
            return self._array(arguments)
        return self._named(kind)

    def _array(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        kinds = dict.fromkeys(one for one in arguments if one is not Ellipsis)
        fixed = len(arguments) > 1 and Ellipsis not in arguments
        length = {"minItems": len(arguments), "maxItems": len(arguments)} if fixed else {}
        return {"type": "array", "items": self._any_of([self.of(one) for one in kinds]), **length}

    @staticmethod
    def _any_of(found: list[dict[str, Any]]) -> dict[str, Any]:
        if len(found) == 1:
            return found[0]
        simple = all(set(one) == {"type"} for one in found)
        return {"type": [one["type"] for one in found]} if simple else {"anyOf": found}

    def _named(self, kind: type) -> dict[str, Any]:
        name = kind.__name__
        if self._classes.setdefault(name, kind) is not kind:
            raise TypeError(f"two classes of a schema must not have one name, got {kind} and {self._classes[name]}")
        if name not in self.definitions:
            self.definitions[name] = {}  # for a class that contains itself
            self.definitions[name] = self._object(kind, _CHANGED.get(kind, Changed()).fields)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, kind: type, changed: Mapping[str, Any]) -> dict[str, Any]:
        known = dict(members(kind))
        for name, one in changed.items():
            optional, text = get_origin(one) is NotRequired, known[name].text if name in known else ""
            known[name] = Member(get_args(one)[0] if optional else one, not optional, text)
        known = {name: one for name, one in known.items() if one.kind is not Never}
        properties = {
            name: self.of(one.kind) | ({"description": one.text} if one.text else {}) for name, one in known.items()
        }
        return {
            "type": "object",
            "description": (inspect.getdoc(kind) or "").partition("\n")[0],
            "properties": properties,
            "required": [name for name, one in known.items() if one.required],
            "additionalProperties": False,
        }


def members(kind: type) -> Iterator[tuple[str, Member]]:
    """Yields the fields of a dataclass, a named tuple, a typed dict or a pydantic model."""
    model: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    if model is not None:
        for name, one in model.items():
            yield name, Member(one.annotation, one.is_required(), one.description or "")
        return
    found = _ATTRIBUTE.findall(inspect.getdoc(kind) or "")
    texts = {name: re.sub(r"\bNone\b", "null", " ".join(text.split())) for name, text in found}
    defaults = _defaults(kind)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(hint) is NotRequired
        of, text = get_args(hint)[0] if optional else hint, texts.get(name, "")
        if get_origin(of) is Annotated and isinstance(of.__metadata__[-1], str):
            *others, text = of.__metadata__
            of = Annotated[of.__origin__, *others] if others else of.__origin__
        yield name, Member(of, not optional and name not in defaults, text)


def _defaults(kind: type) -> Collection[str]:
    """Returns the names of the fields that have a default."""
    if is_typeddict(kind):
        return ()
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        return {one.name for one in dataclasses.fields(kind) if not (one.default is one.default_factory is missing)}
    defaults: Collection[str] = getattr(kind, "_field_defaults")  # noqa: B009 - of named tuples alone
    return defaults
