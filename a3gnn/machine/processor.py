"""What the processor is: its name, the instruction sets that decide which kernels run, and its caches."""

from __future__ import annotations

import platform
from pathlib import Path

#: What matrix products and compiled kernels are chosen by, as Linux names them; in this order.
_INSTRUCTION_SETS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm"),
)
#: Levels and kinds of caches that hold data.
_DATA_CACHES = ((1, "Data"), (2, "Unified"), (3, "Unified"))
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cpu_name() -> str:
    """Returns the processor's name as the kernel gives it."""
    return _field("model name", "Hardware", "Processor") or platform.processor() or platform.machine()


def instruction_sets() -> tuple[str, ...]:
    """Returns those of the known instruction sets that the processor has; none where the system doesn't tell."""
    has = set(_field("flags", "Features").split())
    return tuple(name for name in _INSTRUCTION_SETS if name in has)


def cache_sizes() -> tuple[int, ...]:
    """Returns the bytes of the first core's L1 data, L2 and L3 cache, 0 for none; () where the system doesn't tell."""
    found: dict[tuple[int, str], int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text("ascii").strip() for name in ("level", "type", "size"))
            found[int(level), kind] = int(size.rstrip("KMG")) * _UNITS.get(size[-1], 1)
        except (OSError, ValueError, IndexError):
            continue
    return tuple(found.get(cache, 0) for cache in _DATA_CACHES) if found else ()


def _field(*names: str) -> str:
    """Returns the first line of /proc/cpuinfo that one of `names` begins, without the name; "" where there is none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(names):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
