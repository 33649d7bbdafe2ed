"""What the Python blocks of the docs need, page by page: a page's blocks are run as one script, after what is here.

A page that is not listed, or a block that is neither run nor left out with a reason, fails a test.
"""

from __future__ import annotations

import re

from tests.docs.running import Substitutions

_DATA = """\
from a3gnn import *

graph = Graph.load("graph.npz")
data = graph.to_pyg()
"""

#: What a page's script begins with: what the page speaks of as given.
GIVEN: dict[str, str] = {
    "README.md": "",
    "docs/research/accelerators.md": "",
    "docs/research/algorithms.md": "",
    "docs/design/caching.md": """\
import numpy as np
from a3gnn.graphs.convert import convert

convert("graph.npz", "fast/huge")
ids = np.arange(100, dtype=np.int32)
""",
    "docs/howto/loader.md": _DATA,
    "docs/howto/link_split.md": _DATA,
    "docs/howto/rank_links.md": "",
    "docs/howto/link_tasks.md": """\
import numpy as np

rng = np.random.default_rng(0)
np.savez(
    "movielens_small.npz",
    node_types=np.array(["user", "movie"]),
    num_nodes=np.array([30, 40]),
    edge_types=np.array(["user__rates__movie"]),
    edge_index__user__rates__movie=np.unique(rng.integers(30, size=(2, 400)), axis=1),
)
np.save("best.npy", np.zeros(3, dtype=[("source", "i8"), ("target", "i8", (10,))]))
""",
    "docs/howto/edge_tasks.md": """\
import numpy as np

rng = np.random.default_rng(0)
edges = np.unique(rng.integers(32, size=(2, 600)), axis=1)
np.savez(
    "movielens_small.npz",
    node_types=np.array(["user", "movie"]),
    num_nodes=np.array([32, 32]),
    edge_types=np.array(["user__rates__movie"]),
    edge_index__user__rates__movie=edges,
    edge_weight__user__rates__movie=rng.random(edges.shape[1], dtype=np.float32),
)
""",
    "docs/howto/node_types.md": "",
    "docs/howto/own_loop.md": _DATA
    + """\
def train_epoch(loader):
    return [batch.batch_size for batch in loader]


def validate():
    return 0.5
""",
    "docs/reference/accelerate.md": """\
from torch_geometric.nn import GraphSAGE

model = GraphSAGE(8, 8, num_layers=2)
""",
    "docs/concepts/coming_from.md": _DATA,
    "docs/reference/data_formats.md": _DATA,
    "docs/research/hybrid.md": "",
    "docs/reference/models.md": _DATA + "in_channels, out_channels = data.num_features, int(data.y.max()) + 1\n",
    "docs/howto/out_of_core.md": "",
    "docs/howto/own_models.md": "",
    "docs/howto/picking.md": "",
    "docs/howto/plain_pyg.md": """\
import shutil

shutil.copytree("runs/mine", "runs/portable")
""",
    "docs/howto/predict.md": _DATA,
    "docs/howto/python.md": _DATA,
    "docs/howto/search.md": "",
    "docs/howto/service.md": """\
def my_trainer(config, plan):
    if config["batch_size"] > 4096:
        raise MemoryError
    return [2.0, 4.0, 3.0], 300 << 20, [1, 2, 3, 6], [0.2, 0.4, 0.5, 0.6]
""",
    "docs/start/your_graph.md": _DATA
    + """\
with open("nodes.csv", "w") as nodes_file, open("edges.csv", "w") as edges_file:
    nodes_file.write("id,label,age,score\\n" + "".join(f"n{i},{'ab'[i % 2]},{i},{i / 2}\\n" for i in range(20)))
    edges_file.write("source,target\\n" + "".join(f"n{i},n{(i + 1) % 20}\\n" for i in range(20)))
""",
    "docs/design/surrogate.md": """\
from a3gnn import Graph, Task
from a3gnn.figures import Reference
from a3gnn.profiling.store.existing import existing_rows
from a3gnn.space import SearchSpace

measurements = existing_rows("runs/mine/profiles.sqlite")
graph, task, hardware = Graph.load("graph.npz"), Task(), measurements[0].setting.hardware
space = SearchSpace.of(measurements[0].setting)
rows, reference = space.sample(5, seed=0), Reference(1.0, 0.7, 0.69, False)
""",
}

#: Blocks that begin with such a line are also written to the file that it names: other blocks import it.
FILE = re.compile(r"# (\w+\.py)\n")
_OF_SEVERAL = "a process of several: tests/examples/distributed_*.py, which tests run, have it"

#: Blocks that are not run, by a line in them, with the reason.
NOT_RUN: dict[str, str] = {
    "def propose(self, beliefs": "the signature of a protocol; tests/tuning/engines call every engine by it",
    'check(design, "sage"': "needs a C++ compiler; the tests in tests/hitgnn/hls run it where there is one",
    "RayExecutor(": "needs a Ray cluster; the tests in tests/profiling/cluster start one",
    "share=(rank, ranks)": _OF_SEVERAL,
    "wrapped = fully_shard(model)": _OF_SEVERAL,
    "get_model_state_dict(model.model": _OF_SEVERAL,
    'device="cuda"': "needs a GPU",
    'graph_of("parts:': "needs graph servers; the tests in tests/parts start three",
    "tune(data, task=task)": "a second tune of the page; tests/tuning/test_own_models.py gives tasks",
    'client.start("graph.npz", trainer="client"': "the loop of docs/howto/service.md, where it is run",
    'out="runs/python"': "the tutorial's Python is that of README.md",
    "import lightning": "Lightning may not be installed; tests/training/test_data_module.py runs it where it is",
}

#: What is put in the place of what a page shows.
SUBSTITUTIONS: Substitutions = (
    (re.compile(r'budget="\d+min"'), 'budget="2s"'),
    (re.compile(r"budget=20\b"), "budget=2"),
    (re.compile(r'"/fast/'), '"fast/'),
    (re.compile(r"synthetic:nodes=20000"), "synthetic:nodes=4000"),
    (re.compile(r'"synthetic:"'), '"synthetic:nodes=600"'),
)
