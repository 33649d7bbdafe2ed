"""The commands that the docs show do what the docs say: each page's are run in a folder of their own, in order."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import a3gnn
from tests.docs.listed import COMMANDS, RUN, SHARED, SUBSTITUTIONS
from tests.docs.pages import shown
from tests.docs.running import run, server_if_asked, substituted

#: Pages whose commands are run as one script of a shell, as who reads them first types them, or for the shell's sake.
BY_SHELL = (
    "README.md",
    "docs/howto/command_line.md",
    "docs/howto/own_models.md",
    "docs/howto/service.md",
    "docs/start/tutorial.md",
)
#: What a newcomer types first: run for every change. `test_listed` parses the options of all others.
FIRST = "README.md"


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page == FIRST else pytest.mark.weekly) for page in BY_SHELL],
)
def test_a_page_by_a_shell(page: str, folder: Path) -> None:
    script = "\n".join(commands_of(page, folder))
    with server_if_asked(script, folder) as asking:
        run(asking, folder)


@pytest.mark.weekly
@pytest.mark.parametrize("page", [page for page in COMMANDS if RUN in COMMANDS[page].values() and page not in BY_SHELL])
def test_a_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    if page == "docs/howto/cache_folder.md":  # it empties one
        monkeypatch.setenv("A3GNN_CACHE", str(folder / "cache"))
    for command in commands_of(page, folder):
        call(command, folder)


def call(command: str, folder: Path) -> None:
    """Runs a command in this process, where it is one of a3gnn's that needs no other and no whole tune."""
    program, *words = shlex.split(command)
    if program != "a3gnn" or words[0] == "tune" or "--ranks" in words:
        run(command, folder)
        return
    ended = a3gnn(*words)
    assert ended.returncode == 0, f"{command}\nexited with {ended.returncode}\n{ended.stderr}"


def commands_of(page: str, folder: Path) -> list[str]:
    """Returns the commands of a page that are run, as they are run; the folders that they make are removed first."""
    made = SHARED if page == "README.md" else ()  # already run, for the folder
    told = [command for command, what in COMMANDS[page].items() if what == RUN and command not in made]
    commands = [command for block in shown(page, "bash") for command in block.commands if command in told]
    for place in new_folders(commands):
        shutil.rmtree(folder / place, ignore_errors=True)
    return [substituted(command, SUBSTITUTIONS) for command in commands]


def new_folders(commands: list[str]) -> Iterator[str]:
    """Yields the folders below runs/ that commands make, which must not be there before."""
    for command in commands:
        _, option, rest = command.partition("--out runs/")
        if option:
            yield f"runs/{rest.split()[0]}"


def test_an_error_of_any_command_is_found(tmp_path: Path) -> None:
    assert run("echo one\npython -c 'print(2)'", tmp_path) == "one\n2\n"
    with pytest.raises(AssertionError, match="exited with 3"):
        run("python -c 'raise SystemExit(3)' | cat\necho two", tmp_path)
