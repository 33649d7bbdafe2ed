"""Memory and processor time of a worker and its children, read from outside it (Linux)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from a3gnn.process.memory import process_tree

_LINES = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)


class Resident(NamedTuple):
    """Memory of a process tree in bytes; shared pages are divided among processes (PSS).

    Attributes:
        total: All resident pages, including files.
        anonymous: Anonymous and shared-anonymous pages only.
    """

    total: int
    anonymous: int


def mapped(pid: int) -> dict[str, int]:
    """Returns the sizes that the kernel has of a process's mappings in all, in bytes, by the kernel's names (proc(5)).

    Raises:
        OSError: There is no such process, or it is another user's.
    """
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return {name: 1024 * int(size) for name, size in _LINES.findall(text)}


def resident(pid: int) -> Resident:
    """Returns the memory of process `pid` and all its descendants; zero once they are gone."""
    parts = [_resident(member) for member in process_tree(pid)]
    return Resident(sum(part.total for part in parts), sum(part.anonymous for part in parts))


@contextmanager
def watched(read: Callable[[], Resident], look_s: float) -> Iterator[list[Resident]]:
    """Collects what `read` returns every `look_s` seconds."""
    seen: list[Resident] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(look_s):
            seen.append(read())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _resident(pid: int) -> Resident:
    try:
        found = mapped(pid)
    except OSError:
        return Resident(0, 0)
    anonymous = found.get("Pss_Anon", found.get("Anonymous", 0)) + found.get("Pss_Shmem", 0)
    return Resident(found.get("Pss", 0), anonymous)


def busy_ticks(pid: int) -> int:
    """Returns the processor time that the process tree has used so far, in clock ticks."""
    total = 0
    for member in process_tree(pid):
        try:
            with open(f"/proc/{member}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        total += int(words[11]) + int(words[12])
    return total


def settle(pid: int, patience_s: float = 20.0, look_s: float = 0.1) -> bool:
    """Waits until the process tree is idle, so that it does not disturb the next engine's measurement.

    Returns whether it did so within `patience_s`.
    """
    least = os.sysconf("SC_CLK_TCK") * look_s / 5
    end = time.monotonic() + patience_s
    before = busy_ticks(pid)
    while time.monotonic() < end:
        time.sleep(look_s)
        now = busy_ticks(pid)
        if now - before <= least:
            return True
        before = now
    return False
