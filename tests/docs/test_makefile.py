"""What the Makefile installs and runs, as make itself says it would."""

import re
import shutil
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement

from docs.licenses import CONTRIBUTORS
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


def test_the_oldest_versions_are_what_pyproject_claims() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (told,) = (line for line in would_run("oldest").splitlines() if "uv pip" in line)
    assert {*re.findall(r"--extra (\w+)", told), *CONTRIBUTORS} == extras.keys()
    claimed = project["dependencies"] + [text for extra in extras.keys() - set(CONTRIBUTORS) for text in extras[extra]]
    lowest = {one.name.replace("_", "-"): next(iter(one.specifier)) for one in map(Requirement, claimed)}
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(), re.MULTILINE))
    assert pinned.keys() == lowest.keys() - {"xgboost"}  # of other processors
    for name, version in pinned.items():
        assert lowest[name].operator == ">="
        assert f"{version}.".startswith(f"{lowest[name].version}."), f"run make oldest for {name}"


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
