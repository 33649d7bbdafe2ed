"""`generate`: writes the sources of a design to a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.option_names import option
from a3gnn.storage.atomic import replacing
from a3gnn.storage.claim import is_vacant
from a3gnn.units import format_size

#: float32 values in a word of 512 bits (HitGNN, section VI-B).
LANES = 16
WORD_BYTES = 4 * LANES
#: On-chip memory of the gather units. Guess: a U250 has 54 MB of such memory on its four dies (HitGNN, Table III).
RESULT_BYTES = 4 * 1024**2
#: Values that a FIFO of the routing network holds, enough for random edges (docs/research/hls.md).
FIFO_DEPTH = 256
#: Cycles of a float addition. Guess: it depends on the chip and on the clock.
ADD_LATENCY = 8
#: Files with constants of the design; all others are copied as they are.
_FILLED = ("config.h", "README.md")
#: A text in every generated `config.h`.
_OURS = "A3GNN_CONFIG_H"


@dataclass(frozen=True, slots=True)
class Design:
    """An accelerator: an aggregate and an update kernel (HitGNN, section V-C), for GraphSAGE and GCN alike.

    Attributes:
        units: Scatter-gather units n of the aggregate kernel, a power of two.
        multipliers: Multipliers m of the update kernel, a power of two.
        result_bytes: On-chip memory for sums, all gather units together. Rows that don't fit are summed in slabs.

    Raises:
        UsageError: A field is out of range.
    """

    units: int
    multipliers: int
    result_bytes: int = RESULT_BYTES

    def __post_init__(self) -> None:
        for name, value in (("units", self.units), ("multipliers", self.multipliers)):
            whole_number(option(name), value, 1)
            if value & (value - 1):
                near = 1 << value.bit_length() - 1
                raise UsageError(
                    f"{option(name)} must be a power of two, got {value}; the nearest are {near} and {2 * near}"
                )
        least = self.units * WORD_BYTES
        if whole_number(option("result_bytes"), self.result_bytes, 1) < least:
            raise UsageError(
                f"{option('result_bytes')} must have {WORD_BYTES} B for each of {self.units} units, got "
                f"{format_size(self.result_bytes)}; the default is {format_size(RESULT_BYTES)}"
            )

    @property
    def rows(self) -> int:
        """Rows of the array of multipliers. If there are 16, a word of a transposed operand enters them at once."""
        return min(self.multipliers, LANES)

    @property
    def columns(self) -> int:
        """Columns of the array of multipliers."""
        return self.multipliers // self.rows

    @property
    def entry_depth(self) -> int:
        """Values that a FIFO at the array's entries holds.

        The multiplier in row r and column c begins r + c cycles after the first one. Until then, the left entries of
        its row wait, one per cycle, and the top ones of its column, one in `ADD_LATENCY` cycles. The rest is slack.
        """
        return self.rows + self.columns // ADD_LATENCY + LANES

    @property
    def result_words(self) -> int:
        """Words of 512 bits for sums, the same number for each unit."""
        return self.result_bytes // WORD_BYTES // self.units * self.units

    def constants(self) -> dict[str, str]:
        """Returns the values of the placeholders in the template files: $units, $multipliers, ..."""
        names = ("units", "multipliers", "rows", "columns", "result_words", "entry_depth")
        fixed = {"fifo_depth": str(FIFO_DEPTH), "add_latency": str(ADD_LATENCY)}
        return {name: str(getattr(self, name)) for name in names} | fixed


def generate(design: Design, out: str | os.PathLike[str]) -> list[Path]:
    """Writes the sources of `design` to the folder `out`, which is made, and returns their paths in it, sorted.

    Only `config.h` and `README.md` depend on the design; the kernels read their constants from `config.h`.

    Raises:
        UsageError: `out` has files that were not generated.
    """
    folder = Path(out)
    check_folder(folder)
    root = resources.files("a3gnn.hitgnn.hls") / "template"
    files = _files(root)
    for path, source in files.items():
        text = source.read_text(encoding="utf-8")
        if path in _FILLED:
            text = Template(text).substitute(design.constants())
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft:
            draft.write_text(text, encoding="utf-8")
    return sorted(folder / path for path in files)


def check_folder(folder: Path) -> None:
    """Raises a `UsageError` if `folder` has files that `generate` did not write."""
    config = folder / "config.h"
    if not is_vacant(folder) and not (config.is_file() and _OURS in config.read_text(encoding="utf-8")):
        raise UsageError(
            f"{option('out')} must be a new or empty folder, or the folder of an accelerator, got {folder}"
        )


def _files(folder: Traversable, inside: str = "") -> dict[str, Traversable]:
    """Returns every file under `folder` by its path in it."""
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _files(entry, f"{inside}{entry.name}/")
        else:
            found[f"{inside}{entry.name}"] = entry
    return found
