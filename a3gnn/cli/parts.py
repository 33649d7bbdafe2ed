"""`a3gnn parts`: cuts a graph into parts, and serves one of them."""

from __future__ import annotations

from pathlib import Path

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import address_options
from a3gnn.cli.output import JSON, QUIET, progress, show, show_json
from a3gnn.config import PARTITIONERS, Partitioner
from a3gnn.units import count, format_size


@click.group()
def parts() -> None:
    """Cut a graph into parts, and serve them from several machines; see docs/howto/graph_servers.md."""


@parts.command(cls=Command)
@click.argument("spec", type=DATASET)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--num-parts", type=click.IntRange(1, 256), required=True, help="Number of parts, one per graph server.")
@click.option(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    default="metis",
    show_default=True,
    help="Partitioner; see docs/design/partitioning.md.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the partitioner.")
@JSON
@QUIET
def make(
    spec: str, folder: Path, num_parts: int, partitioner: Partitioner, seed: int, as_json: bool, quiet: bool
) -> None:
    """Cut the graph SPEC into parts, one for each graph server.

    Writes FOLDER/part-0, FOLDER/part-1 and so on. SPEC is a graph as in a3gnn graph convert; a converted folder needs
    the least memory. FOLDER must be new or empty. A part contains its nodes with all their in-edges, features and
    labels. Parts can be moved to other machines.
    """
    from a3gnn.graphs.graph import Graph
    from a3gnn.parts.make import make_parts

    graph = Graph.load_untyped(spec).on_disk()
    made = make_parts(graph, folder, num_parts, partitioner=partitioner, seed=seed, notify=progress(quiet))
    if as_json:
        rows = [
            {"nodes": one.nodes, "edges": one.edges, "cut_edges": one.cut_edges, "bytes": one.num_bytes} for one in made
        ]
        show_json({"folder": str(folder), "parts": rows})
        return
    for one in made:
        cut = f"{one.cut_edges / max(one.edges, 1):.1%} from other parts"
        line = (
            f"{one.folder}: {count(one.nodes, 'node')}, {count(one.edges, 'edge')}, {cut}, {format_size(one.num_bytes)}"
        )
        show(line)


@parts.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@address_options(8652, "A3GNN_PARTS_TOKEN")
def serve(folder: Path, host: str, port: int, token: str | None) -> None:
    """Serve the part in FOLDER, until Ctrl-C.

    a3gnn train --dataset parts:HOST:PORT,HOST:PORT,... trains on the parts of all servers. By default the server
    answers only this machine. The traffic is not encrypted, so listen on other addresses only in a network that you
    trust.
    """
    from a3gnn.parts.serve import serve_part

    serve_part(folder, host, port, token or None, lambda line: click.echo(line, err=True))
