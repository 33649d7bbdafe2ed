"""`Hardware`: a machine, with the constants that a probe measured on it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import Stored, from_fields

#: Fields that are stored under an earlier name.
_STORED = {"profile": "limits"}
#: A device's memory bandwidth is not probed. It is taken as the host's times the ratio of arithmetic to this power.
#: Guess.
_DEVICE_BANDWIDTH_EXPONENT = 0.5


@dataclass(frozen=True, slots=True)
class MachineProfile(Stored):
    """The constants of the analytic model, as a probe of a few seconds measured them on this machine.

    Attributes:
        random_reads_per_s: Independent 4-byte reads per second, one thread, out of cache.
        copy_bytes_per_s: Bytes per second of copying rows into a warm buffer, one thread.
        disk_read_bytes_per_s: Bytes per second of gathering rows from a memory-mapped file, one thread.
        gemm_flops_per_s: float32 multiplications and additions per second, all cores, at the sizes of a mini-batch.
        spmm_bytes_per_s: Bytes per second of gathered rows in a CSR aggregation, all cores.
        thread_efficiency: Throughput of two threads of sampling over twice that of one, in (0, 1].
        batch_overhead_s: Seconds of a training step on eight nodes: the fixed cost of a mini-batch.
        idle_host_bytes: Memory of a trial's process that cannot be reclaimed, before it opens a graph.
        host_to_device_bytes_per_s: Bytes per second of a pinned copy to the device; 0 without one.
        device_gemm_flops_per_s: As `gemm_flops_per_s`, on the device; 0 without one.
        idle_device_bytes: Device memory of an empty CUDA context; 0 without a device.
        bf16_gemm_flops_per_s: As `gemm_flops_per_s`, in bfloat16; 0 in rows that were stored before it was measured.
        device_bf16_gemm_flops_per_s: As `bf16_gemm_flops_per_s`, on the device; 0 without one.
    """

    random_reads_per_s: float
    copy_bytes_per_s: float
    disk_read_bytes_per_s: float
    gemm_flops_per_s: float
    spmm_bytes_per_s: float
    thread_efficiency: float
    batch_overhead_s: float
    idle_host_bytes: int
    host_to_device_bytes_per_s: float = 0.0
    device_gemm_flops_per_s: float = 0.0
    idle_device_bytes: int = 0
    bf16_gemm_flops_per_s: float = 0.0
    device_bf16_gemm_flops_per_s: float = 0.0

    @property
    def device_traffic_bytes_per_s(self) -> float:
        """Bytes per second that sparse products read on the device, estimated from its arithmetic, not probed."""
        faster = max(self.device_gemm_flops_per_s / self.gemm_flops_per_s, 1.0)
        return float(self.spmm_bytes_per_s * faster**_DEVICE_BANDWIDTH_EXPONENT)

    def copy_speedup(self, threads: int) -> float:
        """Returns the speedup of `threads` threads over one thread in copying rows."""
        return 1 + (threads - 1) * self.thread_efficiency


@dataclass(frozen=True, slots=True)
class Hardware:
    """One machine, as far as training sees it.

    Attributes:
        cpu: The processor's name.
        num_cores: Cores that this process may run on.
        host_memory_bytes: Memory of the machine, or of the control group that holds this process if that is less.
        device: Name of the first accelerator, or "" without one.
        num_devices: Number of accelerators.
        device_memory_bytes: Memory of the first one.
        profile: What the probe measured.
        instruction_sets: Instruction sets that decide which kernels run, by their Linux names; empty in rows that were
            stored before this field existed.
        cache_bytes: Bytes of the first core's L1 data, L2 and L3 caches; empty in rows that were stored before this
            field existed.
        label: The user's name for such machines, to tell apart machines that look alike; mostly empty.
    """

    cpu: str
    num_cores: int
    host_memory_bytes: int
    device: str
    num_devices: int
    device_memory_bytes: int
    profile: MachineProfile
    instruction_sets: tuple[str, ...] = ()
    cache_bytes: tuple[int, ...] = ()
    label: str = ""

    @property
    def has_device(self) -> bool:
        """Whether there is an accelerator."""
        return self.num_devices > 0

    @property
    def host_bytes_per_s(self) -> float:
        """Bytes per second at which all cores copy rows in host memory: effective, not the memory's peak."""
        return self.profile.copy_bytes_per_s * self.profile.copy_speedup(self.num_cores)

    @property
    def fingerprint(self) -> str:
        """Hash of the machine, without the probe's measurements, which vary from run to run.

        Rows that were stored without instruction sets, caches and label keep their fingerprint.
        """
        label = self.label and f"label {self.label}"
        text = "|".join(filter(None, (self._outline, self._processor, label)))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def may_be(self, other: Hardware) -> bool:
        """Whether both may be one machine: every field that both of them know is equal."""
        same = (self._outline, self.label) == (other._outline, other.label)
        return same and (self._processor == other._processor or not (self._processor and other._processor))

    @property
    def _outline(self) -> str:
        memory_gib = round(self.host_memory_bytes / 2**30)
        device_gib = round(self.device_memory_bytes / 2**30)
        return f"{self.cpu}|{self.num_cores}|{memory_gib}|{self.device}|{self.num_devices}|{device_gib}"

    @property
    def _processor(self) -> str:
        known = self.instruction_sets or self.cache_bytes
        return f"{','.join(self.instruction_sets)}|{','.join(map(str, self.cache_bytes))}" if known else ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types, with the fingerprint; `profile` is stored under its old name, `limits`.

        An empty label is left out, so that rows stay as they were before labels existed.
        """
        fields = dataclasses.asdict(self)
        if not self.label:
            del fields["label"]
        return {_STORED.get(name, name): value for name, value in fields.items()} | {"fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the hardware of `to_dict`."""
        rest = {name: value for name, value in fields.items() if name not in ("fingerprint", _STORED["profile"])}
        return from_fields(cls, rest | {"profile": MachineProfile.from_dict(fields[_STORED["profile"]])})
