"""`probe_hardware`: what machine this is, and what it can do."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from a3gnn.errors import A3GNNError
from a3gnn.graphs.atomic import replacing
from a3gnn.graphs.cache import cache_root
from a3gnn.hardware import Hardware, HardwareLimits, available_cores, cpu_name, host_memory_bytes
from a3gnn.profiling.memory import process_memory
from a3gnn.profiling.worker import Worker

#: Raised when the limits are measured in another way; limits that were cached by another version are measured anew.
PROBE_VERSION = 1
_NO_LIMITS = HardwareLimits(0, 0, 0, 0, 0, 1, 0, 0)
_TIMEOUT_SECONDS = 120.0


def probe_hardware(refresh: bool = False, cache: str | Path | None = None) -> Hardware:
    """Returns this machine with what a probe measured of it: some seconds the first time, then read from the cache.

    Everything is measured in a process of its own; the caller's threads and devices are left alone. Measure on an idle
    machine: other work lowers every figure.

    Args:
        refresh: Whether to measure again what is cached.
        cache: The cache folder; by default $A3GNN_CACHE, else a3gnn in the user's cache folder.

    Raises:
        A3GNNError: The probe failed; the message holds what it said.
    """
    with Worker() as worker:
        machine = _describe(worker)
        kept = cache_root(cache) / "hardware" / f"{machine.fingerprint}-v{PROBE_VERSION}.json"
        if kept.exists() and not refresh:
            return Hardware.from_dict(json.loads(kept.read_text(encoding="utf-8")))
        hardware = _with_limits(machine, worker)
    with replacing(kept) as draft:
        draft.write_text(json.dumps(hardware.to_dict(), indent=2), encoding="utf-8")
    return hardware


def idle_memory(argument: dict[str, Any]) -> dict[str, int]:
    """Returns the anonymous memory of this process, a trial's before it opens a graph; `argument` is not used."""
    return {"idle_host_bytes": process_memory(os.getpid()).anonymous_bytes}


def _describe(worker: Worker) -> Hardware:
    """Returns the machine without its limits. The device is asked in a process of its own, and only if there is one."""
    import torch

    device: dict[str, Any] = {"device": "", "num_devices": 0, "device_memory_bytes": 0}
    if torch.version.cuda is not None and torch.cuda.device_count() > 0:
        device = _call(worker, "a3gnn.profiling.device_limits:describe_device")
    return Hardware(
        cpu=cpu_name(),
        num_cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        limits=_NO_LIMITS,
        **device,
    )


def _with_limits(machine: Hardware, worker: Worker) -> Hardware:
    entries = ["a3gnn.profiling.probe:idle_memory", "a3gnn.profiling.limits:measure_host"]
    if machine.has_device:
        entries.append("a3gnn.profiling.device_limits:measure_device")
    measured: dict[str, Any] = {}
    for entry in entries:
        measured |= _call(worker, entry)
    return replace(machine, limits=HardwareLimits.from_dict(measured))


def _call(worker: Worker, entry: str) -> dict[str, Any]:
    ended = worker.run(entry, {}, timeout_s=_TIMEOUT_SECONDS)
    if ended.result is None:
        raise A3GNNError(f"the hardware probe failed in {entry} ({ended.killed or ended.status}): {ended.log}")
    return ended.result
