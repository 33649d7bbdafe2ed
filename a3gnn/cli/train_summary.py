"""The summary that `a3gnn train` prints: the result, beside the figures of the tune."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from a3gnn.metric import nearly_as_good
from a3gnn.option_names import option, program
from a3gnn.report.ratios import show_ratio, show_speed
from a3gnn.report.table import beside, labeled, noted
from a3gnn.report.text import wrapped
from a3gnn.task import MODEL_LABELS
from a3gnn.units import count, format_duration, format_seconds, format_size

if TYPE_CHECKING:
    from a3gnn.training.result import TrainResult
    from a3gnn.training.tuned import TunedConfig

#: Share of stolen core time from which the summary reports it, because it explains a difference between runs.
_MUCH_STOLEN = 0.05
#: A line of the table: a label, a figure, and a note beside it.
_Row = tuple[str, str, str]


def summary_lines(
    result: TrainResult,
    promised: TunedConfig | None,
    dataset: str | None = None,
    verbose: bool = False,
    whole: str = "",
) -> Iterator[str]:
    """Yields the lines of the summary, each of at most 80 columns but for paths and commands.

    Args:
        result: The result of the training.
        promised: The tune's measurements, or predictions if nothing was measured; None without a tune.
        dataset: The graph's spec; None for the tune's.
        verbose: Whether to add traversed vertices, energy and stolen time.
        whole: The seconds of a run that also compared (`a3gnn.tuning.auto.AutoResult.describe`).
    """
    model = MODEL_LABELS.get(result.task.model, result.task.model)
    yield from wrapped(f"Trained {model} on {result.graph} in {format_duration(result.seconds)}")
    yield ""
    yield from noted(list(_rows(result, promised, verbose)))
    yield ""
    if whole:
        yield from labeled("Took", whole)
    for label, text in _details(result, verbose):
        yield from labeled(label, text)
    yield beside("Saved", f"{result.folder}/model.pt, metrics.jsonl, result.json")
    from a3gnn.graphs.split import Split
    from a3gnn.graphs.target import Target

    spec = dataset or (promised.spec if promised is not None else "") or "GRAPH"
    without = Split.in_spec(spec)[1]
    target = Target.in_spec(without)[0]
    shown = spec if target.is_relation else without  # the split decides which links message passing shows
    words = ["predict", str(result.folder), "--dataset", shown, "--out", "predictions.npy"]
    words += ["--edges", "pairs.npy"] if target.value else []
    yield beside("Next", f"{program()} {shlex.join(words)}")


def _rows(result: TrainResult, promised: TunedConfig | None, verbose: bool) -> Iterator[_Row]:
    metric, speed = result.metric, result.throughput_epochs_per_s
    memory = "peak_device_bytes" if result.peak_device_bytes else "peak_host_bytes"
    took = getattr(result, memory)
    yield f"test {metric.label}", metric.show(result.test_accuracy), _when(result)
    note = "still improving when the epochs ended" if result.still_improving else ""
    yield f"validation {metric.label}", metric.show(result.val_accuracy), note
    for name, quality in (result.heuristics or {}).items():
        yield name, metric.show(quality), "on test, without a model"
    yield from _target(result, promised, verbose)
    yield from _trained(result, promised)
    note = _beside(speed, promised, "throughput_epochs_per_s", show_speed)
    yield "epochs per second", show_speed(speed), note
    yield "peak memory", format_size(took), _beside(took, promised, memory, format_size)


def _when(result: TrainResult) -> str:
    if result.best_epoch is None:
        return f"after {result.batches} mini-batches, at the target"
    return f"at epoch {result.best_epoch} of {result.epochs}, the best by validation"


def _trained(result: TrainResult, promised: TunedConfig | None) -> Iterator[_Row]:
    """Yields the time of training beside the tune's, if the tune trained this configuration."""
    before = None if promised is None else promised.trained
    if before is not None:
        note = f"the tune trained it for {format_seconds(before.seconds)}"
        yield "time of training", format_seconds(result.train_seconds), note


def _target(result: TrainResult, promised: TunedConfig | None, verbose: bool) -> Iterator[_Row]:
    """Yields the time to the target beside the tune's, if there is a target."""
    if result.target_accuracy is None:
        return
    promise = None if promised is None else promised.seconds_to_accuracy
    target = None if promised is None else promised.target_accuracy
    note = ""
    if promise is not None and target is not None and math.isclose(target, result.target_accuracy):
        median, low, high = (format_seconds(promise[name]) for name in ("median", "low", "high"))
        note = f"the tune measured {median}" + ("" if low == high else f" ({low} to {high})")
    label = f"time to {result.metric.show(result.target_accuracy)}"
    if result.seconds_to_accuracy is None or result.eval_seconds_to_accuracy is None:
        yield label, "not reached", note
        return
    yield label, format_seconds(result.seconds_to_accuracy), note
    if verbose:
        whole = result.seconds_to_accuracy + result.eval_seconds_to_accuracy
        yield "  with evaluations", format_seconds(whole), ""


