"""`Importance`: what a study learned about its knobs, and the file that stores it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.errors import ConfigError
from a3gnn.storage.atomic import write_text

_FILE = "importance.json"


class Importance(NamedTuple):
    """Mean |SHAP| values of knobs over the configurations of a study's trials.

    Attributes:
        knobs: The knobs of the space.
        speed: For each knob, in doublings of epochs per second or of seconds to the target, by the priority.
        memory: In doublings of peak memory.
        accuracy: In points of validation accuracy.
        explained: For speed, memory and accuracy: the share of the predictions' variance that the values explain.
        trials: Number of different configurations.
    """

    knobs: tuple[str, ...]
    speed: tuple[float, ...]
    memory: tuple[float, ...]
    accuracy: tuple[float, ...]
    explained: tuple[float, ...]
    trials: int


def keep_importance(folder: Path, importance: Importance) -> None:
    """Writes `importance` to the folder of its study."""
    write_text(folder / _FILE, json.dumps(importance._asdict()))


def read_importance(folder: Path) -> Importance | None:
    """Returns the stored importance; None for a study that has not written it yet, or of an older version.

    Raises:
        ConfigError: The file has other content.
    """
    path = folder / _FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
        return Importance(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} must be the importance of knobs: {error}; remove it to go on without") from error
