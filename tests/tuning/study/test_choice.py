"""What a tune hands over, and what it says where it can't: by formulas, without a trial."""

import math
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import PARTITIONING, TrialRequest
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE

MiB = 2**20
#: Two configurations: features in RAM, and on disk.
TIERS = SMALL_SPACE | {"parallel_mode": "sequential", "num_partitions": 1}


def swollen(when: Callable[[TrialRequest, int], bool], metrics_more: int = 64 * MiB) -> Callable[..., Metrics]:
    """Adds memory to the trials that `when` picks by their request and how often their configuration ran before."""

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return more_memory(metrics, metrics_more) if when(request, before) else metrics

    return alter


def more_memory(metrics: Metrics, more: int) -> Metrics:
    return Metrics.from_dict(metrics.to_dict() | {"peak_host_bytes": metrics.peak_host_bytes + more})


def test_a_choice_that_breaks_a_limit_when_measured_again_hands_over_to_the_next(quick_tune, formulas) -> None:
    lines: list[str] = []
    executor = formulas(swollen(lambda request, before: request.config.parallel_mode != "sequential" and before > 0))
    fix = SMALL_SPACE | {"feature_tier": "ram", "num_partitions": 1}
    found = quick_tune(executor=executor, fix=fix, memory_limit=350 * MiB, notify=lines.append)
    rejected = [line for line in lines if "rejected" in line]
    assert rejected
    assert "out of memory: passed the limit" in rejected[0]
    assert found.tuned.config.parallel_mode == "sequential"
    assert found.tuned.measured.peak_host_bytes <= 350 * MiB
    assert executor.whole[-1].config == found.tuned.config
    refused = next(row for row in found.front.rows if row.config.parallel_mode != "sequential")
    assert refused.note.startswith("rejected: out of memory")


def test_where_every_second_trial_breaks_the_limit_the_smallest_that_would_lies_above_it(quick_tune, formulas) -> None:
    # In silence: its peak is over the limit by the end, though it was never seen over it.
    limit = 350 * MiB
    executor = formulas(swollen(lambda request, before: before > 0))
    executor.enforces_limits = False
    lines: list[str] = []
    fix = SMALL_SPACE | {"feature_tier": "ram", "parallel_mode": "sequential", "num_partitions": 1}
    with pytest.raises(InfeasibleError) as caught:
        quick_tune(executor=executor, fix=fix, memory_limit=limit, budget=2, notify=lines.append)
    assert "the smallest limit that would: memory_limit='384MiB'" in str(caught.value)
    assert "has host memory 33.5 MiB over the limit of 350 MiB" in str(caught.value)
    assert caught.value.smallest_limit_bytes > limit
    assert any("rejected: host memory" in line for line in lines)


