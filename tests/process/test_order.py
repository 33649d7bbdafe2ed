"""Programs that carry out an order, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from a3gnn.process.child import start_program

PROGRAM = """
import os, time
from a3gnn.process.child import interrupt_by_sigterm, take_order, take_stdout
interrupt_by_sigterm()
order = take_order()
if order is not None:
    stdout = take_stdout()
    print("of a library")
    try:
        os.write(stdout, str(order["text"]).encode())
        time.sleep(order.get("seconds", 0))
    except KeyboardInterrupt as interrupt:
        os.write(stdout, str(interrupt).encode())
"""


def answer(process: subprocess.Popen[bytes]) -> bytes:
    """What it answers until it ends."""
    assert process.stdout is not None
    with process.stdout as stdout:
        found = stdout.read()
    process.wait(timeout=30)
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "carries_out.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    return "carries_out"


def test_an_order_is_carried_out_and_what_libraries_print_is_no_answer(program: str, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = start_program(program, {"text": "done"}, log)
    assert answer(process) == b"done"
    assert (tmp_path / "log").read_text() == "of a library\n"


def test_the_order_of_a_parent_that_has_ended_is_not_carried_out(program: str) -> None:
    process = start_program(program, {"text": "done", "parent": os.getppid()})
    assert answer(process) == b""
    assert process.returncode == 0


def test_sigterm_interrupts_and_an_interrupt_from_the_keyboard_does_not(program: str) -> None:
    process = start_program(program, {"text": "!", "seconds": 60})
    assert process.stdout is not None
    assert process.stdout.read(1) == b"!"
    process.send_signal(signal.SIGINT)
    process.terminate()
    assert answer(process) == b"by signal 15"


def test_a_program_that_ends_at_once_is_no_error(program: str, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("")
    process = start_program("ends", {"text": "x" * (1 << 20)})  # more than a pipe holds
    assert answer(process) == b""
    assert process.returncode == 0