def _beside(found: float, promised: TunedConfig | None, metric: str, shown: Callable[[float], str]) -> str:
    """Returns the tuned.json's value of `metric` and the ratio of `found` to it; empty if there is none."""
    if promised is None:
        return ""
    if promised.measured is not None:
        before = getattr(promised.measured, metric)
        if not before:  # the tune measured no device memory
            return ""
        return f"the tune measured {shown(before)} ({show_ratio(found / before)})"
    if metric not in promised.predicted:
        return ""
    mean, low, high = (promised.predicted[metric][bound] for bound in ("mean", "low", "high"))
    return f"predicted {shown(mean)} ({shown(low)} to {shown(high)}; {show_ratio(found / mean)})"


def _details(result: TrainResult, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yields a label and a text for each special way of training, and for each further figure."""
    if result.trainers is not None:
        yield "Trainers", _trainers(result.trainers)
    if result.algorithm is not None:
        yield "Algorithm", _algorithm(result.algorithm)
    if result.adapted is not None:
        yield "Adapted", _adapted(result.adapted)
    if result.disk_reads is not None:
        read, used = result.disk_reads["read"], result.disk_reads["used"]
        share = show_ratio(read / max(used, 1))
        yield "Disk", f"{format_size(read)} read for {format_size(used)} of rows that mini-batches used ({share})"
    for text in _as_good(result):
        yield "Note", text
    if result.metric.name in ("roc_auc", "average_precision") and "popularity" in (result.heuristics or {}):
        yield "Note", f"{result.metric.label} is against one random negative per link, which is easy; mrr is not"
    if result.task.is_own:
        yield "Note", f"{result.metric.label} is computed from {result.evaluation}"
    if not verbose:
        return
    if result.nvtps is not None:
        yield "Traversed", _traversed(result)
    if result.kj_per_epoch is not None:
        yield "Energy", f"{result.kj_per_epoch:.3g} kJ per epoch ({result.energy})"
    if result.stolen_share >= _MUCH_STOLEN:
        yield "Stolen", _stolen(result)


def _as_good(result: TrainResult) -> Iterator[str]:
    """Yields which predictions without a model are as good as this one, by test, or nearly as good, by validation."""
    own, metric = result.heuristics_validation or {}, result.metric
    found = {name: quality for name, quality in (result.heuristics or {}).items() if name not in own}
    better = [name for name, quality in found.items() if quality >= result.test_accuracy]
    if better:
        yield f"at least as good without a model: {', '.join(better)}"
    if name := nearly_as_good(own, result.val_accuracy):
        yield (
            f"{name} alone, without a graph network, has validation {metric.label} {metric.show(own[name])}, at most "
            f"half a point below; {program()} predict {option('heuristic', name.replace(' ', '-'))} takes it"
        )


def _traversed(result: TrainResult) -> str:
    """Returns NVTPS, also per bandwidth if that is known, and MTEPS."""
    assert result.nvtps is not None
    by_bandwidth = "" if result.nvtps_per_gb_per_s is None else f", {result.nvtps_per_gb_per_s / 1e3:.3g} K per GB/s"
    return f"{result.nvtps / 1e6:.3g} M vertices/s (NVTPS{by_bandwidth}), {result.mteps:.3g} M edges/s (MTEPS)"


def _stolen(result: TrainResult) -> str:
    from a3gnn.threads.core_time import stretch

    return (
        f"other virtual machines took {result.stolen_share:.0%} of the cores' time; without them, training takes about "
        f"{1 / stretch(result.stolen_share):.2f} of this time, as in a tune"
    )


def _trainers(found: dict[str, Any]) -> str:
    """Returns the trainers' names and seeds, and the work that their shares repeat."""
    work, pairs = found["repeated_work"], zip(found["names"], found["shares"], strict=True)
    repeated = (
        f"{show_ratio(work['rows'])} the rows of one trainer, {show_ratio(work['sampled_edges'])} its sampled edges"
    )
    adapted = f" after {count(len(found['changes']), 'change')}" if "changes" in found else ""
    seeds = ", ".join(f"{name} {share}" for name, share in pairs)
    ahead = f", prefetch {','.join(map(str, found['prefetch']))}" if found["prefetch"] else ""
    return f"{seeds} seeds{adapted}, {found['sampling']} sampling{ahead}; {repeated}"


def _algorithm(found: dict[str, Any]) -> str:
    """Returns the traffic of all ranks, summed over all epochs."""
    from a3gnn.training.step import Traffic

    total = Traffic.sum([Traffic.from_dict(one) for one in found["ranks"]])
    moved = f"{format_size(total.host_bytes)} from host memory, {format_size(total.gradient_bytes)} of gradients"
    if total.activation_bytes:
        moved += f", {format_size(total.activation_bytes)} of activations"
    where = f"{found['name']} on {count(len(found['ranks']), 'rank')}"
    return f"{where}: {total.beta:.1%} of the rows from the rank's own memory (beta), {moved}"


def _adapted(found: dict[str, Any]) -> str:
    """Returns the number of changes, and the final size of the cache."""
    return f"{count(len(found['changes']), 'change')}; in the end cache {format_size(found['cache_bytes'])}"
