"""python tests/graphs/killed_conversions.py SOURCE FOLDER --kills 10: conversions that are killed, and then finished.

Each child is killed with SIGKILL: at a random file operation, or with `--by-time` after a random time. Then the next
one converts into the same folder. The first that lives to the end must have written what an undisturbed one writes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from a3gnn.graphs import convert as conversion
from a3gnn.graphs import draft
from a3gnn.graphs.convert import convert
from a3gnn.storage.stamp import STAMP

# Audit events between which a conversion writes.
_OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")


class Children:
    """Runs of `work`, which takes a function that prints, in forked processes; they share what is imported."""

    def __init__(self, work: Callable[[Callable[[str], None]], object], log: Path) -> None:
        self._work, self._log = work, log
        self._log.write_text("")

    def run(self, *, at_operation: int = 0, after_s: float | None = None) -> bool:
        """Works once; returns whether the child lived to the end."""
        child = os.fork()
        if not child:
            self._end(at_operation)
        if after_s is not None:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, f"the child ended with {status}"
        return status == 0

    def continued(self) -> int:
        """Returns how many children continued a killed one's work."""
        return self._log.read_text().count("continuing")

    def operations(self) -> int:
        """Returns the number of file operations of the last child that lived to the end."""
        return int(self._log.read_text().split()[-1])

    def _end(self, at_operation: int) -> None:
        count = 0

        def hook(event: str, _arguments: object) -> None:
            nonlocal count
            if event in _OPERATIONS:
                count += 1
                if count == at_operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            with self._log.open("a", buffering=1) as log:
                sys.addaudithook(hook)
                self._work(lambda line: print(line, file=log))
                print(count, file=log)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def content(folder: Path) -> dict[str, bytes]:
    """Returns the files of a converted graph, without the stamp."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != STAMP}


def main() -> None:
    """Converts as the command line says, and prints the kills and how many conversions continued one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=1 << 14)
    parser.add_argument("--piece", type=int, default=1 << 10, help="edges and values per piece, and bytes per mark")
    parser.add_argument("--by-time", action="store_true")
    given = parser.parse_args()
    conversion._EDGES_PER_PIECE = draft._VALUES_PER_PIECE = draft._KEPT_BYTES = given.piece
    whole = given.folder.parent / f"{given.folder.name}-whole"
    convert(given.source, whole, given.memory)  # kernels are compiled here
    shutil.rmtree(whole)

    def children(folder: Path) -> Children:
        log = folder.parent / f"{folder.name}.log"
        return Children(lambda say: convert(given.source, folder, given.memory, say), log)

    undisturbed, begin = children(whole), time.monotonic()
    assert undisturbed.run()
    seconds, operations = time.monotonic() - begin, undisturbed.operations()
    expected, rng = content(whole), np.random.default_rng(given.seed)
    killed, kills, ends = children(given.folder), 0, 0
    while kills < given.kills:
        by_time = {"after_s": rng.uniform(0, seconds)}
        lived = killed.run(**by_time if given.by_time else {"at_operation": int(rng.integers(1, operations))})
        kills, ends = kills + (not lived), ends + lived
        if lived or given.folder.exists():  # a killed one may have it, whole
            assert content(given.folder) == expected
            shutil.rmtree(given.folder)
    assert killed.run()
    assert content(given.folder) == expected
    hidden = given.folder.parent / f".{given.folder.name}.unfinished"
    assert not hidden.exists()
    print(json.dumps({"kills": kills, "ends": ends + 1, "continued": killed.continued(), "operations": operations}))


if __name__ == "__main__":
    main()
