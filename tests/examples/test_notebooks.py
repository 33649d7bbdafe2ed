"""The notebooks run from their first cell to their last: with small budgets, on graphs that are made here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.weekly
@pytest.mark.parametrize("name", ["01_pareto_front", "03_search", "05_hybrid", "06_explore", "07_own_data"])
def test_it_runs(name: str, tmp_path: Path) -> None:
    for package in ("nbconvert", "ipykernel", "matplotlib"):
        pytest.importorskip(package, reason="the extra notebook is not installed")
    asked = {
        "A3GNN_DATA": str(tmp_path / "no_graphs"),
        "A3GNN_RUN": str(tmp_path / "run"),
        "A3GNN_BUDGET": "6s",
        "A3GNN_SECONDS": "0.5",
    }
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", str(NOTEBOOKS / f"{name}.ipynb")]
    run = subprocess.run(
        [*command, "--output-dir", str(tmp_path)], capture_output=True, text=True, check=False, env=os.environ | asked
    )
    assert run.returncode == 0, run.stderr[-2000:]
    executed = (tmp_path / f"{name}.ipynb").read_text(encoding="utf-8")
    assert executed.count("image/png") >= 1
