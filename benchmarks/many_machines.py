"""How far the layers for many machines go, calculated from what was measured on few (docs/many_machines.md).

    python -m benchmarks.many_machines [--measured FILE.json] [--machines 2 8 64 512] [--gbit 10 25 100]

The constants are those in benchmarks/results/many_machines.json; a layer of which one is null is not calculated. No
figure of this script is a measurement, but for those that it reads.

Symbols: N machines; s, g, t seconds per mini-batch of one machine for sampling, gathering and training; B bytes per
second of each machine's link, both ways at once; a seconds until a message arrives; E(N) seconds on N machines.
Efficiency is E(1) / (N E(N)). Machines are alike, links have nothing else to do, and the switch between them is as wide
as all of them together.

**Trials (Ray).** A study of R trials has k of them under way at a time, and waits for all k before it proposes more. A
trial takes T seconds where it runs, and o more until its result is back; the driver takes d seconds per trial for
fitting, proposing and storing, one after the other. The driver sends the graph, G bytes, to each other machine once.

    E(N) = (N - 1) G / B + (R / k) (ceil(k / N) (T + o) + k d)

With as many studies as machines (k = 1 in each, one driver for all of them), each of R trials, the work grows with N:

    E(N) = (N - 1) G / B + R max(T + o + d, N d);    efficiency E(1) / E(N)

**Ranks (torch.distributed).** A mini-batch is sampled whole by every rank, and cut by its seeds: a rank gathers and
trains the share u(N) of its input rows (more than 1 / N, as shares have nodes in common; measured with the sampler).
Gradients, D bytes, are summed by a ring all-reduce, which is bandwidth-optimal (Patarasuk and Yuan, 2009).

    step = s + u(N) (g + t) + 2 (N - 1) / N D / B + 2 (N - 1) a;    E(N) = steps per epoch * step

The mini-batch is the same for any N, and so is what is learnt. Where it grows with N instead, w machines' mini-batches
joined, sampling takes N s, an epoch has a N-th of the steps, and each rank gathers and trains what one machine does.

**Graph servers.** Every machine serves a part and trains mini-batches of its own. A mini-batch asks in h rounds, one
per hop and one for rows; V bytes come back, of which (N - 1) / N are another machine's; the machines' servers together
take c seconds of a core for it, and a request l seconds there and back beside that.

    step = max(t, s + h (l + 2 a) + c + (N - 1) / N V / B) with workers that load ahead, their sum without

With N machines that train for themselves, E(N) = steps per epoch / N * step: what the servers cost, no all-reduce.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MEASURED = Path(__file__).parent / "results" / "many_machines.json"
#: Seconds until a message arrives at another machine of the same switch: TCP over Ethernet. A guess.
MESSAGE_S = 30e-6


class Link(NamedTuple):
    """The link of every machine: bytes per second each way, and seconds until a message arrives."""

    bytes_per_s: float
    message_s: float = MESSAGE_S

    @classmethod
    def of_gbit(cls, gbit_per_s: float) -> Link:
        """Returns a link by its nominal rate in 10^9 bits per second, all of which counts as usable."""
        return cls(gbit_per_s * 1e9 / 8)


class Trials(NamedTuple):
    """What was measured of trials by Ray: a study's trials, and seconds and bytes as in the module's text."""

    trials: int
    per_round: int
    trial_s: float
    overhead_s: float
    driver_s: float
    graph_bytes: float


class Ranks(NamedTuple):
    """What was measured of ranks: seconds per mini-batch, steps per epoch, gradients, and shares by number of ranks."""

    steps: int
    sample_s: float
    gather_s: float
    train_s: float
    gradient_bytes: float
    shares: Mapping[int, float]


class Servers(NamedTuple):
    """What was measured of graph servers: per mini-batch seconds, rounds of requests and bytes that come back."""

    steps: int
    sample_s: float
    train_s: float
    rounds: int
    request_s: float
    serve_s: float
    answer_bytes: float


class Row(NamedTuple):
    """One row of the table: seconds per study or epoch, and what takes most of them."""

    layer: str
    machines: int
    gbit_per_s: float
    seconds: float
    efficiency: float
    bound: str


Parts = dict[str, float]


def one_study(m: Trials, machines: int, link: Link) -> Parts:
    """Returns the seconds of a study whose rounds are spread over the machines."""
    rounds = m.trials / m.per_round
    return {
        "copying the graph": (machines - 1) * m.graph_bytes / link.bytes_per_s,
        "trials": rounds * math.ceil(m.per_round / machines) * (m.trial_s + m.overhead_s),
        "the driver": m.trials * m.driver_s,
    }


def many_studies(m: Trials, machines: int, link: Link) -> Parts:
    """Returns the seconds of as many studies as machines, each of `trials`, whose proposals one driver makes."""
    one = m.trials * (m.trial_s + m.overhead_s + m.driver_s)
    return {
        "copying the graph": (machines - 1) * m.graph_bytes / link.bytes_per_s,
        "trials": one,
        "the driver": max(0.0, m.trials * machines * m.driver_s - one),
    }


def all_reduce_s(num_bytes: float, ranks: int, link: Link) -> float:
    """Returns the seconds of a ring all-reduce: each rank sends and receives 2 (N - 1) / N of the bytes."""
    return 2 * (ranks - 1) / ranks * num_bytes / link.bytes_per_s + 2 * (ranks - 1) * link.message_s


def same_batch(m: Ranks, ranks: int, link: Link) -> Parts:
    """Returns the seconds per epoch of ranks that share each mini-batch of one machine.

    Raises:
        KeyError: The share of so many ranks was not measured.
    """
    share = 1.0 if ranks == 1 else m.shares[ranks]
    return {
        "sampling": m.steps * m.sample_s,
        "gathering and training": m.steps * share * (m.gather_s + m.train_s),
        "the all-reduce": m.steps * all_reduce_s(m.gradient_bytes, ranks, link),
    }


def joined_batches(m: Ranks, ranks: int, link: Link) -> Parts:
    """Returns the seconds per epoch of ranks whose mini-batch is as many times one machine's."""
    steps = m.steps / ranks
    return {
        "sampling": steps * ranks * m.sample_s,
        "gathering and training": steps * (m.gather_s + m.train_s),
        "the all-reduce": steps * all_reduce_s(m.gradient_bytes, ranks, link),
    }


