"""`TunedConfig`: the content of tuned.json, the output of tuning and the input of training."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from a3gnn._fields import SCHEMA_VERSION
from a3gnn.config import TrainConfig
from a3gnn.figures import differs
from a3gnn.limits import Limits
from a3gnn.measurement import Failure, Metrics
from a3gnn.option_names import option
from a3gnn.setting import Setting
from a3gnn.storage.atomic import write_text
from a3gnn.task import Task
from a3gnn.tuned_file import read_tuned
from a3gnn.units import format_seconds, short_duration

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR


#: Fields of a predicted figure.
_INTERVAL = ("median", "low", "high")


class Trained(NamedTuple):
    """How long a tune trained its choice at most: what its accuracy and its seconds were compared within.

    Attributes:
        batches: Mini-batches.
        seconds: Seconds of training at the measured speed, set-up included, evaluation excluded.
    """

    batches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TunedConfig:
    """A tuned configuration with the data that the choice is based on.

    Fields that older files lack have their default, mostly None.

    Attributes:
        config: The chosen configuration.
        setting: The task, the graph and the machine of the tune.
        spec: The graph's source: the value of `--dataset`.
        limits: The limits that the configuration keeps.
        predicted: By metric, the mean, low and high predicted before the measurement; without metrics that can't be
            predicted.
        measured: The choice's metrics; None if it was recommended from predictions alone.
        default: The default configuration's metrics, or its failure; None if it was not measured.
        seeds: The seeds used, by purpose.
        versions: Versions of the packages that affect results.
        wait_policy: OpenMP's wait policy in trials, a name from `a3gnn.threads.wait_policy`.
        target_accuracy: The validation quality whose seconds count.
        seconds_to_accuracy: Training seconds to `target_accuracy`: median, low and high. If the choice was measured
            alternately with the default, they are over the seeds and pairs of the verification; otherwise they are
            for the task's seed alone. None if the target is not reached.
        default_budget_s: Seconds of training for every configuration: the default's, at the machine's speed in the
            verification, or in the default's trial if there was no verification.
        drift: That speed over the speed in the default's trial; None in files of older versions.
        still_rising: Whether the default's validation quality still improved at that time, because the budget was too
            small to train it longer.
        settling_budget_s: The budget of a tune, in seconds, under which it is expected to stop improving; None if it
            did, or if unknown.
        expected_final: The validation quality that the default is expected to end at then: `median`, and the bounds of
            a 90 % interval, `low` and `high`; None as `settling_budget_s`, or if the interval reaches 1.
        final: `val_accuracy`, `test_accuracy` and training `seconds` of the `default` and of the `other` configuration
            (the choice, or that of `no_gain`), both trained with the task's seed until they stopped improving, the
            default first; `stopped` tells whether the other one did. None if the default was not trained that far.
        rate_alone: The default with the choice's learning rate, trained once: `scale`, the factor on the task's
            learning rate, and `seconds` of training to `target_accuracy`, None if it missed it. None if the choice
            keeps the task's rate, or if this was not measured.
        against_default: Comparison of the choice with the default (`a3gnn.tuning.study.comparison.Comparison`); None if
            the default is the choice or was not measured.
        left_out: Messages about steps that the tune's budget was too small for.
        no_gain: The configuration that the default was preferred to, because its gain was not measurable
            (`a3gnn.tuning.study.choice.NoGain`): its `config`, and its `against_default`. None if another configuration
            than the default was chosen.
        heuristics: The `validation` and `test` qualities of predictions without a network, by name, if any was made.
    """

    config: TrainConfig
    setting: Setting
    spec: str
    limits: Limits
    predicted: Mapping[str, Mapping[str, float]]
    measured: Metrics | None
    default: Metrics | Failure | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    wait_policy: str | None = None
    target_accuracy: float | None = None
    seconds_to_accuracy: Mapping[str, float] | None = None
    default_budget_s: float | None = None
    drift: float | None = None
    still_rising: bool | None = None
    settling_budget_s: float | None = None
    expected_final: Mapping[str, float] | None = None
    final: Mapping[str, Mapping[str, Any]] | None = None
    rate_alone: Mapping[str, float | None] | None = None
    against_default: Mapping[str, Any] | None = None
    left_out: tuple[str, ...] = ()
    no_gain: Mapping[str, Any] | None = None
    heuristics: Mapping[str, Mapping[str, float]] | None = None

    @property
    def task(self) -> Task:
        """What the configuration trains: the setting's task, with the values of a search."""
        return self.config.task_of(self.setting.task)

    @property
    def trained(self) -> Trained | None:
        """How long the tune trained the choice; None if it trained no learning curve of it."""
        curve = None if self.measured is None else self.measured.curve
        if self.measured is None or curve is None or not curve.batches:
            return None
        return Trained(curve.trained, self.measured.pace.seconds(curve.trained))

    @property
    def unsettled(self) -> str:
        """That configurations were compared before the default stopped improving, and the remedy; "" if it had."""
        if not self.still_rising or self.default_budget_s is None:
            return ""
        drift = 1.0 if self.drift is None else self.drift
        found = f"compared after {format_seconds(drift * self.default_budget_s)} of training"
        if differs(drift):  # the seconds that the start of the tune has printed, and those of the verification
            found += f" ({format_seconds(self.default_budget_s)} at the verification's speed)"
        found += "; the baseline was still improving"
        if self.expected_final is not None:
            median, low, high = (self.setting.metric.show(self.expected_final[name]) for name in _INTERVAL)
            found += f" and may end at {median}, or between {low} and {high}"
        if self.settling_budget_s is None:  # files of older versions
            return f"{found} (a larger {option('budget')} compares later)"
        return f"{found} ({option('budget', short_duration(self.settling_budget_s))} settles half of such tunes)"

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of tuned.json, with `trained`, which readers need not derive from the curve."""
        setting = self.setting.to_dict()
        setting["graph"]["spec"] = self.spec
        return {
            "schema_version": SCHEMA_VERSION,
            "config": self.config.to_dict(),
            **setting,
            "limits": self.limits.to_dict(),
            "predicted": {metric: dict(bounds) for metric, bounds in self.predicted.items()},
            "measured": None if self.measured is None else self.measured.to_dict(),
            "trained": None if self.trained is None else self.trained._asdict(),
            "default": None if self.default is None else self.default.to_dict(),
            "seeds": dict(self.seeds),
            "versions": dict(self.versions),
            "wait_policy": self.wait_policy,
            "target_accuracy": self.target_accuracy,
            "seconds_to_accuracy": None if self.seconds_to_accuracy is None else dict(self.seconds_to_accuracy),
            "default_budget_s": self.default_budget_s,
            "drift": self.drift,
            "still_rising": self.still_rising,
            "settling_budget_s": self.settling_budget_s,
            "expected_final": None if self.expected_final is None else dict(self.expected_final),
            "final": None if self.final is None else {name: dict(one) for name, one in self.final.items()},
            "rate_alone": None if self.rate_alone is None else dict(self.rate_alone),
            "against_default": None if self.against_default is None else dict(self.against_default),
            "left_out": list(self.left_out),
            "no_gain": None if self.no_gain is None else dict(self.no_gain),
            **({} if self.heuristics is None else {"heuristics": {k: dict(v) for k, v in self.heuristics.items()}}),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the configuration from the output of `to_dict`; ignores unknown fields.

        Raises:
            KeyError: A field is missing.
            A3GNNError: A field is out of range.
        """
        graph = dict(fields["graph"])
        spec = str(graph.pop("spec"))
        return cls(
            config=TrainConfig.from_dict(fields["config"]),
            setting=Setting.from_dict({**fields, "graph": graph}),
            spec=spec,
            limits=Limits.from_dict(fields["limits"]),
            predicted=fields["predicted"],
            measured=None if fields["measured"] is None else Metrics.from_dict(fields["measured"]),
            default=_outcome(fields["default"]),
            seeds=fields.get("seeds", {}),
            versions=fields.get("versions", {}),
            wait_policy=fields.get("wait_policy"),
            target_accuracy=fields.get("target_accuracy"),
            seconds_to_accuracy=fields.get("seconds_to_accuracy"),
            default_budget_s=fields.get("default_budget_s"),
            drift=fields.get("drift"),
            still_rising=fields.get("still_rising"),
            settling_budget_s=fields.get("settling_budget_s"),
            expected_final=fields.get("expected_final"),
            final=fields.get("final"),
            rate_alone=fields.get("rate_alone"),
            against_default=fields.get("against_default"),
            left_out=tuple(fields.get("left_out", ())),
            no_gain=fields.get("no_gain"),
            heuristics=fields.get("heuristics"),
        )

    def apply(self, model: nn.Module, optimizer: Optimizer, *, batches_per_epoch: int | None = None) -> LambdaLR:
        """Applies the knobs of the model and the optimizer in your own loop. `Loader(..., config=...)` does the rest.

        It accelerates `model` in place (`a3gnn.accelerate`), in the tuned `compute_dtype`. The schedule multiplies the
        optimizer's learning rates by `learning_rate_scale`, with its warm-up, and by the task's schedule.

        Examples:
            >>> schedule = tuned.apply(model, optimizer)
            >>> loader = Loader(data, [25, 10], data.train_mask, shuffle=True, config=tuned)
            >>> for batch in loader:
            ...     optimizer.zero_grad()
            ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
            ...     criterion(out, batch.y[: batch.batch_size]).backward()
            ...     optimizer.step()
            ...     schedule.step()

        Args:
            model: Any module, called as PyG's are.
            optimizer: Over the model's parameters. Its learning rates correspond to the task's; another rate, class,
                depth or width of the model than the task's is a warning.
            batches_per_epoch: `len(loader)`; by default the tune's number.

        Returns:
            The schedule. Call its `step` after each mini-batch.

        Raises:
            UsageError: An argument has another type; the number of mini-batches is unknown, because there are parts; or
                no layer of `model` reads the table of `input_aggregation` full.
        """
        from a3gnn.training.own_loop import applied  # imports torch

        return applied(
            self.config, dataclasses.replace(self.setting, task=self.task), model, optimizer, batches_per_epoch
        )

    def make_model(self, in_channels: int | None = None, out_channels: int | None = None) -> nn.Module:
        """Returns a new, untrained module of the tuned model for your own loop, with the values of a search.

        Your own factory makes it, or it is PyG's module of the built-in model.

        Args:
            in_channels: Columns of the features; by default the tune's.
            out_channels: Outputs; by default the tune's.

        Raises:
            UsageError: There is no such factory.
            ModelError: The factory raised an exception.
            ConfigError: PyG has no such module.
        """
        graph, task = self.setting.graph, self.task
        channels = in_channels or graph.num_features, out_channels or graph.num_classes
        if task.is_own:
            from a3gnn.models.own.factory import Factory  # imports torch

            return Factory.of(task.model).build(*channels, task.seed, **task.factory_options)
        from a3gnn.training.pyg_modules import pyg_module

        return pyg_module(task, *channels)

    def write(self, path: str | Path) -> None:
        """Writes tuned.json to `path`, atomically."""
        write_text(Path(path), json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Returns the content of the tuned.json at `path`, or in the folder `path`.

        Raises:
            UsageError: `path` is no path.
            ConfigError: The file is missing, broken, of another kind, or of another schema version.
        """
        return read_tuned(path, cls.from_dict)


def _outcome(fields: Mapping[str, Any] | None) -> Metrics | Failure | None:
    if fields is None:
        return None
    return Failure.from_dict(fields) if "kind" in fields else Metrics.from_dict(fields)
