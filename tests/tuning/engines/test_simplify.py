import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.search.searchable import Problem
from a3gnn.space import SearchSpace
from a3gnn.tuning.engines.predicted_best import Probable, simplified

SPACE = SearchSpace.from_dict({"batch_size": (256, 1024, 4096), "cache_bytes": (0, 2**20)})
TURNED = TrainConfig(
    batch_size=4096, parallel_mode="mode1", num_workers=2, feature_tier="disk", cache_bytes=2**20, bias_rate=2.0
)


def problem_of(space: SearchSpace = SPACE, **factors: float) -> Problem:
    """Returns a problem where each knob that that is turned multiplies throughput by its factor, 1 if not given."""

    def predict(rows: np.ndarray) -> Prediction:
        throughput, others = np.ones(len(rows)), np.ones(len(rows))
        for i, row in enumerate(rows):
            fields = space.decode(row).canonical().to_dict()
            for name, value in TrainConfig().to_dict().items():
                throughput[i] *= factors.get(name, 1.0) if fields[name] != value else 1.0
        mean = np.stack([throughput, 0 * others, 1e8 * others, 0.9 * others, 10 / throughput], axis=1)
        return Prediction(mean, mean, mean)

    return Problem(space, predict, Objectives(Limits(), Priority.parse("throughput"), has_device=False))


def as_probable(rows: np.ndarray) -> np.ndarray:
    return np.ones(len(rows))


def simple(
    problem: Problem, config: TrainConfig, probable: Probable = as_probable, tried: frozenset[bytes] = frozenset()
) -> TrainConfig:
    row = problem.space.canonical(problem.space.encode(config)[None])[0]
    return problem.space.decode(simplified(row, problem, probable, set(tried))).canonical()


def test_only_knobs_that_gain_stay_turned() -> None:
    problem = problem_of(batch_size=3.0, parallel_mode=1.2)
    assert simple(problem, TURNED) == TrainConfig(batch_size=4096, parallel_mode="mode1")


def test_what_gains_nothing_alone_but_together_is_kept() -> None:
    problem = problem_of(batch_size=3.0, parallel_mode=1.015, feature_tier=1.015, cache_bytes=1.015, num_workers=1.015)
    found = simple(problem, TURNED)
    turned = [
        name
        for name in ("parallel_mode", "feature_tier", "cache_bytes", "num_workers")
        if found.to_dict()[name] != TrainConfig().to_dict()[name]
    ]
    assert len(turned) in (2, 3)
    assert 1.015 ** (4 - len(turned)) <= 2**0.03


def test_a_knob_that_keeps_a_limit_stays_turned() -> None:
    disk = SPACE.names.index("feature_tier")

    def on_disk_only(rows: np.ndarray) -> np.ndarray:
        return np.where(rows[:, disk] == SPACE.knob("feature_tier").values.index("disk"), 0.9, 0.1)

    assert simple(problem_of(batch_size=3.0), TURNED, on_disk_only) == TrainConfig(batch_size=4096, feature_tier="disk")


def test_what_was_tried_is_not_returned() -> None:
    problem = problem_of(batch_size=3.0)
    simplest = SPACE.encode(TrainConfig(batch_size=4096))
    found = simple(problem, TURNED, tried=frozenset({simplest.tobytes()}))
    assert found != TrainConfig(batch_size=4096)
    assert found.batch_size == 4096


@pytest.mark.parametrize("value", ["mode1", "mode2"])
def test_a_default_outside_the_space_is_not_gone_back_to(value: str) -> None:
    problem = problem_of(SPACE.fix("parallel_mode", value))
    assert simple(problem, TURNED.replace(parallel_mode=value)) == TrainConfig(parallel_mode=value)
