"""Where mini-batches are to lie, once it is known to be there, and which GPUs these are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from a3gnn.config import DEVICES, Device
from a3gnn.errors import DeviceError, UsageError


def checked_device(device: Any, sampling_device: Device = "cpu") -> str:
    """Returns `device` as text: cpu, or cuda with its number if it has one.

    Args:
        device: As text or as torch's.
        sampling_device: Where neighbours are sampled, which is checked too.

    Raises:
        UsageError: It is no device that mini-batches can lie on.
        DeviceError: It is not there.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"device must be cpu or cuda, got {device!r}") from error
    if found.type not in DEVICES:
        raise UsageError(f"device must be cpu or cuda, got {device!r}; leave it out, and move mini-batches yourself")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for name, kind in (("sampling_device", sampling_device), ("device", found.type)):
        if kind == "cuda" and not count:
            raise DeviceError(f"{name} is cuda, but torch finds no CUDA device here; use cpu or a machine with a GPU")
    if found.type == "cuda" and (found.index or 0) >= count:
        raise DeviceError(f"device must be cuda:0 to cuda:{count - 1} here, got {device!r}")
    return "cpu" if found.type == "cpu" else str(found)


def gpus_of(devices: Iterable[torch.device]) -> tuple[int, ...]:
    """Returns torch's numbers of those of `devices` that are GPUs."""
    return tuple(device.index or 0 for device in devices if device.type == "cuda")
