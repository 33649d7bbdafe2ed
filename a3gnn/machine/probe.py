"""`probe_hardware`: what machine this is, and what it can do."""

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
from a3gnn.machine.host import host_with
from a3gnn.measurement import Measurement
from a3gnn.process.machine_turn import machine_turn
from a3gnn.process.memory import process_memory
from a3gnn.process.worker import Worker
from a3gnn.storage.atomic import write_text
from a3gnn.storage.cache import cache_root
from a3gnn.units import format_size

#: A constant that differs by this factor from what is kept has moved; repetitions differ by less. Guess.
_FACTOR = 1.5
#: Measured at every start, and so never moved; and the one constant of which less is faster.
_NOT_KEPT = "idle_host_bytes"
_LESS_IS_FASTER = "batch_overhead_s"


def moved(kept: MachineProfile, found: Mapping[str, float], only_faster: bool = False) -> dict[str, str]:
    """Returns the constants in `found` that differ by half from the kept ones.

    Args:
        kept: As they were probed.
        found: As they are now, by name.
        only_faster: Whether to leave out those by which the machine is slower now: other work does that.

    Returns:
        By name, for people: the name and by what factor it differs.
    """
    changes = {}
    for name, now in found.items():
        before = getattr(kept, name)
        if name == _NOT_KEPT or before <= 0 or now <= 0:
            continue
        faster = (now < before) == (name == _LESS_IS_FASTER)
        if max(now / before, before / now) > _FACTOR and (faster or not only_faster):
            changes[name] = f"{name} is {now / before:.2g} times what it was ({before:.3g}, now {now:.3g})"
    return changes


def newer(kept: MachineProfile, again: MachineProfile, changed: Collection[str]) -> MachineProfile:
    """Returns `kept` with the constants that `changed` names as `again` has them: what two probes agree on stays."""
    return dataclasses.replace(kept, **{name: getattr(again, name) for name in changed})


#: Raised when the profile is measured in another way; profiles that were cached by another version are measured anew.
PROBE_VERSION = 3
_NO_PROFILE = MachineProfile(0, 0, 0, 0, 0, 1, 0, 0)
#: Seconds after which the probe hangs. It takes about 10, and took over 120 where five processes shared two cores.
_TIMEOUT_SECONDS = 600.0
#: Cores of other work from which on a check that finds the machine slower says nothing of the machine. Guess.
_BUSY_CORES = 0.25
_MOVED = "what the hardware probe found "


