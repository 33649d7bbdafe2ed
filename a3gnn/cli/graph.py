"""`a3gnn graph`: converts a graph to a folder, verifies a folder, and prints a graph's characteristics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3gnn.characteristics import CACHE_FRACTIONS
from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE, split_options
from a3gnn.cli.output import JSON, QUIET, fitted, progress, show, show_json
from a3gnn.errors import ExitCode, GraphError, TypedSetError
from a3gnn.units import count, format_size

if TYPE_CHECKING:
    from a3gnn.graphs.graph import Graph

_SPEC_HELP = (
    "SPEC is FILE.npz, a converted folder, synthetic:KEY=VALUE,..., pyg:NAME, ogb:NAME, or FILE.pt with PyG's data."
)


@click.group()
def graph() -> None:
    """Convert, describe and verify graphs."""


@graph.command(cls=Command, epilog=_SPEC_HELP)
@click.argument("spec", type=DATASET)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--memory-budget",
    type=SIZE,
    default="1GiB",
    show_default=True,
    help="Memory for buffered edges, or 8 bytes per node if that is more. The process takes 0.4 GiB on top.",
)
@split_options
@QUIET
@JSON
def convert(
    spec: str, folder: Path, memory_budget: int, split: str | None, split_seed: int, quiet: bool, as_json: bool
) -> None:
    """Convert the graph SPEC to .npy files in FOLDER.

    The files open in milliseconds and stay on disk. FOLDER must be new, empty, or contain the same graph. A synthetic
    graph or an .npz file may be larger than memory. A graph of several types keeps all its attributes, for loaders. The
    same command continues a conversion that was killed.
    """
    from a3gnn.graphs.convert import convert as convert_graph
    from a3gnn.graphs.graph import Graph
    from a3gnn.graphs.split import Split

    say = progress(quiet)
    shares = Split.of(split, split_seed)
    opened = convert_graph(spec if shares is None else shares.spec(spec), folder, memory_budget, say)
    for note in getattr(opened, "notes", ()):
        say(f"note: {note}")
    if isinstance(opened, Graph):
        say(f"{opened!r} is in {folder}")
    else:
        types, relations = len(opened.node_stores), len(opened.edge_stores)
        say(f"{count(types, 'type')} of nodes and {count(relations, 'relation')} are in {folder}")
    if as_json:
        show_json({"folder": str(folder)})
    else:
        click.echo(str(folder))


@graph.command(cls=Command, epilog=_SPEC_HELP)
@click.argument("spec", type=DATASET)
@split_options
@JSON
def info(spec: str, split: str | None, split_seed: int, as_json: bool) -> None:
    """Show the characteristics of the graph SPEC.

    The surrogate predicts from them. For a graph of several node types, or of events with times, the command shows
    types and relations.
    """
    figures, loaded = described(spec, split, split_seed)
    rows = _typed_rows(figures) if loaded is None else _rows(loaded)
    if as_json:
        show_json(figures)
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        first, *rest = fitted(value, 80 - width - 2)
        click.echo("\n".join([f"{name:<{width}}  {first}", *(f"{'':<{width}}  {line.strip()}" for line in rest)]))


@graph.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@JSON
def verify(folder: Path, as_json: bool) -> None:
    """Verify every file of the converted graph in FOLDER.

    Opening a folder verifies new and changed files. This command reads all files again. Exits with 1 if a file is
    damaged.
    """
    from a3gnn.graphs.verify import verify as verify_folder

    found = verify_folder(folder)
    if as_json:
        show_json({"folder": str(folder), "files": [finding.to_dict() for finding in found]})
    else:
        width = max(len(finding.name) for finding in found)
        for finding in found:
            size = format_size(finding.num_bytes)
            line = f"{finding.name:<{width}}  {size:>9}  {finding.problem or 'sound'}"
            show(line)
    if any(finding.problem for finding in found):
        raise SystemExit(ExitCode.FAILED)


def described(spec: str, split: str | None, split_seed: int) -> tuple[dict[str, Any], Graph | None]:
    """Returns the characteristics of the graph `spec`, and the graph; None for one of several types without a target.

    Raises:
        GraphError: The graph can't be read.
        UsageError: There is no such graph.
    """
    from a3gnn.graphs.edge_values import num_columns
    from a3gnn.graphs.graph import Graph

    try:
        load = Graph.load if spec.startswith("target:") or split is not None else Graph.load_untyped
        graph = load(spec, split, split_seed)
        columns = {name: num_columns(values) for name, values in graph.edge_values.items()}
        return graph.characteristics().to_dict() | columns | {"notes": list(graph.notes)}, graph
    except GraphError as error:
        from a3gnn.graphs.typed import describe_typed, typed_graph

        typed = error.data if isinstance(error, TypedSetError) else typed_graph(spec)
        if typed is None or split is not None:
            raise
        return describe_typed(typed), None


def _rows(described: Graph) -> list[tuple[str, str]]:
    """Returns the rows that `info` prints, each with a name and a value."""
    from a3gnn.graphs.assemble import reversed_share
    from a3gnn.graphs.edge_values import num_columns

    c, reversed_edges = described.characteristics(), reversed_share(described.indptr, described.indices)
    storage = f"in CSR rows, {c.feature_density:.2%} stored" if c.sparse_features else "dense"
    return [
        ("name", c.name),
        ("fingerprint", c.fingerprint),
        ("nodes", f"{c.num_nodes:,}"),
        ("directed edges", f"{c.num_edges:,}"),
        ("reversed edges", f"{reversed_edges:.1%}; 0% if undirected edges are stored once"),
        ("in-degree", f"mean {c.mean_degree:.2f}, 95% {c.p95_degree:.0f}, max {c.max_degree:,}"),
        ("in-degree Gini", f"{c.degree_gini:.3f}"),
        ("features", f"{c.num_features:,} {storage}"),
        ("feature bytes", f"{format_size(c.feature_bytes)}, {c.row_bytes:.0f} B per row"),
        *((name, count(num_columns(values), "column")) for name, values in described.edge_values.items()),
        *_predicted(described),
        ("train / val / test", f"{c.num_train:,} / {c.num_val:,} / {c.num_test:,}"),
        *([] if c.ends else [("label rate", f"{c.label_rate:.4f}")]),
        *([("homophily", f"{c.homophily:.3f}")] if c.homophily or not described.types else []),
        (
            "connectedness",
            f"{count(c.num_components, 'component')}, the largest has {c.largest_component:.1%} of the nodes",
        ),
        *(
            (f"cached {fraction:.0%} of rows", f"{mass:.1%} of neighbor entries")
            for fraction, mass in zip(CACHE_FRACTIONS, c.cached_edge_mass, strict=True)
        ),
        *(("note", note) for note in described.notes),
    ]


def _predicted(described: Graph) -> list[tuple[str, str]]:
    """Returns the rows about what is predicted: the classes, and with types the predicted type, or the links."""
    types, links = described.types, described.links
    if links is not None:
        of = [count(links.num_nodes[place], kind) for place, kind in enumerate(dict.fromkeys(links.ends))]
        kinds = count(len(links.relations), "relation")
        return [
            ("edges" if links.valued else "links", f"{described.num_examples:,} of {kinds}"),
            ("between", " and ".join(of)),
            *([(described.target, f"{described.num_classes}")] if links.valued else []),
        ]
    kind = [] if types is None else [("predicted", count(types.num_targets, types.target))]
    return [*kind, (described.target, f"{described.num_classes}")]


def _typed_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows that `info` prints of a graph of several types."""
    rows = []
    for kind, noun in (("node_types", "type"), ("relations", "relation")):
        number = sum(found["nodes" if noun == "type" else "edges"] for found in figures[kind].values())
        rows.append(("nodes" if noun == "type" else "edges", f"{number:,} in {count(len(figures[kind]), noun)}"))
        for name, found in figures[kind].items():
            parts = [count(found["nodes"], "node") if noun == "type" else count(found["edges"], "edge")]
            parts += [f"mean in-degree {found['mean_degree']:.2f}"] if "mean_degree" in found else []
            parts += [count(found["features"], "feature")] if "features" in found else []
            parts += ["times {} to {}".format(*found["times"])] if "times" in found else []
            rows.append((f"  {name}", ", ".join([*parts, *found.get("attributes", ())])))
    return rows + [("note", note) for note in figures["notes"]]
