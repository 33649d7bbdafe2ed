"""The wheel works outside of the checkout: its commands in an empty folder, its service, and a notebook."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a3gnn.version import __version__

ROOT = Path(__file__).parents[2]
GRAPH = "synthetic:nodes=600,degree=8,classes=4,features=16"
pytestmark = pytest.mark.weekly


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source package, built without a network."""
    for package in ("build", "hatchling"):
        pytest.importorskip(package, reason=f"{package}, of the extra dev, is not installed")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def build(source: Path, folder: Path, *options: str) -> None:
    """Builds packages from the sources, with times that do not depend on the moment."""
    run = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), *options, str(source)]
    env = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def python(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment with the wheel; other packages are the ones at hand."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, symlinks=True)
    found = folder / "bin" / "python"
    (wheel,) = packages.glob("*.whl")
    pip(found, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    (here,) = folder.glob("lib/python3.*/site-packages")
    at_hand = {str(Path(pytest.__file__).parents[1]), *(one for one in sys.path if one.endswith("site-packages"))}
    (here / "at_hand.pth").write_text("\n".join(sorted(at_hand)), encoding="utf-8")
    return found


def pip(python: Path, *words: str) -> None:
    """Runs this environment's pip in another."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=python.parent)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def folder(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, empty before, of a tune by the wheel."""
    folder = tmp_path_factory.mktemp("empty")
    said = run(python, folder, "tune", "--dataset", GRAPH, "--budget", "3", "--out", "runs/mine", "--quiet", "--json")
    assert json.loads(said)["probes"] == 3
    return folder


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(python: Path, folder: Path, *words: str) -> str:
    """Runs the command that the wheel installed, and returns its stdout."""
    command = [str(python.with_name("a3gnn")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_source_package_and_the_checkout_make_the_same_wheel(packages: Path, tmp_path: Path) -> None:
    (wheel,) = packages.glob("*.whl")  # build makes it from the source package
    assert wheel.name == f"a3gnn-{__version__}-py3-none-any.whl"
    build(ROOT, tmp_path, "--wheel")
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_environment_is_whole(python: Path, tmp_path: Path) -> None:
    pip(python, "check")
    where = "import a3gnn, a3gnn_envs, a3gnn_surrogate as s; print(a3gnn.__file__, a3gnn_envs.__file__, s.__file__)"
    call = [python, "-c", where]
    said = subprocess.check_output(call, text=True, cwd=tmp_path, env=environment()).split()
    assert [Path(one).is_relative_to(python.parents[1]) for one in said] == [True] * 3, said


def test_its_commands_work_in_an_empty_folder(python: Path, folder: Path) -> None:
    assert run(python, folder, "--version").strip().endswith(__version__)
    recommended = json.loads(run(python, folder, "recommend", "--dataset", GRAPH, "--quiet", "--json"))
    assert recommended["corpus"]["measurements"] > 800  # the shipped ones
    trained = json.loads(run(python, folder, "train", "runs/mine", "--out", "runs/trained", "--quiet", "--json"))
    assert trained["val_accuracy"] > 0.25  # a guess
    assert (folder / "runs" / "trained" / "model.pt").is_file()
    run(python, folder, "report", "runs/mine")
    assert (folder / "runs" / "mine" / "report.html").stat().st_size > 100_000


@contextmanager
def serving(python: Path, folder: Path) -> Iterator[str]:
    """Runs the wheel's service on a free port, and yields its address."""
    command = [str(python.with_name("a3gnn")), "serve", "--port", "0", "--folder", "service"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment()) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found is not None, line + process.stderr.read()
            yield found[0].rstrip("/")
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait(60)


def test_it_serves_pages_and_answers(python: Path, folder: Path) -> None:
    with serving(python, folder) as address:
        for path in ("/livez", "/readyz", "/", "/openapi.json"):
            with urllib.request.urlopen(address + path, timeout=60) as answer:
                assert answer.status == 200, path
                content = answer.read()
        assert json.loads(content)["info"]["version"] == __version__


def test_a_notebook_runs(python: Path, folder: Path) -> None:
    for package in ("nbconvert", "ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(package, reason="the extra notebook is not installed")
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    name = shutil.copy(ROOT / "notebooks" / "01_pareto_front.ipynb", notebooks)
    command = [str(python), "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", str(name)]
    env = environment() | {"A3GNN_RUN": "../runs/mine"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=notebooks, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert Path(name).read_text(encoding="utf-8").count("image/png") >= 1
