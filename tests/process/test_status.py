"""How a process ended, in words."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from a3gnn.process import memory as status
from a3gnn.process.child import described_status
from a3gnn.process.memory import oom_kills
from a3gnn.storage import host_limits as control_groups


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "status 3"), (-signal.SIGSEGV, "signal SIGSEGV"), (-(signal.SIGRTMIN + 3), f"signal {signal.SIGRTMIN + 3}")],
)
def test_a_status_is_named(code: int, words: str) -> None:
    assert described_status(code) == words


def test_of_sigkill_it_says_what_that_may_have_been_and_the_remedy_in_a_line() -> None:
    found = described_status(-signal.SIGKILL)
    assert found.startswith("signal SIGKILL, which the kernel sends when memory runs out")
    assert "smaller batch_size" in found
    assert "\n" not in found


def test_kills_for_memory_are_counted_in_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_GROUPS", tmp_path)  # a group can't be made to run out of memory without root
    before = oom_kills()
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert oom_kills() >= before + 3


def test_kills_elsewhere_on_the_machine_do_not_count_where_a_group_counts_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a process in a mounted tree, as Slurm and hybrid systems have them; and the machine's count without one."""
    for name in ("own", "mounts", "vmstat"):
        (tmp_path / name).write_text("")
    (tmp_path / "vmstat").write_text("pgfault 7\noom_kill 40\n")
    monkeypatch.setattr(status, "_GROUPS", tmp_path / "usual")
    monkeypatch.setattr(status, "_MACHINE", tmp_path / "vmstat")
    monkeypatch.setattr(control_groups, "_GROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(control_groups, "_MOUNTS", str(tmp_path / "mounts"))
    assert oom_kills() == 40
    (tmp_path / "own").write_text("0::/job_7/task_0\n")
    (tmp_path / "mounts").write_text(f"30 23 0:26 /job_7 {tmp_path}/tree rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "tree" / "task_0").mkdir(parents=True)
    assert oom_kills() == 40
    (tmp_path / "tree" / "memory.events").write_text("oom 5\noom_kill 5\n")  # of other tasks, too
    (tmp_path / "tree" / "task_0" / "memory.events").write_text("oom 2\noom_kill 2\n")
    assert oom_kills() == 2
