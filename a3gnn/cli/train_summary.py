"""What `a3gnn train` says when it has ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from a3gnn.units import count, format_duration, format_size

if TYPE_CHECKING:
    from a3gnn.training.result import TrainResult
    from a3gnn.training.tuned import TunedConfig

#: Share of the cores' time that is stolen, from which on it is said. Guess: it then costs a tenth.
_MUCH_STOLEN = 0.05


def summary(result: TrainResult, promised: TunedConfig | None) -> str:
    """Returns what people want to know, beside what the tune measured, or what was predicted where nothing was."""
    memory = "peak_device_bytes" if result.peak_device_bytes else "peak_host_bytes"
    speed, took, metric = result.throughput_epochs_per_s, getattr(result, memory), result.metric
    lines = [
        f"{result.graph}: {metric.show(result.test_accuracy)} test {metric.label} {_where(result)} "
        f"(validation {metric.show(result.val_accuracy)}), in {format_duration(result.seconds)}",
        *([] if result.target_accuracy is None else [f"target      {_target(result, promised)}"]),
        f"throughput  {speed:.3g} epochs/s{_beside(speed, promised, 'throughput_epochs_per_s', '{:.3g}'.format)}",
        *([] if result.nvtps is None else [f"traversed   {_traversed(result)}"]),
        *([] if result.kj_per_epoch is None else [f"energy      {_energy(result)}"]),
        f"memory      {format_size(took)}{_beside(took, promised, memory, format_size)}",
        *([] if result.trainers is None else [f"trainers    {_trainers(result.trainers)}"]),
        *([] if result.algorithm is None else [f"algorithm   {_algorithm(result.algorithm)}"]),
        *([] if result.adapted is None else [f"adapted     {_adapted(result.adapted)}"]),
        *([f"{metric.label:<11} is computed from {result.evaluation}"] if result.task.is_own else []),
        *([] if result.stolen_share < _MUCH_STOLEN else [f"stolen      {_stolen(result)}"]),
        f"weights     {result.folder}/model.pt",
    ]
    return "\n".join(lines)


def _beside(found: float, promised: TunedConfig | None, metric: str, shown: Callable[[float], str]) -> str:
    """Returns what tuned.json says of `metric`, and `found` over that; nothing where it says nothing."""
    if promised is None:
        return ""
    if promised.measured is not None:
        before = getattr(promised.measured, metric)
        return f"; the tune measured {shown(before)} ({found / before:.2f} x)"
    if metric not in promised.predicted:
        return ""
    mean, low, high = (promised.predicted[metric][bound] for bound in ("mean", "low", "high"))
    return f"; predicted were {shown(mean)} ({shown(low)} to {shown(high)}; {found / mean:.2f} x)"


def _traversed(result: TrainResult) -> str:
    """Returns NVTPS, by bandwidth where that is known, and MTEPS."""
    assert result.nvtps is not None
    by_bandwidth = "" if result.nvtps_per_gb_per_s is None else f", {result.nvtps_per_gb_per_s / 1e3:.3g} K per GB/s"
    return f"{result.nvtps / 1e6:.3g} M vertices/s (NVTPS{by_bandwidth}), {result.mteps:.3g} M edges/s (MTEPS)"


def _energy(result: TrainResult) -> str:
    return f"{result.kj_per_epoch:.3g} kJ per epoch ({result.energy})"


def _stolen(result: TrainResult) -> str:
    from a3gnn.threads.stolen_time import stretch

    return (
        f"{result.stolen_share:.0%} of the cores' time, by other machines of the host; without, training takes about "
        f"{1 / stretch(result.stolen_share):.2f} of its time, which is what a tune tells"
    )


def _where(result: TrainResult) -> str:
    if result.best_epoch is None:
        return f"after {result.batches_to_accuracy} mini-batches"
    return f"at epoch {result.best_epoch} of {result.epochs}"


def _target(result: TrainResult, promised: TunedConfig | None) -> str:
    """Returns when the target was reached, and when the tune said that it would be."""
    assert result.target_accuracy is not None, "there is a target"
    accuracy = f"{result.metric.show(result.target_accuracy)} validation {result.metric.label}"
    promise = None if promised is None else promised.seconds_to_accuracy
    target = None if promised is None else promised.target_accuracy
    said = ""
    if promise is not None and target is not None and math.isclose(target, result.target_accuracy):
        median, low, high = (format_duration(promise[name]) for name in ("median", "low", "high"))
        said = f"; the tune promised {median} ({low} to {high})"
    if result.seconds_to_accuracy is None or result.eval_seconds_to_accuracy is None:
        return f"{accuracy} not reached{said}"
    whole = result.seconds_to_accuracy + result.eval_seconds_to_accuracy
    took = f"{format_duration(result.seconds_to_accuracy)} of training, {format_duration(whole)} with evaluations"
    return f"{accuracy} in {took}{said}"


def _trainers(told: dict[str, Any]) -> str:
    """Returns the trainers' names and seeds, and what work their shares repeat."""
    work, pairs = told["repeated_work"], zip(told["names"], told["shares"], strict=True)
    repeated = f"{work['rows']:.2f} x the rows of one are read, {work['sampled_edges']:.2f} x the edges sampled"
    adapted = f" after {count(len(told['changes']), 'change')}" if "changes" in told else ""
    seeds = ", ".join(f"{name} {share}" for name, share in pairs)
    ahead = f", prefetch {','.join(map(str, told['prefetch']))}" if told["prefetch"] else ""
    return f"{seeds} seeds{adapted}, {told['sampling']} sampling{ahead}; {repeated}"


def _algorithm(told: dict[str, Any]) -> str:
    """Returns what ranks read and sent, all of them in all epochs together."""
    from a3gnn.training.step import Traffic

    total = Traffic.sum([Traffic.from_dict(one) for one in told["ranks"]])
    moved = f"{format_size(total.host_bytes)} from the host's, {format_size(total.gradient_bytes)} of gradients"
    if total.activation_bytes:
        moved += f", {format_size(total.activation_bytes)} of activations"
    where = f"{told['name']} on {count(len(told['ranks']), 'rank')}"
    own = f"{where}: {total.beta:.1%} of the rows from their own memory (beta)"
    return f"{own}, {moved}"


def _adapted(told: dict[str, Any]) -> str:
    """Returns how mini-batches were prepared in the end."""
    how, changes = told["preparation"], count(len(told["changes"]), "change")
    ahead = "" if how["mode"] == "sequential" else f" x{how['workers']}, {how['depth']} ahead"
    cached = f", cache {format_size(how['cache_bytes'])}" if how["cache_bytes"] else ""
    return f"{changes}; in the end {how['mode']}{ahead}{cached}"
