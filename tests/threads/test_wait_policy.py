"""Who sets OMP_WAIT_POLICY, seen in fresh processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from a3gnn.process.worker import Worker
from a3gnn.threads import wait_policy

ROOT = Path(__file__).parents[2]
CLI = """
import os, sys
import a3gnn.cli.main as cli
assert "torch" not in sys.modules and os.environ.get("OMP_WAIT_POLICY") == ({before!r} or None)
{then}
try:
    cli.main(["--help"])
except SystemExit:
    pass
print(os.environ.get("OMP_WAIT_POLICY", "unset"))
"""
CHORE = "import os\ndef policy(argument):\n    return {'policy': os.environ.get('OMP_WAIT_POLICY', 'unset')}\n"


def policy_after(code: str, before: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != wait_policy.VARIABLE}
    if before:
        environment[wait_policy.VARIABLE] = before
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    return run.stdout.split()[-1]


def test_an_import_leaves_the_process_as_it_is() -> None:
    code = (
        "import os, a3gnn\nfrom a3gnn import *\nimport a3gnn.cli.main, a3gnn.process.fork_server\n"
        "print(os.environ.get('OMP_WAIT_POLICY', 'unset'))"
    )
    assert policy_after(code, "") == "unset"


@pytest.mark.parametrize(
    ("before", "then", "after"),
    [("", "", "PASSIVE"), ("ACTIVE", "", "ACTIVE"), ("", "import torch", "unset")],
    ids=["the command line's own", "the user's", "too late"],
)
def test_the_command_line_lets_threads_sleep(before: str, then: str, after: str) -> None:
    assert policy_after(CLI.format(before=before, then=then), before) == after


@pytest.mark.parametrize("policy", ["", pytest.param("active", marks=pytest.mark.weekly)])
def test_trials_have_the_policy_that_is_recorded(policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(wait_policy.VARIABLE, raising=False)
    if policy:
        monkeypatch.setenv(wait_policy.VARIABLE, policy)
    (tmp_path / "chore.py").write_text(CHORE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with Worker() as worker:
        found = worker.run("chore:policy", {}).result
    assert found == {"policy": policy or "PASSIVE"}
    assert wait_policy.of_trials() == found["policy"].upper()
    assert wait_policy.here() == policy.upper()
