"""`Engine`: chooses the next trials of a tune. The engines by name."""

from __future__ import annotations

import importlib
import math
from typing import Protocol

from a3gnn.errors import unknown_name
from a3gnn.option_names import option
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.study.study import ENGINES, TuneRequest
from a3gnn.tuning.study.trial import Proposal

#: The classes of the engines, which are imported on use.
_CLASSES = {
    "ei": "a3gnn.tuning.engines.improvement:ExpectedImprovement",
    "ppo": "a3gnn.tuning.engines.improvement:PolicyEngine",
    "gp": "a3gnn.tuning.engines.samplers:GpEngine",
    "tpe": "a3gnn.tuning.engines.samplers:TpeEngine",
    "nsga2": "a3gnn.tuning.engines.samplers:Nsga2Engine",
    "random": "a3gnn.tuning.engines.unguided:RandomEngine",
    "exhaustive": "a3gnn.tuning.engines.unguided:ExhaustiveEngine",
}


class Engine(Protocol):
    """Chooses trials. Deterministic by its seed and the trials so far."""

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns up to `count` configurations to measure next, most wanted first; none ends the search.

        Args:
            beliefs: Beliefs after all trials so far.
            count: Number of trials to run at the same time.
            seconds_left: Seconds that a trial may take.
        """
        ...


def engine_of(request: TuneRequest) -> Engine:
    """Returns the engine of a tune: the requested one, or the race of the recipe for quality."""
    if not request.races:
        return make_engine(request.engine, request.seed)
    from a3gnn.tuning.engines.recipe import Recipe

    return Recipe(request.seed)


def make_engine(name: str, seed: int) -> Engine:
    """Returns the engine called `name`; `seed` decides everything random.

    Raises:
        UsageError: There is no such engine; the message suggests the most similar name.
    """
    if name not in ENGINES:
        raise unknown_name(option("engine"), name, ENGINES)
    module, own = _CLASSES[name].split(":")
    engine: Engine = getattr(importlib.import_module(module), own)(seed)
    return engine
