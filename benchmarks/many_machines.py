"""How far the layers for many machines go, calculated from what was measured on few (docs/many_machines.md).

    python -m benchmarks.many_machines [--measured FILE.json] [--machines 2 8 64 512] [--gbit 10 25 100]

The constants are those in benchmarks/results/many_machines.json; a layer of which one is null is not calculated. No
figure that is printed is a measurement. Symbols: N machines; B bytes per second of each machine's link, each way; a
seconds until a message arrives at another machine; E(N) seconds on N machines. Machines are alike, links have nothing
else to do, and the switch between them carries all of them at full rate.

**Trials (Ray).** Each of N studies has a machine for its trials, and goes trial by trial. A trial takes T seconds where
it runs, and o more until its result is back; fitting, proposing and storing take d seconds of one of the C cores of the
machine that all studies are started on. It sends the graph, G bytes, to each machine once, where a study takes b
seconds to begin. A study has R trials:

    E(N) = N G / B + b + R max(T + o + d, N d / C);    efficiency R (T + d) / E(N)

**Ranks (torch.distributed).** A mini-batch takes one machine s, g and t seconds for sampling, gathering and training.
Every rank samples it whole, and gathers and trains the share u(N) of it that its seeds reach, which is more than 1 / N
as shares have nodes in common (`python -m benchmarks.shares`). Gradients, D bytes, are summed by a ring all-reduce,
which is bandwidth-optimal (Patarasuk and Yuan, 2009). An epoch has S mini-batches:

    E(N) = S (s + u(N) (g + t) + 2 (N - 1) / N D / B + 2 (N - 1) a);    efficiency S (s + g + t) / (N E(N))

What is learnt does not depend on N. Where the mini-batch grows with N instead (N of them joined), it does; an epoch has
S / N of them, each takes N s of sampling, and a rank gathers and trains as much as one machine of one of them:

    E(N) = S / N (N s + g + t + 2 (N - 1) / N D / B + 2 (N - 1) a)        with S ranks where N is more: the rest idles

**Graph servers.** Every machine serves a part and has a training of its own, so that it serves as much as it asks for.
A mini-batch takes m seconds of a machine that has the graph, and p of one that does all of it, serving included,
without a link. It asks in h rounds, one after the other, and V bytes come back, all but 1 / N from other machines:

    E(N) = S (p + 2 h a + (N - 1) / N V / B);    efficiency S m / E(N)        (workers that ask ahead may hide the rest)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

MEASURED = Path(__file__).parent / "results" / "many_machines.json"
#: Seconds until a message arrives at another machine of the same switch: TCP over Ethernet. A guess.
MESSAGE_S = 30e-6
LAYERS = ("trials", "ranks", "servers")  # in the constants


class Link(NamedTuple):
    """The link of every machine: bytes per second each way, and seconds until a message arrives."""

    bytes_per_s: float
    message_s: float = MESSAGE_S

    @classmethod
    def of_gbit(cls, gbit_per_s: float) -> Link:
        """Returns a link by its nominal rate in 10^9 bits per second, all of which counts as usable."""
        return cls(gbit_per_s * 1e9 / 8)


class Trials(NamedTuple):
    """Of a study by Ray: seconds to begin, trials, seconds per trial, cores where studies start, the graph's bytes."""

    begin_s: float
    trials: int
    trial_s: float
    overhead_s: float
    driver_s: float
    driver_cores: int
    graph_bytes: float


class Ranks(NamedTuple):
    """Of a training by ranks: mini-batches per epoch, seconds of one's stages, bytes of gradients, shares by ranks."""

    batches: int
    sample_s: float
    gather_s: float
    train_s: float
    gradient_bytes: float
    shares: Mapping[str, float]


class Servers(NamedTuple):
    """Of a training over graph servers: seconds per mini-batch with the graph and over servers, rounds, bytes."""

    batches: int
    local_s: float
    served_s: float
    server_s: float
    rounds: int
    answer_bytes: float


class Row(NamedTuple):
    """One row of the table: seconds per study or epoch, and what takes most of them beside the work itself."""

    layer: str
    machines: int
    gbit_per_s: float
    seconds: float
    efficiency: float
    bound: str


Parts = dict[str, float]


def studies(m: Trials, machines: int, link: Link) -> Parts:
    """Returns the seconds of as many studies as machines."""
    beside = m.trial_s + m.overhead_s
    return {
        "trials": m.trials * m.trial_s,
        "beginning": m.begin_s,
        "getting trials there and back": m.trials * m.overhead_s,
        "the driver": m.trials * max(m.driver_s, machines * m.driver_s / m.driver_cores - beside),
        "copying the graph": machines * m.graph_bytes / link.bytes_per_s,
    }


def all_reduce_s(num_bytes: float, ranks: int, link: Link) -> float:
    """Returns the seconds of a ring all-reduce: each rank sends and receives 2 (N - 1) / N of the bytes."""
    return 2 * (ranks - 1) / ranks * num_bytes / link.bytes_per_s + 2 * (ranks - 1) * link.message_s


def same_batches(m: Ranks, ranks: int, link: Link) -> Parts:
    """Returns the seconds per epoch of ranks that share each mini-batch of one machine.

    Raises:
        KeyError: The share of so many ranks was not measured.
    """
    share = 1.0 if ranks == 1 else m.shares[str(ranks)]
    return {
        "sampling": m.batches * m.sample_s,
        "gathering and training": m.batches * share * (m.gather_s + m.train_s),
        "the all-reduce": m.batches * all_reduce_s(m.gradient_bytes, ranks, link),
    }


