"""`Pick`: the result of `pick`, a measured configuration of a tune, and the lines that compare it with the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures, Spread
from a3gnn.limits import MEMORY_NAMES
from a3gnn.objectives import Priority
from a3gnn.option_names import option
from a3gnn.report.front import Front
from a3gnn.report.ratios import show_quality, show_ratio, show_seconds, show_throughput, shown
from a3gnn.report.rows import FrontRow
from a3gnn.report.text import configuration, row, wrapped
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.units import format_size

#: The file name of a pick in the folder of its tune.
PICKED = "picked.json"
#: Memory limits, each with the metric that it bounds.
_MEMORY = {"device_bytes": "peak_device_bytes", "host_bytes": "peak_host_bytes"}


@dataclass(frozen=True, slots=True)
class Pick:
    """A measured configuration of a tune, picked by a later request.

    Attributes:
        folder: The tune's folder.
        request: The tune's options, changed by the new request.
        tuned: The input of `a3gnn train --config`.
        front: All measurements, judged by the new request, at the machine's speed in the verification.
        default: The configuration that stands for the default; None if none could be measured.
        is_choice: Whether it is the tune's own choice, which answers the new request, too.
        doubts: The uncertainties of the pick, a sentence each.
    """

    folder: Path
    request: TuneRequest
    tuned: TunedConfig
    front: Front
    default: TrainConfig | None
    is_choice: bool
    doubts: tuple[str, ...]

    @property
    def config(self) -> TrainConfig:
        """The configuration."""
        return self.tuned.config

    @property
    def row(self) -> FrontRow:
        """The row of the picked configuration in the front."""
        return self._row_of(self.config)

    @property
    def default_row(self) -> FrontRow | None:
        """The row of the default in the front; None if the pick is the default, or none was measured."""
        return None if self.default in (None, self.config) else self._row_of(self.default)

    @property
    def in_play_off(self) -> bool:
        """Whether it was measured again in the verification, and not just by a single trial."""
        return self.row.in_play_off

    @property
    def against(self) -> Comparison | None:
        """The comparison with the default, if the tune made it for this very request; else None."""
        fields = self.tuned.against_default
        return None if fields is None else Comparison.from_dict(fields)

    @property
    def throughput(self) -> Spread | None:
        """Epochs per second over the default's; None without a default beside it.

        Computed from the pairs of runs if there were any. Otherwise it is the ratio of the medians, and its range is
        the least and the largest ratio of two replicates.
        """
        if self.against is not None:
            return self.against.throughput
        default = self.default_row
        return None if default is None else self.row.measured.throughput.over(default.measured.throughput)

    @property
    def time(self) -> Spread | None:
        """The default's seconds to the target over the pick's, as in `throughput`; None if either misses it."""
        if self.against is not None:
            return self.against.time
        own, default = self.seconds
        return None if own is None or default is None else default.over(own)

    @property
    def seconds(self) -> tuple[Spread | None, Spread | None]:
        """The seconds to the target of the pick and of the default; None if it is not reached."""
        default = self.default_row
        return self.row.measured.seconds, None if default is None else default.measured.seconds

    def write(self, place: str | Path | None = None) -> Path:
        """Writes the tuned.json and returns its path.

        Args:
            place: A new file that ends in .json, or a folder for a tuned.json. By default picked.json in the folder of
                the tune, which replaces an earlier pick.

        Raises:
            UsageError: The file `place` exists.
        """
        file = self.folder / PICKED if place is None else file_at(place)
        self.tuned.write(file)
        return file

    def to_dict(self) -> dict[str, Any]:
        """Returns the pick as one JSON object."""
        spreads = {"throughput": self.throughput, "time": self.time}
        default = self.default_row
        return {
            "config": self.config.to_dict(),
            "priority": dataclasses.asdict(self.request.priority),
            "limits": self.tuned.limits.to_dict(),
            "target_accuracy": self.tuned.target_accuracy,
            "is_choice": self.is_choice,
            "in_play_off": self.in_play_off,
            "picked": self.row.to_dict(),
            "default": None if default is None else default.to_dict(),
            "over_default": {name: None if one is None else one.to_dict() for name, one in spreads.items()},
            "doubts": list(self.doubts),
            "folder": str(self.folder),
        }

    def __repr__(self) -> str:
        """Returns the lines that `a3gnn pick` prints."""
        return "\n".join(pick_lines(self))

    def _repr_html_(self) -> str:
        """Returns the same lines for a notebook."""
        from html import escape

        return f'<pre style="font-family: monospace">{escape(repr(self))}</pre>'

    def _row_of(self, config: TrainConfig | None) -> FrontRow:
        return next(row for row in self.front.rows if row.config == config)


def file_at(place: str | Path) -> Path:
    """Returns the file `place` if it ends in .json, or else tuned.json in the folder `place`.

    Raises:
        UsageError: The file exists.
    """
    place = Path(place)
    file = place if place.suffix == ".json" else place / "tuned.json"
    if file.exists():
        raise UsageError(f"{option('out')} must name a new file, got {file}, which exists; choose another")
    return file


def pick_lines(found: Pick) -> Iterator[str]:
    """Yields the request, the picked configuration and the default, the figures of both, and the doubts."""
    setting = found.tuned.setting
    yield from wrapped(f"Picked for {_asked(found)} from the trials on {setting.graph.name}; no new trial was run.")
    yield ""
    yield from configuration("picked", found.config)
    if found.default_row is None and found.is_choice and found.tuned.no_gain is not None:
        yield from wrapped("No measurable gain over the baseline was found.")
    elif found.default_row is None and found.default == found.config:
        yield from wrapped("No trial beats the baseline by this priority.")
    yield ""
    yield row("measured", ("picked", "" if found.default_row is None else "baseline"))
    for label, *cells in _figures(found):
        yield row(label, cells)
    yield ""
    yield from wrapped(_measured_how(found))
    for line in found.doubts:
        yield from wrapped(line, "  - ", "    ")


def _asked(found: Pick) -> str:
    limits, metric = found.tuned.limits, found.front.metric
    kept = [
        f"{MEMORY_NAMES[name]} <= {format_size(getattr(limits, name))}" for name in _MEMORY if getattr(limits, name)
    ]
    if limits.least_accuracy is not None:
        kept.append(f"validation {metric.label} {metric.show_at_least(limits.least_accuracy)}")
    return f"{describe_priority(found.request.priority)}{' with ' if kept else ''}{', '.join(kept)}"


def describe_priority(priority: Priority) -> str:
    """Returns the name of a priority, or its weights."""
    return priority.name or f"the weights {','.join(f'{weight:.3g}' for weight in priority.weights)}"


def _measured_how(found: Pick) -> str:
    if not found.in_play_off:
        return "In brackets: the range of its timings. Uncertain:"
    beside = "" if found.default_row is None else ", as the baseline was"
    if found.is_choice:
        beside = "" if found.against is None else ", in turns with the baseline"
        return f"This is the tune's own choice, verified{beside}."
    return f"It was measured again while the choice was verified{beside}."


def _figures(found: Pick) -> Iterator[tuple[str, ...]]:
    """Yields rows of a label, a figure of the pick, and the figure of the default."""
    own, front = found.row.measured, found.front
    default = None if found.default_row is None else found.default_row.measured
    against = found.against
    throughput = found.throughput if against is None else against.throughput_again
    time = found.time if against is None else against.time_again
    speed = "epochs/s", show_throughput(own), shown(default, show_throughput)
    if not front.by_seconds:
        yield speed
        yield from _over(throughput and throughput.describe(".3g", "x"))
    if front.times_accuracy:
        yield front.seconds_heading, *_seconds(found)
        yield from _over(time and f"{'' if against is None else against.at_least}{time.sooner('.3g')}")
    if front.by_seconds:
        yield speed
        yield from _over(throughput and throughput.describe(".3g", "x"))
    for name, field in _MEMORY.items():
        if getattr(own, field):
            yield from _memory(found, MEMORY_NAMES[name], field, own, default)
    label = f"validation {front.metric.label}"
    yield label, *(shown(one, lambda one: show_quality(one, front.metric)) for one in (own, default))
    if against is not None and against.accuracy is not None:
        yield "  points gained", against.accuracy.describe("+.2f"), ""


def _memory(found: Pick, label: str, field: str, own: Figures, default: Figures | None) -> Iterator[tuple[str, ...]]:
    sizes = [getattr(one, field) for one in (own, default) if one is not None]
    yield label, *map(format_size, sizes), *[""] * (2 - len(sizes))
    if len(sizes) == 2:
        ratio = (
            found.against.memory if found.against is not None and field == found.front.memory else sizes[0] / sizes[1]
        )
        yield "  over the baseline", show_ratio(ratio), ""


def _seconds(found: Pick) -> tuple[str, str]:
    rows = found.row, found.default_row
    own, default = (
        "" if row is None else seconds.describe(".3g") if seconds is not None else show_seconds(row.measured)
        for row, seconds in zip(rows, found.seconds, strict=True)
    )
    return own, default


def _over(ratio: str | None) -> Iterator[tuple[str, ...]]:
    if ratio is not None:
        yield "  over the baseline", ratio, ""
