"""Where compiled kernels are kept, and the errors where there is no place for them, or where nothing is compiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import a3gnn
from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import expanded
from a3gnn.process.worker import Worker
from a3gnn.storage.atomic import write_text
from a3gnn.storage.compiled import KERNELS
from a3gnn.storage.kernel_folder import KERNEL_FOLDER, UNUSED_SECONDS

ROOT = Path(a3gnn.__file__).parents[1]
CODE = """
import sys, numpy as np
from a3gnn.storage.compiled import njit
import numba
from kernel import doubled
assert doubled(np.ones(3))[0] == 2
print(numba.config.CACHE_DIR)
print(doubled.stats.cache_path)
print(len(doubled.stats.cache_hits))
"""
KERNEL = """
from a3gnn.storage.compiled import njit

@njit(cache=True)
def doubled(x):
    return x * 2
"""
#: Three files: a compiled function, what it calls, and a constant.
OUTER = """
from a3gnn.inner import step
from a3gnn.storage.compiled import njit

@njit(cache=True)
def twice(x):
    return step(step(x))
"""
INNER = """
from a3gnn.amount import (
    AMOUNT,
)
from a3gnn.storage.compiled import njit

@njit(cache=True)
def step(x):
    return x + AMOUNT
"""
CALL = """
from a3gnn.outer import twice
from a3gnn.storage.compiled import KERNELS
print(twice(100))
print(KERNELS)
print(len(twice.stats.cache_hits))
"""
#: Samples three in-neighbors of node 0, which has nodes 1 to 40.
SAMPLE = """
import numpy as np
import a3gnn
from a3gnn.graphs.edges import Edges
from a3gnn.sampling.sampler import Sampler
indptr = np.array([0, *[40] * 41], dtype=np.int64)
sampler = Sampler(Edges(indptr, np.arange(1, 41, dtype=np.int32)), (3,), seed=0)
print(*sampler.sample(np.zeros(1, dtype=np.int32), 0, 0).n_id, a3gnn.__file__)
"""
#: Has numba compile something, which takes seconds the first time, and then runs code in forks: each line of stdin has
#: the arguments of `forked`.
SERVER = """
import atexit, json, os, sys, traceback
import numba, numpy
numba.njit(lambda x: x * 2)(numpy.ones(3))

