"""Folders that one run at a time writes: real processes, real locks."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from a3gnn.errors import A3GNNError, ExitCode, UsageError
from a3gnn.storage import claim
from a3gnn.storage.claim import claimed, claimed_next, claimed_whole, is_vacant, reserved_next

HOLD = """
import sys
from pathlib import Path
from a3gnn.storage.claim import claimed
with claimed(Path(sys.argv[1]), print) as folder:
    (folder / "first").touch()
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_PATIENCE_S", 0.1)


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed `folder` until it reads a line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_run_is_refused_with_the_process_that_writes_there_and_harms_nothing(tmp_path: Path) -> None:
    with holder(tmp_path / "run") as first:
        words = f"only one run at a time may write .*run, but another process runs there: process {first.pid} since"
        with pytest.raises(UsageError, match=words) as refused, claimed(tmp_path / "run"):
            raise AssertionError("another process has it")
        assert refused.value.exit_code == ExitCode.USAGE
        assert (tmp_path / "run" / "first").exists()
        with pytest.raises(UsageError, match=f"process {first.pid} since"), claimed(tmp_path / "run"):
            raise AssertionError("the first still has it")


def test_a_killed_run_has_released_its_folder(tmp_path: Path) -> None:
    with holder(tmp_path / "run") as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        with claimed(tmp_path / "run"):
            pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["first"]


def test_a_folder_that_a_killed_run_left_empty_is_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / claim.LOCK_NAME).touch()
    assert is_vacant(tmp_path)
    draft = tmp_path / ".tuned.json.a8xk3c_2"
    draft.mkdir()
    (draft / "tuned.json").touch()
    assert is_vacant(tmp_path)
    (draft / "thesis.tex").touch()
    assert not is_vacant(tmp_path)
    shutil.rmtree(draft)
    (tmp_path / "thesis.tex").touch()
    assert not is_vacant(tmp_path)
    assert not is_vacant(tmp_path / "thesis.tex")


def test_two_threads_of_one_process_are_two_runs(tmp_path: Path) -> None:
    this = f"process {os.getpid()} since"
    with claimed(tmp_path / "run") as run, pytest.raises(UsageError, match=this), claimed(run):
        raise AssertionError("it is claimed")


def test_what_was_made_and_stays_empty_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), claimed(tmp_path / "deep" / "run"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with claimed(tmp_path / "mine"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_forked_child_keeps_no_claim(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with claimed(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        with claimed(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_forked_child_that_ends_within_a_claim_closes_no_file_of_its_own(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = -1
    with suppress(SystemExit), claimed(tmp_path / "run"):
        child = os.fork()
        if child == 0:
            kept = [os.dup(write) for _ in range(8)]  # takes the number of the lock, which the fork has closed
            raise SystemExit
    if child == 0:
        for file in kept:
            try:
                os.fstat(file)
            except OSError:
                os.write(write, b"closed ")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 64) == b""
    os.close(read)


@pytest.mark.parametrize("what", ["a link to nowhere", "a file"])
def test_runs_that_is_no_folder_is_said(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if what == "a file":
        (tmp_path / "runs").write_text("")
    else:
        (tmp_path / "runs").symlink_to(tmp_path / "nowhere")
    with pytest.raises(A3GNNError, match=r"can't make the folder runs: File exists; run this in another folder"):
        reserved_next("graph")


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def begin(number: int) -> str:
        with claimed_next("a graph/of mine") as folder:
            (folder / str(number)).touch()
            return folder.name

    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(begin, range(24)))
    assert len(set(names)) == 24
    assert {"a-graph-of-mine", "a-graph-of-mine-2", "a-graph-of-mine-24"} <= set(names)
    assert reserved_next("a graph/of mine").name == "a-graph-of-mine-25"


def test_the_next_folder_is_removed_where_nothing_came_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError), claimed_next("graph"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_appears_whole_is_made_by_one_process_and_its_lock_is_gone_after(tmp_path: Path) -> None:
    with claimed_whole(tmp_path / "deep" / "file.npy") as path:
        path.write_bytes(b"1")
        with pytest.raises(UsageError, match=r"may write .*file\.npy"), claimed_whole(path):
            raise AssertionError("it is being made")
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["file.npy"]


def test_where_there_are_no_locks_a_line_says_so_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)  # no such file system can be mounted here
    lines: list[str] = []
    with claimed(tmp_path / "run", lines.append) as folder:
        assert folder.is_dir()
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {tmp_path / 'run'} has no file locks (No locks available); make sure")


def test_a_folder_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"can't make the folder .*choose another"), claimed(tmp_path / "file" / "run"):
        raise AssertionError("there is a file in its way")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / claim.LOCK_NAME).symlink_to(tmp_path / "file")
    with pytest.raises(A3GNNError, match="can't write to"), claimed(tmp_path / "run"):
        raise AssertionError("its lock is a link")
