"""Properties and speed of the first accelerator, measured in a separate process."""

from __future__ import annotations

import os
from typing import Any

import torch

from a3gnn.machine.host_constants import fastest, gemm

#: Bytes of the copy, so large that its start-up time does not matter. Guess.
_COPY_BYTES = 1 << 26


def describe_device(argument: dict[str, Any]) -> dict[str, Any]:
    """Returns the device's part of `Hardware`; `argument` is not used."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "num_devices": torch.cuda.device_count(),
        "device_memory_bytes": properties.total_memory,
    }


def measure_context(argument: dict[str, Any]) -> dict[str, int]:
    """Returns the device memory of an empty context; `argument` is not used."""
    return {"idle_device_bytes": _idle_bytes()}


def measure_device(argument: dict[str, Any]) -> dict[str, float]:
    """Returns the device's part of `MachineProfile`; `argument` is not used."""
    idle = _idle_bytes()
    device = torch.device("cuda", 0)
    host = torch.ones(_COPY_BYTES, dtype=torch.uint8).pin_memory()
    target = torch.empty_like(host, device=device)

    def copy() -> None:
        target.copy_(host, non_blocking=True)
        torch.cuda.synchronize(device)

    return {
        "host_to_device_bytes_per_s": _COPY_BYTES / fastest(copy),
        "device_gemm_flops_per_s": gemm(device),
        "device_bf16_gemm_flops_per_s": gemm(device, torch.bfloat16),
        "idle_device_bytes": idle,
    }


def _idle_bytes() -> int:
    """Returns the device memory that a second process' context takes, as this process sees it.

    The second process is forked before this one touches the device, and makes its context on a signal. Memory of other
    processes on the device therefore does not count.
    """
    start_read, start_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.read(start_read, 1)
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
            os.write(done_write, b".")
            os.read(start_read, 1)
        finally:
            os._exit(0)
    os.close(done_write)
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    os.write(start_write, b".")
    os.read(done_read, 1)
    taken = before - torch.cuda.mem_get_info()[0]
    os.write(start_write, b".")
    os.waitpid(pid, 0)
    for end in (start_read, start_write, done_read):
        os.close(end)
    return max(0, taken)
