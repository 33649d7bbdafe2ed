import dataclasses

import pytest
import torch

from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from tests.pipeline.batches import content

FANOUTS = (5, 4)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_batch_names_all_memory_that_a_stream_must_be_told_of(
    sparse: bool, small_graph: Graph, sparse_graph: Graph
) -> None:
    graph = sparse_graph if sparse else small_graph
    with Pipeline(graph, TrainConfig(batch_size=20), FANOUTS, PipelineOptions(seed=7)) as pipeline:
        batch = next(pipeline.epoch(0))
    # `record_stream` takes dense tensors only, and marks the memory that they share with these.
    assert all(tensor.layout is torch.strided for tensor in batch.tensors)
    x = [batch.x.crow_indices(), batch.x.col_indices(), batch.x.values()] if sparse else [batch.x]
    held = {tensor.untyped_storage().data_ptr() for tensor in (*x, batch.y, batch.indptr, batch.indices)}
    assert {tensor.untyped_storage().data_ptr() for tensor in batch.tensors} == held
    assert len(held) == (6 if sparse else 4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_sparse_batches_on_cuda_are_not_overwritten_while_they_are_read(mode: str, sparse_graph: Graph) -> None:
    with Pipeline(sparse_graph, TrainConfig(batch_size=20), FANOUTS, PipelineOptions(seed=7)) as pipeline:
        expected = [content(batch) for batch in pipeline.epoch(1)]
    config = TrainConfig(batch_size=20, parallel_mode=mode, num_workers=2)
    busy, copies = torch.randn(2000, 2000, device="cuda"), []
    with Pipeline(sparse_graph, config, FANOUTS, PipelineOptions(seed=7, device="cuda")) as pipeline:
        for batch in pipeline.epoch(1):
            for _ in range(20):  # the copy below waits on the device, after the host has dropped the mini-batch
                busy = busy @ busy / 50
            copies.append(dataclasses.replace(batch, x=batch.x.to_dense()))
            del batch
    assert [content(copy.to("cpu")) for copy in copies] == expected
