"""The folder of compiled kernels: which files name it, and when it is removed."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import pytest
from numba.core.dispatcher import Dispatcher

import a3gnn
from a3gnn.storage.kernel_folder import UNUSED_SECONDS, folder_name, hold, in_use, kernel_sources, remove_unused

PACKAGE = Path(a3gnn.__file__).parent
OURS = f"a3gnn-{'0f' * 16}"
HOLD = """
import sys
from pathlib import Path
from a3gnn.storage.kernel_folder import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
#: In each round one process removes an old folder while another begins to use it.
RACE = """
import os, sys, time
from pathlib import Path
from a3gnn.storage.kernel_folder import hold, in_use, remove_unused
folder = Path(sys.argv[1]) / sys.argv[2]
for _ in range(200):
    folder.mkdir(exist_ok=True)
    (folder / "in-use.lock").touch()
    os.utime(folder / "in-use.lock", (0, 0))
    remover = os.fork()
    if remover == 0:
        for _ in range(3):
            remove_unused(folder.parent)
        os._exit(0)
    user = os.fork()
    if user == 0:
        hold(folder)
        (folder / "kernel.nbi").touch()
        time.sleep(0.002)
        remove_unused(folder.parent)
        os._exit(0 if (folder / "kernel.nbi").exists() and in_use(folder) else 1)
    os.waitpid(remover, 0)
    if os.waitpid(user, 0)[1]:
        sys.exit("a folder was removed from a process that used it")
"""


def age(path: Path, seconds: float) -> None:
    """Has `path` be last changed so many seconds ago."""
    at = time.time() - seconds
    os.utime(path, (at, at))


def compiled_folder(parent: Path, name: str = OURS, unused: float = UNUSED_SECONDS + 60) -> Path:
    """A folder of kernels in `parent` that was last used `unused` seconds ago."""
    (parent / name).mkdir(parents=True)
    for file in ("kernel.nbi", "in-use.lock"):
        (parent / name / file).touch()
    age(parent / name / "in-use.lock", unused)
    return parent / name


@pytest.fixture
def start() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Starts a process that holds a folder until it is told to end."""
    started = []

    def start(folder: Path) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=pipe, stdout=pipe, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _modules() -> list[str]:
    """The paths of ours that define compiled functions, as `kernel_sources` writes them."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    words = ("compiled import njit", "numba.extending")
    return [path.relative_to(PACKAGE).as_posix() for path, text in texts.items() if any(one in text for one in words)]


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _file_of(module: str) -> str:
    return Path(str(sys.modules[module].__file__)).relative_to(PACKAGE).as_posix()


def test_all_that_kernels_use_of_other_files_is_among_the_sources() -> None:
    sources, kernels = kernel_sources(PACKAGE), 0
    for path in _modules():
        assert path in sources
        module = importlib.import_module("a3gnn." + path.removesuffix(".py").replace("/", "."))
        tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        origin = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
        for kernel in [value for value in vars(module).values() if isinstance(value, Dispatcher)]:
            used = [origin[name] for name in _names(kernel.py_func.__code__) if name in origin]
            kernels += 1
            assert {_file_of(name) for name in used if name and name.startswith("a3gnn.")} <= set(sources)
    assert kernels > 100
    assert "apply/train.py" not in sources  # an edit of which compiles nothing again


