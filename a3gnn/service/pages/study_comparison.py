"""Studies side by side: what `a3gnn compare` computes of their folders, as JSON and for a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from a3gnn.errors import UsageError
from a3gnn.figures import Spread
from a3gnn.report.ratios import show_ratio
from a3gnn.report.text import describe_config
from a3gnn.service.http.answers import PROBLEMS, Asked, CompareAnswer, answers, json_answer
from a3gnn.service.http.problems import ProblemDetails, conflict
from a3gnn.service.jobs.database import MOST
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.frame import page
from a3gnn.service.pages.study_list import LEAST_COMPARED, MOST_COMPARED, Gain
from a3gnn.service.service import Service
from a3gnn.service.studies import study_files
from a3gnn.tuning.outcome.compare import Compared, compared_rows
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.outcome.picked import describe_priority
from a3gnn.tuning.study.comparison import Comparison

router = APIRouter(tags=["studies"], responses=PROBLEMS)
_ID = Annotated[int, Query(ge=1, le=MOST)]
Compare = Annotated[
    list[_ID],
    Query(
        min_length=LEAST_COMPARED,
        max_length=MOST_COMPARED,
        description="The number of a study; repeat it.",
        json_schema_extra={"uniqueItems": True},
    ),
]
#: White space at both ends of the axis of ratios, as a factor.
_MARGIN = 1.1
#: Ratios below this are drawn as this.
_LEAST_RATIO = 1e-6


def compared(studies: Sequence[tuple[Job, JobFolder]]) -> Compared:
    """Returns the comparison of these studies, finished or not, in this order.

    Raises:
        ProblemDetails: A study has no trial yet.
    """
    return Compared(tuple(_told(job, folder, place) for place, (job, folder) in enumerate(studies)))


def _told(job: Job, folder: JobFolder, place: int) -> ToldTune:
    if not study_files.trials(folder):
        raise conflict(f"study {job.id} has no trial yet; wait until it has measured the baseline")
    try:
        return ToldTune.read(folder.run, place)
    except UsageError as error:
        raise conflict(f"study {job.id} can't be compared: {folder.places.shown(str(error))}") from error


def as_json(found: Compared, studies: Sequence[tuple[Job, JobFolder]]) -> dict[str, Any]:
    """Returns the comparison as `a3gnn compare --json` prints it, with the number and the name of each study."""
    fields = found.to_dict()
    for tune, (job, folder) in zip(fields["tunes"], studies, strict=True):
        tune |= {"study": job.id, "name": job.name, "folder": folder.places.shown(tune["folder"])}
    return fields


class Bar(NamedTuple):
    """A ratio with its range on an axis, all in percent of the axis or None if it is not known, and as text."""

    letter: str
    words: str
    low: float | None = None
    at: float | None = None
    high: float | None = None


class Gains(NamedTuple):
    """A figure of the choices over their baselines.

    Attributes:
        title: The figure.
        bars: One per study.
        one: Where no difference lies, in percent of the axis.
        ends: The ends of the axis as text.
    """

    title: str
    bars: tuple[Bar, ...]
    one: float
    ends: tuple[str, str]


def gains(found: Compared) -> Iterator[Gains]:
    """Yields speed, seconds to the target, memory and accuracy of the choices over their baselines."""
    yield from _gains(found, "Epochs per second over the baseline (right is better)", lambda one: one.throughput_again)
    title = "How much sooner at the target (right is better)"
    yield from _gains(found, title, lambda one: one.time_again, of_time=True)
    yield from _gains(found, "Memory over the baseline (left is better)", lambda one: Spread.of([one.memory]))
    yield from _gains(
        found, "Points of accuracy beside the baseline (right is better)", lambda one: one.accuracy, in_points=True
    )


def _gains(
    found: Compared,
    title: str,
    figure: Callable[[Comparison], Spread | None],
    *,
    of_time: bool = False,
    in_points: bool = False,
) -> Iterator[Gains]:
    """Yields the bars of one figure on one axis, if any study has been compared with its baseline."""
    against = [(tune, None if tune.against is None else figure(tune.against)) for tune in found.tunes]
    values = [value for _, one in against if one is not None for value in (one.low, one.median, one.high)]
    if not values:
        return
    scale: Callable[[float], float] = float if in_points else _log
    if in_points:
        most = max(1.0, *map(abs, values)) * _MARGIN
        low, high, ends = -most, most, (f"{-most:+.1f}", f"{most:+.1f}")
    else:
        low, high = _ends(values)
        ends = _written(low, high)

    def at(value: float) -> float:
        return round(100 * (scale(value) - low) / (high - low), 2)

    def bar(tune: ToldTune, one: Spread | None) -> Bar:
        if one is None or tune.against is None:
            unknown = "not known" if tune.finished else "not verified yet"
            return Bar(tune.letter, unknown if tune.no_gain is None else "the baseline is the choice")
        of_speed = tune.against.describe_time if of_time else one.describe
        words = one.describe("+.1f") if in_points else of_speed(".3g", "x")
        return Bar(tune.letter, words, at(one.low), at(one.median), at(one.high))

    yield Gains(title, tuple(bar(tune, one) for tune, one in against), at(0.0 if in_points else 1.0), ends)


def _log(value: float) -> float:
    return math.log(max(value, _LEAST_RATIO))


class Dot(NamedTuple):
    """A configuration of a chart: its study, its place in percent, what it is, and its figures as text."""

    letter: str
    x: float
    y: float
    kind: str
    words: str


class Chart(NamedTuple):
    """Fronts of several studies, each over its own baseline.

    Attributes:
        dots: Configurations that keep the limits.
        lines: For each letter, the steps over its best configurations as the text of an SVG polyline, in percent.
        one: Where the baselines are, in percent: x and y.
        x_ends: The ends of the axis of memory as text.
        y_ends: The ends of the axis of speed as text.
    """

    dots: tuple[Dot, ...]
    lines: dict[str, str]
    one: tuple[float, float]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]


def chart(found: Compared) -> Chart | None:
    """Returns the fronts over their baselines: memory to the right, epochs per second upwards; None without any."""
    points = [point for tune in found.tunes for point in _points(tune)]
    if not points:
        return None
    x_low, x_high = _ends([point[1] for point in points])
    y_low, y_high = _ends([point[2] for point in points])

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(100 * (_log(x) - x_low) / (x_high - x_low), 2),
            round(100 - 100 * (_log(y) - y_low) / (y_high - y_low), 2),
        )

    dots = tuple(Dot(letter, *place(x, y), kind, words) for letter, x, y, kind, words in points)
    lines = {}
    for tune in found.tunes:
        steps = _steps([(x, y) for letter, x, y, _, _ in points if letter == tune.letter])
        lines[tune.letter] = " ".join(f"{x},{y}" for x, y in (place(*one) for one in steps))
    return Chart(dots, lines, place(1.0, 1.0), _written(x_low, x_high), _written(y_low, y_high))


def _steps(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yields the corners of the steps over the points that no other beats in memory and in speed."""
    best = 0.0
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if y > best:
            if best:
                yield x, best
            yield x, y
            best = y


