"""Which columns of /proc/stat count as busy, and on which cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3gnn.threads import affinity, core_time


def test_steal_time_counts_and_idle_time_and_other_cores_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    columns = {"user": 1, "nice": 2, "system": 4, "idle": 8, "iowait": 16, "irq": 32, "softirq": 64, "steal": 128}
    line = " ".join(str(value * tick) for value in columns.values())
    stat = tmp_path / "stat"
    stat.write_text(f"cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 {line} 7 7\ncpu1 {line} 7 7\ncpu2 {line} 7 7\nintr 5\n")
    monkeypatch.setattr(core_time, "_STAT", str(stat))
    monkeypatch.setattr(affinity, "home", lambda: frozenset({0, 2}))
    assert core_time.busy_seconds() == 2 * (1 + 2 + 4 + 32 + 64 + 128)
    assert core_time.stolen_seconds() == 2 * 128
    stat.unlink()
    assert core_time.busy_seconds() == core_time.stolen_seconds() == 0.0
