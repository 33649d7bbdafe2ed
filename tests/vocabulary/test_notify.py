import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.notify import Message, detail, listener, shown, waiting

_IN_A_SHELL = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell("from a3gnn.notify import listener; listener(None)('trial 1 (best)')")
shell.run_cell("lines = []; listener(lines.append)('not printed')")
"""


def test_whoever_asks_is_told() -> None:
    lines: list[str] = []
    listener(lines.append)("a line")
    assert lines == ["a line"]
    with pytest.raises(UsageError, match="notify must take a line of text, got 3; lambda line: None prints nothing"):
        listener(3)  # type: ignore[arg-type]


def test_a_script_prints_lines_to_stderr_without_details(capsys: pytest.CaptureFixture[str]) -> None:
    say = listener(None)
    say("a line")
    say(detail("a detail"))
    say(Message("a trial", more="its figures"))
    say(Message(event=3))
    assert capsys.readouterr() == ("", "a line\na trial\n")


def test_verbose_shows_everything_but_events() -> None:
    lines = ["a line", detail("a detail"), Message("a trial", more="its figures"), Message(event=3)]
    assert [shown(line, verbose=True) for line in lines] == ["a line", "a detail", "a trial\nits figures", ""]
    assert [shown(line) for line in lines] == ["a line", "", "a trial", ""]


def test_ipython_prints_each_line(tmp_path: Path) -> None:
    pytest.importorskip("IPython", reason="the extra notebook is not installed")
    environment = os.environ | {"IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", _IN_A_SHELL]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert run.stdout == "trial 1 (best)\n"


def test_who_waits_for_long_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    told = threading.Event()

    def notify(line: str) -> None:
        lines.append(line)
        told.set()

    with waiting(notify, "never said"):
        pass
    monkeypatch.setattr("a3gnn.notify.PATIENCE_S", 0.0)
    with waiting(notify, "waiting for a model"):
        assert told.wait(60)
    assert lines == ["waiting for a model"]
