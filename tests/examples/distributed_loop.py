"""A training loop of one's own over several processes: DistributedDataParallel or FSDP, and a3gnn's Loader.

torchrun --standalone --nproc-per-node 2 distributed_loop.py ddp|fsdp GRAPH WEIGHTS; rank 0 writes WEIGHTS.
"""

import sys

import torch
import torch.nn.functional as F  # noqa: N812
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

from a3gnn import Graph, Loader


def train(wrap, source, target):
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    graph = Graph.load(source)
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 16, 2, graph.num_classes)
    if wrap == "ddp":
        model = DistributedDataParallel(model)
    else:
        for layer in model.convs:
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = Loader(graph, [5, 3], graph.train_ids, batch_size=150, shuffle=True, share=(rank, ranks))
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size].long())
            # Both average gradients over the ranks: so they come to those of the whole mini-batch, whatever its shares.
            (loss * batch.seed_share * ranks).backward()
            optimizer.step()
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        torch.save(weights, target)


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    train(*sys.argv[1:])
    distributed.destroy_process_group()
