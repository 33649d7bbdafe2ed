"""Predictions of algorithms as text of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a3gnn.algorithms.prediction.predict import AlgorithmEstimate
from a3gnn.platforms.lines import aligned
from a3gnn.units import format_size


def algorithm_lines(found: Sequence[AlgorithmEstimate]) -> Iterator[str]:
    """Yields a table of `found`, the first of which is of one device that stores all rows."""
    alone = found[0].epoch_s
    yield "an epoch by each algorithm: beta and what is moved are counted in the graph's"
    yield "mini-batches, seconds are the model's; one device stores all rows"
    yield from aligned(
        ("algorithm", "devices", "beta", "extras", "moved", "epoch s", "speed-up", "M NVTPS"),
        [
            (
                one.algorithm if one.devices > 1 else "one device",
                f"{one.devices}",
                f"{one.beta:.0%}",
                f"{one.moved:.0%}",
                format_size(round(one.moved_bytes)),
                f"{one.epoch_s:.3g}",
                f"{alone / one.epoch_s:.2f}",
                f"{one.nvtps / 1e6:.1f}",
            )
            for one in found
        ],
    )
    yield "extras: mini-batches that another partition's device trains, to end together"
