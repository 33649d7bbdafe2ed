"""How fast `a3gnn serve` answers, what it keeps in memory, and what it takes from the trials beside it.

    python -m benchmarks.service [--parts answers memory events pages tunes] [--studies 1000] [--trials 100]
        [--readers 50] [--subscribers 200] [--seconds 10] [--kinds list front study] [--memory-seconds 30]
        [--warm-up 40000] [--tunes 6] [--json FILE]

A server holds so many finished studies of so many trials each. The readers are a process beside the server, on the
same cores, so that its answers wait for them too.

answers: readers ask one after the other, each over a connection of its own, without a pause: for a page of 50 studies,
for the front of any study, and for a study.
memory: the same, after so many requests of the kind: by how much memory grows per request, and what that comes to in an
hour at that rate.
events: an event is written every tenth of a second, and subscribers note when they have read it.
pages: ten readers ask once a second, with no trial beside them.
tunes: small tunes run through a server of their own, in turns without and with ten readers, each with a page of the
tune that it follows: the share of a core that the server takes meanwhile, and what the trials lose.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from a3gnn.service.jobs.home import EventLog
from a3gnn.units import format_size
from benchmarks.report import median_and_range, write_report
from benchmarks.service.beside_a_tune import LEAST_TUNES, Tuned, speed, tunes
from benchmarks.service.readers import answers, fan_out, growth, once_a_second
from benchmarks.service.server import Server, fill, serving

PARTS = ("answers", "memory", "events", "pages", "tunes")
KINDS = ("list", "front", "study")
#: Pages that are open while a trial is timed.
_PAGES = 10


def describe(seconds: Sequence[float]) -> str:
    """Returns the median and the 95th percentile in milliseconds."""
    return f"median {1e3 * median(seconds):.1f} ms, 95 % {1e3 * float(np.percentile(seconds, 95)):.1f} ms"


def paths(asked: argparse.Namespace) -> dict[str, Callable[[], str]]:
    """Returns what readers ask for, by what it is called."""
    some = {
        "list": ("a page of 50 studies", lambda: "/studies"),
        "front": ("a front", lambda: f"/studies/{random.randint(1, asked.studies)}/front"),
        "study": ("a study", lambda: f"/studies/{random.randint(1, asked.studies)}"),
    }
    return dict(some[kind] for kind in asked.kinds)


def measure_answers(server: Server, asked: argparse.Namespace) -> dict[str, Any]:
    """Prints and returns how long answers take."""
    found = {}
    for name, path in paths(asked).items():
        asyncio.run(answers(server.port, 2, 1, path, []))
        took: list[float] = []
        asyncio.run(answers(server.port, asked.readers, asked.seconds, path, took))
        rate = len(took) / asked.seconds
        found[name] = {"median_s": median(took), "per_s": rate}
        print(f"{name}, {asked.readers} readers: {describe(took)}, {rate:.0f} /s")
    return found


def measure_memory(server: Server, asked: argparse.Namespace) -> dict[str, Any]:
    """Prints and returns how memory grows."""
    found = {}
    for name, path in paths(asked).items():
        grown = growth(server, asked.readers, asked.memory_seconds, path, asked.warm_up)
        found[name] = grown._asdict()
        print(
            f"{name}, after {asked.warm_up:,} requests: {format_size(grown.held_bytes)}, after {grown.requests:,} more "
            f"{format_size(grown.end_bytes)}; {grown.bytes_per_request:+.1f} bytes per request, "
            f"{format_size(grown.hour_bytes)} in an hour at {grown.per_s:,.0f} /s"
        )
    return found


def measure_events(server: Server, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Prints and returns how late events are read."""
    log = EventLog(folder / "studies" / "1" / "events.jsonl")
    late = asyncio.run(fan_out(server.port, asked.subscribers, asked.seconds, log))
    print(f"events to {asked.subscribers} subscribers: {describe(late)} after they were written")
    return {"median_s": median(late), "events": len(late)}


def measure_pages(server: Server, asked: argparse.Namespace) -> dict[str, Any]:
    """Prints and returns the share of a core that readers cost who ask once a second."""
    begun = server.cpu_seconds
    asyncio.run(once_a_second(server.port, _PAGES, asked.seconds))
    share = (server.cpu_seconds - begun) / asked.seconds
    print(f"{_PAGES} readers that ask once a second: {share:.1%} of a core")
    return {"share_of_a_core": share}


def measure_tunes(asked: argparse.Namespace) -> dict[str, Any]:
    """Prints and returns what serving takes while tunes run, and what their trials lose."""
    with tempfile.TemporaryDirectory(prefix="a3gnn-service-") as folder, serving(Path(folder), at_once=1) as server:
        found = tunes(server, asked.tunes, _PAGES)
    groups = [[one for one in found if bool(one.readers) is watched] for watched in (False, True)]
    for name, group in zip(("no reader", f"{_PAGES} readers"), groups, strict=True):
        print(f"tunes with {name}: {_of_tunes(group)}")
    ratio = median(speed(groups[1])) / median(speed(groups[0]))
    print(f"trials with readers at {ratio:.3f} of the speed without")
    return {"tunes": [one._asdict() for one in found], "speed_ratio": ratio}


def _of_tunes(found: list[Tuned]) -> str:
    share, own = (median(getattr(one, name) for one in found) for name in ("server_share", "readers_share"))
    return (
        f"the server takes {share:.1%} of a core (median of {len(found)}; {max(one.server_share for one in found):.1%} "
        f"at most), readers {own:.1%}; {median_and_range(speed(found), 3)} epochs/s, "
        f"{sum(one.disturbed for one in found)} windows timed again"
    )


def main() -> None:
    """Prints what each part took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    counts = {"studies": 1000, "trials": 100, "readers": 50, "subscribers": 200, "seconds": 10}
    for name, default in (counts | {"memory-seconds": 30, "warm-up": 40_000, "tunes": 6}).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="What is asked for.")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if "tunes" in asked.parts and asked.tunes < LEAST_TUNES:
        parser.error(
            f"--tunes must be >= {LEAST_TUNES}, without readers and with, got {asked.tunes}; --parts leaves them out"
        )
    found: dict[str, Any] = {}
    folder = Path(tempfile.mkdtemp(prefix="a3gnn-service-"))
    try:
        if set(asked.parts) - {"tunes"}:
            fill(folder, asked.studies, asked.trials)
            with serving(folder, at_once=0) as server:
                measures: dict[str, Callable[[], dict[str, Any]]] = {
                    "answers": lambda: measure_answers(server, asked),
                    "memory": lambda: measure_memory(server, asked),
                    "events": lambda: measure_events(server, folder, asked),
                    "pages": lambda: measure_pages(server, asked),
                }
                found |= {name: measure() for name, measure in measures.items() if name in asked.parts}
        if "tunes" in asked.parts:
            found["tunes"] = measure_tunes(asked)
    finally:
        shutil.rmtree(folder)
    if asked.json is not None:
        arguments = {name: value for name, value in vars(asked).items() if name != "json"}
        write_report(asked.json, arguments=arguments, found=found)


if __name__ == "__main__":
    main()
