"""Compares the measurements with the goals: a pure computation on the stored document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.engine.rows import FIRST_BATCH_SECONDS, GATHER_SHARE, GROWTH_SHARE, ROWS, SAMPLER_SHARE, Goal, Row
from benchmarks.engine.standing import Standing, standings
from benchmarks.engine.summary import geometric_mean, spread

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
    value, low, high = (geometric_mean(column) for column in zip(*(peer.ratio for peer in peers), strict=True))
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
