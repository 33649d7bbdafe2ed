"""`graph_of`: a graph, whole or by parts, from any form in which users pass their data."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.errors import GraphError, GraphServerError, UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.parts.client import PartsClient, read_column
from a3gnn.parts.graph import PartedGraph, RemoteFeatures, RemoteIndices, split_of_parts
from a3gnn.parts.link import Listener, PartLink, TrafficCounter
from a3gnn.parts.part import ROLES
from a3gnn.parts.protocol import PROTOCOL_VERSION, TOKEN_VARIABLE, Key
from a3gnn.units import parse_duration

SCHEME = "parts"
#: Seconds for which requests are repeated to a server that can't be reached. Guess: a server starts in seconds.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class PartsSpec:
    """Addresses of the parts of a graph."""

    addresses: tuple[str, ...]  # host:port of each server, in any order
    patience_s: float = _PATIENCE_S  # seconds for which requests are repeated to a server that can't be reached

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Returns the addresses and the patience in `spec`.

        Raises:
            UsageError: `spec` has another form.
        """
        addresses, patience_s = [], _PATIENCE_S
        for item in spec.removeprefix(f"{SCHEME}:").split(","):
            name, sign, value = item.strip().partition("=")
            if sign and name == "wait":
                patience_s = parse_duration(value)
                continue
            host, colon, port = item.strip().rpartition(":")
            if sign or not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
                raise UsageError(
                    f"a graph by parts must be {SCHEME}:HOST:PORT,HOST:PORT,... with the address of each graph server, "
                    f"got {item.strip()!r} in {spec!r}; wait=2min sets how long a silent server is asked again"
                )
            addresses.append(item.strip())
        if not addresses or len(set(addresses)) < len(addresses):
            raise UsageError(f"a graph by parts needs the address of each graph server once, got {spec!r}")
        return cls(tuple(addresses), patience_s)


def names_parts(data: object) -> bool:
    """Returns whether `data` is the spec of a graph by parts."""
    return isinstance(data, str) and data.startswith(f"{SCHEME}:")


def graph_of(data: object, notify: Callable[[str], None] = lambda line: None, split: Split | None = None) -> Graph:
    """Returns `data` as a graph: as `as_graph` does, or by parts.

    Args:
        data: Data that `as_graph` takes, or the spec of a graph by parts.
        notify: Takes lines for the user during the opening, on servers that do not answer.
        split: Replaces the graph's own split; not available by parts.

    Raises:
        UsageError: `data` is something else.
        GraphError: The graph can't be read, is not valid, or the servers' parts do not make one graph.
        GraphServerError: A server can't be reached, or refuses.
        MissingDependencyError: gRPC is not installed.
    """
    if not names_parts(data):
        return as_graph(data, split)
    assert isinstance(data, str)
    if split is not None:
        raise split_of_parts(split, data)
    return open_parts(PartsSpec.parse(data), notify)


def open_parts(spec: PartsSpec, notify: Callable[[str], None] = lambda line: None) -> PartedGraph:
    """Returns the graph whose parts are served at `spec`'s addresses.

    This process stores for each node 8 bytes of `indptr`, its label, and its part in a byte. A train, validation or
    test node takes 4 bytes more.

    Args:
        spec: The addresses, and how long to wait for a server.
        notify: Takes lines for the user during the opening, on servers that do not answer.

    Raises:
        UsageError: No request can carry the token.
        GraphError: The servers' parts are not the parts of one graph, each once.
        GraphServerError: A server can't be reached, or refuses.
        MissingDependencyError: gRPC is not installed.
    """
    token, counter, listener = os.environ.get(TOKEN_VARIABLE) or None, TrafficCounter(), Listener(notify)
    found = [PartLink(address, spec.patience_s, token, counter, listener) for address in spec.addresses]
    asked = [link.ask("About", b"") for link in found]
    told = [_about(link, answer.wait()) for link, answer in zip(found, asked, strict=True)]
    links, abouts = _in_order(found, told)
    about = abouts[0]
    cut, of_graph = bytes.fromhex(about["cut"]), about["graph"]
    num_nodes = int(of_graph["num_nodes"])
    owners, taken = np.zeros(num_nodes, dtype=np.uint8), np.zeros(num_nodes, dtype=bool)
    for part, link in enumerate(links):
        rows = int(abouts[part]["columns"]["nodes"][1][0])
        nodes = read_column(link, Key(cut, part), "nodes", rows, np.dtype(np.int32))
        if not rows or nodes.min() < 0 or nodes.max() >= num_nodes or taken[nodes].any():
            raise GraphError(f"{link.name} at {link.address} has nodes of another part; make the parts again")
        owners[nodes], taken[nodes] = part, True
    if not taken.all():
        raise GraphError(
            f"the parts must contain every node of {of_graph['name']}, but {int((~taken).sum()):,} are in none"
        )
    client = PartsClient(links, cut, owners, counter, listener)
    kind, shape = about["columns"]["labels"]
    graph = _assembled(client, of_graph, about["features"], np.dtype(kind), tuple(shape[1:]))
    listener.notify = Listener().notify
    return graph


