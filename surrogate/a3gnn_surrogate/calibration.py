"""`Calibration`: factors on the seconds and bytes of the equations, term by term."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from a3gnn.setting import Setting, setting_key

#: The terms of a training step's seconds, in the order of `Calibration.train`.
TRAIN_TERMS: tuple[str, ...] = ("matrix_products", "sparse_products", "activations", "optimiser", "overhead")
#: The terms of a trial's peak of host memory above that of an idle one, in the order of `Calibration.memory`.
MEMORY_TERMS: tuple[str, ...] = (
    *("features", "cache", "adjacency", "relabeling", "batches", "activations", "weights", "evaluation"),
    *("evaluated_rows", "modules", "kernels"),
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors, >= 0, on the seconds by the probe's constants, and on bytes; by default those of the equations.

    Attributes:
        train: Factor of each of `TRAIN_TERMS`.
        sample: Factor of sampling.
        gather: Factor of gathering.
        memory: Factor of each of `MEMORY_TERMS`.
    """

    train: tuple[float, ...] = (1.0, 1.0, 0.0, 1.0, 1.0)
    sample: float = 1.0
    gather: float = 1.0
    memory: tuple[float, ...] = (1.0,) * len(MEMORY_TERMS)

    def to_dict(self) -> dict[str, Any]:
        """Returns the factors as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the calibration of `to_dict`."""
        return cls(tuple(fields["train"]), fields["sample"], fields["gather"], tuple(fields["memory"]))


#: The equations with the probe's constants, as they are.
UNCALIBRATED = Calibration()


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The calibration of each setting.

    Attributes:
        host: Calibration of machines without a device.
        device: Calibration of machines with a device.
        own: Calibrations of settings whose own rows refine them, by `setting_key`.
    """

    host: Calibration = UNCALIBRATED
    device: Calibration = UNCALIBRATED
    own: Mapping[str, Calibration] = field(default_factory=dict)

    def of(self, setting: Setting) -> Calibration:
        """Returns the calibration of `setting`: its own, or that of its kind of machine."""
        general = self.device if setting.hardware.has_device else self.host
        return self.own.get(setting_key(setting), general)

    def to_dict(self) -> dict[str, Any]:
        """Returns the calibrations as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the calibrations of `to_dict`."""
        own = {key: Calibration.from_dict(value) for key, value in fields["own"].items()}
        return cls(Calibration.from_dict(fields["host"]), Calibration.from_dict(fields["device"]), own)
