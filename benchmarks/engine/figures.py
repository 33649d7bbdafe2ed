"""What peers reached on the design's machine (DESIGN.md, last section), for rows where they can't be measured here.

Milliseconds per mini-batch. pyg-lib is not on the package index: its figures stand for the sampler that a PyG user can
have elsewhere, and count as a further peer's in the rows of sampling and loading.
"""

from __future__ import annotations

#: That machine's limits, one thread: random 4-byte reads per second, bytes copied per second.
READS_PER_S, COPY_BYTES_PER_S = 65e6, 25e9

_GRAPHS = ("products", "arxiv", "reddit")
_Figures = dict[str, tuple[float, ...]]
_SAMPLING: _Figures = {"pyg-lib": (50.5, 6.6, 39.1), "DGL": (45.0, 7.7, 34.8), "PyG": (203.0, 38.0, 246.0)}
_WEIGHTED: _Figures = {"pyg-lib": (236.0, 37.0, 242.0), "DGL": (270.0, 44.0, 331.0)}
_LOADING: _Figures = {"pyg-lib": (60.0, 22.0, 219.0), "DGL": (105.0, 15.0, 200.0)}
_TRAINING: _Figures = {"PyG": (787.0, 208.0, 1418.0), "PyG CSR": (157.0, 36.0), "DGL": (177.0, 41.0, 631.0)}
_BY_ROW: dict[str, _Figures] = {
    "sample-25-10": _SAMPLING,
    "biased": _WEIGHTED,
    "load": _LOADING,
    "train-sage": _TRAINING,
}
#: Resident bytes while loading with two workers, products' size.
RESIDENT_BYTES = {"PyG": 3.7e9, "DGL": 3.2e9}


def scaled_ms(row: str, graph: str, peer: str, reads_per_s: float, copy_bytes_per_s: float) -> float | None:
    """Returns a peer's milliseconds on this machine as its limits suggest, or None where the design has no figure.

    The sampler's part grows as random reads are slower here, the rest as copies are: a judgement, not a measurement.

    Args:
        row: Key of the row.
        graph: Name of the graph.
        peer: Label of the peer.
        reads_per_s: Random 4-byte reads per second of a thread here, on products' size, out of cache.
        copy_bytes_per_s: Bytes per second that a thread copies here.
    """
    figures = _BY_ROW.get(row, {}).get(peer, ())
    place = _GRAPHS.index(graph) if graph in _GRAPHS else len(figures)
    if place >= len(figures):
        return None
    # DGL's and pyg-lib's loaders and steps hold their own samplers; the hand-tuned step was measured over pyg-lib's.
    sampler = _WEIGHTED if row == "biased" else _SAMPLING
    sampling = min(figures[place], sampler["DGL" if peer == "DGL" else "pyg-lib"][place])
    if row in ("sample-25-10", "biased"):
        sampling = figures[place]
    rest = figures[place] - sampling
    return sampling * READS_PER_S / reads_per_s + rest * COPY_BYTES_PER_S / copy_bytes_per_s
