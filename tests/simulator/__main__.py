"""Runs seeds of the simulator.

    python -m tests.simulator SEED [END] [--processes 1]

Runs one seed and prints what happened; or the seeds from SEED up to END, and prints those that broke something.
"""

from __future__ import annotations

import argparse
import sys
import time
from multiprocessing import get_context

from tests.simulator.seeds import run_seed, simulator, why_broken

#: Seeds after which a line shows how far the run is.
_SHOWN = 100


def main() -> None:
    """Runs the seeds; exits with 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("end", type=int, nargs="?")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.end is None:
        with simulator():
            print(run_seed(options.seed).describe())
        return
    begin, broken = time.perf_counter(), []
    seeds = range(options.seed, options.end)
    with get_context("spawn").Pool(options.processes) as pool:
        for seed, found in zip(seeds, pool.imap(why_broken, seeds), strict=True):
            if found:
                broken.append(seed)
                print(found, flush=True)
            if not (seed + 1) % _SHOWN:
                print(
                    f"seeds below {seed + 1:,} ran, after {time.perf_counter() - begin:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
        pool.close()
        pool.join()
    print(f"{len(seeds):,} seeds in {time.perf_counter() - begin:.0f} s; broken: {broken or 'none'}")
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
