"""`GraphServer`: the rows of one part, and mini-batches of its nodes with the other parts' help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.sampling.sampler import NeighbourSampler


@dataclass(slots=True)
class Traffic:
    """The cost of a server's own mini-batches so far.

    Attributes:
        expanded: Nodes whose in-neighbours were sampled.
        remote: Those of them whose in-neighbours were requested from another server.
        bytes_sent: Bytes of its requests and their answers.
    """

    expanded: int = 0
    remote: int = 0
    bytes_sent: int = 0


class GraphServer:
    """Samples hop by hop: in-neighbours of its own nodes itself, those of other nodes by requests to their servers.

    `serve` runs in one thread per other server: a server reads answers once all its requests are sent, and until then
    its answers must not block the requests of others.

    Args:
        graph: The whole graph; the part's rows are copied from it.
        parts: Part of each node, int32, shape (num_nodes,).
        rank: The part served.
        asks: Connections to the other parts' servers, by part.
        fanouts: In-neighbours sampled per node, the seeds' hop first; -1 takes all.
        seed: Decides the samples, the same for all servers.
    """

    def __init__(
        self,
        graph: GraphArrays,
        parts: NDArray[np.int32],
        rank: int,
        asks: Mapping[int, Connection],
        fanouts: Sequence[int],
        seed: int,
    ) -> None:
        own, degrees = parts == rank, np.diff(graph.indptr)
        indptr = np.concatenate(([0], np.cumsum(np.where(own, degrees, 0))))
        indices = graph.indices[np.repeat(own, degrees)]
        self._hops = [
            NeighbourSampler(indptr, indices, (fanout,), seed=seed + hop) for hop, fanout in enumerate(fanouts)
        ]
        self._parts, self._rank, self._asks = parts, rank, dict(asks)
        self._places = np.full(graph.num_nodes, -1, dtype=np.int32)
        self.traffic = Traffic()

    def serve(self, link: Connection) -> None:
        """Answers the server at the other end of `link` until it closes it."""
        while True:
            try:
                request = np.frombuffer(link.recv_bytes(), dtype=np.int32)
            except EOFError:
                return
            (hop, asker, batch), nodes = request[:3].tolist(), request[3:].copy()
            link.send_bytes(np.concatenate(self._drawn(hop, asker, batch, nodes)))

    def sample(self, seeds: NDArray[np.int32], batch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the mini-batch's nodes, int32, the seeds first, and its edges, int32, shape (2, num_edges).

        Edges are places in the nodes: the in-neighbours', and below those of the nodes that they were drawn for.
        """
        places, frontier = self._places, seeds
        places[seeds] = np.arange(len(seeds), dtype=np.int32)
        nodes, edges, found = [seeds], [], len(seeds)
        for hop in range(len(self._hops)):
            rows, degrees, neighbours = self._expanded(hop, batch, frontier)
            sources, frontier = placed(neighbours, places, found)
            found += len(frontier)
            nodes.append(frontier)
            edges.append(np.stack([sources, np.repeat(places[rows], degrees)]))
        n_id = np.concatenate(nodes)
        places[n_id] = -1
        return n_id, np.concatenate(edges, axis=1)

    def hang_up(self) -> None:
        """Tells the other servers that no request will come."""
        for link in self._asks.values():
            link.close()

    def _expanded(self, hop: int, batch: int, frontier: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """Returns the frontier in another order, each node's drawn degree, and all their drawn in-neighbours."""
        owners = self._parts[frontier]
        remote = {part: rows for part in self._asks if len(rows := frontier[owners == part])}
        for part, rows in remote.items():
            request = np.concatenate([np.array([hop, self._rank, batch], dtype=np.int32), rows])
            self._asks[part].send_bytes(request)
            self.traffic.bytes_sent += request.nbytes
        local = frontier[owners == self._rank]
        self.traffic.expanded += len(frontier)
        self.traffic.remote += len(frontier) - len(local)
        found = [(local, *self._drawn(hop, self._rank, batch, local))] if len(local) else []
        for part, rows in remote.items():
            answer = np.frombuffer(self._asks[part].recv_bytes(), dtype=np.int32)
            self.traffic.bytes_sent += answer.nbytes
            found.append((rows, answer[: len(rows)], answer[len(rows) :]))
        # The last hop may have found no new nodes.
        return [np.concatenate(column) for column in zip(*found, strict=True)] or [frontier] * 3

    def _drawn(
        self, hop: int, asker: int, batch: int, nodes: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        drawn = self._hops[hop].sample(nodes, asker, batch)
        return np.diff(drawn.indptr), drawn.n_id[drawn.indices]


@njit(cache=True, nogil=True)
def placed(
    nodes: NDArray[np.int32], places: NDArray[np.int32], found: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the local ids of `nodes`, new ones (-1) numbered from `found` on, and the new nodes."""
    mine, new, count = np.empty_like(nodes), np.empty_like(nodes), 0
    for i in range(len(nodes)):
        node = nodes[i]
        if places[node] < 0:
            places[node] = found + count
            new[count] = node
            count += 1
        mine[i] = places[node]
    return mine, new[:count]
