"""`Stateful`: what a checkpoint keeps of a trainer beside its weights and its optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Stateful(Protocol):
    """Something that training changes, and that a resumed run goes on with."""

    def state_dict(self) -> dict[str, Any]:
        """Returns it as plain values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
