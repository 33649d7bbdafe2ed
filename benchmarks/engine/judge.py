"""How a3gnn stands to each peer, and to the goals: a pure computation on the stored document.

Where a peer can't be measured here, what it reached on the design's machine counts, scaled to this one. pyg-lib is not
on the package index: its figures stand for the sampler that a PyG user can have elsewhere, and count as a further
peer's in the rows of sampling and loading.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.engine.rows import FIRST_BATCH_SECONDS, GATHER_SHARE, GROWTH_SHARE, ROWS, SAMPLER_SHARE, Goal, Row
from benchmarks.engine.summary import Ratio, Spread, flat_spread, ratio, spread

#: That machine's limits, one thread: random 4-byte reads per second, bytes copied per second.
READS_PER_S, COPY_BYTES_PER_S = 65e6, 25e9

_GRAPHS = ("products", "arxiv", "reddit")
_Figures = dict[str, tuple[float, ...]]
_SAMPLING: _Figures = {"pyg-lib": (50.5, 6.6, 39.1), "DGL": (45.0, 7.7, 34.8), "PyG": (203.0, 38.0, 246.0)}
_WEIGHTED: _Figures = {"pyg-lib": (236.0, 37.0, 242.0), "DGL": (270.0, 44.0, 331.0)}
_LOADING: _Figures = {"pyg-lib": (60.0, 22.0, 219.0), "DGL": (105.0, 15.0, 200.0)}
_TRAINING: _Figures = {"PyG": (787.0, 208.0, 1418.0), "PyG CSR": (157.0, 36.0), "DGL": (177.0, 41.0, 631.0)}
_BY_ROW: dict[str, _Figures] = {
    "sample-25-10": _SAMPLING,
    "biased": _WEIGHTED,
    "load": _LOADING,
    "train-sage": _TRAINING,
}
#: Resident bytes while loading with two workers, products' size.
RESIDENT_BYTES = {"PyG": 3.7e9, "DGL": 3.2e9}


def scaled_ms(row: str, graph: str, peer: str, reads_per_s: float, copy_bytes_per_s: float) -> float | None:
    """Returns a peer's milliseconds on this machine as its limits suggest, or None where the design has no figure.

    The sampler's part grows as random reads are slower here, the rest as copies are: a judgment, not a measurement.

    Args:
        row: Key of the row.
        graph: Name of the graph.
        peer: Label of the peer.
        reads_per_s: Random 4-byte reads per second of a thread here, on products' size, out of cache.
        copy_bytes_per_s: Bytes per second that a thread copies here.
    """
    figures = _BY_ROW.get(row, {}).get(peer, ())
    place = _GRAPHS.index(graph) if graph in _GRAPHS else len(figures)
    if place >= len(figures):
        return None
    # DGL's and pyg-lib's loaders and steps hold their own samplers; the hand-tuned step was measured over pyg-lib's.
    sampler = _WEIGHTED if row == "biased" else _SAMPLING
    sampling = min(figures[place], sampler["DGL" if peer == "DGL" else "pyg-lib"][place])
    if row in ("sample-25-10", "biased"):
        sampling = figures[place]
    rest = figures[place] - sampling
    return sampling * READS_PER_S / reads_per_s + rest * COPY_BYTES_PER_S / copy_bytes_per_s


Basis = Literal["measured", "scaled"]
PYG_LIB = "pyg-lib"


@dataclass(frozen=True, slots=True)
class Standing:
    """One peer beside a3gnn.

    Attributes:
        peer: Its label.
        ms: Its milliseconds per mini-batch.
        ratio: Its time over a3gnn's.
        basis: measured in this run; or scaled: the design's figure times the ratio of that machine's limits to this
            one's, where it could not be measured.
        missing: Why it was not measured, or "".
    """

    peer: str
    ms: float
    ratio: Ratio
    basis: Basis
    missing: str = ""


def ms_of(outcome: Mapping[str, Any]) -> Spread | None:
    """Returns the milliseconds of a contestant's stored outcome over all rounds; None if there is nothing."""
    rounds = [one["ms"] for one in outcome["rounds"]]
    return flat_spread(rounds) if rounds else None


def standings(report: Mapping[str, Any], row: Row, graph: str) -> dict[str, Standing]:
    """Returns the peers of `row` on `graph` by label; those with neither a measurement nor a figure are left out.

    pyg-lib, which the package index does not have, is one more peer of the sampling and loading rows.

    Args:
        report: The stored document.
        row: A row that a3gnn was measured on.
        graph: Name of the graph.
    """
    outcomes = report["rows"][row.key][graph]
    ours = [one["ms"] for one in outcomes["a3gnn"]["rounds"]]
    if not ours:
        return {}
    found = {}
    labels = [label for label in row.contestants if label != "a3gnn"]
    for label in [*labels, *([PYG_LIB] if row.work.kind != "train" else [])]:
        outcome = outcomes.get(label, {"rounds": [], "missing": "not on the package index"})
        theirs = [one["ms"] for one in outcome["rounds"]]
        if theirs:
            found[label] = Standing(label, flat_spread(theirs).median, ratio(ours, theirs), "measured")
            continue
        limits = report["limits"]
        milliseconds = scaled_ms(row.key, graph, label, limits["random_reads_per_s"], limits["copy_bytes_per_s"])
        if milliseconds is not None:
            rounds = [[milliseconds]] * len(ours)
            found[label] = Standing(label, milliseconds, ratio(ours, rounds), "scaled", outcome["missing"])
    return found


