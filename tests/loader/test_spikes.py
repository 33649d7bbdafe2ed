"""Memory of the loop's own beside the shares: a spike is forgotten, and a leak is named."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def run(*arguments: str) -> str:
    """Returns what `tests.loader.spikes` prints; in a process of its own, whose memory is its alone."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.loader.spikes", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# After an early spike, more batches follow that it could cut.
@pytest.mark.parametrize(("after", "epochs"), [("3", "2"), pytest.param("20", "4", marks=pytest.mark.weekly)])
def test_a_spike_is_forgotten_once_it_is_gone(after: str, epochs: str) -> None:
    plain, spiked = (int(run(*kind, epochs).split()[0]) for kind in (("plain", "0"), ("at", after)))
    assert spiked <= plain + 5


@pytest.mark.parametrize("loop", ["shares", pytest.param("whole", marks=pytest.mark.weekly)])
def test_a_leak_is_named(loop: str) -> None:
    found = run("leak", loop)
    assert "Memory in use grew from" in found
    assert "something outside the loader keeps it, such as a list of losses or outputs" in found
    assert "fanouts" not in found
