"""The commands that the docs show do what the docs say: each page's are run in a folder of their own, in order."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.listed import COMMANDS, RUN, SHARED, SUBSTITUTIONS
from tests.docs.pages import shown
from tests.docs.running import run, server_if_asked, substituted

#: What a page's script begins with: its own cache folder, where it empties one.
FIRST = {"docs/cache_folder.md": "export A3GNN_CACHE=$HOME/cache"}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, told in COMMANDS.items() if RUN in told.values()])
def test_a_page(page: str, folder: Path) -> None:
    made = SHARED if page == "README.md" else ()  # already run, for the folder
    told = [command for command, what in COMMANDS[page].items() if what == RUN and command not in made]
    commands = [command for block in shown(page, "bash") for command in block.commands if command in told]
    for place in new_folders(commands):
        shutil.rmtree(folder / place, ignore_errors=True)
    script = "\n".join([FIRST.get(page, ""), *(substituted(command, SUBSTITUTIONS) for command in commands)])
    with server_if_asked(script, folder) as asking:
        run(asking, folder)


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
