"""On what the corpus is measured: graphs, each with a task, cores and a memory limit."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.metric import AUTO
from a3gnn.task import Task
from a3gnn.training.describe import described


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph, what is trained on it, and with what.

    Attributes:
        spec: The graph: a real one's name, or what `--dataset` takes.
        model: The task's model; of a graph with types, the one that suits it.
        hidden: Its hidden units.
        cores: Cores that trials may run on; None takes all of the machine's.
        memory_share: The memory limit of others' trials as a share of the default's peak; None sets no limit.
    """

    spec: str
    model: str = "sage"
    hidden: int = 256
    cores: int | None = None
    memory_share: float | None = None

    @property
    def name(self) -> str:
        """Tells it from the other subjects."""
        return f"{self.spec} {self.model}"

    def task(self, graph: Graph) -> Task:
        """Returns what is trained on `graph`: but for classes of one node type, with the metric that suits it."""
        task = Task(model=self.model, hidden_channels=self.hidden)
        plain = graph.types is None and graph.target == "classes"
        return task if plain else described(with_metric(task, AUTO, graph, lambda line: None), graph)

    @property
    def seed(self) -> int:
        """Decides its design: each graph has one of its own."""
        return sum(self.spec.encode())


# Between the graphs: 8 to 8,192 features, dense and sparse, 2 to 300 neighbors, up to a million nodes.
# The built-in graph and those that benchmarks/tuned_gain tells of are not among them.
# Model, width, cores and limits of the last thirteen are drawn (`random.Random(0)`), never crossed; the first eighteen
# have the default task.
SUBJECTS = (
    Subject("squirrel_filtered"),
    Subject("citeseer"),
    Subject("dblp"),
    Subject("road_pasadena"),
    Subject("actor"),
    Subject("minesweeper"),
    Subject("acm"),
    Subject("cora"),
    Subject("synthetic:nodes=40000,degree=40,features=128,classes=10,seed=1"),
    Subject("synthetic:nodes=20000,degree=120,features=24,classes=3,seed=2,noise=3"),
    Subject("synthetic:nodes=15000,degree=30,features=700,classes=10,seed=3,noise=4,train=0.6"),
    Subject("synthetic:nodes=15000,degree=10,features=8192,density=0.01,classes=12,seed=4"),
    Subject("synthetic:nodes=20000,degree=60,features=4000,density=0.005,classes=5,seed=5,train=0.5"),
    Subject("synthetic:nodes=200000,degree=4,features=1500,density=0.004,classes=30,seed=6"),
    Subject("synthetic:nodes=100000,degree=15,features=300,classes=40,seed=7,noise=3,train=0.5"),
    Subject("synthetic:nodes=300000,degree=25,features=64,classes=20,seed=8,noise=2,train=0.1"),
    Subject("synthetic:nodes=25000,degree=300,features=100,classes=6,seed=9,noise=2,train=0.2"),
    Subject("synthetic:nodes=60000,degree=6,features=16,classes=4,seed=10,noise=1,train=0.6"),
    Subject("cora_ml", "gcn", 128, cores=1),
    Subject(
        "synthetic:nodes=1000000,degree=8,features=32,classes=10,seed=11,noise=2,train=0.05",
        "gat",
        64,
        memory_share=0.9,
    ),
    Subject(
        "synthetic:nodes=8000,degree=2,features=8,classes=3,seed=12,noise=1,train=0.5", "gcn", 512, memory_share=0.8
    ),
    Subject("synthetic:nodes=5000,degree=50,features=1000,density=0.02,classes=8,seed=13,train=0.5", "gcn", 256),
    Subject("synthetic:nodes=50000,degree=20,features=500,density=0.01,classes=15,seed=14", "gin", 256),
    Subject("synthetic:nodes=120000,degree=100,features=128,classes=10,seed=15,noise=3,train=0.1", "gat", 128, cores=1),
    Subject(
        "synthetic:nodes=10000,degree=200,features=3000,density=0.003,classes=6,seed=16,train=0.4", "gin", 512, cores=1
    ),
    Subject("synthetic:nodes=400000,degree=12,features=100,classes=20,seed=17,noise=2,train=0.05", "gin", 256),
    Subject("synthetic:nodes=30000,degree=16,features=2048,classes=10,seed=18,noise=5", "sage", 128),
    Subject(
        "synthetic:nodes=15000,degree=5,features=64,classes=5,seed=19,noise=2,train=0.4", "sage", 512, memory_share=0.9
    ),
    Subject("synthetic:nodes=80000,degree=50,features=20,classes=4,seed=20,noise=1,train=0.2", "sage", 64),
    Subject(
        "synthetic:nodes=6000,degree=12,features=6000,density=0.01,classes=10,seed=21,train=0.5", "sage", 256, cores=1
    ),
    Subject("synthetic:nodes=25000,degree=8,features=400,classes=7,seed=22,noise=3,train=0.3", "gat", 64),
    # Drawn by `random.Random(39)`: sizes on a logarithmic scale, models, widths, cores and limits.
    Subject("synthetic:nodes=19000,degree=4,features=160,classes=16,seed=31,noise=1,train=0.6", "sage", 256),
    Subject("synthetic:nodes=520000,degree=24,features=58,classes=25,seed=32,noise=3,train=0.2", "gin", 128),
    Subject(
        "synthetic:nodes=74000,degree=4,features=53,classes=10,seed=33,noise=2,train=0.6", "sage", 256, memory_share=1.0
    ),
    Subject("synthetic:nodes=300000,degree=25,features=73,classes=3,seed=34,noise=4,train=0.05", "gcn", 64),
    Subject(
        "synthetic:nodes=5100,degree=39,features=450,classes=25,seed=35,noise=2,train=0.6",
        "sage",
        256,
        memory_share=1.0,
    ),
    Subject("synthetic:nodes=47000,degree=7,features=2200,classes=7,seed=36,noise=2,train=0.5", "gat", 64),
    Subject(
        "synthetic:nodes=26000,degree=7,features=22,classes=3,seed=38,noise=2,train=0.05", "gcn", 64, memory_share=1.0
    ),
    Subject(
        "synthetic:nodes=8600,degree=21,features=2800,density=0.01,classes=10,seed=39,noise=2,train=0.1",
        "gcn",
        128,
        cores=1,
    ),
    Subject("synthetic:nodes=340000,degree=11,features=32,classes=3,seed=40,noise=2,train=0.1", "gcn", 128, cores=1),
    Subject("synthetic:nodes=28000,degree=6,features=39,classes=7,seed=41,noise=3,train=0.2", "gat", 256),
    Subject("synthetic:nodes=590000,degree=19,features=54,classes=40,seed=42,noise=3,train=0.05", "gin", 256),
    Subject("synthetic:nodes=740000,degree=4,features=150,classes=2,seed=43,noise=3,train=0.05", "gat", 128),
    Subject("synthetic:nodes=7800,degree=23,features=15,classes=5,seed=44,noise=1,train=0.6", "gcn", 128),
    Subject("synthetic:nodes=7700,degree=76,features=15,classes=3,seed=45,noise=2,train=0.6", "gin", 128),
    Subject(
        "synthetic:nodes=26000,degree=93,features=3400,density=0.003,classes=5,seed=46,noise=1,train=0.05",
        "gat",
        128,
        cores=1,
    ),
    Subject("synthetic:nodes=16000,degree=45,features=57,classes=2,seed=47,noise=1,train=0.05", "gin", 256),
    Subject("synthetic:nodes=58000,degree=15,features=26,classes=5,seed=48,noise=3,train=0.2", "sage", 64),
    Subject("synthetic:nodes=7400,degree=70,features=400,classes=2,seed=49,noise=1,train=0.6", "sage", 128),
    Subject("synthetic:nodes=45000,degree=23,features=160,classes=7,seed=50,noise=4,train=0.5", "gcn", 128, cores=1),
    Subject(
        "synthetic:nodes=30000,degree=74,features=2400,density=0.005,classes=10,seed=52,noise=2,train=0.3", "gin", 64
    ),
    Subject("synthetic:nodes=10000,degree=40,features=17,classes=3,seed=53,noise=4,train=0.1", "sage", 128),
    Subject("synthetic:nodes=61000,degree=8,features=15,classes=3,seed=56,noise=2,train=0.5", "gin", 64),
    Subject("tolokers"),
    Subject("credit_default"),
    # Real graphs of above with other models.
    Subject("citeseer", "gin", 128),
    Subject("actor", "gat", 64),
    Subject("squirrel_filtered", "gcn", 128),
    Subject("dblp", "gat", 64),
    Subject("acm", "gin", 256),
)
#: Node types, links, links over time, values of edges. The graphs that docs/benchmarks tell of are not among them.
TYPED_SUBJECTS = (
    Subject("target:compound:mutag_rdf", hidden=128),
    Subject("target:paper:acl_anthology", hidden=64),
    Subject("target:user,listens_to,artist:lastfm_artists", hidden=64),
    Subject("target:user,rates,user:bitcoin_otc", hidden=64),
    Subject("target:user,rates,movie=edge_weight:movielens_small", hidden=128),
    Subject("target:synset,*,synset:wn18rr", "embedding", 128),
)
