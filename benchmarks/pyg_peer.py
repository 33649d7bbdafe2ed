"""The environment that PyG's NeighborLoader runs in, apart from a3gnn's."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent / "workers" / "pyg_script.py"

_CHECK = "from torch_geometric.typing import WITH_PYG_LIB as a, WITH_TORCH_SPARSE as b; raise SystemExit(not (a or b))"


def add_peers_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the folder that `make peers` built."""
    default = Path(__file__).parents[1] / ".peers"
    parser.add_argument("--peers-dir", type=Path, default=default, help="what make peers built (default: .peers)")


def pyg_python(peers_dir: Path) -> Path | None:
    """Returns the interpreter of the environment `pyg`, or None if there is none or it can't sample neighbours."""
    python = peers_dir / "pyg" / "bin" / "python"
    if not python.is_file() or subprocess.run([python, "-c", _CHECK], capture_output=True, check=False).returncode:
        return None
    return python