def test_exploring_goes_on_while_nothing_beats_the_default(quick_tune, formulas) -> None:
    def none_better(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        worse = request.config != TrainConfig().canonical()
        return Metrics.from_dict(
            metrics.to_dict()
            | {"throughput_epochs_per_s": 0.5 if worse else 1.0, "peak_host_bytes": (400 + 100 * worse) * MiB}
        )

    found = quick_tune(executor=formulas(none_better), budget=9)
    assert found.tuned.config == TrainConfig().canonical()
    assert found.trials == 9  # two rounds of four that find nothing end the exploring otherwise


def test_a_binding_accuracy_limit_is_kept(quick_tune) -> None:
    fix = SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"}
    free = quick_tune(max_accuracy_drop=100.0, fix=fix)
    assert free.tuned.config.num_partitions == 8
    bound = quick_tune(max_accuracy_drop=2.5, fix=fix, out=free.folder.parent / "bound")
    assert bound.tuned.config.num_partitions == 2
    assert bound.tuned.limits.least_accuracy == pytest.approx(0.875)
    over = [row for row in bound.front.rows if not row.feasible]
    assert over
    assert all(breach.limit == "least_accuracy" for row in over for breach in row.broken)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ei", pytest.param("tpe", marks=pytest.mark.weekly)])
def test_a_tune_of_a_space_that_can_not_be_enumerated(engine, quick_tune, small_graph, tmp_path) -> None:
    lines: list[str] = []
    wide = dict.fromkeys(("num_partitions", "bias_rate", "num_workers"), (1, 128))
    options = {"engine": engine, "fix": {}, "ranges": wide, "max_accuracy_drop": 2.5, "budget": 2}
    found = quick_tune(small_graph, notify=everything(lines), **options)
    assert found.search.engine == engine
    assert found.search.evaluations >= 2000
    assert found.search.configurations > 200_000
    (said,) = (line for line in lines if line.startswith(f"search   {engine}"))
    assert "predictions in" in said
    assert max(found.tuned.measured.curve.val_accuracy) >= found.tuned.limits.least_accuracy
    again = quick_tune(small_graph, out=tmp_path / "again", **options)
    assert [row.config for row in again.front.rows] == [row.config for row in found.front.rows]


def test_a_configuration_in_which_the_fixed_knob_is_idle_may_be_chosen(quick_tune) -> None:
    fix = SMALL_SPACE | {"num_workers": 4, "num_partitions": 1, "partitioner": "blocks", "feature_tier": "ram"}
    found = quick_tune(fix=fix, memory_limit=325 * MiB)  # which only the sequential mode keeps
    assert found.tuned.config == TrainConfig()


def test_nothing_fits_names_the_closest_and_what_it_would_take(quick_tune) -> None:
    with pytest.raises(InfeasibleError) as caught:
        quick_tune(memory_limit=255 * MiB, budget=2)
    text = str(caught.value)
    assert caught.value.smallest_limit_bytes > 255 * MiB
    assert "host memory" in text
    assert "over the limit of 255 MiB" in text
    assert "the smallest limit that would: memory_limit=" in text


def test_trials_that_keep_the_limit_but_not_when_measured_again_name_the_limit_that_would_do(
    quick_tune, formulas
) -> None:
    """As with a limit at which the same training takes a few MiB more or less each time."""
    limit = 330 * MiB

    def again(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if before == 0:
            return more_memory(metrics, 329 * MiB - metrics.peak_host_bytes)
        return Failure(FailureKind.OUT_OF_MEMORY, "passed the limit of 330 MiB: it held 333 MiB", 333 * MiB, limit)

    with pytest.raises(InfeasibleError) as caught:
        quick_tune(executor=formulas(again), memory_limit=limit, fix=TIERS)
    text = str(caught.value)
    assert "2 measured, 0 failed, 2 measured did not keep the limits when measured again" in text
    assert "it held 333 MiB" in text
    assert f"give memory_limit='{math.ceil(333 * 1.05)}MiB' or more" in text
    assert caught.value.smallest_limit_bytes == math.ceil(333 * MiB * 1.05)


def test_a_space_that_is_measured_whole_has_no_smallest_trial_left(quick_tune, formulas) -> None:
    crash = Failure(FailureKind.CRASHED, "Traceback\nZeroDivisionError: by formula")
    lines: list[str] = []
    with pytest.raises(InfeasibleError, match="0 measured, 2 failed, the last one: crashed: ZeroDivisionError"):
        quick_tune(executor=formulas(lambda *_: crash), fix=TIERS, notify=lines.append)
    assert not any(line.startswith("smallest") for line in lines)


def test_what_ran_out_of_memory_everywhere_is_tried_once_without_the_limit(quick_tune) -> None:
    lines: list[str] = []
    with pytest.raises(InfeasibleError, match="the smallest limit that would: memory_limit='280MiB'") as caught:
        quick_tune(memory_limit=255 * MiB, fix=TIERS, notify=lines.append)
    assert sum(line.startswith("smallest") for line in lines) == 1
    with pytest.raises(InfeasibleError) as resumed:
        quick_tune(memory_limit=255 * MiB, fix=TIERS, notify=lines.append, resume=True)
    assert str(resumed.value) == str(caught.value)
    assert sum(line.startswith("smallest") for line in lines) == 1


def test_only_the_partitioner_that_failed_is_left_out(quick_tune, formulas) -> None:
    def fails(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.partitioner == "metis" and request.config.num_partitions > 1:
            limit = float(request.plan.host_limit_bytes or 0)
            return Failure(FailureKind.OUT_OF_MEMORY, f"{PARTITIONING}: passed the limit", limit=limit)
        return metrics

    lines: list[str] = []
    executor = formulas(fails)
    fix = SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram"}
    options = {"memory_limit": 2**30, "max_accuracy_drop": 100.0, "budget": 12}
    found = quick_tune(executor=executor, fix=fix, notify=lines.append, **options)
    asked = [request.config for request in executor.ran]
    failed = [config.num_partitions for config in asked if config.partitioner == "metis" and config.num_partitions > 1]
    assert failed
    assert failed == sorted(failed, reverse=True)
    assert len(set(failed)) == len(failed)
    assert (found.tuned.config.num_partitions, found.tuned.config.partitioner) == (8, "blocks")
    assert any("metis can't make " in line for line in lines)
