"""Saves and restores the state of a training run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import torch

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.pyg_sets import refused_class
from a3gnn.option_names import option
from a3gnn.storage.atomic import persist, replacing
from a3gnn.task import Task
from a3gnn.training.progress import Progress
from a3gnn.training.trainer import Trainer

CHECKPOINT_VERSION = 1


def identity(
    graph: Graph,
    config: TrainConfig,
    task: Task,
    ranks: int = 1,
    trainers: Mapping[str, Any] | None = None,
    algorithm: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the values, by name, that must be equal for a run to continue bit-identically.

    Ranks, `algorithm` and the first shares of trainers of one process belong to it, because each changes the order in
    which gradients are summed. If shares change during training, the last bits depend on when they change.

    Modes, workers and tiers may differ: they affect when a mini-batch arrives, not its content. Knobs added after the
    first checkpoints are left out at their defaults.
    """
    learning, of_task = dict(config.learning_key()), task.to_dict()
    learning.pop("adapt", None)  # `trainers` below contains it, whoever requested it
    own = {f"the model's {name}": value for name, value in of_task.pop("own", {}).items()}
    many: dict[str, Any] = {"ranks": ranks} if ranks > 1 else {}
    many |= algorithm
    if trainers is not None:
        many |= {"trainer_shares": trainers["shares"], "trainer_sampling": trainers["sampling"]}
        many |= {"trainer_kinds": trainers["kinds"]}  # only for `saved_shares`: other kinds may continue
        many |= {"adapt": True} if "changes" in trainers else {}
    return {"checkpoint_version": CHECKPOINT_VERSION, "graph": graph.fingerprint, **learning, **of_task, **own, **many}


def save_checkpoint(path: Path, trainer: Trainer, progress: Progress, known: dict[str, Any]) -> None:
    """Writes the state of `trainer` after a mini-batch to `path`, atomically.

    It contains no generator state, because every random decision derives from the seed, the epoch and the mini-batch.

    Args:
        path: The file.
        trainer: Its model and optimizer are saved.
        progress: Progress at this mini-batch.
        known: The run's `identity`.
    """
    state = {
        "identity": known,
        "progress": progress.to_dict(),
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
    }
    save(path, state | ({} if trainer.division is None else {"division": trainer.division.state_dict()}))


def restore_checkpoint(
    path: Path, trainer: Trainer, known: dict[str, Any], content: BinaryIO | None = None
) -> Progress:
    """Restores `trainer`'s model and optimizer from the checkpoint at `path`, and returns its progress.

    Args:
        path: The file.
        trainer: A trainer with the same `identity`.
        known: The run's `identity`.
        content: The checkpoint's content, if `path` is on another machine.

    Raises:
        ConfigError: It is not a checkpoint, or belongs to another run; the message lists the differences.
    """
    try:
        state = torch.load(path if content is None else content, map_location="cpu", weights_only=True)
        before, progress = state["identity"], Progress.from_dict(state["progress"])
        types = trainer.graph.types
        before = known_history(state["model"], types is not None and types.times is not None) | before
    except Exception as error:
        raise ConfigError(
            f"{path} must be a checkpoint, but can't be read: {why_unreadable(error)}; train without "
            f"{option('resume')} in another {option('out')}"
        ) from error
    if changed := _changes(before, known):
        raise ConfigError(
            f"{path} belongs to another run: {'; '.join(changed)}; use the same config and data, or another "
            f"{option('out')}"
        )
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    if trainer.division is not None and "division" in state:  # a resumed run may start to adapt
        trainer.division.load_state_dict(state["division"])
    return progress


def known_history(weights: Mapping[str, Any], has_times: bool) -> dict[str, int]:
    """Returns the `pair_history` that a file of an earlier version does not name: its links with times read none.

    Args:
        weights: The model's state dict.
        has_times: Whether its links have times.
    """
    return {"pair_history": 0} if has_times and not any(name.startswith("past.") for name in weights) else {}


def why_unreadable(error: Exception) -> str:
    """Returns why torch can't read a file of weights."""
    if isinstance(error, OSError):
        return str(error)
    found = refused_class(error)
    return "it is truncated or of another format" if found is None else f"it holds {found}, not only tensors and text"


def saved_progress(folder: Path) -> Progress:
    """Returns the progress of the run in `folder`, which has a checkpoint."""
    state = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True, mmap=True)
    return Progress.from_dict(state["progress"])


class SavedShares(NamedTuple):
    """The first shares of a run."""

    kinds: tuple[str, ...]  # the kind of each trainer: processor or accelerator
    shares: tuple[int, ...]  # seeds of each trainer


def saved_shares(folder: str | Path) -> SavedShares | None:
    """Returns the first shares of the run in `folder`.

    None if it has one trainer, or if its checkpoint can't be read; `restore_checkpoint` then raises the error.
    """
    try:
        state = torch.load(Path(folder) / "checkpoint.pt", map_location="cpu", weights_only=True, mmap=True)
        return SavedShares(*(tuple(state["identity"][name]) for name in ("trainer_kinds", "trainer_shares")))
    except Exception:
        return None


def _changes(before: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Returns messages about the differences of two identities; a later knob that is missing has its default."""
    defaults = (
        {knob.name: knob.default for knob in KNOBS if knob.later} | Task.later_defaults() | {"ranks": 1, "adapt": None}
    )
    names = [name for name in dict.fromkeys((*known, *before)) if name != "trainer_kinds"]
    pairs = ((name, *(one.get(name, defaults.get(name)) for one in (before, known))) for name in names)
    return [f"{name} was {was!r} and is {now!r}" for name, was, now in pairs if was != now]


def save(path: Path, state: dict[str, Any], *, durable: bool = True) -> None:
    """Writes tensors and plain values to `path`, loadable with `weights_only`, atomically.

    Args:
        path: The file.
        state: Its content.
        durable: Whether the file is on the disk when this returns; if not, `persist_saved` can do this later.

    Raises:
        A3GNNError: The file can't be written, for example because the disk is full. An existing file is unchanged.
    """
    with _writing(path), replacing(path, durable=durable) as draft:
        torch.save(state, draft)


def persist_saved(path: Path) -> None:
    """Flushes the file at `path` to the disk, if it exists.

    Raises:
        A3GNNError: The disk failed to write it.
    """
    with _writing(path), suppress(FileNotFoundError):
        persist(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise A3GNNError(
            f"{path} can't be written ({error}). The previous checkpoint still exists. Free some space and resume"
        ) from error
