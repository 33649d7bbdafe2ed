"""The accelerator against a3gnn's own layers on a sampled mini-batch, by the command."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from a3gnn.cli.accelerator import accelerator as command
from a3gnn.errors import MissingDependencyError
from a3gnn.hitgnn.hls import check as checking
from a3gnn.hitgnn.hls.case import Case, LayerResult
from a3gnn.hitgnn.hls.generate import Design, generate
from a3gnn.hitgnn.hls.simulation import KernelCall, build, simulate
from tests.answers import checked
from tests.hitgnn.hls.cases import Accelerator


@pytest.mark.parametrize("model", checking.ACCELERATED)
def test_the_simulation_equals_our_layers(model: checking.AcceleratedModel, accelerator: Accelerator) -> None:
    found = checking.check(Design(4, 64), model, accelerator(4, 64))
    assert found.passed
    assert max(found.forward, found.backward) < checking.TOLERANCE / 10
    assert found.rows_read == found.distinct_sources > 0
    assert [(one.layer, one.direction, one.kernel) for one in found.cycles] == [
        *((layer, "forward", kernel) for layer in (0, 1) for kernel in ("aggregate", "update")),
        *((layer, "backward", kernel) for layer in (1, 0) for kernel in ("update", "update", "aggregate")),
    ]


def test_the_command_writes_and_checks(tmp_path: Path, compiler: None) -> None:
    arguments = ["generate", "--units", "2", "--multipliers", "16", "--out", str(tmp_path / "out"), "--check", "--json"]
    ended = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ended.exit_code == 0
    said = checked("accelerator generate", ended.stdout)
    assert {"config.h", "kernels/aggregate.cpp", "README.md"} <= set(said["files"])
    assert [(one["model"], one["passed"]) for one in said["checks"]] == [("sage", True), ("gcn", True)]


def test_a_check_leaves_its_case_for_the_programs(accelerator: Accelerator, tmp_path: Path) -> None:
    folder = accelerator(4, 64)
    checking.check(Design(4, 64), "gcn", folder)
    subprocess.run([str(folder / "simulate"), str(folder / "gcn.case"), str(tmp_path / "results")], check=True)
    assert (tmp_path / "results").stat().st_size


def test_a_wrong_result_fails(tmp_path: Path, compiler: None) -> None:
    generate(Design(2, 16), tmp_path)
    scatter = tmp_path / "kernels" / "aggregate.cpp"
    scatter.write_text(scatter.read_text().replace("edge.weight * row", "1.001f * edge.weight * row"))
    found = checking.check(Design(2, 16), "gcn", tmp_path)
    assert not found.passed
    assert found.forward == pytest.approx(1.001**2 - 1, rel=0.01)  # of two layers, whose biases are zero


@pytest.mark.parametrize(("field", "failing"), [("out", "forward"), ("bias_gradient", "backward")])
def test_a_result_that_is_no_number_fails(
    field: str, failing: str, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(folder: Path, case: Case) -> tuple[list[LayerResult], list[KernelCall]]:
        found, calls = simulate(folder, case)
        getattr(found[1], field).flat[-1] = np.nan
        return found, calls

    monkeypatch.setattr(checking, "simulate", simulated)
    found = checking.check(Design(4, 64), "gcn", accelerator(4, 64))
    assert not found.passed
    assert getattr(found, failing) == np.inf
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (said[failing], said["passed"]) == (None, False)


def test_a_relative_folder_and_a_compiler_with_arguments(
    accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(accelerator(4, 64))
    monkeypatch.setenv("CXX", "g++ -O1")
    assert checking.check(Design(4, 64), "gcn", ".").passed


@pytest.mark.parametrize("compiler", ["no-such-compiler", "no-such-compiler -O1"])
def test_without_a_compiler(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate(Design(2, 16), tmp_path)
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(MissingDependencyError, match="but no-such-compiler can't be found; install them"):
        build(tmp_path, "simulate")
