from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from a3gnn.limits import Limits
from a3gnn_envs.context import Context
from tests.toy_problem import ToyProblem


@pytest.fixture(scope="session")
def context() -> Context:
    """A toy under a limit of 1 GiB, which about a third of its configurations keep."""
    toy = ToyProblem()
    space = toy.space()
    return Context(space, partial(toy.predict, space), Limits(host_bytes=2**30), False, toy.features())


@pytest.fixture(scope="session")
def many_contexts() -> list[Context]:
    """Eight random toys, each under a limit of its own."""
    random = np.random.default_rng(3)
    contexts = []
    for _ in range(8):
        toy = ToyProblem.draw(random)
        space = toy.space()
        memory = toy.predict(space, space.sample(200, seed=1)).column("peak_host_bytes", "high")
        limit = Limits(host_bytes=int(np.quantile(memory, random.uniform(0.2, 0.8))))
        contexts.append(Context(space, partial(toy.predict, space), limit, False, toy.features()))
    return contexts
