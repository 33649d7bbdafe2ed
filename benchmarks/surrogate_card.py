"""Scores the surrogate and its baselines on the shipped profiles: random rows, unseen graphs, default measured.

python -m benchmarks.surrogate_card [--profiles FILE.jsonl.gz]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn_surrogate.evaluate import evaluate


def main() -> None:
    """Prints the model card as markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")
    options = parser.parse_args()
    rows = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    print(evaluate(rows).to_markdown())


if __name__ == "__main__":
    main()
