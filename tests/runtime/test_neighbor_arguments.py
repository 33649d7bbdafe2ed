import pytest
import torch
from torch_geometric.data import Data

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.loader import Loader


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replace", True),
        ("directed", False),
        ("subgraph_type", "induced"),
        ("disjoint", True),
        ("temporal_strategy", "last"),
        ("time_attr", "time"),
        ("input_time", torch.zeros(3)),
        ("weight_attr", "edge_weight"),
        ("transform_sampler_output", str),
        ("neighbor_sampler", object()),
        ("input_id", torch.zeros(3)),
        ("custom_cls", Data),
        ("sampler", [1]),
        ("batch_sampler", [[1]]),
        ("generator", torch.Generator()),
        ("worker_init_fn", print),
        ("multiprocessing_context", "fork"),
        ("timeout", 3),
    ],
)
def test_what_is_not_supported_is_refused(name: str, value: object, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=f"{name} must be .* or left out, got .*: "):
        Loader(tiny_graph, [4], **{name: value})


def test_what_is_pygs_default_is_taken(tiny_graph: Graph) -> None:
    taken = {"replace": False, "subgraph_type": "directional", "disjoint": False, "weight_attr": None, "timeout": 0}
    hints = {"is_sorted": True, "filter_per_worker": True, "pin_memory": True, "prefetch_factor": 4}
    assert len(Loader(tiny_graph, [4], batch_size=100, **taken, **hints)) == 3


def test_an_unknown_argument_names_the_nearest(tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match="did you mean 'replace'"):
        Loader(tiny_graph, [4], replaced=True)
