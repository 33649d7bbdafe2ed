import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.pipeline.allocate import StageModel, fit

seconds = st.floats(1e-6, 1e3)
counts = st.lists(st.integers(1, 128), min_size=2, max_size=8, unique=True)


@given(counts, seconds, seconds)
def test_times_that_obey_the_law_give_its_terms_back(threads: list[int], shared: float, fixed: float) -> None:
    model = fit(threads, [shared / c + fixed for c in threads], fixed=True)
    scale = shared + fixed
    assert [model.seconds(c) for c in threads] == pytest.approx([shared / c + fixed for c in threads], rel=1e-6)
    if len(threads) > 2 and max(threads) >= 2 * min(threads):
        assert model.fixed == pytest.approx(fixed, abs=1e-5 * scale)
        assert model.shared == pytest.approx(shared, abs=1e-5 * scale * max(threads))


@given(counts, seconds)
def test_a_stage_without_a_fixed_part_is_proportional(threads: list[int], shared: float) -> None:
    model = fit(threads, [shared / c for c in threads], fixed=False)
    assert model.shared == pytest.approx(shared)
    assert model.fixed == 0
    assert model.r2 == pytest.approx(1)
    assert model.worst == pytest.approx(0, abs=1e-9)


@given(counts, st.data())
def test_no_other_terms_have_smaller_relative_errors(threads: list[int], data: st.DataObject) -> None:
    times = np.array(data.draw(st.lists(seconds, min_size=len(threads), max_size=len(threads))))
    model = fit(threads, times.tolist(), fixed=True)
    assert model.shared >= 0
    assert model.fixed >= 0
    assert model.worst == pytest.approx(max(abs(model.seconds(c) / t - 1) for c, t in zip(threads, times, strict=True)))

    def loss(shared: float, fixed: float) -> float:
        return float((((shared / np.array(threads) + fixed) / times - 1) ** 2).sum())

    least = loss(model.shared, model.fixed)
    for shared_step in (0.0, 0.01, -0.01):
        for fixed_step in (0.0, 0.01, -0.01):
            shared = max(0.0, model.shared + shared_step * times.max())
            fixed = max(0.0, model.fixed + fixed_step * times.max())
            assert loss(shared, fixed) >= least * (1 - 1e-6) - 1e-9


def test_times_that_rise_with_threads_count_as_fixed() -> None:
    model = fit([1, 2, 4], [1.0, 1.1, 1.2], fixed=True)
    assert model.shared == 0
    assert 1.0 < model.fixed < 1.2
    assert model.r2 < 1


def test_constant_times_are_explained() -> None:
    model = fit([1, 2, 4], [3.0, 3.0, 3.0], fixed=True)
    assert (model.shared, model.fixed) == pytest.approx((0, 3))
    assert model.r2 == 1


def test_the_r2_is_that_of_the_times() -> None:
    times = np.array([4.0, 2.5, 1.0])
    model = fit([1, 2, 4], times.tolist(), fixed=False)
    predicted = np.array([model.seconds(c) for c in (1, 2, 4)])
    assert model.r2 == pytest.approx(1 - ((times - predicted) ** 2).sum() / ((times - times.mean()) ** 2).sum())


@pytest.mark.parametrize(("threads", "times"), [([], []), ([1, 2], [1.0])])
def test_counts_without_times_are_refused(threads: list[int], times: list[float]) -> None:
    with pytest.raises(UsageError, match="one time per thread count"):
        fit(threads, times, fixed=True)


def test_a_clock_that_shows_nothing_can_be_fitted() -> None:
    assert fit([1, 2], [0.0, 0.0], fixed=True).seconds(1) == pytest.approx(0, abs=1e-8)
    assert StageModel(1.0).seconds(4) == 0.25
