"""Choice against default: ratios, spreads, and what counts as different."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.figures import LEAST_PAIRS, Spread
from a3gnn.learning_curve import LearningCurve
from a3gnn.limits import Limits
from a3gnn.measurement import Metrics
from a3gnn.objectives import Objectives, Priority
from a3gnn.tuning.study.comparison import Comparison, Pair, accuracy_differences
from a3gnn.tuning.verify.judged import judged_beside
from tests.tuning.formulas import learned

MiB = 2**20


@pytest.fixture
def pair(make_metrics: Callable[..., Metrics]) -> Callable[..., Pair]:
    def make(choice: float, default: float, accuracy: tuple[float, float] = (0.9, 0.9), host: int = 300) -> Pair:
        made = [
            dataclasses.replace(make_metrics(speed, host * MiB, 0.0), curve=learned(reached))
            for speed, reached in zip((choice, default), accuracy, strict=True)
        ]
        return Pair(*made)

    return make


def test_ratios_are_of_the_same_pair(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(3.0, 2.0), pair(1.8, 1.0), pair(2.2, 1.1), pair(3.9, 3.0)]
    found = Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput"))
    assert found.throughput == Spread(2.0, 1.3, 2.0, 5)  # the medians are 2.2 and 1.1
    assert found.differs
    assert Comparison.from_dict(found.to_dict()) == found


def test_ranges_of_one_more_training_are_wider_and_decide_nothing(pair) -> None:
    pairs = [pair(speed, 1.0) for speed in (1.15, 1.1, 1.12, 1.11, 1.13)]
    found = Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("time"))
    assert found.time is not None
    assert found.time.low > 1.09
    assert found.differs
    assert found.better_by(Priority.parse("time"))[0] == "speed"
    again = found.time_again
    assert again is not None
    assert (again.median, again.repeats) == (found.time.median, found.time.repeats)
    assert (again.low, again.high) == pytest.approx((again.median / 1.75, again.median * 1.75))
    assert found.throughput_again[1:3] == pytest.approx((1.12 / 1.22, 1.12 * 1.22))
    at_least = dataclasses.replace(found, time_at_least=True)
    assert at_least.describe_time() == f"at least {again.median:.2f}"
    assert dataclasses.replace(found, time=None).time_again is None
    assert Spread(1.0, 0.5, 2.0, 3).widened(1.75) == Spread(1.0, 0.5, 2.0, 3)
    assert Spread(1.0, 1.0, 1.0, 1).widened(1.75) == Spread(1.0, 1.0, 1.0, 1)


def test_one_ratio_at_or_below_one_makes_it_no_different(pair) -> None:
    pairs = [*[pair(2.0, 1.0)] * 4, pair(1.0, 1.0)]
    assert not Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput")).differs


@pytest.mark.parametrize(("choice", "differs"), [(299, False), (290, True)])
def test_a_gain_of_less_than_a_percent_is_none(pair, choice: int, differs: bool) -> None:
    smaller = pair(1.0, 1.0)
    smaller = Pair(dataclasses.replace(smaller.choice, peak_host_bytes=choice * MiB), smaller.default)
    found = Comparison.of([smaller] * 5, [smaller], 0.8, "peak_host_bytes", Priority.parse("memory"))
    assert found.memory < 1
    assert found.differs is differs


def test_the_largest_peak_seen_counts_never_a_median(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(2.0, 1.0)]
    whole = pair(2.0, 1.0)
    whole = Pair(dataclasses.replace(whole.choice, peak_host_bytes=600 * MiB), whole.default)
    assert Comparison.of(pairs, [whole], 0.8, "peak_host_bytes", Priority.parse("throughput")).memory == 2.0


def test_time_ratios_count_the_set_up_and_are_per_pair_and_seed(pair) -> None:
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
    assert accuracy_differences(seeds, 0.0) == pytest.approx([-2.0, 1.0])


@pytest.mark.parametrize(
    ("priority", "differs"),
    [("memory", True), ("throughput", False), ("1,3,0", False), ("1,8,0", False), ("0,1,0", True)],
)
def test_the_verdict_is_about_what_the_priority_weighs(pair, priority: str, differs: bool) -> None:
    slower = pair(0.9, 1.0)
    half = dataclasses.replace(slower.choice, peak_host_bytes=slower.default.peak_host_bytes // 2)
    pairs = [slower._replace(choice=half)] * 5
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


def test_peaks_of_a_training_are_not_divided_by_those_of_a_timing(pair) -> None:
    both = pair(2.0, 1.0)
    timed = dataclasses.replace(both.default, curve=None, peak_host_bytes=200 * MiB)
    mixed = Pair(both.choice, timed)
    found = Comparison.of([mixed, both], [both], 0.8, "peak_host_bytes", Priority.parse("memory"))
    assert (found.memory, found.memory_most) == (1.0, 1.0)
    assert found.throughput.repeats == 2


def test_comparisons_from_before_are_read(pair) -> None:
    found = Comparison.of([pair(2.0, 1.0)], [pair(2.0, 1.0)], 0.8, "peak_host_bytes", Priority.parse("time"))
    fields = {name: value for name, value in found.to_dict().items() if name not in ("disturbed", "left_out")}
    assert Comparison.from_dict(fields) == found


@pytest.mark.parametrize(("speed", "pairs", "differs"), [(1.4, 4, False), (1.4, 5, True), (1.6, 1, True)])
def test_fewer_than_five_pairs_tell_only_a_large_gain(pair, speed, pairs, differs) -> None:
    found = Comparison.of(
        [pair(speed, 1.0)] * pairs, [pair(speed, 1.0)], 0.8, "peak_host_bytes", Priority.parse("throughput")
    )
    assert found.differs is differs
    assert found.better_by(Priority.parse("throughput")) == (("speed",) if differs else ())


def test_accuracy_is_a_gain_with_two_seeds_and_memory_at_its_worst_ratio(pair) -> None:
    timed, better = [pair(1.0, 1.0)] * 5, pair(1.0, 1.0, (0.9, 0.8))
    priority = Priority.parse("accuracy")
    one, two = (Comparison.of(timed, [better] * seeds, 0.5, "peak_host_bytes", priority) for seeds in (1, 2))
    assert (one.accuracy.median, one.differs, one.better_by(priority)) == (pytest.approx(10.0), False, ())
    assert (two.differs, two.better_by(priority)) == (True, ("accuracy",))
    fast = [pair(2.0, 1.0)] * 5
    larger = Pair(fast[0].choice, dataclasses.replace(fast[0].default, peak_host_bytes=301 * MiB))
    lucky = [*fast[:4], larger]
    found = Comparison.of(lucky, fast[:1], 0.5, "peak_host_bytes", Priority.parse("balanced"))
    assert (found.memory < 1, found.memory_most) == (True, 1.0)
    assert found.better_by(Priority.parse("balanced")) == ("speed",)


def test_more_pairs_narrow_the_range_instead_of_widening_it(pair) -> None:
    pairs = [*[pair(2.0, 1.0)] * 14, pair(0.5, 1.0)]
    found = Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput"))
    assert found.throughput == Spread(2.0, 2.0, 2.0, 15)
    assert found.differs


def test_more_epochs_per_second_are_no_gain_to_who_is_later_at_the_target(pair) -> None:
    timed = [pair(2.75, 1.0)] * 5
    slower = pair(2.75, 1.0, (0.66, 0.9))  # 0.65 of 0.66 takes all three points, 0.65 of 0.9 two and a bit
    later = Pair(dataclasses.replace(slower.choice, curve=stretched(slower.choice.curve, 4)), slower.default)
    for priority, differs in (("throughput", False), ("balanced", False), ("time", False), ("memory", False)):
        found = Comparison.of(timed, [later], 0.65, "peak_host_bytes", Priority.parse(priority))
        assert found.time.high < 1
        assert found.differs is differs, priority
    smaller = [Pair(dataclasses.replace(one.choice, peak_host_bytes=200 * MiB), one.default) for one in timed]
    later = Pair(dataclasses.replace(later.choice, peak_host_bytes=200 * MiB), later.default)
    assert Comparison.of(smaller, [later], 0.65, "peak_host_bytes", Priority.parse("memory")).differs


def stretched(curve: LearningCurve, factor: int) -> LearningCurve:
    """Returns a curve that learns the same with so many times the mini-batches."""
    return dataclasses.replace(curve, batches=tuple(factor * batches for batches in curve.batches))


def test_a_default_that_misses_the_target_makes_the_ratio_a_bound(pair) -> None:
    found = Comparison.of(
        [pair(2.0, 1.0)] * 5, [pair(2.0, 1.0, (0.9, 0.5))], 0.65, "peak_host_bytes", Priority.parse("time")
    )
    assert found.time_at_least
    assert found.differs
    missed = Comparison.of(
        [pair(2.0, 1.0)] * 5,
        [pair(2.0, 1.0), pair(2.0, 1.0), pair(2.0, 1.0, (0.5, 0.9))],
        0.65,
        "peak_host_bytes",
        Priority.parse("time"),
    )
    assert (missed.missed, missed.time.low, missed.differs) == (1, 0.0, False)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_what_is_shown_of_both_divides_into_the_shown_ratios(make_metrics, data: st.DataObject) -> None:
    """Whatever the pairs: the figures of the choice and of the default are what the ratios are of."""
    speeds, accuracies = st.floats(0.1, 10.0), st.floats(0.3, 1.0)

    def pairs(of: st.SearchStrategy[tuple[float, float, int, int]], most: int) -> list[Pair]:
        made = data.draw(st.lists(st.tuples(of, of), min_size=1, max_size=most))
        return [
            Pair(
                *(
                    dataclasses.replace(
                        make_metrics(speed, host * MiB, 0.0), curve=learned(reached), disturbed_windows=disturbed
                    )
                    for speed, reached, host, disturbed in both
                )
            )
            for both in made
        ]

    one = st.tuples(speeds, accuracies, st.integers(100, 900), st.integers(0, 1))
    blocks, seeds = pairs(one, 15), pairs(one, 4)
    objectives = Objectives(Limits(least_accuracy=0.5), Priority.parse("time"), has_device=False)
    choice, judged_default, found = judged_beside(blocks, seeds, objectives, None)
    own, default = choice.figures, judged_default.figures
    undisturbed = sum(not block.disturbed for block in blocks)
    assert found.left_out == (len(blocks) - undisturbed if undisturbed >= LEAST_PAIRS else 0)
    assert found.throughput.median == pytest.approx(own.throughput_epochs_per_s / default.throughput_epochs_per_s)
    assert found.memory == pytest.approx(own.peak_host_bytes / default.peak_host_bytes)
    assert found.accuracy.median == pytest.approx(100 * (own.val_accuracy - default.val_accuracy))
    assert (found.time is None) == (own.seconds_to_accuracy is None)
    for side, one in enumerate((own, default)):
        missed = [pair[side].curve.first_reaching(0.5) is None for pair in seeds]
        assert (one.seeds, one.seeds_missed) == (len(seeds), sum(missed))
    if found.time is not None and not found.time_at_least:
        assert found.time.median == pytest.approx(default.seconds_to_accuracy / own.seconds_to_accuracy)
    for spread in (found.throughput, found.time, found.accuracy):
        assert spread is None or spread.low <= spread.median <= spread.high


def test_a_choice_is_better_in_figures_that_the_priority_weighs_and_that_are_told_apart(pair) -> None:
    pairs = [pair(2.0, 1.0), pair(3.0, 2.0), pair(1.8, 1.0), pair(2.0, 1.0), pair(2.0, 1.0)]

    def better(pairs: list[Pair], priority: str) -> tuple[str, ...]:
        asked = Priority.parse(priority)
        return Comparison.of(pairs, pairs[:1], 0.8, "peak_host_bytes", asked).better_by(asked)

    assert better(pairs, "throughput") == better(pairs, "time") == ("speed",)
    assert better([pair(1.4, 1.0)] * 4, "throughput") == ()
    assert better(pairs, "memory") == ()
    half = [one._replace(choice=dataclasses.replace(one.choice, peak_host_bytes=150 * MiB)) for one in pairs]
    assert better(half, "memory") == ("memory",)
    assert better(half, "balanced") == ("speed", "memory")
    found = Comparison.of(pairs[:2], pairs[:1], 0.8, "peak_host_bytes", Priority.parse("throughput"))
    old = dataclasses.replace(found, differs=True, memory_most=None)  # as older versions wrote it, of two pairs
    assert old.better_by(Priority.parse("throughput")) == ()
