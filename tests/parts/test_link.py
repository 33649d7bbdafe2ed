"""A server that is gone is asked again for a while: one that comes back is taken up, one that doesn't is named."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import GraphServerError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.make import make_parts
from a3gnn.parts.opening import PartsSpec, open_parts
from a3gnn.parts.part import open_part
from a3gnn.parts.serve import serving
from tests.parts.servers import HOST

ALL = np.arange(2000, dtype=np.int32)


@contextmanager
def two_parts(folder: Path, patience_s: float) -> Iterator[tuple[PartedGraph, list[str], list[str]]]:
    """Serves part-0 in `folder` all the while and part-1 until the graph is open; yields it, told lines, addresses."""
    told: list[str] = []
    with serving(open_part(folder / "part-0"), HOST, 0, None) as (_, first):
        with serving(open_part(folder / "part-1"), HOST, 0, None) as (_, second):
            graph = open_parts(PartsSpec((first, second), patience_s))
        graph.client.listener.notify = told.append
        yield graph, told, [first, second]
        graph.client.close()


@pytest.fixture(scope="module")
def halves(small_folder_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("halves") / "parts"
    make_parts(small_folder_graph, folder, 2, partitioner="random")
    return folder


def read(graph: PartedGraph) -> np.ndarray:
    return graph.features.read(ALL)


def test_a_server_that_comes_back_is_taken_up(halves: Path, small_folder_graph: Graph) -> None:
    with two_parts(halves, 120.0) as (graph, told, addresses):
        found: list[np.ndarray] = []
        reader = threading.Thread(target=lambda: found.append(read(graph)))
        reader.start()
        while not told:
            time.sleep(0.01)
        port = int(addresses[1].rpartition(":")[2])
        with serving(open_part(halves / "part-1"), HOST, port, None):
            reader.join(120)
        assert np.array_equal(found[0], small_folder_graph.features.array)
        assert f"part 1 of {graph.name} at {addresses[1]} does not answer" in told[0]
        assert told[-1] == f"part 1 of {graph.name} at {addresses[1]} answers again"
        assert graph.client.traffic.retries > 0


def test_a_server_that_does_not_is_named(halves: Path) -> None:
    with two_parts(halves, 0.5) as (graph, _, addresses):
        begin = time.monotonic()
        with pytest.raises(GraphServerError) as error:
            read(graph)
        assert time.monotonic() - begin > 0.4
        message = str(error.value)
        assert f"part 1 of {graph.name} at {addresses[1]} has not answered since " in message
        assert re.search(r"since \d\d:\d\d:\d\d, for 0.5 s and \d+ attempts", message)
        assert "a3gnn parts serve" in message
        assert "wait=10min" in message


def test_another_part_in_its_place_is_refused_at_once(halves: Path) -> None:
    with two_parts(halves, 3600.0) as (graph, _, addresses):
        port = int(addresses[1].rpartition(":")[2])
        begin = time.monotonic()
        with (
            serving(open_part(halves / "part-0"), HOST, port, None),
            pytest.raises(
                GraphServerError, match=r"refuses the request .FAILED_PRECONDITION.*the server now has another part"
            ),
        ):
            read(graph)
        assert time.monotonic() - begin < 600  # far from its patience


def test_waiting_can_be_ended(halves: Path) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    with two_parts(halves, 60.0) as (graph, _, _):
        graph.client.listener.check = stop
        with pytest.raises(StopError):
            read(graph)


def test_a_server_that_never_was_is_said(halves: Path) -> None:
    with serving(open_part(halves / "part-0"), HOST, 0, None) as (_, first):
        pass
    told: list[str] = []
    with pytest.raises(GraphServerError, match=f"the graph server at {first} has not answered since"):
        open_parts(PartsSpec((first,), 0.3), told.append)
    assert told == [f"the graph server at {first} does not answer (UNAVAILABLE); requests are repeated for 0.3 s"]
    told.clear()
    with pytest.raises(GraphServerError):
        train(TrainConfig(), f"parts:{first},wait=1s", notify=told.append)
    assert f"the graph server at {first} does not answer" in told[-1]
    with pytest.raises(GraphServerError), pytest.warns(UserWarning, match=f"the graph server at {first} does not"):
        Loader(f"parts:{first},wait=1s", [2])


def test_what_is_no_graph_server_is_said(halves: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    try:
        with pytest.raises(GraphServerError, match=r"UNIMPLEMENTED.*is it a graph server"):
            open_parts(PartsSpec((f"{HOST}:{port}",), 5.0))
    finally:
        server.stop(None).wait()
