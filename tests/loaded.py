"""What a command loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def run_and_loaded(*arguments: str) -> tuple[str, set[str]]:
    """Runs `a3gnn ARGUMENTS` in a process of its own; returns its stdout, and the packages that are loaded then."""
    code = (
        "import sys\n"
        "from a3gnn.cli.main import app\n"
        f"app.main(args={list(arguments)!r}, prog_name='a3gnn', standalone_mode=False)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_ROOT)
    return ran.stdout, set(ran.stderr.split())
