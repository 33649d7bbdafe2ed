"""This host as `Hardware`."""

from __future__ import annotations

from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.machine.processor import cache_sizes, cpu_name, instruction_sets
from a3gnn.storage.host_memory import host_memory_bytes
from a3gnn.threads.affinity import available_cores


def host_with(
    profile: MachineProfile, device: str = "", num_devices: int = 0, device_memory_bytes: int = 0
) -> Hardware:
    """Returns this host with the accelerators and the profile that are given."""
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
    )
