from __future__ import annotations

import pytest

from a3gnn.models.layers.gat import GATLayer
from a3gnn.models.layers.gcn import GCNLayer
from a3gnn.models.layers.layer import LayerShapes
from a3gnn.models.layers.sage import SAGELayer

# Batch 1,024, fanouts (25, 10).
INPUT_LAYER = LayerShapes(182_000, 26_000, 260_000, trains=True)
LAST_LAYER = LayerShapes(26_000, 1_024, 25_600, trains=True, needs_input=True)


@pytest.mark.parametrize("out_channels", [7, 47, 256])
def test_a_mini_batch_aggregates_first_in_every_layer(out_channels):
    assert not SAGELayer(100, 256).maps_first(INPUT_LAYER)
    assert not GCNLayer(256, out_channels).maps_first(LAST_LAYER)


def test_a_whole_graph_maps_first_where_that_narrows():
    work = LayerShapes(100_000, 100_000, 5_000_000)
    assert SAGELayer(256, 47).maps_first(work)
    assert not SAGELayer(100, 256).maps_first(work)


def test_a_sparse_input_is_never_aggregated():
    assert SAGELayer(100, 256).maps_first(LayerShapes(182_000, 26_000, 260_000, sparse=True, trains=True))


def test_attention_is_summed_over_input_rows_unless_many_heads_of_wide_rows_cost_more():
    layer = GATLayer(100, 256, heads=4, concat=True, dropout=0.5)
    assert layer._attends_first(INPUT_LAYER)
    assert not GATLayer(2_000, 64, heads=32, concat=True, dropout=0.5)._attends_first(
        LayerShapes(2_000, 1_900, 200_000)
    )


def test_costs_grow_with_what_has_to_be_done():
    forward = LayerShapes(1_000, 100, 5_000)
    training = LayerShapes(1_000, 100, 5_000, trains=True)
    hidden = LayerShapes(1_000, 100, 5_000, trains=True, needs_input=True)
    for cost in (lambda work: work.map_first(64, 32), lambda work: work.aggregate_first(64, 32, heads=2)):
        assert 0 < cost(forward) < cost(training) <= cost(hidden)
