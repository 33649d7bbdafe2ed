"""Choice against default: ratios, spreads, and what counts as different."""

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.spread import Spread
from a3gnn.tuning.comparison import Comparison, Pair, accuracy_differences, tells_apart
from tests.tuning.formulas import learnt

MiB = 2**20


@pytest.fixture
def pair(make_metrics: Callable[..., Metrics]) -> Callable[..., Pair]:
    def make(choice: float, default: float, accuracy: tuple[float, float] = (0.9, 0.9), host: int = 300) -> Pair:
        made = [
            dataclasses.replace(make_metrics(speed, host * MiB, 0.0), curve=learnt(reached))
            for speed, reached in zip((choice, default), accuracy, strict=True)
        ]
        return Pair(*made)

    return make


def test_ratios_are_of_the_same_alternation(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(3.0, 2.0), pair(1.8, 1.0)]
    found = Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput"))
    assert found.throughput == Spread(1.8, 1.5, 2.0, 3)
    assert found.differs
    assert Comparison.from_dict(found.to_dict()) == found


def test_one_ratio_at_or_below_one_makes_it_no_different(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(1.0, 1.0)]
    assert not Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput")).differs


def test_the_largest_peak_seen_counts_never_a_median(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(2.0, 1.0)]
    whole = pair(2.0, 1.0)
    whole = Pair(dataclasses.replace(whole.choice, peak_host_bytes=600 * MiB), whole.default)
    assert Comparison.of(pairs, [whole], 0.8, "peak_host_bytes", Priority.parse("throughput")).memory == 2.0


def test_time_ratios_count_the_set_up_and_are_per_alternation_and_seed(pair) -> None:
    timed = pair(2.0, 1.0)  # 20 and 10 mini-batches per second
    timed = Pair(dataclasses.replace(timed.choice, setup_seconds=1.0), timed.default)
    same, sooner = pair(2.0, 1.0), pair(2.0, 1.0, (0.9, 1.0))
    # 0.65 of 0.9 is reached with the third point, 30 mini-batches: after 1 + 1.5 s, and after 3 s by the default.
    found = Comparison.of([timed], [same], 0.65, "peak_host_bytes", Priority.parse("time"))
    assert found.time is not None
    assert found.time.median == pytest.approx(3.0 / 2.5)
    # 0.65 of 1 is reached with the second point.
    found = Comparison.of([timed], [same, sooner], 0.65, "peak_host_bytes", Priority.parse("time"))
    assert found.time is not None
    assert (found.time.low, found.time.repeats) == (pytest.approx(2.0 / 2.5), 2)
    assert not found.differs


def test_a_choice_that_reaches_the_target_with_no_seed_has_no_time(pair) -> None:
    found = Comparison.of([pair(2.0, 1.0)], [pair(2.0, 1.0)], 0.95, "peak_host_bytes", Priority.parse("time"))
    assert found.time is None
    assert not found.differs


def test_accuracies_differ_by_seed(pair) -> None:
    seeds = [pair(2.0, 1.0, (0.88, 0.9)), pair(2.0, 1.0, (0.91, 0.9))]
    assert accuracy_differences(seeds) == pytest.approx([-2.0, 1.0])


@pytest.mark.parametrize(
    ("priority", "differs"), [("memory", True), ("throughput", False), ("1,3,0", True), ("balanced", True)]
)
def test_the_verdict_is_about_what_the_priority_weighs(pair, priority: str, differs: bool) -> None:
    slower = pair(0.9, 1.0)
    half = dataclasses.replace(slower.choice, peak_host_bytes=slower.default.peak_host_bytes // 2)
    pairs = [slower._replace(choice=half)]
    assert Comparison.of(pairs, pairs, 0.8, "peak_host_bytes", Priority.parse(priority)).differs is differs


def test_what_is_left_out_counts_for_peaks_and_for_the_share_of_disturbed_trials_alone(pair) -> None:
    kept, odd = pair(2.0, 1.0), pair(9.0, 1.0)
    odd = Pair(
        dataclasses.replace(odd.choice, peak_host_bytes=600 * MiB),
        dataclasses.replace(odd.default, disturbed_windows=2),
    )
    assert (kept.disturbed, odd.disturbed) == (False, True)
    found = Comparison.of([kept], [kept], 0.8, "peak_host_bytes", Priority.parse("time"), [odd])
    assert found.throughput == Spread(2.0, 2.0, 2.0, 1)
    assert found.time == Spread(2.0, 2.0, 2.0, 1)
    assert found.memory == 2.0
    assert (found.disturbed, found.left_out) == (1 / 4, 1)
    assert Comparison.from_dict(found.to_dict()) == found


def test_comparisons_from_before_are_read(pair) -> None:
    found = Comparison.of([pair(2.0, 1.0)], [pair(2.0, 1.0)], 0.8, "peak_host_bytes", Priority.parse("time"))
    fields = {name: value for name, value in found.to_dict().items() if name not in ("disturbed", "left_out")}
    assert Comparison.from_dict(fields) == found


@pytest.mark.parametrize(
    ("low", "high", "pairs", "disturbed", "apart"),
    [
        (1.01, 1.5, 5, 0.0, True),
        (0.5, 0.99, 3, 0.9, True),
        (0.824, 1.46, 5, 0.0, False),  # the range holds 1
        (1.0, 1.5, 5, 0.0, False),
        (0.9, 1.0, 5, 0.0, False),
        (1.24, 7.53, 2, 0.0, False),  # too few
        (1.24, 7.53, 5, 1.0, False),  # disturbed, all of them
    ],
)
def test_what_is_told_apart_follows_from_the_printed_range(
    low: float, high: float, pairs: int, disturbed: float, apart: bool
) -> None:
    found = Spread((low + high) / 2, low, high, 3 * pairs)  # three seeds at the pace of each pair
    assert tells_apart(found, pairs, disturbed) is apart
    shifted = Spread(found.median - 1, low - 1, high - 1, found.repeats)
    assert tells_apart(shifted, pairs, disturbed, equal=0.0) is apart
    assert not tells_apart(None, pairs, disturbed)


def test_a_choice_is_better_in_figures_that_the_priority_weighs_and_that_are_told_apart(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(3.0, 2.0), pair(1.8, 1.0)]

    def better(pairs: list[Pair], priority: str) -> tuple[str, ...]:
        asked = Priority.parse(priority)
        return Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", asked).better_by(asked)

    assert better(pairs, "throughput") == better(pairs, "time") == ("speed",)
    assert better(pairs[:2], "throughput") == ()
    assert better(pairs, "memory") == ()
    half = [one._replace(choice=dataclasses.replace(one.choice, peak_host_bytes=150 * MiB)) for one in pairs]
    assert better(half, "memory") == better(half[:1], "memory") == ("memory",)
    assert better(half, "balanced") == ("speed", "memory")
    mixed = [*half[:2], dataclasses.replace(half[2].choice, throughput_epochs_per_s=0.9)]
    mixed = [*half[:2], half[2]._replace(choice=mixed[2])]
    assert better(mixed, "1,1,0") == ("memory",)
    busy = [dataclasses.replace(one, disturbed_windows=1) for one in pairs[0]]
    assert better([Pair(*busy)] * 3, "throughput") == ()