def joined_batches(m: Ranks, ranks: int, link: Link) -> Parts:
    """Returns the seconds per epoch of ranks whose mini-batch is as many times one machine's, at most the epoch."""
    ranks = min(ranks, m.batches)
    batches = m.batches / ranks
    return {
        "sampling": batches * ranks * m.sample_s,
        "gathering and training": batches * (m.gather_s + m.train_s),
        "the all-reduce": batches * all_reduce_s(m.gradient_bytes, ranks, link),
    }


def served(m: Servers, machines: int, link: Link) -> Parts:
    """Returns the seconds per epoch of as many trainings as machines, which serve a part each."""
    remote = (machines - 1) / machines
    return {
        "training and serving": m.batches * m.served_s,
        "waiting for messages": m.batches * 2 * m.rounds * link.message_s * (machines > 1),
        "the link": m.batches * remote * m.answer_bytes / link.bytes_per_s,
    }


def rows(measured: Mapping[str, Any], machines: Sequence[int], gbits: Sequence[float]) -> Iterator[Row]:
    """Yields the table's rows of the layers whose constants are all there."""
    if m := constants(Trials, measured["trials"]):
        alone = m.trials * (m.trial_s + m.driver_s)
        yield from _rows("trials: a study per machine", partial(studies, m), machines, gbits, lambda n: alone)
    if m := constants(Ranks, measured["ranks"]):
        epoch = m.batches * (m.sample_s + m.gather_s + m.train_s)
        yield from _rows("ranks: same mini-batch", partial(same_batches, m), machines, gbits, lambda n: epoch / n)
        yield from _rows("ranks: joined mini-batches", partial(joined_batches, m), machines, gbits, lambda n: epoch / n)
    if m := constants(Servers, measured["servers"]):
        local = m.batches * m.local_s
        yield from _rows("graph servers: a training each", partial(served, m), machines, gbits, lambda n: local)


def limits(measured: Mapping[str, Any], gbits: Sequence[float]) -> Iterator[str]:
    """Yields what bounds each layer however many machines there are, of the layers whose constants are all there."""
    if m := constants(Trials, measured["trials"]):
        most = m.driver_cores * (m.trial_s + m.overhead_s + m.driver_s) / m.driver_s
        yield f"trials: the machine that studies are started on keeps {most:,.0f} of them busy"
    if m := constants(Ranks, measured["ranks"]):
        most = (m.sample_s + m.gather_s + m.train_s) / m.sample_s
        yield f"ranks: at most {most:.1f} times one machine's speed, as every rank samples the whole mini-batch"
    if m := constants(Servers, measured["servers"]):
        trainers = m.local_s / m.server_s
        yield f"graph servers: one core that serves keeps up with {trainers:.1f} trainers of local speed"
        for gbit in gbits:
            each = m.answer_bytes / Link.of_gbit(gbit).bytes_per_s
            yield f"graph servers: at {gbit:g} Gbit/s the link alone takes {each * 1e3:.2f} ms per mini-batch"


def constants(kind: Any, found: Mapping[str, Any]) -> Any:
    """Returns the constants of a layer, or None where one was not measured."""
    return None if missing(kind, found) else kind(*map(found.get, kind._fields))


def missing(kind: Any, found: Mapping[str, Any]) -> list[str]:
    """Returns the names of the constants that were not measured."""
    return [name for name in kind._fields if found.get(name) is None]


def _rows(
    layer: str,
    calculate: Callable[[int, Link], Parts],
    machines: Sequence[int],
    gbits: Sequence[float],
    least_s: Callable[[int], float],
) -> Iterator[Row]:
    for gbit in gbits:
        for count in machines:
            parts = calculate(count, Link.of_gbit(gbit))
            seconds = sum(parts.values())
            bound = max(parts, key=lambda name: parts[name])
            yield Row(layer, count, gbit, seconds, least_s(count) / seconds, bound)


def table(found: Sequence[Row]) -> str:
    """Returns the rows as a table in Markdown: a column per link, and what takes most with the first of them."""
    gbits = list(dict.fromkeys(row.gbit_per_s for row in found))
    head = ["layer", "machines", *(f"{gbit:g} Gbit/s" for gbit in gbits), "most of it"]
    lines = [f"| {' | '.join(head)} |", f"|---|---:|{'---:|' * len(gbits)}---|"]
    for layer, count in dict.fromkeys((row.layer, row.machines) for row in found):
        same = [row for row in found if (row.layer, row.machines) == (layer, count)]
        lines.append(f"| {' | '.join([layer, str(count), *map(_cell, same), same[0].bound])} |")
    return "\n".join(lines)


def _cell(row: Row) -> str:
    seconds = f"{row.seconds:,.0f}" if row.seconds >= 100 else f"{row.seconds:.3g}"
    return f"{seconds} s, {row.efficiency:.{0 if row.efficiency >= 0.095 else 1}%}"


def main() -> None:
    """Prints the table, what bounds each layer, and what could not be calculated."""
    parser = argparse.ArgumentParser(description="How far the layers for many machines go.")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="the constants, as JSON")
    parser.add_argument("--machines", type=int, nargs="+", default=[2, 8, 64, 512])
    parser.add_argument("--gbit", type=float, nargs="+", default=[10, 25, 100], help="10^9 bits per second of a link")
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text(encoding="utf-8"))
    print(table(list(rows(measured, options.machines, options.gbit))))
    print(*limits(measured, options.gbit), sep="\n")
    for kind, layer in zip((Trials, Ranks, Servers), LAYERS, strict=True):
        if names := missing(kind, measured[layer]):
            print(f"{layer}: not calculated, for these are not measured: {', '.join(names)}")


if __name__ == "__main__":
    main()
