"""Describes this host as `Hardware`: reads processor, caches and memory from the system, without measuring."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.storage.host_limits import host_memory_bytes
from a3gnn.threads.affinity import available_cores

#: Instruction sets that decide the speed of matrix products and compiled kernels, by Linux's names; in this order.
_INSTRUCTION_SETS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm"),
)
#: Levels and kinds of caches that hold data.
_DATA_CACHES = ((1, "Data"), (2, "Unified"), (3, "Unified"))
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
#: Environment variable with the user's label for machines like this one; it separates measurements of other labels.
LABEL_VARIABLE = "A3GNN_MACHINE_LABEL"
#: A label becomes part of folder names and of Ray's resource names.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
#: Reserved labels: all kinds of machines, the file that ends a tune, the id of a kind without a label.
_TAKEN = re.compile(r"all|stop|[0-9a-f]{16}")


def host_with(
    profile: MachineProfile, device: str = "", num_devices: int = 0, device_memory_bytes: int = 0
) -> Hardware:
    """Returns this host with the given accelerators and profile, and the user's label.

    Raises:
        UsageError: The label is not valid.
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


def cpu_name() -> str:
    """Returns the processor's name from the kernel."""
    return _field("model name", "Hardware", "Processor") or platform.processor() or platform.machine()


def instruction_sets() -> tuple[str, ...]:
    """Returns the known instruction sets that the processor has; none if the system doesn't list them."""
    has = set(_field("flags", "Features").split())
    return tuple(name for name in _INSTRUCTION_SETS if name in has)


def cache_sizes() -> tuple[int, ...]:
    """Returns the bytes of the first core's L1 data, L2 and L3 cache, 0 for none; () if Linux doesn't list them."""
    found: dict[tuple[int, str], int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text("ascii").strip() for name in ("level", "type", "size"))
            found[int(level), kind] = int(size.rstrip("KMG")) * _UNITS.get(size[-1], 1)
        except (OSError, ValueError, IndexError):
            continue
    return tuple(found.get(cache, 0) for cache in _DATA_CACHES) if found else ()


def _label() -> str:
    label = os.environ.get(LABEL_VARIABLE, "")
    if label and not _LABEL.fullmatch(label):
        raise UsageError(
            f"{LABEL_VARIABLE} must have at most 40 letters, digits, dots, underscores and hyphens, and begin with a "
            f"letter or a digit, got {label!r}; without a label, the hardware identifies a machine"
        )
    if _TAKEN.fullmatch(label):
        raise UsageError(
            f"{LABEL_VARIABLE} must not be all, stop or 16 digits of 0-9 and a-f, which have other meanings, got "
            f"{label!r}; choose another, such as my-{label}"
        )
    return label


def _field(*names: str) -> str:
    """Returns the value of the first line of /proc/cpuinfo that begins with one of `names`; "" without such a line."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(names):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
