"""`probe_hardware`: measures this machine's hardware and speed, and stores the result in the cache folder."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from a3gnn.errors import A3GNNError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.launch import QUICK
from a3gnn.machine.host import host_with
from a3gnn.measurement import Measurement
from a3gnn.notify import detail
from a3gnn.process.machine_turn import machine_turn
from a3gnn.process.memory import process_memory
from a3gnn.process.worker import Worker
from a3gnn.storage.atomic import write_text
from a3gnn.storage.cache import cache_root
from a3gnn.units import format_size

#: Raised with each change of the measurement; profiles from another version are measured again.
PROBE_VERSION = 3
_NO_PROFILE = MachineProfile(0, 0, 0, 0, 0, 1, 0, 0)
#: Seconds after which the probe counts as hanging. It takes about 10, and took over 120 with five processes on two
#: cores.
_TIMEOUT_SECONDS = 600.0
#: With more cores of other work than this, a check that finds the machine slower proves nothing. Guess.
_BUSY_CORES = 0.25
#: A constant has moved if it differs from the stored one by this factor; repetitions differ by less. Guess.
_FACTOR = 1.5
#: Measured at every start, so it never counts as moved. The next is the only constant of which less is faster.
_NOT_KEPT = "idle_host_bytes"
_LESS_IS_FASTER = "batch_overhead_s"


def probe_hardware(
    refresh: bool = False,
    cache: str | Path | None = None,
    *,
    worker: Worker | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Hardware:
    """Returns this machine with its probed profile: some seconds the first time, then read from the cache.

    The memory of an idle trial is measured each time, and some of the constants are checked. If one has moved by half,
    all are probed again. All measurements run in separate processes and leave the caller's threads and devices alone.
    Measure on an idle machine: other work lowers every figure.

    Args:
        refresh: Whether to measure again despite a cached profile.
        cache: The cache folder; by default $A3GNN_CACHE, else a3gnn in the user's cache folder.
        worker: Runs these processes, such as an executor's; by default a new worker.
        notify: Takes each line for the user.

    Raises:
        A3GNNError: The probe failed; the message contains its log.
    """
    with ExitStack() as stack:
        worker = worker or stack.enter_context(Worker())
        machine = bare_machine(worker)
        path = kept_at(machine, cache)
        found = None if refresh else _read(path)
        kept = None if found is None else found.profile
        with machine_turn(notify):
            profile = _probe(machine, worker, notify) if kept is None else _checked(machine, kept, worker, notify)
            if kept is None or not QUICK:
                profile = dataclasses.replace(profile, **_call(worker, "a3gnn.machine.probe:idle_memory"))
    hardware = dataclasses.replace(machine, profile=profile)
    if profile != kept:
        write_text(path, json.dumps(hardware.to_dict(), indent=2))
    return hardware


def kept_hardware(cache: str | Path | None = None) -> Hardware | None:
    """Returns this machine with its last probed profile, unchecked; None if none is stored.

    It takes milliseconds if no profile is stored, or exactly one fits this host and the accelerators that the system
    shows. Otherwise torch must list the accelerators, which takes seconds.
    """
    host = host_with(_NO_PROFILE)
    kept = [found for path in kept_at(host, cache).parent.glob(f"*-v{PROBE_VERSION}.json") if (found := _read(path))]
    if not kept:
        return None
    none: dict[str, Any] = {"device": "", "num_devices": 0, "device_memory_bytes": 0}
    same = [one for one in kept if dataclasses.replace(one, **none).fingerprint == host.fingerprint]
    if len(same) == 1 and same[0].has_device == _shows_device():
        return dataclasses.replace(same[0], host_memory_bytes=host.host_memory_bytes)
    with Worker() as worker:
        machine = bare_machine(worker)
    found = _read(kept_at(machine, cache))
    return None if found is None else dataclasses.replace(machine, profile=found.profile)


def device_context_bytes() -> int:
    """Returns the memory that a process takes on the accelerator before it allocates any.

    It is the last probe's; without one it is measured, which takes some seconds.
    """
    kept = kept_hardware()
    if kept is not None:
        return kept.profile.idle_device_bytes
    with Worker() as worker:
        return int(_call(worker, "a3gnn.machine.device_constants:measure_context")["idle_device_bytes"])


def kept_at(machine: Hardware, cache: str | Path | None = None) -> Path:
    """Returns the file that stores the profile of `machine`."""
    return cache_root(cache) / "hardware" / f"{machine.fingerprint}-v{PROBE_VERSION}.json"


def within_peaks(hardware: Hardware, measured: Iterable[Measurement], notify: Callable[[str], None]) -> Hardware:
    """Returns `hardware` with idle memory no larger than any peak of its trials in `measured`; notifies of a change."""
    idle = hardware.profile.idle_host_bytes
    rows = (row for row in measured if row.setting.hardware.fingerprint == hardware.fingerprint)
    least = min((row.metrics.peak_host_bytes for row in rows if row.metrics is not None), default=idle)
    if least >= idle:
        return hardware
    notify(
        detail(
            f"the probe measured {format_size(idle)} for an idle trial, but a trial peaked at {format_size(least)}: "
            "the smaller figure counts"
        )
    )
    return dataclasses.replace(hardware, profile=dataclasses.replace(hardware.profile, idle_host_bytes=least))


def idle_memory(argument: dict[str, Any]) -> dict[str, int]:
    """Returns the anonymous memory of this process, a trial's before it opens a graph; `argument` is not used."""
    return {"idle_host_bytes": process_memory(os.getpid()).anonymous_bytes}


