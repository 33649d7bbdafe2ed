"""What a server answers, and what it refuses: other parts, foreign nodes, too much, bytes that mean nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.graphs.graph import Graph
from a3gnn.parts import serve as answers
from a3gnn.parts.part import Part, open_part
from a3gnn.parts.protocol import (
    MAX_IDS,
    METHODS,
    Key,
    RefusedError,
    column_request,
    neighbors_request,
    rows_request,
)
from a3gnn.parts.serve import PartAnswers
from a3gnn.sampling.hops import NeighborDraw

FLOAT32 = np.dtype(np.float32)


@pytest.fixture(scope="session")
def part(parts_folder: Path) -> Part:
    return open_part(parts_folder / "part-1")


@pytest.fixture(scope="session")
def key(part: Part) -> Key:
    return Key(part.cut, part.number)


@pytest.fixture(scope="session")
def served(part: Part) -> PartAnswers:
    return PartAnswers(part)


def refused(served: PartAnswers, method: str, request: bytes) -> tuple[str, str]:
    """Returns the code and the message that a request is refused with."""
    with pytest.raises(RefusedError) as error:
        served.methods[method](request)
    return error.value.code, str(error.value)


def test_rows_are_the_graphs(small_folder_graph: Graph, served: PartAnswers, part: Part, key: Key) -> None:
    ids = part.nodes[::-7].copy()
    found = np.frombuffer(served.rows(rows_request(key, FLOAT32, ids)), dtype=np.float32)
    assert np.array_equal(found.reshape(len(ids), -1), small_folder_graph.features.array[ids])
    halves = np.frombuffer(served.rows(rows_request(key, np.dtype(np.float16), ids)), dtype=np.float16)
    assert np.array_equal(halves.reshape(len(ids), -1), small_folder_graph.features.array[ids].astype(np.float16))


def test_foreign_nodes_are_refused(served: PartAnswers, part: Part, key: Key) -> None:
    foreign = np.setdiff1d(np.arange(2000), part.nodes)[:1].tolist()
    for ids in (foreign, [-1], [2**31 - 1], [int(part.nodes[0]), *foreign]):
        array = np.array(ids, dtype=np.int32)
        for method, request in (
            ("Neighbors", neighbors_request(key, NeighborDraw(3), array)),
            ("Rows", rows_request(key, FLOAT32, array)),
        ):
            code, message = refused(served, method, request)
            assert code == "INVALID_ARGUMENT"
            assert "ids must be nodes of part 1" in message


@pytest.mark.parametrize("method", ["Column", "Neighbors", "Rows"])
def test_another_part_and_another_cut_are_refused(served: PartAnswers, part: Part, key: Key, method: str) -> None:
    for other in (Key(part.cut, 2), Key(bytes(16), part.number)):
        requests = {
            "Column": column_request(other, "nodes", 0, 1),
            "Neighbors": neighbors_request(other, NeighborDraw(3), part.nodes[:1]),
            "Rows": rows_request(other, FLOAT32, part.nodes[:1]),
        }
        assert refused(served, method, requests[method])[0] == "FAILED_PRECONDITION"


def test_too_much_is_refused(served: PartAnswers, part: Part, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    many = np.full(MAX_IDS + 1, part.nodes[0], dtype=np.int32)
    assert "1 to 1,048,576 ids" in refused(served, "Rows", rows_request(key, FLOAT32, many))[1]
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 100)
    ids = part.nodes[:50]
    for method, request in (
        ("Neighbors", neighbors_request(key, NeighborDraw(-1), ids)),
        ("Rows", rows_request(key, FLOAT32, ids)),
        ("Column", column_request(key, "labels", 0, 50)),
    ):
        assert "at most 100 bytes" in refused(served, method, request)[1]
    assert len(served.rows(rows_request(key, FLOAT32, ids[:1]))) == 128  # a single row is answered, whatever its size


@pytest.mark.parametrize(
    ("method", "rest", "says"),
    [
        ("Column", b"labels" + bytes(10) + b"\0" * 8 + b"\xff" * 8, "rows in"),
        ("Column", b"password" + bytes(24), "a column must be one of nodes"),
        ("Column", b"", "32 more bytes"),
        ("Neighbors", b"", "32 more bytes"),
        ("Neighbors", bytes(36), "a fanout must be >= 1"),
        ("Rows", bytes(8), "with 2 to 4 bytes"),
        ("Rows", b"\4\0\0\0" + b"abc", "ids of 4 bytes"),
    ],
)
def test_what_means_nothing_is_refused(served: PartAnswers, key: Key, method: str, rest: bytes, says: str) -> None:
    code, message = refused(served, method, key.pack() + rest)
    assert code == "INVALID_ARGUMENT"
    assert says in message


@given(method=st.sampled_from(METHODS), rest=st.binary(max_size=200), keyed=st.booleans())
def test_any_bytes_are_answered_or_refused(
    served: PartAnswers, key: Key, method: str, rest: bytes, keyed: bool
) -> None:
    request, code = key.pack() + rest if keyed else rest, ""
    try:
        assert isinstance(served.methods[method](request), bytes)
    except RefusedError as refusal:
        code = refusal.code
    assert code in ("", "INVALID_ARGUMENT", "FAILED_PRECONDITION")


def test_values_beyond_float16_are_refused_as_in_one_process(part: Part, key: Key) -> None:
    import dataclasses

    large = dataclasses.replace(part, x=np.full_like(part.x, 70_000))
    code, message = refused(PartAnswers(large), "Rows", rows_request(key, np.dtype(np.float16), part.nodes[:2]))
    assert code == "OUT_OF_RANGE"
    assert "65,504" in message
