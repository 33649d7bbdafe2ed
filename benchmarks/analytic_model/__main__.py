"""How well the surrogate's analytic model predicts caches, seed orders and partitioners.

    python -m benchmarks.analytic_model caches [GRAPH ...] [--batch-sizes 128 1024] [--json FILE]
    python -m benchmarks.analytic_model partitions [GRAPH ...] [--json FILE]

caches: for every graph, batch size, fanouts and seed order, the distinct nodes of a mini-batch and the hit rates of
caches of 5 to 40 % of the nodes by policy, once as `batch_volume` expects them from the graph's characteristics and
once measured by replaying sampled mini-batches (Che et al., 2002; BGL, section 3.2). The first half of the mini-batches
fills the caches and is not counted. partitions: the share of edges inside parts, expected by `kept_edges` and measured.
Graphs are names in the folder of real graphs, or specs. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.analytic_model import caches, partitions

GRAPHS = (
    "tolokers",
    "amazon_computers",
    "coauthor_cs",
    "dblp",
    "facebook_pages",
    "fb_cornell5",
    "nell",
    "road_pasadena",
    "wordnet_en",
    "fb100_multi_a",
    "synthetic:nodes=100000",
)
#: Small graphs, for partitions only: all of their rows fit into a cache.
SMALL = ("flickr_small", "credit_default", "minesweeper", "cora", "citeseer", "squirrel_filtered")


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    command_line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command_line.add_argument("part", choices=("caches", "partitions"))
    command_line.add_argument("graphs", nargs="*", metavar="GRAPH")
    command_line.add_argument("--batch-sizes", nargs="+", type=int, default=(128, 1024))
    command_line.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return command_line


def main() -> None:
    """Prints what was measured and expected, and the errors."""
    options = parser().parse_args()
    rows: list[caches.Hits] | list[partitions.Kept]
    if options.part == "caches":
        rows = [row for spec in options.graphs or GRAPHS for row in caches.comparisons(spec, options.batch_sizes)]
        shown = caches.tables(rows)
    else:
        rows = [row for spec in options.graphs or (*GRAPHS, *SMALL) for row in partitions.comparisons(spec)]
        shown = partitions.tables(rows)
    Console(width=180, highlight=False).print(*shown, sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