FIRST_BATCH_GRAPH = "products"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal and what was reached.

    Attributes:
        work: Label of the work.
        graph: Name of the graph, or "mean" of all.
        against: The peer or limit that it is compared with.
        goal: The goal, as text.
        value: What was reached; None where nothing could be measured or judged.
        low: Minimum over rounds.
        high: Maximum over rounds.
        unit: x, s, GB or %.
        basis: measured, scaled (see `standing`), or both for a mean of such.
        passed: Whether it is reached; None if unknown.
    """

    work: str
    graph: str
    against: str
    goal: str
    value: float | None
    low: float = 0.0
    high: float = 0.0
    unit: str = "x"
    basis: str = "measured"
    passed: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return asdict(self)


def judge(report: Mapping[str, Any]) -> list[Verdict]:
    """Returns one verdict per goal, in the order of the table of goals."""
    verdicts = [verdict for row in ROWS if row.key in report["rows"] for verdict in _row(report, row)]
    return [*verdicts, *_first_batch(report), *_memory(report), *_shares(report)]


def _row(report: Mapping[str, Any], row: Row) -> Iterator[Verdict]:
    by_graph = {graph: standings(report, row, graph) for graph in report["rows"][row.key]}
    for goal in row.goals:
        nearest = {graph: _nearest(found, goal) for graph, found in by_graph.items()}
        if goal.every:
            for graph, peer in nearest.items():
                yield _verdict(row, graph, goal, peer)
        if goal.mean is not None:
            yield _mean(row, goal, [peer for peer in nearest.values() if peer is not None])


def _nearest(found: Mapping[str, Standing], goal: Goal) -> Standing | None:
    # pyg-lib is a sampler of PyG's: it counts wherever PyG as the library does.
    against = {*goal.against, *(["pyg-lib"] if "PyG" in goal.against else [])}
    peers = [peer for label, peer in found.items() if label in against]
    return min(peers, key=lambda peer: peer.ratio.value, default=None)


def _verdict(row: Row, graph: str, goal: Goal, peer: Standing | None) -> Verdict:
    asked = f">= {goal.every:g}"
    if peer is None:
        return Verdict(row.label, graph, " / ".join(goal.against), asked, None, basis="no figure")
    value, least, most = peer.ratio
    return Verdict(row.label, graph, peer.peer, asked, value, least, most, "x", peer.basis, value >= goal.every)


def _mean(row: Row, goal: Goal, peers: list[Standing]) -> Verdict:
    against, asked = " / ".join(goal.against), f">= {goal.mean:g}"
    if not peers or goal.mean is None:
        return Verdict(row.label, "mean", against, asked, None, basis="no figure")
    value, low, high = (
        statistics.geometric_mean(column) for column in zip(*(peer.ratio for peer in peers), strict=True)
    )
    basis = " and ".join(sorted({peer.basis for peer in peers}))
    return Verdict(row.label, "mean", against, asked, value, low, high, "x", basis, value >= goal.mean)


def _first_batch(report: Mapping[str, Any]) -> Iterator[Verdict]:
    for graph, found in report["first_batch"].items():
        seconds = found["a3gnn"]["seconds"]
        asked = f"< {FIRST_BATCH_SECONDS:g}"
        if not seconds:
            yield Verdict("first batch", graph, "", asked, None, basis=found["a3gnn"]["missing"])
            continue
        value, low, high = spread(seconds)
        passed = value < FIRST_BATCH_SECONDS
        yield Verdict("first batch", graph, "the clock", asked, value, low, high, "s", "measured", passed)


def _memory(report: Mapping[str, Any]) -> Iterator[Verdict]:
    for graph, found in report["memory"].items():
        ours = found["a3gnn"]["peak"]
        for peer, used in found.items():
            if peer == "a3gnn" or not ours or used["missing"]:
                continue
            value, theirs = ours / 1e9, used["peak"] / 1e9
            yield Verdict(
                "memory", graph, peer, f"< {theirs:.2f}", value, value, value, "GB", "measured", value < theirs
            )
    epochs = report["growth"]["by_epoch"]
    if len(epochs) > 2:
        # The first two epochs find the sizes of buffers and arenas.
        value = max(0.0, 100 * (epochs[-1] / epochs[1] - 1))
        asked, passed = f"<= {100 * GROWTH_SHARE:g}", value <= 100 * GROWTH_SHARE
        name = f"growth in {len(epochs)} epochs"
        yield Verdict(name, report["growth"]["graph"], "epoch 2", asked, value, value, value, "%", "measured", passed)


def _shares(report: Mapping[str, Any]) -> Iterator[Verdict]:
    for graph, found in report["shares"].items():
        for work, share in found.items():
            if share.get("missing"):
                yield Verdict(f"share: {work}", graph, "machine", "", None, basis=share["missing"])
                continue
            goal = GATHER_SHARE if work == "gather" else SAMPLER_SHARE
            value, low, high = (100 * part for part in spread(share["shares"]))
            against = "row copy" if work == "gather" else "random reads"
            asked, passed = f">= {100 * goal:g}", value >= 100 * goal
            yield Verdict(f"share: {work}", graph, against, asked, value, low, high, "%", "measured", passed)
