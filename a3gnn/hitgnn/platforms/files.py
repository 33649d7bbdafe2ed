"""Reads platforms from TOML files: those shipped with a3gnn by name, and the user's own by path."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from a3gnn._fields import from_fields
from a3gnn.checks import whole_number
from a3gnn.errors import UsageError, unknown_name
from a3gnn.hitgnn.platforms.metadata import Die, Fpga, Kernels, Platform, Processor
from a3gnn.option_names import option

T = TypeVar("T")
Table = dict[str, Any]

_DATA = Path(__file__).parent / "data"
#: Most equal dies in one table of a file, more than any FPGA has.
_MOST_DIES = 64
#: Allowed values of `kind` for a host and for a device.
_KINDS = {"host": ("cpu",), "device": ("fpga", "gpu")}


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
        raise UsageError(f"{error}; one of your own is a file that ends in .toml (docs/research/accelerators.md)")
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
            raise UsageError(f"count must be {_MOST_DIES} at most, equal dies of one FPGA; got {count:,}")
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
        raise UsageError(f"{unknown_name('a name', value, names(folder))}; or give a table in its place")
    return _toml(_DATA / folder / f"{value}.toml")


def _toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"it can't be read: {error.strerror or error}") from error
    except ValueError as error:  # from the TOML parser, or from UTF-8 decoding
        raise UsageError(f"it must be a TOML file: {error}") from error


def _within(where: str, make: Callable[[], T]) -> T:
    """Returns the result of `make`, and puts the place `where` before its errors."""
    try:
        return make()
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
