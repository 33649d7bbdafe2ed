"""Which machine a study is sent to, with a cluster that is made up; the other tests here have real ones."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest

from a3gnn.profiling.cluster import executor as place
from a3gnn.profiling.cluster.connection import ClusterNode, Connection
from a3gnn.profiling.cluster.executor import take_place

MACHINES = tuple(ClusterNode(letter * 56, letter, 1.0, 0.0) for letter in "abc")


class MadeUpCluster:
    """Counts studies as `Connection` does. So many that begin at once see none of each other at first."""

    def __init__(self, at_once: int = 0, there: Sequence[str] = ()) -> None:
        self.names = [f"{host * 56}-{number:020d}" for number, host in enumerate(there)]
        self._given, self._lock = len(self.names), threading.Lock()
        self._first = threading.Barrier(at_once) if at_once else None
        self._chose = threading.local()

    def studies(self, node: str, before: str | None = None) -> int:
        with self._lock:
            return sum(name.startswith(node) and (before is None or name < before) for name in self.names)

    def start_source(self, node: str) -> tuple[str, str]:
        if self._first is not None and not hasattr(self._chose, "once"):
            self._chose.once = True
            self._first.wait(10)
        with self._lock:
            self._given += 1
            self.names.append(name := f"{node}-{self._given:020d}")
        return name, name

    def end_source(self, source: str) -> None:
        with self._lock:
            self.names.remove(source)

    @property
    def spread(self) -> list[int]:
        counts = Counter(name[0] for name in self.names)
        return [counts[machine.host] for machine in MACHINES]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_SETTLE_S", 0.05)


def _take(cluster: MadeUpCluster, lost: Sequence[str] = ()) -> str:
    return take_place(cast("Connection", cluster), MACHINES, lost).machine.host


def test_a_study_goes_where_the_fewest_are_and_to_lost_machines_at_last() -> None:
    cluster = MadeUpCluster(there="aab")
    assert _take(cluster) == "c"
    assert cluster.spread == [2, 1, 1]
    assert _take(cluster, lost=["b" * 56]) == "c"
    assert _take(MadeUpCluster(), lost=[machine.node for machine in MACHINES]) == "a"
    assert _take(MadeUpCluster(there="a"), lost=["b" * 56, "c" * 56]) == "a"


@pytest.mark.parametrize(("there", "at_once"), [("", 3), ("", 6), ("bbcc", 5)])
def test_studies_that_begin_together_are_spread_over_the_machines(there: str, at_once: int) -> None:
    cluster = MadeUpCluster(at_once, there)
    before = list(cluster.names)
    threads = [threading.Thread(target=_take, args=(cluster,)) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(cluster.spread) == len(there) + at_once
    assert max(cluster.spread) - min(cluster.spread) <= 1
    assert cluster.names[: len(before)] == before  # those that were there stay


def test_an_interrupt_ends_what_counts_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    cluster = MadeUpCluster()
    with pytest.raises(KeyboardInterrupt):
        _take(cluster)
    assert not cluster.names
