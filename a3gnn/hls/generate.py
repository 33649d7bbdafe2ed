"""`generate`: the sources of a design, in a folder of their own."""

from __future__ import annotations

import os
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from a3gnn.errors import UsageError
from a3gnn.hls.design import Design
from a3gnn.option_names import option
from a3gnn.storage.atomic import replacing
from a3gnn.storage.claim import is_vacant

#: The files that hold constants of the design; all others are copied as they are.
_FILLED = ("config.h", "README.md")
#: What stands in every `config.h` of ours.
_OURS = "A3GNN_CONFIG_H"


def generate(design: Design, out: str | os.PathLike[str]) -> list[Path]:
    """Writes the sources of `design` to the folder `out`, which is made, and returns their paths in it, sorted.

    Nothing but `config.h` and `README.md` depends on the design: the kernels read their constants there.

    Raises:
        UsageError: `out` has other files.
    """
    folder = Path(out)
    check_folder(folder)
    root = resources.files("a3gnn.hls") / "template"
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
    """Raises a `UsageError` where `folder` holds something else than what `generate` writes."""
    config = folder / "config.h"
    if not is_vacant(folder) and not (config.is_file() and _OURS in config.read_text(encoding="utf-8")):
        raise UsageError(f"{option('out')} must be a new or empty folder, or one of an accelerator, got {folder}")


def _files(folder: Traversable, inside: str = "") -> dict[str, Traversable]:
    """Returns every file under `folder` by its path in it."""
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _files(entry, f"{inside}{entry.name}/")
        else:
            found[f"{inside}{entry.name}"] = entry
    return found
