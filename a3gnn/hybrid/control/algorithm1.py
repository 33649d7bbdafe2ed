"""Algorithm 1 of HyScale-GNN: which two stages exchange work or threads, decided by measured seconds alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from a3gnn.hybrid.assignment import Assignment
from a3gnn.training.adapting.stage_times import StageTimes

#: The stages that Algorithm 1 sorts, in the order of its line 2: sampling on processors (T_SC) and on accelerators
#: (T_SA), feature loading (T_Load), training on processors (T_TC), and on accelerators with the transfer (T_Accel).
BalancedStage = Literal[
    "sampling on processors", "sampling on accelerators", "loading", "training on processors", "accelerators"
]
BALANCED_STAGES: tuple[BalancedStage, ...] = get_args(BalancedStage)
#: Those on the host's threads, as in line 7.
PROCESSOR_STAGES: tuple[BalancedStage, ...] = ("sampling on processors", "loading", "training on processors")
#: The other half of the work: what one gives, the other has.
PARTNERS: Mapping[BalancedStage, BalancedStage] = {
    "sampling on processors": "sampling on accelerators",
    "sampling on accelerators": "sampling on processors",
    "training on processors": "accelerators",
    "accelerators": "training on processors",
}


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be balanced.

    Attributes:
        kind: Seeds, or the host's threads.
        slow: The stage that is to get faster: it gives seeds, or gets threads.
        fast: The stage that gets seeds, or gives threads.
    """

    kind: Literal["work", "threads"]
    slow: BalancedStage
    fast: BalancedStage


def balanced_seconds(assignment: Assignment, times: StageTimes) -> dict[BalancedStage, float]:
    """Returns the seconds of the stages that have work; one that has none would always be the fastest."""
    on_devices = assignment.sampled_on_accelerators
    present = {
        "sampling on processors": on_devices < assignment.batch_size,
        "sampling on accelerators": on_devices > 0,
        "loading": True,
        "training on processors": assignment.seeds_of("processor") > 0,
        "accelerators": assignment.seeds_of("accelerator") > 0,
    }
    seconds = (
        times.sampling_processor,
        times.sampling_accelerators,
        times.loading,
        times.training_processor,
        times.accelerators,
    )
    return {stage: value for stage, value in zip(BALANCED_STAGES, seconds, strict=True) if present[stage]}


def decide(seconds: Mapping[BalancedStage, float]) -> Action | None:
    """Returns what Algorithm 1 balances, or None where the stage that would help has no work.

    Lines 23 and 31 are printed as balance_thread(fastest, bottleneck); `fastest` may be T_Accel, which has no threads
    to give. The prose takes them from "the fastest CPU task", and so does this.

    Args:
        seconds: Of the stages that have work. Equal ones count in the order of `BALANCED_STAGES`.
    """
    present = [stage for stage in BALANCED_STAGES if stage in seconds]
    by_seconds = sorted(present, key=lambda stage: -seconds[stage])
    bottleneck, fastest = by_seconds[0], by_seconds[-1]
    second = by_seconds[-2] if len(by_seconds) > 1 else fastest
    partner = PARTNERS.get(bottleneck)
    if bottleneck in ("sampling on accelerators", "accelerators"):
        return _if_present(Action("work", bottleneck, PARTNERS[bottleneck]), seconds)
    if partner is not None:
        other = "accelerators" if bottleneck == "sampling on processors" else "sampling on accelerators"
        if fastest == partner or (fastest == other and second == partner):
            return Action("work", bottleneck, partner)
    on_processors = [stage for stage in by_seconds if stage in PROCESSOR_STAGES]
    return _if_present(Action("threads", bottleneck, on_processors[-1]), seconds)


def _if_present(action: Action, seconds: Mapping[BalancedStage, float]) -> Action | None:
    return action if action.fast in seconds and action.fast != action.slow else None
