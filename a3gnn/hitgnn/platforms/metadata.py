"""The description of a platform: a host, and its FPGAs or GPUs.

These are HitGNN's `FPGA_Metadata` and `Platform_Metadata`. Each type checks its fields. An error names the field, the
rule and the value. Platforms come from TOML files: those shipped with a3gnn by name, and the user's own by path.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from a3gnn._fields import from_fields
from a3gnn.checks import positive_number, whole_number
from a3gnn.errors import UsageError, unknown_name
from a3gnn.option_names import option

T = TypeVar("T")
Table = dict[str, Any]
_DATA = Path(__file__).parent / "data"
#: Most equal dies in one table of a file, more than any FPGA has.
_MOST_DIES = 64
#: Allowed values of `kind` for a host and for a device.
_KINDS = {"host": ("cpu",), "device": ("fpga", "gpu")}


@dataclass(frozen=True, slots=True)
class Die:
    """A super logic region of an FPGA, with a memory channel of its own."""

    dsps: int  # DSP slices that kernels may take
    luts: int  # look-up tables that kernels may take
    memory_bytes_per_s: float  # bandwidth of the memory at this die

    def __post_init__(self) -> None:
        whole_number("dsps", self.dsps, 1, "DSP slices of the die")
        whole_number("luts", self.luts, 1, "look-up tables of the die")
        positive_number("memory_bytes_per_s", self.memory_bytes_per_s, "bytes per second of the die's memory")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The resources of a design with n scatter-gather units and m multipliers (HitGNN, Eqs. 1 and 2).

    Attributes:
        source: Where the coefficients come from.
        lanes: float32 values that a unit aggregates per cycle.
        dsps_per_multiplier: DSPs for each of m.
        dsps_per_unit: DSPs for each of n.
        luts: Triples (for each of m, for each of n, for each of n log2 n). If measurements leave several possible, all
            of their extremes; a design then has a range.
    """

    source: str
    lanes: int
    dsps_per_multiplier: float
    dsps_per_unit: float
    luts: tuple[tuple[float, float, float], ...]

    def __post_init__(self) -> None:
        _text("source", self.source)
        whole_number("lanes", self.lanes, 1, "float32 values per cycle; 16 are 512 bits")
        positive_number("dsps_per_multiplier", self.dsps_per_multiplier, "DSPs for each of m")
        positive_number("dsps_per_unit", self.dsps_per_unit, "DSPs for each of n")
        if isinstance(self.luts, list | tuple):
            object.__setattr__(self, "luts", tuple(tuple(one) if isinstance(one, list) else one for one in self.luts))
        rule = "luts must be a list of one or more triples >= 0 (for each of m, of n, of n log2 n)"
        if not isinstance(self.luts, tuple) or not self.luts:
            raise UsageError(f"{rule}, got {self.luts!r}")
        for triple in self.luts:
            if not isinstance(triple, tuple) or len(triple) != 3 or not all(map(_is_amount, triple)):
                raise UsageError(f"{rule}, got {triple!r} in it")


@dataclass(frozen=True, slots=True)
class Fpga:
    """An FPGA, die by die."""

    name: str  # the FPGA's name for people
    source: str  # where its figures come from
    frequency_hz: float  # clock of the kernels
    dies: tuple[Die, ...]  # its dies; each has a design of its own
    kernels: Kernels  # resources of the kernels

    def __post_init__(self) -> None:
        _text("name", self.name)
        _text("source", self.source)
        positive_number("frequency_hz", self.frequency_hz, "cycles per second of the kernels")
        if not self.dies:
            raise UsageError("dies must have at least one entry, got none; an FPGA with one die has one [[dies]]")

    @property
    def memory_bytes_per_s(self) -> float:
        """Bandwidth of all dies' memory."""
        return sum(die.memory_bytes_per_s for die in self.dies)


@dataclass(frozen=True, slots=True)
class Processor:
    """A CPU or GPU, whose design is fixed.

    Attributes:
        name: The processor's name for people.
        source: Where its figures come from.
        flops_per_s: Peak float32 multiplications and additions per second.
        memory_bytes_per_s: Peak bandwidth of its memory.
    """

    name: str
    source: str
    flops_per_s: float
    memory_bytes_per_s: float

    def __post_init__(self) -> None:
        _text("name", self.name)
        _text("source", self.source)
        positive_number("flops_per_s", self.flops_per_s, "float32 operations per second")
        positive_number("memory_bytes_per_s", self.memory_bytes_per_s, "bytes per second of its memory")


