"""The three programs of HitGNN's Listing 2, and an algorithm of one's own, each trained by all ranks.

torchrun --nproc-per-node N hitgnn_programs.py GRAPH OUT
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from torch import distributed

from a3gnn import Graph, Task, TrainConfig, train
from a3gnn.graphs.describe import hottest_first
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.p3 import PartialSums
from a3gnn.hitgnn.algorithms.partitioners import distdgl_partition, pagraph_partition
from a3gnn.hitgnn.algorithms.program import Program
from a3gnn.hitgnn.algorithms.stored import by_partition

distributed.init_process_group("gloo")  # one for all programs
graph, out, p = Graph.load(sys.argv[1]), Path(sys.argv[2]), int(os.environ["WORLD_SIZE"])

### DistDGL preprocessing example ###
parts = distdgl_partition(graph, p)
distdgl = Program(graph, p, "distdgl")
for i in range(p):
    distdgl.graph_partition(np.flatnonzero(parts == i), i)
    distdgl.feature_storing(i, nodes=np.flatnonzero(parts == i))

### PaGraph preprocessing example ###
parts, hot = pagraph_partition(graph, p), hottest_first(graph)[: graph.num_nodes // p]
pagraph = Program(graph, p, "pagraph")
for i in range(p):
    pagraph.graph_partition(np.flatnonzero(parts == i), i)
    pagraph.feature_storing(i, nodes=hot)  # the same on each device

### P3 preprocessing example ###
p3 = Program(graph, p, "p3", exchange=PartialSums)
for i in range(p):
    p3.graph_partition(range(graph.num_nodes), i)  # the entire graph's topology
    p3.feature_storing(i, columns=(graph.num_features * i // p, graph.num_features * (i + 1) // p))

### One's own ###
stripes = Algorithm("stripes", lambda graph, ranks, seed: np.arange(graph.num_nodes) % ranks, by_partition)

model = Task(model="sage", hidden_channels=128, fanouts=(25, 10))
for algorithm in (distdgl.algorithm(), pagraph.algorithm(), p3.algorithm(), stripes):
    train(TrainConfig(batch_size=64), graph, task=model, algorithm=algorithm, epochs=2, out=out / algorithm.name)
distributed.destroy_process_group()
