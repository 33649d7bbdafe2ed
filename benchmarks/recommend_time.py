"""Where the seconds of `a3gnn recommend` go.

    python -m benchmarks.recommend_time [--dataset synthetic:] [--rounds 5]

Each round is a process of its own. The first one fits the surrogate in an empty cache folder, the others read it from
there; this machine's probe is copied there first. Prints medians and ranges in seconds; nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from a3gnn.storage.cache import cache_root
from benchmarks.report import median_and_range

#: What is timed apart, by its name in `a3gnn.tuning.recommend`; the rest of the call is "other".
STAGES = {
    "compile_ahead": "kernels that read graphs",
    "kept_hardware": "this machine's kept probe",
    "as_graph": "the graph",
    "shipped_measurements": "shipped measurements",
    "kept_surrogate": "the surrogate",
    "predicted_best": "the search",
    "unknowns": "what is not known",
}


def stage_seconds(dataset: str) -> dict[str, float]:
    """Returns the seconds of each stage in this process; imports first."""
    begin = perf_counter()
    from a3gnn.tuning import recommend as module

    spent = {"imports": perf_counter() - begin} | dict.fromkeys(STAGES.values(), 0.0)

    def timed(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            start = perf_counter()
            try:
                found = function(*arguments, **options)
                return list(found) if stage == STAGES["unknowns"] else found
            finally:
                spent[stage] += perf_counter() - start

        return run

    for name, stage in STAGES.items():
        setattr(module, name, timed(getattr(module, name), stage))
    before, begin = sum(spent.values()), perf_counter()
    module.recommend(dataset)
    whole = perf_counter() - begin
    return spent | {"other": whole - (sum(spent.values()) - before), "in all, imports aside": whole}


def main() -> None:
    """Prints a line per stage: the first round, then the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="synthetic:")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(stage_seconds(options.dataset)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if (cache_root() / "hardware").is_dir():
            shutil.copytree(cache_root() / "hardware", Path(folder) / "hardware")
        command = [sys.executable, "-m", "benchmarks.recommend_time", "--once", "--dataset", options.dataset]
        environment = os.environ | {"A3GNN_CACHE": folder}
        runs = [
            json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
            for _ in range(1 + options.rounds)
        ]
    print(f"{'':<26} {'first':>6}  others")
    for stage, first in runs[0].items():
        print(f"{stage:<26} {first:>6.2f}  {median_and_range([run[stage] for run in runs[1:]])}")


if __name__ == "__main__":
    main()
