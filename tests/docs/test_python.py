"""The Python that the docs show runs: each page's blocks as one script."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.listed_python import FILE, GIVEN, NOT_RUN, SUBSTITUTIONS
from tests.docs.pages import PAGES, shown
from tests.docs.running import run, server_if_asked, substituted

BLOCKS = [block for page in PAGES for block in shown(page, "python")]
#: The page whose block is a module: `folder` has it, and the page's commands import it.
MODULE = "docs/howto/own_models.md"
#: Pages that are run for every change.
FIRST = ("README.md",)
#: Pages that tune, or ask a server that tunes: a process of their own does, whose trials are quick (`a3gnn.launch`).
TUNE = ("README.md", "docs/howto/own_loop.md", "docs/howto/python.md", "docs/howto/search.md", "docs/howto/service.md")


def left_out(text: str) -> bool:
    return any(line in text for line in NOT_RUN)


def test_every_page_with_python_is_listed() -> None:
    pages = {block.page for block in BLOCKS if not left_out(block.text)}
    assert set(GIVEN) == pages
    assert all(any(line in block.text for block in BLOCKS) for line in NOT_RUN)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{block.page}-{at}" for at, block in enumerate(BLOCKS)])
def test_what_it_imports_is_there(block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        is_shown = isinstance(node, ast.ImportFrom) and f"# {node.module}.py\n" in "".join(one.text for one in BLOCKS)
        if isinstance(node, ast.ImportFrom) and not left_out(block.text) and not is_shown:
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in FIRST else pytest.mark.weekly)
        for page in GIVEN
        if page != MODULE
    ],
)
def test_a_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [substituted(block.text, SUBSTITUTIONS) for block in shown(page, "python") if not left_out(block.text)]
    for block, named in ((block, FILE.match(block)) for block in blocks):
        if named:
            (folder / named[1]).write_text(block, encoding="utf-8")
    script = "\n".join([GIVEN[page], *(block for block in blocks if not FILE.match(block))])
    for place in re.findall(r'out="(runs/\w+)"', script):  # made by the page
        shutil.rmtree(folder / place, ignore_errors=True)
    with server_if_asked(script, folder) as asking:
        (folder / "page.py").write_text(asking, encoding="utf-8")
        if page in TUNE:
            run("page.py", folder, program=(sys.executable,))
        else:
            monkeypatch.chdir(folder)
            runpy.run_path("page.py", run_name="__main__")
