"""`Searcher`: the protocol of all search engines, and their registry."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import unknown_name
from a3gnn.option_names import option
from a3gnn.prediction import Prediction
from a3gnn.search.searchable import Searchable

#: Engines and their classes, which are imported on use.
ENGINES = {
    "local": "a3gnn.search.local_search:LocalSearch",
    "ppo": "a3gnn.search.ppo:PpoSearcher",
    "nsga2": "a3gnn.search.optuna_study:Nsga2Searcher",
    "tpe": "a3gnn.search.optuna_study:TpeSearcher",
    "random": "a3gnn.search.baselines:RandomSearcher",
    "exhaustive": "a3gnn.search.baselines:ExhaustiveSearcher",
}
#: With more evaluations an engine may take ten seconds or longer, because Optuna's time per trial grows with the number
#: of trials and of knobs. Measured with 12 to 14 knobs by `python -m benchmarks.search_engines`: nsga2 takes 3 to 9 s
#: for 1,000 evaluations, and tpe up to 8 s for 300.
MAX_EVALUATIONS = {"nsga2": 700, "tpe": 200}


class Searcher(Protocol):
    """Asks for configurations and is told their predictions, in batches.

    A searcher never asks for a row twice, asks for canonical rows only, and is deterministic by its seed.
    """

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns up to `count` rows to evaluate, int64, shape (n, n_knobs); none only if there are no more."""
        ...

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Takes the predictions of `rows`, which are all rows of the last `ask`."""
        ...


def make_searcher(engine: str, problem: Searchable, seed: int, **options: Any) -> Searcher:
    """Returns the searcher called `engine` on `problem`.

    Args:
        engine: local, ppo, nsga2, tpe, random or exhaustive.
        problem: A `Problem`; for exhaustive, random and local, any `Searchable`.
        seed: Decides everything random.
        options: Further arguments of the engine, such as `evaluations` of local and ppo.

    Raises:
        UsageError: There is no such engine; the message suggests the most similar name.
    """
    if engine not in ENGINES:
        raise unknown_name(option("engine"), engine, ENGINES)
    module, name = ENGINES[engine].split(":")
    searcher: Searcher = getattr(importlib.import_module(module), name)(problem, seed, **options)
    return searcher
