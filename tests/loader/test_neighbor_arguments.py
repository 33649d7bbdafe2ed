import pytest
import torch

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transform_sampler_output", str),
        ("neighbor_sampler", object()),
        ("generator", torch.Generator()),
        ("worker_init_fn", print),
        ("multiprocessing_context", "fork"),
        ("timeout", 3),
        ("in_order", False),
    ],
)
def test_what_is_not_supported_is_refused(name: str, value: object, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=f"{name} must be .* or left out, got .*: "):
        Loader(tiny_graph, [4], **{name: value})


def test_what_is_pygs_default_is_taken(tiny_graph: Graph) -> None:
    taken = {"replace": False, "subgraph_type": "directional", "disjoint": False, "weight_attr": None, "timeout": 0}
    hints = {
        "dataset": [1],
        "collate_fn": list,
        "is_sorted": True,
        "filter_per_worker": True,
        "pin_memory": True,
        "prefetch_factor": 4,
    }
    assert len(Loader(tiny_graph, [4], batch_size=100, **taken, **hints)) == 3


def test_an_unknown_argument_names_the_nearest(tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match="did you mean 'replace'"):
        Loader(tiny_graph, [4], replaced=True)
