"""The code that the picker shows to copy runs as it is, in each language, and picks the same."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a3gnn.page.html import PICK, read_part
from a3gnn.service.client import RemoteStudy
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.pick import pick
from tests.service.conftest import idle, kept, npz  # noqa: F401
from tests.service.servers import Server

ROOT = Path(__file__).parents[2]
#: What is changed in the picker, by the names of Python's arguments.
CHANGES: list[dict[str, Any]] = [
    {},
    {"priority": "memory"},
    {"priority": "61,90,10", "memory_limit": "none", "max_accuracy_drop": 2.5},
    {"memory_limit": 900 << 20},
]
#: What the script reads of a page, for the program that runs it.
_PAGE = """
const BODY = %s, PICK_SNIPPETS = %s, changes = %s;
const dataset = BODY.live ? { live: BODY.live } : {};
const document = { body: { dataset }, querySelector: () => (BODY.token ? {} : null) };
const window = { location: { origin: BODY.origin } };
const byId = () => ({});
%s
const found = ((original) => { changesOf = () => changes; return codeOf({ folder: BODY.folder }, {}); })();
console.log(JSON.stringify(found));
"""


def rendered(page: dict[str, Any], changes: dict[str, Any]) -> dict[str, str]:
    """Returns the code of a pick, its parts made as a shell and Python take them.

    Args:
        page: Its `folder`; or `origin`, `live` and whether it has a `token`.
        changes: What was changed.
    """
    flags = {
        name: f"{value}B" if name == "memory_limit" and value != "none" else value for name, value in changes.items()
    }
    named = ", ".join(f"{name}={json.dumps(value)}" for name, value in changes.items())
    live = page.get("live", "")
    parts = {
        "place": shlex.quote(f"{page['origin']}{live}" if live else page["folder"]),
        "flags": "".join(
            f" --{'max-memory' if name == 'memory_limit' else name.replace('_', '-')} {value}"
            for name, value in flags.items()
        ),
        "folder": json.dumps(page.get("folder")),
        "arguments": named if live or not named else f", {named}",
        "origin": json.dumps(page.get("origin")),
        "number": live.split("/")[-1],
        "body": shlex.quote(json.dumps(changes, separators=(",", ":"))),
        "imports": "os, " if page.get("token") else "",
        "token": ', os.environ["A3GNN_TOKEN"]' if page.get("token") else "",
        "header": ' -H "Authorization: Bearer $A3GNN_TOKEN"' if page.get("token") else "",
    }
    return {language: text.format(**parts) for language, text in PICK["live" if live else "file"].items()}


def run(language: str, code: str, folder: Path) -> str:
    """Runs `code` in `folder`, as a reader does who has pasted it."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "surrogate", "envs"))
    program = f"{shlex.quote(sys.executable)} -m a3gnn"
    command = (
        [sys.executable, "-c", code]
        if language == "Python"
        else ["bash", "-c", f'a3gnn() {{ {program} "$@"; }}\n{code}']
    )
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert ran.returncode == 0, (code, ran.stderr)
    return ran.stdout


@pytest.mark.parametrize("changes", CHANGES[2:], ids=str)
def test_the_code_of_a_report_runs_and_picks_the_same(changes: dict[str, Any], finished: Path, tmp_path: Path) -> None:
    own = pick(finished, **changes)
    for language, code in rendered({"folder": str(finished)}, changes).items():
        shown = run(language, code, tmp_path)
        if language == "Python":
            assert shown.strip() == str(own.config)
        else:
            assert TunedConfig.read(finished / "picked.json").config == own.config


def test_the_code_of_a_server_runs_and_picks_the_same(idle: Server, kept: RemoteStudy, tmp_path: Path) -> None:  # noqa: F811
    changes = {"priority": "memory", "max_accuracy_drop": 3.0}
    own = kept.pick(**changes)
    written = {"Command line": f"picked-study-{kept.id}.json", "curl": f"study-{kept.id}-picked.json"}
    for language, code in rendered({"origin": idle.url, "live": f"/studies/{kept.id}"}, changes).items():
        if language == "curl" and shutil.which("curl") is None:
            continue
        shown = run(language, code, tmp_path)
        if language == "Python":
            assert shown.strip() == str(own.config)
        else:
            assert TunedConfig.read(tmp_path / written[language]).config == own.config


@pytest.mark.skipif(shutil.which("node") is None, reason="node, which runs the page's script, is not installed")
@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize(
    "page",
    [
        {"folder": "runs/it's mine"},
        {"origin": "http://127.0.0.1:8642", "live": "/studies/7"},
        {"origin": "https://gnn.example", "live": "/studies/12", "token": True},
    ],
    ids=["file", "live", "token"],
)
def test_the_pages_script_fills_in_the_same(page: dict[str, Any], changes: dict[str, Any]) -> None:
    script = read_part("picker.js").replace("function changesOf", "let changesOf = function")
    parts = (json.dumps(page), json.dumps(PICK), json.dumps(changes), script)
    ran = subprocess.run(["node", "-e", _PAGE % parts], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    theirs, ours = json.loads(ran.stdout), rendered(page, changes)
    for found in (theirs, ours):
        found["Command line"] = shlex.split(found["Command line"])
        found["curl"] = shlex.split(found.get("curl", ""))
    assert theirs == ours
