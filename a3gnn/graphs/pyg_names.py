"""Short names of PyG's node classification data sets."""

from __future__ import annotations

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
