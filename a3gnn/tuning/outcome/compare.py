"""`compare`: shows several tunes side by side, and what does not compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3gnn.config import KNOBS
from a3gnn.errors import UsageError
from a3gnn.profiling.store.provenance import describe_machine, machine_words
from a3gnn.report.ratios import FigureTexts
from a3gnn.report.table import aligned, csv_text
from a3gnn.report.text import WIDTH, configuration, wrapped
from a3gnn.task import SEARCHED_FIELDS, names_factory
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.outcome.picked import describe_priority
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.units import count, format_duration, format_size

#: Figures of the default and of the choice that are columns of the CSV.
_FIGURES = (
    *("throughput_epochs_per_s", "throughput_low", "throughput_high", "seconds_to_accuracy"),
    *("peak_host_bytes", "peak_device_bytes", "val_accuracy", "complete"),
)
#: Fields of a tune that other columns of the CSV replace.
_NESTED = ("config", "default", "choice", "over_default", "no_gain", "differs")
#: Ratios to the default that are columns of the CSV, each with these bounds.
_RATIOS = ("throughput", "time", "accuracy")
_BOUNDS = ("median", "low", "high")
#: A label, and a cell per tune.
_Row = tuple[str, tuple[str, ...]]
#: Most tunes in one block of the table.
_MOST_BESIDE = 3
#: Figures of a tune without such a configuration.
_UNKNOWN = FigureTexts("-", "-", "-", "-")


@dataclass(frozen=True, slots=True)
class Compared:
    """Tunes to compare."""

    tunes: tuple[ToldTune, ...]  # at least two, in the order of the arguments

    @property
    def knobs(self) -> dict[str, tuple[Any, ...]]:
        """The knobs in which the choices differ, each with its value per tune; None for a tune without a choice.

        A tune that did not search a name has the value of its task.
        """
        configs = [tune.values for tune in self.tunes]
        names = dict.fromkeys(name for one in configs if one is not None for name in one)
        rows = {name: tuple(_value_of(tune, name) for tune in self.tunes) for name in names}
        return {
            name: values
            for name, values in rows.items()
            if len({str(value) for value, config in zip(values, configs, strict=True) if config is not None}) > 1
        }

    @property
    def caveats(self) -> tuple[str, ...]:
        """What does not compare, a sentence each."""
        return tuple(self._caveats())

    def to_dict(self) -> dict[str, Any]:
        """Returns the tunes, the knobs that differ and the caveats as one JSON object."""
        return {
            "tunes": [tune.to_dict() for tune in self.tunes],
            "knobs": {name: list(values) for name, values in self.knobs.items()},
            "caveats": list(self.caveats),
        }

    def csv(self) -> str:
        """Returns a row per tune: its request, figures of the default and the choice, ratios, and every knob."""
        rows = [_record(tune) for tune in self.tunes]
        return csv_text(list(rows[0]), rows)

    def _caveats(self) -> Iterator[str]:
        by: tuple[tuple[Callable[[ToldTune], object], Callable[[ToldTune], str], str], ...] = (
            (
                lambda tune: tune.setting.graph.fingerprint,
                lambda tune: tune.setting.graph.name,
                "graphs: compare only ratios to each baseline",
            ),
            (
                lambda tune: tune.setting.hardware.fingerprint,
                lambda tune: describe_machine(tune.setting.hardware),
                "machines: compare ratios to each baseline, not seconds or epochs per second",
            ),
            (lambda tune: tune.trained, lambda tune: tune.trained, "tasks: models or their training differ"),
            (
                lambda tune: tune.setting.metric,
                lambda tune: tune.setting.metric.label,
                "metrics: do not compare accuracies and targets",
            ),
        )
        for key, name, words in by:
            if len({key(tune) for tune in self.tunes}) > 1:
                said = "; ".join(f"{tune.letter} {name(tune)}" for tune in self.tunes)
                yield f"Other {words} ({said})."
        # An unfinished tune does not know the version of a3gnn.
        if any(
            len({one for one in versions if one}) > 1
            for versions in zip(*(t.versions for t in self.tunes), strict=True)
        ):
            said = "; ".join(f"{tune.letter} {tune.version}" for tune in self.tunes)
            yield f"Other versions: a3gnn or its measurements may have changed ({said})."
        yield from self._of_one_metric()

    def _of_one_metric(self) -> Iterator[str]:
        targets = {tune.front.target for tune in self.tunes if tune.front.target is not None}
        if len(targets) > 1 and len({tune.setting.metric for tune in self.tunes}) == 1:
            yield "Other targets: the seconds to target are for different accuracies."
        if unfinished := [tune.letter for tune in self.tunes if not tune.finished]:
            which = f"{', '.join(unfinished)} {'has' if len(unfinished) == 1 else 'have'}"
            yield f"{which} not finished: the table shows the best trial so far, without a comparison in turns."
        for tune in self.tunes:
            if tune.differs and tune.against is not None and tune.against.doubts():
                yield f"The gain of {tune.letter} is not settled: {', '.join(tune.against.doubts())}."
        settings: dict[object, list[ToldTune]] = {}
        for tune in self.tunes:
            if tune.default is not None and tune.finished:
                settings.setdefault(tune.setting.key(), []).append(tune)
        for alike in settings.values():
            ranges = [tune.default for tune in alike if tune.default is not None]
            if max(one.throughput_low for one in ranges) > min(one.throughput_high for one in ranges):
                yield (
                    f"The baseline ran at different speeds in {' and '.join(tune.letter for tune in alike)}, with the "
                    "same graph, task and machine: the machine's speed changed. Compare ratios to each baseline "
                    "rather than seconds or epochs per second."
                )


def compare(folders: Sequence[str | Path]) -> Compared:
    """Returns the comparison of the tunes in `folders`, finished or not.

    Raises:
        UsageError: There are fewer than two folders, or one holds no tune.
        ConfigError: A tune's files are not in this version's format.
    """
    if len(folders) < 2:
        raise UsageError(f"compare needs the folders of two tunes or more, got {len(folders)}")
    return Compared(tuple(ToldTune.read(folder, place) for place, folder in enumerate(folders)))


def _value_of(tune: ToldTune, name: str) -> Any:
    """Returns the value of a knob or of a name of a search in the choice; None without a choice or such a name."""
    if tune.values is None or name in tune.values:
        return None if tune.values is None else tune.values[name]
    task = tune.setting.task
    return task.value(name) if names_factory(task.model) or name in SEARCHED_FIELDS else None


def _record(tune: ToldTune) -> dict[str, Any]:
    fields = tune.to_dict()
    record = {name: fields[name] for name in fields if name not in _NESTED}
    for name, figures in (("default", tune.default), ("choice", tune.choice)):
        record |= {f"{name}_{field}": None if figures is None else getattr(figures, field) for field in _FIGURES}
    record |= _ratios("over_default", tune.against)
    record["differs"] = tune.differs
    record |= _ratios("no_gain", None if tune.no_gain is None else tune.no_gain.against)
    config = tune.values or {}
    searched = {} if tune.config is None else dict(tune.config.searched)
    shown = " ".join(f"{name}={value}" for name, value in searched.items())
    return record | {knob.name: config.get(knob.name) for knob in KNOBS} | {"searched": shown}


def _ratios(prefix: str, against: Comparison | None) -> dict[str, float | None]:
    """Returns the columns of a comparison with the default, their names prefixed."""
    found: dict[str, float | None] = {}
    for name in _RATIOS:
        ratio = None if against is None else getattr(against, name)
        found |= {f"{prefix}_{name}_{bound}": None if ratio is None else getattr(ratio, bound) for bound in _BOUNDS}
    return found | {f"{prefix}_memory": None if against is None else against.memory}


def compare_lines(found: Compared) -> Iterator[str]:
    """Yields the request and the choice of each tune, a table of their figures, and what does not compare."""
    for tune in found.tunes:
        yield from _introduced(tune)
    yield ""
    yield from _table([tune.letter for tune in found.tunes], list(compared_rows(found)))
    if found.caveats:
        yield ""
        yield "Differences to keep in mind:"
        for line in found.caveats:
            yield from wrapped(line, "  - ", "    ")


def _introduced(tune: ToldTune) -> Iterator[str]:
    setting, request = tune.setting, tune.request
    limit = request.memory_limit
    most = "the baseline's memory" if isinstance(limit, str) else "" if limit is None else format_size(limit)
    limited = f" within {most}" if most else ""
    took = f"{count(tune.trials, 'trial')}, {format_duration(tune.seconds)} in all"
    yield from wrapped(f"{tune.folder}{'' if tune.finished else ' (not finished)'}", f"{tune.letter:<3}", "   ")
    yield from wrapped(
        f"{setting.task.model} on {setting.graph.name}, for {describe_priority(request.priority)}{limited}, at most "
        f"{_points(request.max_accuracy_drop)} below the baseline; {took}; {machine_words(setting.hardware)}",
        "   ",
        "   ",
    )
    if tune.config is None:
        yield "   no measured configuration keeps the limits"
    else:
        yield from configuration("   chosen" if tune.finished else "   best measured so far", tune.config)


def compared_rows(found: Compared) -> Iterator[_Row]:
    """Yields the rows of the table: a label and a cell per tune, or a heading without cells."""
    tunes = found.tunes
    for title, name in (("baseline", "default"), ("chosen", "choice")):
        yield title, ()
        texts = [tune.front.texts(one) if (one := getattr(tune, name)) else _UNKNOWN for tune in tunes]
        labels = (
            "epochs/s",
            _shared([tune.front.seconds_heading for tune in tunes], "seconds to target"),
            "memory",
            _shared([tune.front.metric.label for tune in tunes], "quality"),
        )
        for label, cells in zip(labels, zip(*texts, strict=True), strict=True):
            yield f"  {label}", cells
    yield "chosen / baseline", ()
    rows: tuple[tuple[str, Callable[[Comparison], str | None]], ...] = (
        ("epochs/s (x)", lambda one: one.throughput_again.describe(".3g")),
        ("sooner at target (x)", lambda one: one.describe_time(".3g")),
        ("memory (x)", lambda one: f"{one.memory:.2f}"),
        ("accuracy (points)", lambda one: one.accuracy and one.accuracy.describe("+.1f")),
    )
    for label, show in rows:
        yield f"  {label}", tuple((one.against and show(one.against)) or "-" for one in tunes)
    yield "  measurable gain", tuple(_verdict(one) for one in tunes)
    if found.knobs:
        yield "knobs that differ", ()
        for name, values in found.knobs.items():
            yield f"  {name}", tuple(_value(name, value) for value in values)


def _table(letters: Sequence[str], rows: Sequence[_Row]) -> Iterator[str]:
    """Yields the table, in blocks of as many tunes as fit side by side."""
    lines = [("", *letters), *((label, *(cells or [""] * len(letters))) for label, cells in rows)]

    def blocks(tunes: int) -> list[list[str]]:
        places = (slice(start, start + tunes) for start in range(1, len(letters) + 1, tunes))
        return [list(aligned([(line[0], *line[place]) for line in lines], 1 + tunes)) for place in places]

    fitting = (some for some in map(blocks, range(_MOST_BESIDE, 1, -1)) if max(len(one[0]) for one in some) < WIDTH - 1)
    for i, block in enumerate(next(fitting, blocks(1))):
        yield from [""] * bool(i)
        yield from map(str.rstrip, block)


def _shared(names: Sequence[str], otherwise: str) -> str:
    return names[0] if len(set(names)) == 1 else otherwise


def _points(drop: float) -> str:
    return f"{drop:g} point{'' if drop == 1 else 's'}"


def _verdict(tune: ToldTune) -> str:
    if tune.differs is None:
        return "-"
    if tune.differs and tune.against is not None and tune.against.doubts():
        return "not settled"
    return f"yes, by {' and '.join(tune.better_by)}" if tune.differs else "no"


def _value(name: str, value: object) -> str:
    if name == "cache_bytes" and isinstance(value, int) and value:
        return format_size(value)
    return "-" if value is None else str(value)