@dataclass(frozen=True, slots=True)
class Platform:
    """A host with equal devices, each on a link of its own."""

    source: str  # where its figures come from
    host: Processor  # samples, holds every feature row, and averages gradients
    device: Fpga | Processor  # the type of each device
    num_devices: int
    link_bytes_per_s: float  # bandwidth between the host and one device

    def __post_init__(self) -> None:
        _text("source", self.source)
        whole_number("num_devices", self.num_devices, 1, "devices at the host")
        positive_number("link_bytes_per_s", self.link_bytes_per_s, "bytes per second between the host and a device")

    @property
    def memory_bytes_per_s(self) -> float:
        """Bandwidth of all memory, the host's and the devices'; the divisor of NVTPS per GB/s (section VII-D)."""
        return self.host.memory_bytes_per_s + self.num_devices * self.device.memory_bytes_per_s

    @property
    def device_link_bytes_per_s(self) -> float:
        """Bandwidth from the host to each device while all read: the link's, or a share of the host's memory's.

        The paper's Eq. 7 lacks the second bound. Without it, nothing could saturate as section VII-G describes.
        """
        return min(self.link_bytes_per_s, self.host.memory_bytes_per_s / self.num_devices)

    def with_devices(self, count: int) -> Platform:
        """Returns the platform with `count` devices."""
        return dataclasses.replace(self, num_devices=count)


def _is_amount(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < float("inf")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text, got {value!r}")


def names(folder: str) -> list[str]:
    """Returns the names of the files shipped in `folder`: platforms, devices or kernels."""
    return sorted(path.stem for path in (_DATA / folder).glob("*.toml"))


def read_platform(name: str) -> Platform:
    """Reads the platform shipped as `name`, or the one in the file at this path, which ends in .toml.

    Raises:
        UsageError: There is none, or a field is missing, unknown or not valid.
    """
    if name in names("platforms"):
        path = _DATA / "platforms" / f"{name}.toml"
    elif name.endswith(".toml"):
        path = Path(name)
    else:
        error = unknown_name(option("platform"), name, names("platforms"))
        raise UsageError(
            f"{error}; a platform of your own is a file that ends in .toml (docs/research/accelerators.md)"
        )
    return _within(str(path), lambda: _platform(_toml(path)))


def read_graphs() -> list[Table]:
    """Returns the graphs of HitGNN's Table IV: name, num_nodes, num_edges, num_features, num_classes."""
    graphs: list[Table] = _toml(_DATA / "graphs.toml")["graphs"]
    return graphs


def _platform(fields: Table) -> Platform:
    made = dict(fields)
    for name, kinds in _KINDS.items():
        if name in fields:
            made[name] = _within(name, partial(_device, fields[name], kinds))
    return from_fields(Platform, made)


def _device(given: Any, kinds: tuple[str, ...]) -> Fpga | Processor:
    fields = _table("devices", given)
    rest = {name: value for name, value in fields.items() if name != "kind"}
    kind = fields.get("kind")
    if kind not in kinds:
        raise unknown_name("kind", kind, kinds)
    if kind != "fpga":
        return from_fields(Processor, rest)
    if "kernels" in rest:
        rest["kernels"] = _within("kernels", lambda: from_fields(Kernels, _table("kernels", rest["kernels"])))
    if "dies" in rest:
        rest["dies"] = tuple(die for i, table in enumerate(_tables("dies", rest["dies"])) for die in _dies(i, table))
    return from_fields(Fpga, rest)


def _dies(index: int, fields: Table) -> list[Die]:
    """Returns the dies of one [[dies]] table, `count` equal ones."""

    def make() -> list[Die]:
        count = whole_number("count", fields.get("count", 1), 1, "equal dies")
        if count > _MOST_DIES:
            raise UsageError(f"count must be at most {_MOST_DIES}, got {count:,} equal dies of one FPGA")
        return [from_fields(Die, {name: value for name, value in fields.items() if name != "count"})] * count

    return _within(f"dies[{index}]", make)


def _tables(name: str, value: Any) -> list[Table]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UsageError(f"{name} must be tables, each under [[{name}]], got {value!r}")
    return value


def _table(folder: str, value: Any) -> Table:
    """Returns `value` if it is a table, or reads the file that is shipped in `folder` under this name."""
    if isinstance(value, dict):
        return value
    if value not in names(folder):
        raise UsageError(f"{unknown_name('a name', value, names(folder))}; or give a table instead")
    return _toml(_DATA / folder / f"{value}.toml")


def _toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the file can't be read: {error.strerror or error}") from error
    except ValueError as error:  # from the TOML parser, or from UTF-8 decoding
        raise UsageError(f"the file must be TOML: {error}") from error


def _within(where: str, make: Callable[[], T]) -> T:
    """Returns the result of `make`, and puts the place `where` before its errors."""
    try:
        return make()
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
