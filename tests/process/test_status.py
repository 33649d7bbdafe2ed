"""How a process ended, in words."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from a3gnn.process import status
from a3gnn.process.status import described_status, oom_kills


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "status 3"), (-signal.SIGSEGV, "signal SIGSEGV"), (-(signal.SIGRTMIN + 3), f"signal {signal.SIGRTMIN + 3}")],
)
def test_a_status_is_named(code: int, words: str) -> None:
    assert described_status(code) == words


def test_of_sigkill_it_says_what_that_may_have_been_and_the_remedy_in_a_line() -> None:
    found = described_status(-signal.SIGKILL)
    assert found.startswith("signal SIGKILL, which the kernel's out-of-memory killer sends")
    assert "smaller batch_size" in found
    assert "\n" not in found


def test_kills_for_memory_are_counted_in_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_GROUPS", tmp_path)  # a group can't be made to run out of memory without root
    before = oom_kills()
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert oom_kills() >= before + 3
