"""Measures the corpus that a3gnn ships: of every subject the default, and configurations around and far from it.

    python -m benchmarks.corpus [GRAPH ...] [--rows 12] [--folder runs/corpus] [--export profiles/corpus.jsonl.gz]
    python -m benchmarks.corpus --typed --rows 10 --export profiles/typed.jsonl.gz

Half of a graph's rows vary only the knobs that change the work of a step, and leave the rest as the default has it; the
other half fill the whole space. The default comes first and after every `DEFAULT_EVERY` rows again, since machines
drift. Every row is on disk as soon as it is measured, in FOLDER/rows.jsonl: the same command goes on where it was
interrupted. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
from itertools import chain
from pathlib import Path

from rich.console import Console

from a3gnn.machine.probe import probe_hardware, within_peaks
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.store.jsonl import shipped_measurements, shipped_profiles, write_measurements
from a3gnn.tuning.study.foresight import CURVES
from benchmarks.corpus.measure import Corpus, on_cores
from benchmarks.corpus.subjects import SUBJECTS, TYPED_SUBJECTS, Subject
from benchmarks.curve_fits import curve_fits
from benchmarks.report import ResultLines


def main() -> None:
    """Measures the corpus, and writes it where it was asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="a real graph's name, or what --dataset takes")
    parser.add_argument(
        "--typed", action="store_true", help="measure graphs with types and links, in profiles/typed.jsonl.gz"
    )
    parser.add_argument("--rows", type=int, default=12, help="rows of a graph beside the default's")
    parser.add_argument("--folder", type=Path, default=Path("runs/corpus"), help="where rows are kept")
    parser.add_argument(
        "--export", type=Path, help="write the rows of these graphs here, such as profiles/FILE, and curves.json"
    )
    options = parser.parse_args()
    console, subjects = Console(stderr=True), list(TYPED_SUBJECTS if options.typed else SUBJECTS)
    if options.graphs:
        known = [
            [one for one in (*SUBJECTS, *TYPED_SUBJECTS) if one.spec == spec] or [Subject(spec)]
            for spec in options.graphs
        ]
        subjects = list(chain(*known))
    corpus, measured = Corpus(ResultLines(options.folder / "rows.jsonl"), console), []
    for subject in subjects:
        with on_cores(subject.cores), LocalExecutor(console.log) as executor:
            hardware = within_peaks(probe_hardware(worker=executor.worker, notify=console.log), [], console.log)
            measured.append(corpus.measure(subject, options.rows, hardware, executor, options.folder))
    if options.export is not None:
        console.log(f"{write_measurements(options.export, chain(*measured))} rows in {options.export}")
        if options.export.parent.resolve() == shipped_profiles():  # tunes read the fits to all shipped measurements
            fits = json.dumps(curve_fits(shipped_measurements()), indent=1)
            (options.export.parent / CURVES).write_text(fits + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
