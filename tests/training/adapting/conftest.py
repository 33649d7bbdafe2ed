"""What trainers that adapt see of this machine in tests."""

from __future__ import annotations

import pytest

from a3gnn.training.adapting import trainer


@pytest.fixture(autouse=True)
def no_room_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs here takes memory: that decides nothing."""
    monkeypatch.setattr(trainer, "available_bytes", lambda: None)
