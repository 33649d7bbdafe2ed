"""What the Makefile installs and runs, as make itself says it would."""

import re
import shutil
import subprocess

import pytest

from tests.docs.test_listed import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def would_run(target: str) -> str:
    """Returns the commands of `target` where nothing is installed."""
    run = ["make", "--dry-run", target, "VENV=.not-there"]  # make takes no path with a space
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("target", "extras"), [("tune", {"plot"}), ("docs", {"plot", "docs"}), ("test", {"plot", "dev"})]
)
def test_a_target_installs_what_it_needs_and_no_more(target: str, extras: set[str]) -> None:
    installed = re.findall(r"--editable '\.\[([\w,]+)\]'", would_run(target))
    assert {extra for some in installed for extra in some.split(",")} == extras


def chosen(target: str, **marks: bool) -> bool:
    """Returns whether `target` runs a test with these marks."""
    expression = re.search(r"-m \"?([\w ]+)\"?$", would_run(target), re.MULTILINE)
    assert expression is not None
    return bool(eval(expression[1], {}, marks))


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("weekly", [False, True])
@pytest.mark.parametrize("margin", [False, True])
def test_a_test_that_no_change_runs_is_a_weekly_one(slow: bool, weekly: bool, margin: bool) -> None:
    marks = {"slow": slow, "weekly": weekly, "margin": margin}
    assert chosen("test-weekly", **marks) is (weekly or margin)
    assert chosen("test-change", **marks) is not chosen("test-weekly", **marks)
    both = chosen("test", **marks), chosen("test-slow", **marks)
    assert both == ((not slow, slow) if chosen("test-change", **marks) else (False, False))


@pytest.mark.parametrize("target", ["test", "test-slow", "test-change"])
def test_the_tests_durations_are_kept(target: str) -> None:
    said = would_run(target)
    assert f"--junitxml=build/{target}.xml" in said
    assert "--durations=" in said
