"""Finds limits that no training can keep, before anything is measured."""

from __future__ import annotations

from a3gnn.hardware import Hardware
from a3gnn.limits import Limits
from a3gnn.option_names import option
from a3gnn.units import format_size


def why_infeasible(limits: Limits, hardware: Hardware) -> str:
    """Returns why no training can keep the memory limits, or "" if one might."""
    for kind, limit, idle in (
        ("host", limits.host_bytes, hardware.profile.idle_host_bytes),
        ("device", limits.device_bytes, hardware.profile.idle_device_bytes),
    ):
        if limit is not None and limit <= idle:
            name = "host_memory_limit" if kind == "host" and hardware.has_device else "memory_limit"
            return (
                f"the {kind} memory limit must exceed the {format_size(idle)} that a process takes before it trains "
                f"anything, got {format_size(limit)}; give {option(name, f'{idle // 2**20 + 1}MiB')} or more"
            )
    return ""