def graph_servers(m: Servers, machines: int, link: Link) -> Parts:
    """Returns the seconds per epoch, loading and training one after the other, of machines that serve and train."""
    steps, remote = m.steps / machines, (machines - 1) / machines
    return {
        "sampling": steps * m.sample_s,
        "waiting for answers": steps * m.rounds * (m.request_s + 2 * link.message_s * (machines > 1)),
        "serving": steps * m.serve_s,
        "the link": steps * remote * m.answer_bytes / link.bytes_per_s,
        "training": steps * m.train_s,
    }


def ahead(parts: Parts) -> Parts:
    """Returns the parts where workers load ahead: training, or the loading that exceeds it, as one part each."""
    loading = sum(seconds for name, seconds in parts.items() if name != "training")
    return {"training": parts["training"], "loading beyond it": max(0.0, loading - parts["training"])}


def rows(measured: Mapping[str, Any], machines: Sequence[int], gbits: Sequence[float]) -> Iterator[Row]:
    """Yields the table's rows of the layers whose constants are all there."""
    if trials := _constants(Trials, measured["trials"]):
        yield from _rows("Ray, one study", lambda n, link: one_study(trials, n, link), machines, gbits)
        several = _rows("Ray, a study each", lambda n, link: many_studies(trials, n, link), machines, gbits)
        yield from (row._replace(efficiency=row.efficiency * row.machines) for row in several)  # the work grows
    if ranks := _constants(Ranks, measured["ranks"]):
        ranks = ranks._replace(shares={int(n): share for n, share in ranks.shares.items()})
        yield from _rows("ranks, same mini-batch", lambda n, link: same_batch(ranks, n, link), machines, gbits)
        yield from _rows("ranks, joined mini-batches", lambda n, link: joined_batches(ranks, n, link), machines, gbits)
    if servers := _constants(Servers, measured["servers"]):
        yield from _rows("graph servers", lambda n, link: graph_servers(servers, n, link), machines, gbits)
        yield from _rows("the same, ahead", lambda n, link: ahead(graph_servers(servers, n, link)), machines, gbits)


def _constants(kind: Any, found: Mapping[str, Any]) -> Any:
    missing = [name for name in kind._fields if found.get(name) is None]
    return None if missing else kind(**{name: found[name] for name in kind._fields})


def _rows(
    layer: str, calculate: Callable[[int, Link], Parts], machines: Sequence[int], gbits: Sequence[float]
) -> Iterator[Row]:
    for gbit in gbits:
        link = Link.of_gbit(gbit)
        alone = sum(calculate(1, link).values())
        for count in machines:
            parts = calculate(count, link)
            seconds = sum(parts.values())
            yield Row(layer, count, gbit, seconds, alone / (count * seconds), max(parts, key=lambda name: parts[name]))


def table(found: Sequence[Row]) -> str:
    """Returns the rows as a table in Markdown."""
    lines = ["| layer | machines | Gbit/s | seconds | efficiency | bound by |", "|---|---:|---:|---:|---:|---|"]
    for row in found:
        seconds = f"{row.seconds:,.0f}" if row.seconds >= 100 else f"{row.seconds:.3g}"
        lines.append(
            f"| {row.layer} | {row.machines} | {row.gbit_per_s:g} | {seconds} | {row.efficiency:.0%} | {row.bound} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints the table, and what could not be calculated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measured", type=Path, default=MEASURED, help="the constants, as JSON")
    parser.add_argument("--machines", type=int, nargs="+", default=[2, 8, 64, 512])
    parser.add_argument("--gbit", type=float, nargs="+", default=[10, 25, 100], help="10^9 bits per second of a link")
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text(encoding="utf-8"))
    print(table(list(rows(measured, options.machines, options.gbit))))
    for kind, layer in ((Trials, "trials"), (Ranks, "ranks"), (Servers, "servers")):
        missing = [name for name in kind._fields if measured[layer].get(name) is None]
        if missing:
            print(f"{layer}: not calculated, for these are not measured: {', '.join(missing)}")


if __name__ == "__main__":
    main()
