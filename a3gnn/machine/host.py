"""This host as `Hardware`."""

from __future__ import annotations

import os
import re

from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.machine.processor import cache_sizes, cpu_name, instruction_sets
from a3gnn.storage.host_memory import host_memory_bytes
from a3gnn.threads.affinity import available_cores

#: Environment variable with what the user calls machines like this one; measurements of other labels are not its own.
LABEL_VARIABLE = "A3GNN_MACHINE_LABEL"
#: It names folders and Ray's resources.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
#: What means something else in its place: all kinds of machines, the file that ends a tune, a kind without a label.
_TAKEN = re.compile(r"all|stop|[0-9a-f]{16}")


def host_with(
    profile: MachineProfile, device: str = "", num_devices: int = 0, device_memory_bytes: int = 0
) -> Hardware:
    """Returns this host with the accelerators and the profile that are given, and the user's label.

    Raises:
        UsageError: The label is not what it must be.
    """
    return Hardware(
        cpu=cpu_name(),
        num_cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        device=device,
        num_devices=num_devices,
        device_memory_bytes=device_memory_bytes,
        profile=profile,
        instruction_sets=instruction_sets(),
        cache_bytes=cache_sizes(),
        label=_label(),
    )


def _label() -> str:
    label = os.environ.get(LABEL_VARIABLE, "")
    if label and not _LABEL.fullmatch(label):
        raise UsageError(
            f"{LABEL_VARIABLE} must have at most 40 letters, digits, dots, underscores and hyphens, and begin with a "
            f"letter or a digit, got {label!r}; without it machines are told apart by their hardware"
        )
    if _TAKEN.fullmatch(label):
        raise UsageError(
            f"{LABEL_VARIABLE} must be neither all nor stop nor 16 digits of 0-9 and a-f, which have meanings of their "
            f"own, got {label!r}; choose another, such as my-{label}"
        )
    return label
