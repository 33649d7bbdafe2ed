"""`KnownDefault`: results of the default configuration in a setting, to which predictions are relative."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.figures import Reference


@dataclass(frozen=True, slots=True)
class KnownDefault:
    """Results of the default configuration; None if unknown, or to be taken from measured rows.

    Attributes:
        val_accuracy: Its best validation accuracy within its budget, in [0, 1].
        seconds: Its seconds to the target, set-up included.
        target: The validation accuracy that counts as reached, in [0, 1].
        budget_s: Its budget in seconds of training, set-up included.
    """

    val_accuracy: float | None = None
    seconds: float | None = None
    target: float | None = None
    budget_s: float | None = None

    @classmethod
    def of(cls, reference: Reference, seconds: float | None = None) -> Self:
        """Returns the values of `reference`, with the default's `seconds` to its target."""
        return cls(reference.val_accuracy, seconds, reference.target, reference.budget_s)

    def or_else(self, other: KnownDefault) -> Self:
        """Returns this with the values of `other` where it has none."""
        missing = {
            field.name: getattr(other, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is None
        }
        return dataclasses.replace(self, **missing)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns what `to_dict` was called on."""
        return from_fields(cls, fields)
