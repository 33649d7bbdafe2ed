"""A built-in model in a training loop of one's own over several processes: DistributedDataParallel or FSDP.

torchrun --standalone --nproc-per-node 2 distributed_model.py ddp|fsdp GRAPH MODEL; rank 0 writes MODEL, a model.pt.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from a3gnn import Graph, Loader, Task
from a3gnn.training.batch_model import BatchModel
from a3gnn.training.saved_model import SavedModel


def train(wrap, source, target):
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    graph, task = Graph.load(source), Task(model="gin", fanouts=(5, 3), hidden_channels=16)
    model = BatchModel(task, graph.num_features, graph.num_classes)
    if wrap == "ddp":
        wrapped = DistributedDataParallel(model)
    else:
        for layer in model.model.convs:
            fully_shard(layer)
        wrapped = fully_shard(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    loader = Loader(graph, task.fanouts, graph.train_ids, batch_size=150, shuffle=True, share=(rank, ranks))
    for _ in range(2):
        for batch in loader.minibatches():
            optimizer.zero_grad()
            loss = F.cross_entropy(wrapped(batch), batch.y)
            (loss * batch.seed_share * ranks).backward()
            optimizer.step()
    weights = get_model_state_dict(model.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        SavedModel(task, graph.target, graph.num_features, graph.num_classes, weights).write(Path(target))


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    train(*sys.argv[1:])
    distributed.destroy_process_group()
