"""Graphs in words: the characteristics that their pages show."""

from __future__ import annotations

from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.units import count, format_size

#: Kinds of labels (`GraphCharacteristics.target`), and what a model has an output for.
_OUTPUTS = {"classes": ("class", "classes"), "labels": ("label", "labels"), "values": ("value", "values")}


def facts(graph: KnownGraph) -> str:
    """Returns the size of a graph in a line: `2,708 nodes, 10,556 edges, 1,433 features, 7 classes`."""
    about = graph.about
    if "num_nodes" not in about:
        return ""
    noun = _OUTPUTS.get(str(about.get("target", "classes")), _OUTPUTS["classes"])
    return ", ".join(
        (
            count(about["num_nodes"], "node"),
            count(about["num_edges"], "edge"),
            count(about["num_features"], "feature"),
            count(about["num_classes"], *noun),
        )
    )


def characteristics(graph: KnownGraph) -> list[tuple[str, str]]:
    """Returns the characteristics of a graph, a name and a text each."""
    about = graph.about
    if "num_nodes" not in about:
        return []
    nodes = max(about["num_nodes"], 1)
    kind = "sparse" if about["sparse_features"] else "dense"
    labels = _OUTPUTS.get(str(about.get("target", "classes")), _OUTPUTS["classes"])
    found = [
        ("Nodes", f"{about['num_nodes']:,}"),
        ("Edges", f"{about['num_edges']:,} directed"),
        ("Degree", f"{about['mean_degree']:.3g} on average, {about['max_degree']:,} at most"),
        (
            "Features",
            f"{about['num_features']:,}, {kind}, {format_size(about['feature_bytes'])}"
            + (f", {about['feature_density']:.1%} filled" if about["sparse_features"] else ""),
        ),
        (labels[1].capitalize(), f"{about['num_classes']:,}"),
        (
            "Split",
            ", ".join(
                f"{about[f'num_{part}']:,} {name} ({about[f'num_{part}'] / nodes:.0%})"
                for part, name in (("train", "train"), ("val", "validation"), ("test", "test"))
            ),
        ),
        ("Components", f"{about['num_components']:,}; the largest has {about['largest_component']:.0%} of the nodes"),
    ]
    if about.get("target", "classes") == "classes":
        found.append(("Homophily", f"{about['homophily']:.2f} of the edges join equal classes"))
    return found
