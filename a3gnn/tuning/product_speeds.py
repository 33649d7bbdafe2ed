"""How fast the machine multiplied when a tune started, which decides what values of `compute_dtype` it searches."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.storage.atomic import write_text

_FILE = "product_speeds.json"
_NAMES = (
    "gemm_flops_per_s",
    "bf16_gemm_flops_per_s",
    "device_gemm_flops_per_s",
    "device_bf16_gemm_flops_per_s",
)


def keep_product_speeds(folder: Path, hardware: Hardware) -> None:
    """Writes those of `hardware` to the folder of a tune that starts."""
    write_text(folder / _FILE, json.dumps({name: getattr(hardware.profile, name) for name in _NAMES}))


def with_kept_speeds(folder: Path, hardware: Hardware) -> Hardware:
    """Returns `hardware` with those that the tune in `folder` started with: a resumed tune keeps its space.

    A tune from before they were kept has no such file, and goes on with those of `hardware`.

    Raises:
        UsageError: The file is not what `keep_product_speeds` wrote.
    """
    try:
        kept = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        speeds = {name: float(kept[name]) for name in _NAMES}
    except FileNotFoundError:
        return hardware
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / _FILE} must hold the speeds of matrix products that the tune started with: {error!r}; remove "
            "it to go on with those of now"
        ) from error
    profile = MachineProfile.from_dict(hardware.profile.to_dict() | speeds)
    return dataclasses.replace(hardware, profile=profile)