def probe_hardware(
    refresh: bool = False,
    cache: str | Path | None = None,
    *,
    worker: Worker | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Hardware:
    """Returns this machine with what a probe measured of it: some seconds the first time, then read from the cache.

    The memory of an idle trial is measured each time, and some of the constants are checked: where one has moved by
    half, all are probed again. Everything is measured in processes of its own; the caller's threads and devices are
    left alone. Measure on an idle machine: other work lowers every figure.

    Args:
        refresh: Whether to measure again what is cached.
        cache: The cache folder; by default $A3GNN_CACHE, else a3gnn in the user's cache folder.
        worker: What runs those processes, such as an executor's; by default one of its own.
        notify: Takes each line for people.

    Raises:
        A3GNNError: The probe failed; the message holds what it said.
    """
    with ExitStack() as stack:
        worker = worker or stack.enter_context(Worker())
        machine = bare_machine(worker)
        path = kept_at(machine, cache)
        found = None if refresh else _read(path)
        kept = None if found is None else found.profile
        with machine_turn(notify):
            profile = _probe(machine, worker, notify) if kept is None else _checked(machine, kept, worker, notify)
            profile = dataclasses.replace(profile, **_call(worker, "a3gnn.machine.probe:idle_memory"))
    hardware = dataclasses.replace(machine, profile=profile)
    if profile != kept:
        write_text(path, json.dumps(hardware.to_dict(), indent=2))
    return hardware


def kept_hardware(cache: str | Path | None = None) -> Hardware | None:
    """Returns this machine with what was last probed of it, which is not checked; None where none is kept.

    Where none is kept, or one that may be this one, accelerators as far as the system shows them included, that takes
    milliseconds; else torch has to be asked for these, which takes seconds.

    Args:
        cache: As in `probe_hardware`.
    """
    host = host_with(_NO_PROFILE)
    kept = [found for path in kept_at(host, cache).parent.glob(f"*-v{PROBE_VERSION}.json") if (found := _read(path))]
    if not kept:
        return None
    same = [one for one in kept if _without_device(one).fingerprint == host.fingerprint]
    if len(same) == 1 and same[0].has_device == _shows_device():
        return dataclasses.replace(same[0], host_memory_bytes=host.host_memory_bytes)
    with Worker() as worker:
        machine = bare_machine(worker)
    found = _read(kept_at(machine, cache))
    return None if found is None else dataclasses.replace(machine, profile=found.profile)


def kept_at(machine: Hardware, cache: str | Path | None = None) -> Path:
    """Returns the file that keeps what was probed of `machine`."""
    return cache_root(cache) / "hardware" / f"{machine.fingerprint}-v{PROBE_VERSION}.json"


def within_peaks(hardware: Hardware, measured: Iterable[Measurement], notify: Callable[[str], None]) -> Hardware:
    """Returns `hardware` with no more idle memory than any trial in `measured` took on it; notifies of a change."""
    idle = hardware.profile.idle_host_bytes
    rows = (row for row in measured if row.setting.hardware.fingerprint == hardware.fingerprint)
    least = min((row.metrics.peak_host_bytes for row in rows if row.metrics is not None), default=idle)
    if least >= idle:
        return hardware
    notify(
        f"an idle trial seems to take {format_size(idle)}, but a measured one took only {format_size(least)} at its "
        "peak: the smaller figure is believed"
    )
    return dataclasses.replace(hardware, profile=dataclasses.replace(hardware.profile, idle_host_bytes=least))


def idle_memory(argument: dict[str, Any]) -> dict[str, int]:
    """Returns the anonymous memory of this process, a trial's before it opens a graph; `argument` is not used."""
    return {"idle_host_bytes": process_memory(os.getpid()).anonymous_bytes}


def bare_machine(worker: Worker | None = None) -> Hardware:
    """Returns this machine without a profile.

    Args:
        worker: What runs the process in which a device is asked, if there is one; by default one of its own.
    """
    import torch

    if torch.version.cuda is None or torch.cuda.device_count() == 0:
        return host_with(_NO_PROFILE)
    with ExitStack() as stack:
        worker = worker or stack.enter_context(Worker())
        return host_with(_NO_PROFILE, **_call(worker, "a3gnn.machine.device_constants:describe_device"))


def _without_device(machine: Hardware) -> Hardware:
    return dataclasses.replace(machine, device="", num_devices=0, device_memory_bytes=0)


def _shows_device() -> bool | None:
    """Whether the system shows an NVIDIA device, or that of WSL; None where a variable may hide it from processes."""
    shown = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]
    return None if shown and "CUDA_VISIBLE_DEVICES" in os.environ else bool(shown)


def _read(path: Path) -> Hardware | None:
    """Returns the machine that is kept at `path`, or None where there is none that can be read."""
    try:
        return Hardware.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, A3GNNError):
        return None


def _probe(machine: Hardware, worker: Worker, notify: Callable[[str], None]) -> MachineProfile:
    found = _call(worker, "a3gnn.machine.host_constants:measure_host", scratch=str(worker.folder))
    if found["other_work_cores"] > _BUSY_CORES:
        notify(
            f"other work took {found['other_work_cores']:.1f} of this machine's cores while it was probed, which makes "
            "it look slower than it is; a3gnn doctor --probe probes again"
        )
    measured = {"idle_host_bytes": 0, **found["constants"]}
    if machine.has_device:
        measured |= _call(worker, "a3gnn.machine.device_constants:measure_device")
    return MachineProfile.from_dict(measured)


def _checked(machine: Hardware, kept: MachineProfile, worker: Worker, notify: Callable[[str], None]) -> MachineProfile:
    """Returns `kept`, or where a quick check finds it wrong what a second probe confirms of that."""
    found = _call(worker, "a3gnn.machine.host_constants:check_host")
    busy = found["other_work_cores"] > _BUSY_CORES
    suspects = moved(kept, found["constants"], only_faster=busy)
    if not suspects:
        return kept
    again = _probe(machine, worker, notify)
    changed = moved(kept, dataclasses.asdict(again), only_faster=busy)
    if not changed:
        notify(
            f"what the hardware probe found seemed to have moved: {', '.join(suspects.values())}; a second one keeps it"
        )
        return kept
    notify(f"what the hardware probe found has moved: {', '.join(changed.values())}; the machine was probed again")
    return newer(kept, again, changed)


def _call(worker: Worker, entry: str, **argument: Any) -> dict[str, Any]:
    ended = worker.run(entry, argument, timeout_s=_TIMEOUT_SECONDS)
    if ended.result is None:
        raise A3GNNError(f"the hardware probe failed: {entry} {ended.why()}\n{ended.log}".rstrip())
    return ended.result
