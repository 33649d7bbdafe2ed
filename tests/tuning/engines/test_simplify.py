from collections.abc import Callable

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.space import SearchSpace
from a3gnn.tuning.engines.predicted_best import Judged, simplified

SPACE = SearchSpace.from_dict({"batch_size": (256, 1024, 4096), "cache_bytes": (0, 2**20)})
TURNED = TrainConfig(
    batch_size=4096, parallel_mode="mode1", num_workers=2, feature_tier="disk", cache_bytes=2**20, bias_rate=2.0
)


Probable = Callable[[np.ndarray], np.ndarray]


def scores_of(space: SearchSpace = SPACE, **factors: float) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the scores where each knob that is not at its default multiplies throughput by its factor, or by 1."""

    def score(rows: np.ndarray) -> np.ndarray:
        throughput = np.ones(len(rows))
        for i, row in enumerate(rows):
            fields = space.decode(row).canonical().to_dict()
            for name, value in TrainConfig().to_dict().items():
                throughput[i] *= factors.get(name, 1.0) if fields[name] != value else 1.0
        return np.log2(throughput)

    return score


def as_probable(rows: np.ndarray) -> np.ndarray:
    return np.ones(len(rows))


def simple(
    score: Callable[[np.ndarray], np.ndarray],
    config: TrainConfig,
    probable: Probable = as_probable,
    space: SearchSpace = SPACE,
) -> TrainConfig:
    row = space.canonical(space.encode(config)[None])[0]
    found = simplified(row, space, lambda rows: Judged(score(rows), probable(rows)))
    return space.decode(found).canonical()


def test_only_knobs_that_gain_stay_turned() -> None:
    scores = scores_of(batch_size=3.0, parallel_mode=1.2)
    assert simple(scores, TURNED) == TrainConfig(batch_size=4096, parallel_mode="mode1")


def test_what_gains_nothing_alone_but_together_is_kept() -> None:
    scores = scores_of(batch_size=3.0, parallel_mode=1.015, feature_tier=1.015, cache_bytes=1.015, num_workers=1.015)
    found = simple(scores, TURNED)
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

    assert simple(scores_of(batch_size=3.0), TURNED, on_disk_only) == TrainConfig(batch_size=4096, feature_tier="disk")


@pytest.mark.parametrize("value", ["mode1", "mode2"])
def test_a_default_outside_the_space_is_not_gone_back_to(value: str) -> None:
    space = SPACE.fix("parallel_mode", value)
    found = simple(scores_of(space), TURNED.replace(parallel_mode=value), space=space)
    assert found == TrainConfig(parallel_mode=value)