def _points(tune: ToldTune) -> Iterator[tuple[str, float, float, str, str]]:
    """Yields letter, memory and epochs per second over the baseline, kind and words of the rows that keep limits."""
    base = tune.default
    if base is None:
        return
    for row in tune.front.rows:
        if not row.feasible:
            continue
        memory = getattr(row.measured, tune.front.memory) / max(getattr(base, tune.front.memory), 1)
        speed = row.measured.throughput_epochs_per_s / base.throughput_epochs_per_s
        kind = "chosen" if row.config == tune.config else "kept"
        figures = f"{show_ratio(speed)} epochs/s, {show_ratio(memory)} memory"
        words = f"{tune.letter}: {figures}: {describe_config(row.config)}"
        yield tune.letter, memory, speed, kind, words


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return _log(max(min(1.0, *values), _LEAST_RATIO) / _MARGIN), _log(max(1.0, *values) * _MARGIN)


def _written(low: float, high: float) -> tuple[str, str]:
    return f"{math.exp(low):.2g}x", f"{math.exp(high):.2g}x"


@router.get("/comparison", summary="Compare studies", responses=answers(CompareAnswer))
def compare_studies(service: Asked, study: Compare) -> Response:
    """Compares two to four studies, as `a3gnn compare --json` does: `/comparison?study=1&study=4`.

    A study that has not finished shows its best trial so far.
    """
    studies = _chosen(service, study)
    return json_answer(as_json(compared(studies), studies))


@router.get("/compare", include_in_schema=False)
def compare_page(service: Asked, study: Annotated[list[_ID] | None, Query(max_length=50)] = None) -> Response:
    """Shows two to four studies side by side."""
    studies = _chosen(service, study or [])
    names = service.graphs.names({job.graph for job, _ in studies})
    json_path = "/comparison?" + urlencode([("study", job.id) for job, _ in studies])
    found = compared(studies)
    heads = [
        {
            "letter": tune.letter,
            "id": job.id,
            "name": job.name,
            "state": str(job.to_dict()["status"]),
            "graph": names.get(job.graph, ""),
            "goal": describe_priority(tune.request.priority),
            "chosen": "Nothing keeps the limits" if tune.config is None else describe_config(tune.config),
            "finished": tune.finished,
            "gain": Gain.of(job),
        }
        for tune, (job, _) in zip(found.tunes, studies, strict=True)
    ]
    return page(
        service,
        "compare.html",
        title="Compare studies",
        json_path=json_path,
        heads=heads,
        rows=[(label.strip(), not cells, cells) for label, cells in compared_rows(found)],
        gains=list(gains(found)),
        chart=chart(found),
        caveats=found.caveats,
    )


def _chosen(service: Service, numbers: list[int]) -> list[tuple[Job, JobFolder]]:
    """Returns the studies of a comparison, each once.

    Raises:
        ProblemDetails: There are too few or too many, or one does not exist.
    """
    distinct = list(dict.fromkeys(numbers))
    if not LEAST_COMPARED <= len(distinct) <= MOST_COMPARED:
        raise ProblemDetails(
            422,
            "usage",
            f"a comparison must have {LEAST_COMPARED} to {MOST_COMPARED} different studies, got {len(distinct)}; "
            "choose them in the list",
        )
    return [service.job("study", number) for number in distinct]