def test_the_name_is_of_every_source_and_version(tmp_path: Path) -> None:
    package = tmp_path / "a3gnn"
    files = {
        "storage/compiled.py": "njit = None",
        "kernels.py": "from a3gnn.storage.compiled import njit\nfrom a3gnn.room import (\n    called,\n)\n",
        "room/called.py": "    from a3gnn.room.constants import N, M as L\nimport a3gnn.room.other\nimport numpy\n",
        "room/constants.py": "N = 1\n",
        "room/other.py": "# other\n",
        "room/__init__.py": "# a room\n",
        "train.py": "import a3gnn.kernels\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (package / ".#kernels.py").symlink_to("nowhere")  # an editor's
    sources = kernel_sources(package)
    assert sources == sorted(files.keys() - {"train.py"})
    names = [folder_name(package, sources, ["1", "2"]), folder_name(package, sources, ["12", ""])]
    for path in sources:
        (package / path).write_text(files[path] + "#")
        names.append(folder_name(package, sources, ["1", "2"]))
        (package / path).unlink()
        names.append(folder_name(package, sources, ["1", "2"]))
        (package / path).write_text(files[path])
    assert folder_name(package, sources, ["1", "2"]) == names[0]
    assert len(set(names)) == len(names)


def test_only_our_folders_go_and_only_those_that_are_unused(
    tmp_path: Path, start: Callable[[Path], subprocess.Popen[str]]
) -> None:
    parent, elsewhere = tmp_path / "kernels", compiled_folder(tmp_path / "elsewhere")
    gone = [compiled_folder(parent), compiled_folder(parent, f"{OURS}.removed", unused=0)]
    kept = [
        compiled_folder(parent, f"a3gnn-{'1f' * 16}", unused=UNUSED_SECONDS - 60),
        compiled_folder(parent, f"sampling_{'0f' * 20}"),
        compiled_folder(parent, "a3gnn-notes"),
        parent / f"a3gnn-{'2f' * 16}",
        parent / f"a3gnn-{'3f' * 16}",
    ]
    kept[-2].symlink_to(elsewhere)
    kept[-1].touch()
    held = compiled_folder(parent, f"a3gnn-{'4f' * 16}")
    process = start(held)
    age(held / "in-use.lock", UNUSED_SECONDS + 60)
    bare = parent / f"a3gnn-{'5f' * 16}"  # whose maker died before it had a lock
    bare.mkdir()
    age(bare, UNUSED_SECONDS + 60)
    remove_unused(parent)
    assert sorted(parent.iterdir()) == sorted([*kept, held])
    assert sorted(path.name for path in elsewhere.iterdir()) == ["in-use.lock", "kernel.nbi"]
    assert not any(path.exists() for path in gone)
    process.kill()
    process.wait()
    remove_unused(parent)
    assert sorted(parent.iterdir()) == sorted(kept)


def test_use_is_noted_once_an_hour(tmp_path: Path) -> None:
    lock = compiled_folder(tmp_path, unused=1800) / "in-use.lock"
    half_an_hour_ago = lock.stat().st_mtime
    hold(lock.parent)
    assert lock.stat().st_mtime == half_an_hour_ago
    age(lock, 7200)
    hold(lock.parent)
    assert time.time() - lock.stat().st_mtime < 1800


def test_a_folder_that_was_emptied_by_hand_is_made_and_held_again(tmp_path: Path) -> None:
    folder = compiled_folder(tmp_path)
    hold(folder)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert not in_use(folder)
    hold(folder)
    assert in_use(folder)
    age(folder / "in-use.lock", UNUSED_SECONDS + 60)
    remove_unused(tmp_path)
    assert folder.exists()


def test_a_parent_that_is_no_folder_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_unused(tmp_path / "file")
    remove_unused(tmp_path / "nowhere")
    with pytest.raises(OSError, match="Not a directory"):
        hold(tmp_path / "file" / OURS)


def test_no_process_loses_a_folder_that_it_has_begun_to_use(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path), OURS], stderr=subprocess.PIPE, text=True, check=False, timeout=120
    )
    assert (ran.returncode, ran.stderr) == (0, "")


FORK = """
import os, signal, sys, time
from pathlib import Path
from a3gnn.storage.kernel_folder import adding
with adding(Path(sys.argv[1])):
    child = os.fork()
    if not child:
        time.sleep(600)
with adding(Path(sys.argv[1])):
    print("added")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


def test_a_child_that_is_forked_while_a_kernel_is_added_keeps_nobody_waiting(tmp_path: Path) -> None:
    run = [sys.executable, "-c", FORK, str(tmp_path / OURS)]
    ended = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "added\n"
