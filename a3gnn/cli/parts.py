"""`a3gnn parts`: cuts a graph into parts, and serves one of them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.output import QUIET, progress, show
from a3gnn.config import PARTITIONERS, Partitioner
from a3gnn.units import count, format_size


@click.group()
def parts() -> None:
    """Cut a graph into parts, and serve them from several machines; see docs/howto/graph_servers.md."""


@parts.command()
@click.argument("spec", type=DATASET)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--num-parts", type=click.IntRange(1, 256), required=True, help="One per graph server.")
@click.option(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    default="metis",
    show_default=True,
    help="docs/design/partitioning.md",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The partitioner's.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@QUIET
def make(
    spec: str, folder: Path, num_parts: int, partitioner: Partitioner, seed: int, as_json: bool, quiet: bool
) -> None:
    """Cut the graph SPEC into FOLDER/part-0, FOLDER/part-1, ..., each for a graph server of its own.

    SPEC is what `a3gnn graph convert` takes; a converted folder needs least memory. FOLDER must be new or empty. A part
    holds all in-edges of its nodes, their features and labels; parts may be moved to other machines.
    """
    from a3gnn.graphs.graph import Graph
    from a3gnn.parts.make import make_parts

    graph = Graph.load(spec).on_disk()
    made = make_parts(graph, folder, num_parts, partitioner=partitioner, seed=seed, notify=progress(quiet))
    if as_json:
        rows = [
            {"nodes": one.nodes, "edges": one.edges, "cut_edges": one.cut_edges, "bytes": one.num_bytes} for one in made
        ]
        click.echo(json.dumps({"folder": str(folder), "parts": rows}))
        return
    for one in made:
        cut = f"{one.cut_edges / max(one.edges, 1):.1%} from other parts"
        line = (
            f"{one.folder}: {count(one.nodes, 'node')}, {count(one.edges, 'edge')}, {cut}, {format_size(one.num_bytes)}"
        )
        show(line)


@parts.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; others need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8652, show_default=True, help="0 takes a free one.")
@click.option(
    "--token", envvar="A3GNN_PARTS_TOKEN", show_envvar=True, help="What requests must carry; better by the variable."
)
def serve(folder: Path, host: str, port: int, token: str | None) -> None:
    """Serve the part in FOLDER, until Ctrl-C.

    `a3gnn train --dataset parts:HOST:PORT,HOST:PORT,...` trains on the parts of all servers together. By default this
    machine alone is answered. What is sent is not encrypted: other addresses belong in a network that you trust.
    """
    from a3gnn.parts.serve import serve_part

    serve_part(folder, host, port, token or None, lambda line: click.echo(line, err=True))