def _assembled(
    client: PartsClient,
    of_graph: dict[str, Any],
    features: tuple[str, int],
    label_dtype: np.dtype[Any],
    label_shape: tuple[int, ...],
) -> PartedGraph:
    degrees = client.column("degrees", np.dtype(np.int32))
    roles = client.column("roles", np.dtype(np.uint8))
    known = GraphCharacteristics.from_dict(of_graph["characteristics"])
    name, num_nodes, num_edges = str(of_graph["name"]), len(client.owners), int(of_graph["num_edges"])
    indptr = np.concatenate(([0], np.cumsum(degrees, dtype=np.int64)))
    if int(indptr[-1]) != num_edges:
        raise GraphError(
            f"{name} must have {num_edges:,} edges, but its parts have {int(indptr[-1]):,}; make them again"
        )
    split: dict[str, NDArray[np.int32]] = {
        ids: np.flatnonzero(roles == role).astype(np.int32) for ids, role in ROLES.items()
    }
    fields: dict[str, Any] = {
        "name": name,
        "indptr": indptr,
        "indices": RemoteIndices(num_edges, name),
        "features": RemoteFeatures(client, np.dtype(features[0]), (num_nodes, int(features[1])), name),
        "labels": client.column("labels", label_dtype, label_shape),
        **split,
        "num_classes": int(of_graph["num_classes"]),
        "notes": tuple(of_graph["notes"]),
        "folder": None,
        "source": None,
        "known": known,
        "client": client,
    }
    graph = object.__new__(PartedGraph)  # without __post_init__, which would read everything; servers check their parts
    for one in dataclasses.fields(PartedGraph):
        object.__setattr__(graph, one.name, fields.get(one.name, one.default))  # parts have no types
    return graph


def _about(link: PartLink, answer: bytes) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(answer)
        version = about["protocol"]
    except (ValueError, KeyError, TypeError) as error:
        raise GraphServerError(f"{link.address} must be a graph server, but it answers {answer[:80]!r}") from error
    if version != PROTOCOL_VERSION:
        raise GraphServerError(
            f"the graph server at {link.address} uses version {version} of the protocol, but this a3gnn uses "
            f"{PROTOCOL_VERSION}; run the same version of a3gnn on both sides"
        )
    link.name = f"part {about['part']} of {about['graph']['name']}"
    return about


def _in_order(links: list[PartLink], abouts: list[dict[str, Any]]) -> tuple[list[PartLink], list[dict[str, Any]]]:
    """Returns both lists sorted by part; the parts must be all parts of one cut, each once."""
    cuts = {about["cut"] for about in abouts}
    have = sorted(int(about["part"]) for about in abouts)
    if len(cuts) > 1 or have != list(range(abouts[0]["num_parts"])):
        shown = "; ".join(
            f"{link.address}: part {about['part']} of {about['num_parts']} of {about['graph']['name']} (cut "
            f"{about['cut'][:8]})"
            for link, about in zip(links, abouts, strict=True)
        )
        raise GraphError(f"the addresses must serve all parts of one cut, each once, got {shown}")
    order = sorted(range(len(links)), key=lambda place: int(abouts[place]["part"]))
    return [links[place] for place in order], [abouts[place] for place in order]
