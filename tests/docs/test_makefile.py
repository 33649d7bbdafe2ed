"""What the Makefile installs, as make itself says it would."""

import re
import shutil
import subprocess

import pytest

from tests.docs.test_listed import ROOT


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("target", "extras"),
    [("tune", {"plot", "report"}), ("docs", {"plot", "report", "docs"}), ("test", {"plot", "report", "dev"})],
)
def test_a_target_installs_what_it_needs_and_no_more(target: str, extras: set[str]) -> None:
    run = ["make", "--dry-run", target, "VENV=.not-there"]  # make takes no path with a space
    said = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    installed = re.findall(r"--editable '\.\[([\w,]+)\]'", said)
    assert {extra for some in installed for extra in some.split(",")} == extras
