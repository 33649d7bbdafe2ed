"""The trials of one tune in their order, on disk as they are made: an interrupted tune resumes from them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.measurement import METRICS, Measurement
from a3gnn.prediction import Prediction

#: What was predicted of one configuration: by metric, its mean, low and high.
Predicted = dict[str, dict[str, float]]


def predicted_row(prediction: Prediction, row: int) -> Predicted:
    """Returns `row` of `prediction` as JSON types."""
    return {
        metric: {bound: float(getattr(prediction, bound)[row, j]) for bound in ("mean", "low", "high")}
        for j, metric in enumerate(METRICS)
    }


@dataclass(frozen=True, slots=True)
class Probe:
    """One trial of a tune.

    Attributes:
        reason: Why it was made: default, best, front, uncertain, closest, neighbour, smallest.
        predicted: What was predicted before it ran.
        measurement: What it found.
    """

    reason: str
    predicted: Predicted
    measurement: Measurement

    @property
    def counts(self) -> bool:
        """Whether a budget counts it: the default's trial and that of the smallest memory are made anyhow."""
        return self.reason not in ("default", "smallest")

    def to_dict(self) -> dict[str, Any]:
        """Returns the probe as JSON types."""
        return {"reason": self.reason, "predicted": self.predicted, "measurement": self.measurement.to_dict()}


class Journal:
    """The file `probes.jsonl` in the folder of a tune, one trial on each line.

    Attributes:
        folder: The tune's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "probes.jsonl"

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Returns an empty journal in `folder`; one of an earlier run is replaced."""
        journal = cls(folder)
        journal._path.write_text("", encoding="utf-8")
        return journal

    def append(self, probe: Probe) -> None:
        """Adds `probe`, on disk when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(probe.to_dict()) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Probe]:
        """Returns the probes; a last line that an interruption cut short is left out, and cut off the file.

        Raises:
            ConfigError: The file is not a journal of this version.
        """
        try:
            text = self._path.read_bytes().decode("utf-8")
            whole = text[: text.rfind("\n") + 1]
            probes = [
                Probe(line["reason"], line["predicted"], Measurement.from_dict(line["measurement"]))
                for line in map(json.loads, whole.splitlines())
            ]
        except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
            raise ConfigError(
                f"{self._path} must be the journal of a tune by this version of a3gnn: {error}; "
                "choose another --out, or run without --resume in an empty one"
            ) from error
        if whole != text:
            self._path.write_text(whole, encoding="utf-8")
        return probes
