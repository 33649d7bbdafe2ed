"""Names: PyG's node classification data sets in short, and what other programs call a graph's arrays."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: `pyg:SHORT` stands for `pyg:CLASS/NAME`, or for `pyg:CLASS` if the class has one graph.
PYG_NAMES: dict[str, str] = {
    "Cora": "Planetoid/Cora",
    "CiteSeer": "Planetoid/CiteSeer",
    "PubMed": "Planetoid/PubMed",
    "DBLP": "CitationFull/DBLP",
    "Computers": "Amazon/Computers",
    "Photo": "Amazon/Photo",
    "CS": "Coauthor/CS",
    "Physics": "Coauthor/Physics",
    "Roman-empire": "HeterophilousGraphDataset/Roman-empire",
    "Amazon-ratings": "HeterophilousGraphDataset/Amazon-ratings",
    "Minesweeper": "HeterophilousGraphDataset/Minesweeper",
    "Tolokers": "HeterophilousGraphDataset/Tolokers",
    "Questions": "HeterophilousGraphDataset/Questions",
    "Actor": "Actor",
    "FacebookPagePage": "FacebookPagePage",
    "Flickr": "Flickr",
    "LastFMAsia": "LastFMAsia",
    "Reddit": "Reddit",
    "Reddit2": "Reddit2",
    "WikiCS": "WikiCS",
}
#: Names of arrays in other programs, in lower case.
_ELSEWHERE = {
    "edge_index": ("edges", "edge_list", "edgelist", "edge", "edgeindex", "links"),
    "x": ("x", "features", "feature", "feat", "feats", "node_feat", "node_features", "attr", "attrs"),
    "y": ("y", "labels", "label", "node_label", "node_labels", "targets", "target", "classes"),
}


def near_pyg_names(name: str) -> list[str]:
    """Returns the short name that is nearest to `name`, whatever its case; nothing if none is near."""
    spelled = {short.lower(): short for short in PYG_NAMES}
    return [spelled[near] for near in difflib.get_close_matches(name.lower(), sorted(spelled), n=1, cutoff=0.75)]


def elsewhere(names: Iterable[str], array: str) -> str | None:
    """Returns which of `names` other programs give to `array` (edge_index, x or y); None if there is none."""
    return next((name for name in names if name.lower() in _ELSEWHERE.get(array, ()) and name != array), None)