def forked(code, path, cwd, env, out):
    status = 1
    for number, place in ((0, os.devnull), (1, out + ".out"), (2, out + ".err")):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ |= env
    sys.path.insert(0, path)
    try:
        exec(code, {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        forked(**json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
#: Variables that decide what importing numba does.
IMPORTS_DIFFER = ("NUMBA_", "OMP_", "PYTHON", "TMPDIR")
Server = subprocess.Popen[str]


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SERVER], env=_kept(), **pipes) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


class Installation:
    """A copy of the package that may be read-only: what kernels need of it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.home = folder / "site", folder / "home"
        self._server, self._runs = server, 0
        shutil.copytree(Path(a3gnn.__file__).parent / "storage", self.folder / "a3gnn" / "storage")
        for path in Path(a3gnn.__file__).parent.glob("*.py"):
            shutil.copy(path, self.folder / "a3gnn")
        (self.folder / "kernel.py").write_text(KERNEL)
        for name, text in (("outer", OUTER), ("inner", INNER), ("amount", "AMOUNT = 1\n")):
            (self.folder / "a3gnn" / f"{name}.py").write_text(text)
        self.home.mkdir()
        self.writable = False

    def run(self, code: str = CODE, *, anew: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs code whose `os.access` takes the installation for read-only, since root may write everywhere.

        Numba was imported before, unless it is to be run `anew` or a variable decides what that does.
        """
        fixed = (
            "import os; real = os.access\n"
            f"os.access = lambda path, mode: {self.writable!r} if str(path).startswith({str(self.folder)!r}) "
            "else real(path, mode)\n"
        )
        environment = {**_kept(), "PYTHONPATH": str(self.folder), "HOME": str(self.home), **variables}
        if not anew and not any(name.startswith(IMPORTS_DIFFER) for name in variables):
            return self._forked(fixed + code, environment)
        return subprocess.run(
            [sys.executable, "-c", fixed + code],
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _forked(self, code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        self._runs += 1
        out = f"{self.folder}-{self._runs}"
        order = {"code": code, "path": str(self.folder), "cwd": str(self.home), "env": environment, "out": out}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(order), file=self._server.stdin, flush=True)
        status = int(self._server.stdout.readline())
        printed = (Path(f"{out}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(code, status, *printed)


@pytest.fixture
def installation(tmp_path: Path, server: Server) -> Installation:
    return Installation(tmp_path, server)


def test_beside_the_sources_where_these_can_be_written(installation: Installation) -> None:
    installation.writable = True
    where, place, _ = installation.run(anew=True).stdout.splitlines()
    assert (where, str(Path(place).parent)) == ("", str(installation.folder / "a3gnn" / "__pycache__"))
    assert KERNEL_FOLDER.fullmatch(Path(place).name)


def test_below_the_cache_folder_where_not(installation: Installation, tmp_path: Path) -> None:
    for variables, root in (
        ({"A3GNN_CACHE": str(tmp_path / "own")}, tmp_path / "own"),
        ({"XDG_CACHE_HOME": str(tmp_path / "xdg")}, tmp_path / "xdg" / "a3gnn"),
        ({}, installation.home / ".cache" / "a3gnn"),
    ):
        for hits in ("0", "1"):  # the second process loads what the first has compiled
            ran = installation.run(anew=hits == "0", **variables)
            where, place, loaded = ran.stdout.splitlines()
            assert where == str(root / "kernels")
            assert place.startswith(where)
            assert (loaded, ran.stderr) == (hits, "")


def test_what_the_user_has_chosen_stays(installation: Installation, tmp_path: Path) -> None:
    ran = installation.run(NUMBA_CACHE_DIR=str(tmp_path / "mine"), A3GNN_CACHE=str(tmp_path / "own"))
    assert ran.stdout.splitlines()[0] == str(tmp_path / "mine")
    assert not (tmp_path / "own").exists()
    place = Path(ran.stdout.splitlines()[1])
    assert place.parent == tmp_path / "mine"
    assert KERNEL_FOLDER.fullmatch(place.name)


def test_where_the_user_has_chosen_a_folder_that_can_not_be_written_it_is_the_cache_folder(
    installation: Installation, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    chosen = tmp_path / "file" / "mine"
    ran = installation.run(
        CODE + "import os; print(os.environ['NUMBA_CACHE_DIR'])",
        NUMBA_CACHE_DIR=str(chosen),
        A3GNN_CACHE=str(tmp_path / "own"),
    )
    where, place, _, of_children = ran.stdout.splitlines()
    assert where == of_children == str(chosen)  # functions of the user's stay where the user wants them
    assert Path(place).parent == tmp_path / "own" / "kernels"
    assert "NUMBA_CACHE_DIR must name a folder in which " in ran.stderr
    assert f" can be written, got {chosen}; " in ran.stderr


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    "place",
    [
        "the cache folder",
        *(pytest.param(one, marks=pytest.mark.weekly) for one in ("beside the sources", "the user's folder")),
    ],
)
def test_an_edit_of_what_a_kernel_calls_is_seen(installation: Installation, tmp_path: Path, place: str) -> None:
    package = installation.folder / "a3gnn"
    installation.writable = place == "beside the sources"
    variables = {"A3GNN_CACHE": str(tmp_path / "own")}
    if place == "the user's folder":
        variables["NUMBA_CACHE_DIR"] = str(tmp_path / "mine")

    def called() -> list[str]:
        return installation.run(CALL, **variables).stdout.splitlines()

    (first, folder, hits), again = called(), called()
    assert (first, hits, again) == ("102", "0", ["102", folder, "1"])
    _edit(package / "inner.py", "x + AMOUNT", "x + 10 * AMOUNT")
    assert called()[::2] == ["120", "0"]
    _edit(package / "amount.py", "AMOUNT = 1", "AMOUNT = 200")  # which is not compiled itself
    assert called()[::2] == ["4100", "0"]
    _edit(package / "outer.py", "step(step(x))", "step(x)")
    assert called()[::2] == ["2100", "0"]
    (package / "errors.py").write_text((package / "errors.py").read_text() + "\n# which no kernel needs\n")
    assert called()[::2] == ["2100", "1"]
    _edit(package / "inner.py", "x + 10 * AMOUNT", "x + AMOUNT")
    _edit(package / "amount.py", "AMOUNT = 200", "AMOUNT = 1")
    _edit(package / "outer.py", "step(x)", "step(step(x))")
    assert called() == ["102", folder, "1"]  # kept from before, for a look at another branch


def test_what_is_compiled_while_sources_change_is_not_kept(installation: Installation) -> None:
    installation.writable = True
    inner = installation.folder / "a3gnn" / "inner.py"
    edit = f"open({str(inner)!r}, 'a').write('# edited')\n"
    _, folder, _ = installation.run("from a3gnn.outer import twice\n" + edit + CALL).stdout.splitlines()
    assert list(Path(folder).glob("*.nb*")) == []
    inner.write_text(INNER)
    assert installation.run(CALL).stdout.splitlines() == ["102", folder, "0"]
    assert len(list(Path(folder).glob("*.nbc"))) == 2


def test_an_edit_after_the_start_is_neither_missed_nor_kept(installation: Installation) -> None:
    installation.writable = True
    package = installation.folder / "a3gnn"

    def replaced(name: str, old: str, new: str) -> str:
        edited = f"p = Path({str(package / name)!r}); p.write_text(p.read_text().replace({old!r}, {new!r}))\n"
        return edited + "os.utime(p, (p.stat().st_mtime + 2,) * 2)\n"  # bytecode is told apart by whole seconds

    begun = "from pathlib import Path\nimport a3gnn.storage.compiled\n"
    assert installation.run(CALL).stdout.splitlines()[0] == "102"  # kept from here on
    edit = replaced("inner.py", "x + AMOUNT", "x + 50 * AMOUNT")
    assert installation.run(begun + edit + CALL).stdout.splitlines()[0] == "200"
    _edit(package / "inner.py", "x + 50 * AMOUNT", "x + AMOUNT")
    there, back = replaced("amount.py", "= 1", "= 7"), replaced("amount.py", "= 7", "= 1")
    loaded = begun + there + "from a3gnn.outer import twice\n" + back
    assert installation.run(loaded + CALL).stdout.splitlines()[0] == "114"
    assert installation.run(CALL).stdout.splitlines()[0] == "102"


def test_what_else_decides_machine_code_names_the_folder_too(installation: Installation) -> None:
    installation.writable = True
    code = "from a3gnn.storage.compiled import KERNELS; print(KERNELS)"
    variables: list[dict[str, str]] = [{}, {"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_OPT": "1"}, {"PYTHONOPTIMIZE": "1"}]
    assert len({installation.run(code, **one).stdout for one in variables}) == len(variables)
    same: list[dict[str, str]] = [{}, {"NUMBA_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "1"}]
    assert len({installation.run(code, **one).stdout for one in same}) == 1


def test_functions_of_the_user_stay_where_numba_keeps_them(installation: Installation) -> None:
    installation.writable = True
    (installation.folder / "kernel.py").write_text(KERNEL.replace("a3gnn.storage.compiled", "numba"))
    _, place, _ = installation.run().stdout.splitlines()
    assert place == str(installation.folder / "__pycache__")


def test_a_start_removes_what_was_unused_for_a_week(installation: Installation) -> None:
    installation.writable = True
    _, folder, _ = installation.run(CALL).stdout.splitlines()
    lock = Path(folder) / "in-use.lock"
    os.utime(lock, (lock.stat().st_mtime - UNUSED_SECONDS,) * 2)
    _edit(installation.folder / "a3gnn" / "inner.py", "x + AMOUNT", "x + 10 * AMOUNT")
    _, other, _ = installation.run(CALL).stdout.splitlines()
    assert sorted(Path(folder).parent.glob("a3gnn-*")) == [Path(other)]


def test_processes_of_one_start_have_one_folder(worker: Worker, chores: Path) -> None:
    (chores / "kernels_place.py").write_text(
        "from a3gnn.storage.compiled import KERNELS\ndef place(argument=None):\n    return {'folder': str(KERNELS)}\n",
        encoding="utf-8",
    )
    spawn = "from multiprocessing import get_context as get\nfrom kernels_place import place\n"
    code = f"{spawn}print(get('spawn').Pool(1).apply(place)['folder'], place()['folder'])"
    path = os.pathsep.join([str(chores), *sys.path])
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True, timeout=120
    )
    trial = worker.run("kernels_place:place", {}).result
    assert trial == {"folder": str(KERNELS)}
    assert set(ran.stdout.split()) == {str(KERNELS)}


@pytest.mark.weekly
def test_an_edit_of_how_neighbors_are_picked_is_seen_by_the_sampler(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "a3gnn", tmp_path / "a3gnn", ignore=shutil.ignore_patterns("__pycache__"))

    def sampled() -> list[int]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        ran = subprocess.run(
            [sys.executable, "-c", SAMPLE],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        *nodes, where = ran.stdout.split()
        assert where.startswith(str(tmp_path))
        return [int(node) for node in nodes]

    drawn = sampled()
    assert drawn == sampled()
    assert set(drawn) != {0, 1, 2, 3}
    _edit(
        tmp_path / "a3gnn" / "sampling" / "sample_kernels.py",
        "picks[i] = low + pick\n            prefetch",
        ("picks[i] = low + i - first\n            prefetch"),
    )
    assert set(sampled()) == {0, 1, 2, 3}


def test_in_a_temporary_folder_where_nothing_else_can_be_written(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    ran = installation.run(
        CODE + "import os, subprocess; print(os.path.isdir(numba.config.CACHE_DIR))\n"
        "print(subprocess.check_output([sys.executable, '-c', 'import os; print(os.environ[\"NUMBA_CACHE_DIR\"])'])"
        ".decode().strip())",
        A3GNN_CACHE=str(tmp_path / "file" / "cache"),
        TMPDIR=str(tmp_path / "temporary"),
    )
    where, place, _, there, of_children = ran.stdout.splitlines()
    assert Path(where).parent == tmp_path / "temporary"
    assert (there, of_children) == ("True", where)
    assert place.startswith(where)
    assert not Path(where).exists()  # it ended with the process
    assert "RuntimeWarning: the package and the cache folder can't be written" in ran.stderr
    assert "set A3GNN_CACHE to a writable folder" in ran.stderr


def test_numba_that_was_imported_before_is_told(installation: Installation, tmp_path: Path) -> None:
    ran = installation.run("import numba\n" + CODE, anew=True, A3GNN_CACHE=str(tmp_path / "own"))
    assert ran.stdout.splitlines()[0] == str(tmp_path / "own" / "kernels")


def test_a_user_without_a_home_has_to_name_the_cache_folder(installation: Installation) -> None:
    code = (
        "import pathlib, a3gnn.storage.cache as root\n"
        "def none(): raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = none\n"
        "try: print(root.cache_root())\n"
        "except root.A3GNNError as error: print(error)"
    )
    assert "has none, and HOME is not set; set A3GNN_CACHE to a writable folder" in (installation.run(code).stdout)
    assert installation.run(code, A3GNN_CACHE="/there").stdout == "/there\n"


def test_a_path_in_a_home_that_is_not_known_is_refused() -> None:
    with pytest.raises(A3GNNError, match=r"the home folder in ~nobody-of-that-name/g.npz is unknown .*full path"):
        expanded("~nobody-of-that-name/g.npz")


def test_what_can_not_be_written_in_the_cache_folder_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "file" / "cache"))
    remedy = "the cache folder can't be written; set A3GNN_CACHE to a writable folder"
    with pytest.raises(NotADirectoryError, match=remedy):
        write_text(tmp_path / "file" / "cache" / "hardware" / "a.json", "{}")
    with pytest.raises(GraphError, match=remedy):
        Graph.load("synthetic:nodes=300").on_disk()
    with pytest.raises(NotADirectoryError) as elsewhere:
        write_text(tmp_path / "file" / "other" / "a.json", "{}")
    assert "A3GNN_CACHE" not in str(elsewhere.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--model", "sage", "--dataset", "synthetic:nodes=300", "--out", "o"],
        ["graph", "convert", "synthetic:nodes=300", "folder"],
        *(
            pytest.param(arguments, marks=pytest.mark.weekly)
            for arguments in (
                ["tune", "--dataset", "synthetic:nodes=300", "--out", "o"],
                ["recommend", "--dataset", "synthetic:nodes=300"],
                ["profile", "--dataset", "synthetic:nodes=300", "--configs", "1"],
                ["predict", ".", "--dataset", "synthetic:nodes=300", "--out", "o.npy"],
                ["parts", "make", "synthetic:nodes=300", "folder", "--num-parts", "2"],
                ["explore", "--platform", "u250", "--dataset", "synthetic:nodes=300"],
            )
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_kernels_that_are_not_compiled_are_refused_by_every_command(arguments: list[str], tmp_path: Path) -> None:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "surrogate", "envs"))
    ran = subprocess.run(
        [sys.executable, "-m", "a3gnn", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 2
    assert "NUMBA_DISABLE_JIT must be 0 or unset" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_so_does_the_loader(tmp_path: Path) -> None:
    code = (
        "import a3gnn\ntry: a3gnn.Loader\n"
        "except a3gnn.errors.UsageError as error: print(error)\n"
        "print(a3gnn.Task().model)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", "import a3gnn.errors\n" + code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    said, model = ran.stdout.splitlines()
    assert said.startswith("NUMBA_DISABLE_JIT must be 0 or unset")
    assert model == "sage"
