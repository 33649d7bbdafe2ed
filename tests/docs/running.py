"""Runs what the docs show: scripts in a folder that is also the home, beside a server if one is asked."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.docs.pages import ROOT
from tests.service.servers import serving

#: The server's address in the docs.
SERVER = "http://127.0.0.1:8642"
#: What is put in the place of what a page shows: patterns, each with its text.
Substitutions = Sequence[tuple[re.Pattern[str], str]]


def substituted(text: str, substitutions: Substitutions) -> str:
    """Returns what a page shows as the tests run it."""
    for pattern, other in substitutions:
        text = pattern.sub(other, text)
    return text


def run(script: str, folder: Path, *, program: tuple[str, ...] = ("bash", "-euo", "pipefail", "-c")) -> str:
    """Returns the output of a script in a folder that is also the home; bash ends it with any command's error."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("a3gnn", "-m a3gnn"), ("python", ""), ("torchrun", "-m torch.distributed.run")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    sources = os.pathsep.join(map(str, (ROOT, ROOT / "surrogate", ROOT / "envs")))
    environment = os.environ | {
        "HOME": str(folder),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": sources,
        "ROOT": str(ROOT),
    }
    done = subprocess.run(
        [*program, script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{script}\nexited with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@contextlib.contextmanager
def server_if_asked(script: str, folder: Path) -> Iterator[str]:
    """Yields the script with the address of a server over the graphs in ~/graphs, if it asks one."""
    if SERVER not in script:
        yield script
        return
    with serving(folder / "service", "--data-root", str(folder / "graphs")) as started:
        yield script.replace(SERVER, started.url)
