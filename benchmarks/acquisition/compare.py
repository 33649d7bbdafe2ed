"""Compares rules of acquisition on the same worlds with the same noise: what each gains over the baseline.

    python -m benchmarks.acquisition.compare [NETWORK ...] [--worlds 512] [--replay] [--priority time]

Columns: the gain of utility over the baseline, paired, with its standard error over worlds; the regret of what the
play-off chooses, mean and 90 % quantile, in doublings of the score; the share of the budget that was taken; the share
of the taken seconds that went to trials that failed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.observation import observe
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.studies import FIDELITIES, WHOLE, Studies
from a3gnn_envs.acquisition.trial_values import choose, feasibility_after, incumbent, log_values, score_after
from a3gnn_envs.acquisition.world import World, Worlds
from a3gnn_envs.normal import expected_improvement
from benchmarks.acquisition.replays import ReplayWorlds, held_out_grids, simulated_priors
from benchmarks.report import add_profiles, profiles

#: Returns the actions of studies.
Rule = Callable[[Studies], NDArray[np.int64]]
#: Worlds that are run at once.
_BATCH = 64


class Outcome(NamedTuple):
    """What a rule came to in each world, float64, shape (n_worlds,) each."""

    utility: NDArray[np.float64]
    regret: NDArray[np.float64]
    taken: NDArray[np.float64]
    failed: NDArray[np.float64]


def baseline(studies: Studies) -> NDArray[np.int64]:
    """Chooses the trial and the fidelity of the largest gain per second, or stops where the price is larger."""
    return choose(log_values(studies), studies.allowed())


def whole_trials(value: Callable[[Studies], NDArray[np.float64]]) -> Rule:
    """Returns the rule that trains the whole curve of the largest `value` until the budget is spent."""

    def rule(studies: Studies) -> NDArray[np.int64]:
        allowed = studies.allowed()
        # Of a curve that is known nothing is left but the timing.
        possible = np.where(studies.trained == WHOLE, allowed[..., 0], allowed[..., WHOLE])
        best = np.where(possible, value(studies), -np.inf).argmax(axis=1)
        at = np.arange(len(best))
        fidelity = np.where(studies.trained[at, best] == WHOLE, 0, WHOLE)
        return np.where(possible.any(axis=1), best * FIDELITIES + fidelity, studies.stop)

    return rule


def improvement(studies: Studies) -> NDArray[np.float64]:
    """Returns the expected improvement times the probability of feasibility of whole trials, whatever they take."""
    mean, deviation = score_after(studies, WHOLE)
    value = expected_improvement(mean, deviation, incumbent(studies)[:, None]) * feasibility_after(studies, WHOLE)
    return np.log(np.maximum(value, 1e-300))


def best_predicted(studies: Studies) -> NDArray[np.float64]:
    """Returns the believed score of what probably keeps the limits, and less of what does not."""
    return studies.score(studies.beliefs.mean) + 100 * (feasibility_after(studies, WHOLE) >= 0.5)


def rules(networks: list[Path]) -> dict[str, Rule]:
    """Returns the rules that are compared by their names, the baseline first."""
    random = np.random.default_rng(0)
    found: dict[str, Rule] = {
        "gain per second": baseline,
        "EI x PoF, whole": whole_trials(improvement),
        "best predicted": whole_trials(best_predicted),
        "random": whole_trials(lambda studies: random.random(studies.timed.shape)),
    }
    return found | {str(path): by_network(Scorer.load(path)) for path in networks}


def by_network(scorer: Scorer) -> Rule:
    """Returns the rule of a learned acquisition."""
    return lambda studies: scorer.choose(observe(studies, np.zeros(len(studies.over))))


class Step(NamedTuple):
    """One step of studies.

    Attributes:
        candidate: Whose trial it was, in studies that made one, int64, shape (num_studies,).
        seconds: What it took; 0 in the others, float64, same shape.
    """

    candidate: NDArray[np.int64]
    seconds: NDArray[np.float64]


def follow(rule: Rule, studies: Studies) -> Iterator[Step]:
    """Runs `studies` to their ends by `rule`, and yields each step."""
    while not studies.over.all():
        before, actions = studies.spent_s.copy(), rule(studies)
        studies.run(actions)
        yield Step(np.minimum(actions, studies.stop - 1) // FIDELITIES, studies.spent_s - before)


def run(rule: Rule, worlds: list[World], num_candidates: int) -> Outcome:
    """Returns what `rule` comes to in `worlds`."""
    parts = [_run(rule, worlds[start : start + _BATCH], num_candidates) for start in range(0, len(worlds), _BATCH)]
    return Outcome(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _run(rule: Rule, worlds: list[World], num_candidates: int) -> Outcome:
    studies = Studies(World.stack(worlds, num_candidates))
    for _ in follow(rule, studies):
        pass
    kept = np.where(studies.keeps_truly(), studies.true_score(), -np.inf).max(axis=1)
    objective, budget_s = studies.objective(), studies.world.budget_s
    regret = np.where(np.isfinite(kept), kept, objective) - objective
    failed = studies.failed.sum(axis=1) * studies.world.start_s / np.maximum(studies.spent_s, 1e-9)
    return Outcome(studies.utility(), regret, studies.spent_s / budget_s, failed)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="*", help="folders of stored networks")
    parser.add_argument("--worlds", type=int, default=512)
    parser.add_argument("--candidates", type=int, default=64, help="of a world")
    parser.add_argument("--replay", action="store_true", help="measured grids in place of simulated worlds")
    parser.add_argument("--priority", type=Priority.parse, help="of all worlds; drawn otherwise")
    add_profiles(parser)
    parser.add_argument("--seed", type=int, default=1_000, help="of the worlds; trainings draw others")
    options = parser.parse_args()
    rows = profiles(options)
    source: Worlds
    if options.replay:
        source = ReplayWorlds(held_out_grids(rows), options.candidates, options.priority)
    else:
        source = SimulatedWorlds(simulated_priors(rows), options.candidates, options.priority)
    random = np.random.default_rng(options.seed)
    worlds = [source.draw(random) for _ in range(options.worlds)]
    print(f"{'rule':28}{'gain':>9}{'(se)':>9}{'regret':>9}{'q90':>8}{'taken':>8}{'failed':>8}")
    first: Outcome | None = None
    for name, rule in rules(options.networks).items():
        found = run(rule, worlds, options.candidates)
        first = first or found
        gain = found.utility - first.utility
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        print(
            f"{name:28}{gain.mean():9.4f}{error:9.4f}{found.regret.mean():9.4f}{np.quantile(found.regret, 0.9):8.3f}"
            f"{found.taken.mean():8.3f}{found.failed.mean():8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
