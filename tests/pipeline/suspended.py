"""Run by test_exit.py: suspends epochs of every kind and then ends, as its second argument says.

Arguments: the folder of a graph; end, error or ctrl-c.
"""

import os
import signal
import sys
import time
from itertools import product

from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.pipeline.allocate import Allocation
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions

FANOUTS = (5, 4)


def suspended(graph):
    epochs = []
    for mode, overlapped in product(PARALLEL_MODES, (True, False)):
        config = TrainConfig(batch_size=16, parallel_mode=mode, num_workers=2)
        loader = Loader(graph, FANOUTS, config=config)
        pipeline = Pipeline(graph, config, FANOUTS, PipelineOptions(seed=0))
        isolated = Pipeline(graph, config, FANOUTS, PipelineOptions(seed=0, resources=Allocation(1, 1, 1)))
        # Fewer mini-batches than the policy's first comparison takes: it stays as it is set.
        loader._pipeline._overlap.overlapped = pipeline._overlap.overlapped = overlapped
        epochs += [iter(loader), pipeline.epoch(0), isolated.epoch(0)]
    epochs.append(iter(Loader(graph, FANOUTS, batch_size=64, num_workers=2)))
    for epoch, _ in product(epochs, range(4)):
        next(epoch)
    for _ in range(7):  # and so one is in the turn to which it changed over by itself
        next(epochs[-1])
    return epochs


def broken(graph, how):
    local = suspended(graph)
    if how == "ctrl-c":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    raise LookupError(f"{len(local)} epochs are locals of this frame, which the traceback keeps")


graph = Graph.load(sys.argv[1])
if sys.argv[2] == "end":
    epochs = suspended(graph)
else:
    broken(graph, sys.argv[2])