def bare_machine(worker: Worker | None = None) -> Hardware:
    """Returns this machine without a profile.

    Args:
        worker: Runs the process that describes the accelerator, if there is one; by default a new worker.
    """
    import torch

    if torch.version.cuda is None or torch.cuda.device_count() == 0:
        return host_with(_NO_PROFILE)
    with ExitStack() as stack:
        worker = worker or stack.enter_context(Worker())
        return host_with(_NO_PROFILE, **_call(worker, "a3gnn.machine.device_constants:describe_device"))


def moved(kept: MachineProfile, found: Mapping[str, float], only_faster: bool = False) -> dict[str, str]:
    """Returns the constants in `found` that differ from the stored ones by more than half.

    Args:
        kept: The stored constants.
        found: The constants measured now, by name.
        only_faster: Whether to leave out constants that are slower now, because other work makes them slower.

    Returns:
        A message by name, with the factor.
    """
    changes = {}
    for name, now in found.items():
        before = getattr(kept, name)
        if name == _NOT_KEPT or before <= 0 or now <= 0:
            continue
        faster = (now < before) == (name == _LESS_IS_FASTER)
        if max(now / before, before / now) > _FACTOR and (faster or not only_faster):
            changes[name] = f"{name} changed by a factor of {now / before:.2g} ({before:.3g}, now {now:.3g})"
    return changes


def newer(kept: MachineProfile, again: MachineProfile, changed: Collection[str]) -> MachineProfile:
    """Returns `kept` with the `changed` constants from `again`; constants on which two probes agree stay."""
    return dataclasses.replace(kept, **{name: getattr(again, name) for name in changed})


def _shows_device() -> bool | None:
    """Whether the system shows an NVIDIA device, or WSL's; None if CUDA_VISIBLE_DEVICES may hide it from processes."""
    shown = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]
    return None if shown and "CUDA_VISIBLE_DEVICES" in os.environ else bool(shown)


def _read(path: Path) -> Hardware | None:
    """Returns the machine stored at `path`, or None if there is no readable one."""
    try:
        return Hardware.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, A3GNNError):
        return None


def _probe(machine: Hardware, worker: Worker, notify: Callable[[str], None]) -> MachineProfile:
    found = _call(worker, "a3gnn.machine.host_constants:measure_host", scratch=str(worker.folder))
    if found["other_work_cores"] > _BUSY_CORES:
        notify(
            f"other programs used {found['other_work_cores']:.1f} cores while this machine was probed, so it looks "
            "slower than it is; a3gnn doctor --probe probes it again"
        )
    measured = {"idle_host_bytes": 0, **found["constants"]}
    if machine.has_device:
        measured |= _call(worker, "a3gnn.machine.device_constants:measure_device")
    return MachineProfile.from_dict(measured)


def _checked(machine: Hardware, kept: MachineProfile, worker: Worker, notify: Callable[[str], None]) -> MachineProfile:
    """Returns `kept`; if a quick check contradicts it, with the changes that a second probe confirms."""
    if QUICK:
        return kept
    found = _call(worker, "a3gnn.machine.host_constants:check_host")
    busy = found["other_work_cores"] > _BUSY_CORES
    suspects = moved(kept, found["constants"], only_faster=busy)
    if not suspects:
        return kept
    again = _probe(machine, worker, notify)
    changed = moved(kept, dataclasses.asdict(again), only_faster=busy)
    if not changed:
        notify(detail(f"a second hardware probe does not confirm changes of {', '.join(suspects.values())}"))
        return kept
    notify(detail(f"the machine was probed again, because it has changed: {', '.join(changed.values())}"))
    return newer(kept, again, changed)


def _call(worker: Worker, entry: str, **argument: Any) -> dict[str, Any]:
    ended = worker.run(entry, argument, timeout_s=_TIMEOUT_SECONDS)
    if ended.result is None:
        raise A3GNNError(f"the hardware probe failed: {entry} {ended.why()}\n{ended.log}".rstrip())
    return ended.result
