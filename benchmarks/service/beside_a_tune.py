"""What serving takes while a trial is timed, and what the trial loses by it.

Small tunes run through the server, each with a seed of its own, in turns with and without readers. Each times the
default configuration, the only one of its space, in a trial and again in its verification: its epochs per second are
compared. The readers' own process takes part of the same cores; how much is told beside it.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any, NamedTuple

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.service.client import Client, RemoteStudy
from a3gnn.space import SearchSpace
from benchmarks.report import median_and_range
from benchmarks.service.readers import watch
from benchmarks.service.server import Server

#: Tunes that it takes for one at least with readers, and one without.
LEAST_TUNES = 2
GRAPH = "synthetic:nodes=20000,degree=16,classes=8,features=64"


class Tuned(NamedTuple):
    """One tune.

    Attributes:
        readers: So many watched it.
        epochs_per_s: Of each timed window of its trial, and of the verification.
        disturbed: Windows of the trial that were timed again, for others took too much of the cores.
        seconds: From its start to its end.
        server_share: Of a core, that the server took meanwhile.
        readers_share: Of a core, that their process took.
    """

    readers: int
    epochs_per_s: tuple[float, ...]
    disturbed: int
    seconds: float
    server_share: float
    readers_share: float


def order(seed: int) -> dict[str, Any]:
    """Returns a study of the default configuration alone."""
    fixed = {name: value for name, value in TrainConfig().to_dict().items() if name in SearchSpace(KNOBS).names}
    return {"hidden": 64, "accuracy_epochs": 1, "max_accuracy_drop": 100.0, "budget": 1, "seed": seed, "fix": fixed}


async def tune(server: Server, graph: int, seed: int, readers: int) -> Tuned:
    """Returns what a tune measured while `readers` watch it."""
    client = Client(f"http://127.0.0.1:{server.port}")
    study = await asyncio.to_thread(client.start, graph, **order(seed))
    begun, own, theirs = time.monotonic(), time.process_time(), server.cpu_seconds
    watching = [watch(server.port, study.id) for _ in range(readers)]
    await asyncio.gather(asyncio.to_thread(study.wait), *watching)
    seconds = time.monotonic() - begun
    speeds, disturbed = await asyncio.to_thread(_windows, study)
    taken = (server.cpu_seconds - theirs) / seconds, (time.process_time() - own) / seconds
    return Tuned(readers, speeds, disturbed, seconds, *taken)


def tunes(server: Server, count: int, readers: int) -> list[Tuned]:
    """Returns so many tunes, in turns without and with readers; which is first changes each time."""
    graph = Client(f"http://127.0.0.1:{server.port}").add_graph(GRAPH)["id"]
    asyncio.run(tune(server, graph, 0, 0))  # compiles, and fits the surrogate that is kept
    found = []
    for seed in range(1, count + 1):
        watched = seed % 4 in (2, 3)
        found.append(asyncio.run(tune(server, graph, seed, readers if watched else 0)))
        one = found[-1]
        print(
            f"  {one.readers} readers, {one.seconds:.0f} s: {median_and_range(one.epochs_per_s)} epochs/s, "
            f"{one.disturbed} windows timed again, the server {one.server_share:.1%} of a core, readers "
            f"{one.readers_share:.1%}"
        )
    return found


def speed(found: list[Tuned]) -> list[float]:
    """Returns the epochs per second of each tune: the median of its windows."""
    return [median(one.epochs_per_s) for one in found]


def _windows(study: RemoteStudy) -> tuple[tuple[float, ...], int]:
    trial = study.trials(outcome="measured", reason="default")[0]["measurement"]["metrics"]
    again = study.tuned().measured
    assert again is not None, "a tune measures"
    return (*trial["throughput_replicates"], *again.throughput_replicates), trial["disturbed_windows"]
