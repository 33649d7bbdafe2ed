from __future__ import annotations

import pytest

from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from tests.envs.acquisition.worlds import make_prior

CANDIDATES = 12


@pytest.fixture(scope="session")
def worlds() -> SimulatedWorlds:
    """Worlds of twelve candidates, of two priors."""
    return SimulatedWorlds([make_prior(0), make_prior(1)], num_candidates=CANDIDATES)
