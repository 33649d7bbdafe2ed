"""Run by test_exit.py: processes that suspend epochs of every kind and then end, each in a way of its own.

Arguments: the folder of a graph, a folder for what the processes say, and their ways: end, error or ctrl-c. They are
forked once everything is imported and kernels are loaded, which takes most of the time. Each one's stderr is the file
of its way's name. The first process prints the ways and the exit statuses as JSON; a negative status is the signal that
ended the process.
"""

import json
import os
import signal
import sys
import threading
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
        from_disk = config.replace(feature_tier="disk", cache_policy="ahead", cache_bytes=1 << 25)
        ahead = Pipeline(graph, from_disk, FANOUTS, PipelineOptions(seed=0))
        assert ahead.store.ahead is not None
        epochs += [iter(loader), pipeline.epoch(0), isolated.epoch(0), ahead.epoch(0)]
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


def wait_for(children):
    statuses = {how: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for how, pid in children.items()}
    print(json.dumps(statuses))
    sys.exit()


graph = Graph.load(sys.argv[1])
next(iter(Loader(graph, FANOUTS, config=TrainConfig(batch_size=16))))  # loads the kernels, and starts no thread
assert threading.active_count() == 1
children = {}
for how in sys.argv[3:]:
    children[how] = os.fork()
    if children[how] == 0:
        os.dup2(os.open(os.path.join(sys.argv[2], how), os.O_WRONLY | os.O_CREAT), 2)
        break
else:
    wait_for(children)
if how == "end":
    epochs = suspended(graph)
else:
    broken(graph, how)
