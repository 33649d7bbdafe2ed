"""Scores the surrogate and its baselines on the shipped profiles: random rows, unseen graphs, default measured.

Also what calibration alone does for the equations, each graph held out in turn.

python -m benchmarks.surrogate_card [--profiles FILE.jsonl.gz]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from a3gnn.measurement import Measurement
from a3gnn_surrogate.calibration import Calibrations
from a3gnn_surrogate.evaluate import evaluate
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.training_rows import THROUGHPUT
from benchmarks.report import add_profiles, profiles


def equations_alone(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Returns R2 within settings of the logarithm of throughput by the equations, before and after calibration.

    Nothing is added to them: no intercept, no trees. Each graph is held out of the calibration that predicts it.
    """
    source = RowSource(measurements)
    before = after = total = 0.0
    for key, settings in source.settings.items():
        held = frozenset({settings[0].setting.graph.fingerprint})
        plain, calibrated = (source.setting_rows(key, one) for one in (Calibrations(), source.calibrations(held)))
        measured = plain.measured[:, THROUGHPUT]
        before += float((plain.residual(THROUGHPUT) ** 2).sum())
        after += float((calibrated.residual(THROUGHPUT) ** 2).sum())
        total += float(((measured - measured.mean()) ** 2).sum())
    return 1 - before / total, 1 - after / total


def main() -> None:
    """Prints the model card as markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_profiles(parser)
    options = parser.parse_args()
    rows = profiles(options)
    print(evaluate(rows).to_markdown())
    before, after = equations_alone(rows)
    print(f"Equations alone, throughput, unseen graph: R2 {before:.2f} before calibration, {after:.2f} after")


if __name__ == "__main__":
    main()
