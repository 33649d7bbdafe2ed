"""`watched`: people are told of graph servers while they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.units import count, format_size


@contextmanager
def watched(graph: Graph, notify: Callable[[str], None], check: Callable[[], None]) -> Iterator[None]:
    """Says what of `graph` is here, which servers don't answer meanwhile, and in the end what was asked.

    Does nothing for a graph that is not by parts.

    Args:
        graph: The graph.
        notify: Takes lines for people, from any thread.
        check: Called while a server is waited for; what it raises ends the waiting.
    """
    if not isinstance(graph, PartedGraph):
        yield
        return
    client = graph.client
    listener, before = client.listener, client.traffic
    servers = count(len(client.addresses), "graph server")
    notify(f"{graph.name} is read from {servers}; {format_size(graph.held_bytes)} of it are here")
    kept = listener.notify, listener.check
    listener.notify, listener.check = notify, check
    try:
        yield
    finally:
        listener.notify, listener.check = kept
        notify(client.traffic.since(before).text)
