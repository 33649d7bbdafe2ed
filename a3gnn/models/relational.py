"""`rsage`: GraphSAGE over the relations of a graph with node types, made of PyG's modules."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict

from a3gnn.graphs.types import GraphTypes
from a3gnn.models.layers.block import csr_matmul
from a3gnn.models.layers.compiled import is_traced
from a3gnn.models.layers.layer import linear

#: Columns of the encoding of an age, a hyperparameter that no tune searches.
_STEPS = 16
#: The least age, in the units of times: "now" may be the time of the last event.
_LEAST_AGE = 1e-6


def rsage(
    types: GraphTypes, out_channels: int, *, hidden_channels: int = 64, dropout: float = 0.5, layers: int = 2
) -> RelationalSAGE:
    """Returns a `RelationalSAGE` for `types`.

    Args:
        types: Types, relations and columns of features.
        out_channels: Columns of the outputs.
        hidden_channels: Columns of all rows between layers.
        dropout: Probability of dropping an activation before each layer but the first.
        layers: Layers, one per sampled hop.
    """
    return RelationalSAGE(types, out_channels, hidden_channels, dropout, layers)


class RelationalSAGE(nn.Module):
    """Layers that sum a `SAGEConv` of each relation (as R-GCN sums a weight of each; Schlichtkrull et al., 2018).

    The rows of each type are first brought to one width: features by a linear map, nodes without features by an
    embedding. Between layers are ReLU and dropout. Where edges have ages, each layer adds `EdgeAges`, and nodes without
    features have random rows that are not trained.

    Attributes:
        takes_sparse: Features may be sparse CSR, which a mini-batch doesn't make dense.
    """

    takes_sparse = True

    def __init__(self, types: GraphTypes, out_channels: int, hidden_channels: int, dropout: float, layers: int) -> None:
        super().__init__()
        self.predicted, self.has_links, self.dropout = types.predicted, types.has_links, dropout
        columns, nodes = types.in_channels, types.num_nodes
        self.inputs = ModuleDict({kind: _Linear(width, hidden_channels) for kind, width in columns.items()})
        self.embeddings = ModuleDict(
            {kind: nn.Embedding(count, hidden_channels) for kind, count in nodes.items() if kind not in columns}
        )
        for embedding in self.embeddings.values():
            if types.has_times:  # what is learned of a node is out of date later, and new nodes have learned nothing
                embedding.requires_grad_(False)
            else:
                nn.init.xavier_uniform_(embedding.weight)
        kinds: set[str] = {*types.predicted}
        self.convs, self.ages = nn.ModuleList(), nn.ModuleList()
        for layer in reversed(range(layers)):  # the last layer computes the target type alone
            width = out_channels if layer == layers - 1 else hidden_channels
            relations = [one for one in types.metadata[1] if one[2] in kinds]
            convs = {one: SAGEConv(hidden_channels, width) for one in relations}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # on types without an output, which no later layer reads
                self.convs.insert(0, HeteroConv(convs))
            kinds |= {one[0] for one in relations}
            if types.has_times:
                self.ages.insert(0, EdgeAges(relations, width))

    def forward(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[tuple[str, str, str], Tensor],
        edge_age_dict: dict[tuple[str, str, str], Tensor] | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Returns the outputs of the nodes of the target type, shape (num_nodes, out_channels); of links, by type."""
        x = {
            kind: (self.inputs[kind] if kind in self.inputs else self.embeddings[kind])(rows)
            for kind, rows in x_dict.items()
        }
        for place, conv in enumerate(self.convs):
            if place:
                x = {kind: functional.dropout(rows.relu(), self.dropout, self.training) for kind, rows in x.items()}
            x = {**x, **conv(x, edge_index_dict)}  # a type that no relation ends in keeps its rows
            if edge_age_dict:
                x = self.ages[place](x, edge_index_dict, edge_age_dict)
        return {kind: x[kind] for kind in self.predicted} if self.has_links else x[self.predicted[0]]


class _Linear(nn.Linear):
    """A linear map that takes sparse CSR too, whose product is in float32, under autocast too."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x @ weight.T + bias`."""
        if not x.is_sparse_csr:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            # The cost of a model is counted from torch's operators.
            return csr_matmul(x, self.weight.t()) + self.bias if is_traced() else linear(x, self.weight, self.bias)


class EdgeAges(nn.Module):
    """Adds to a target's row a linear map of the mean, over its edges in each relation, of an encoding of their ages.

    The encoding has 16 learned steps (tanh) of the normalized logarithm of the age, which has no unit. Unlike the
    cosines of TGAT (Xu et al., 2020), they are bounded and monotonic for ages beyond those of training.
    """

    def __init__(self, relations: list[tuple[str, str, str]], width: int) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(1, affine=False)
        self.steps = nn.Linear(1, _STEPS)
        self.outputs = ModuleDict({one: nn.Linear(_STEPS, width, bias=False) for one in relations})

    def forward(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[tuple[str, str, str], Tensor],
        edge_age_dict: dict[tuple[str, str, str], Tensor],
    ) -> dict[str, Tensor]:
        """Returns `x_dict` with these sums; relations without ages add nothing."""
        known = {one: ages for one, ages in edge_age_dict.items() if one in self.outputs and len(ages)}
        if not known:
            return x_dict
        logarithms = torch.cat(list(known.values())).clamp(min=_LEAST_AGE).log()
        steps = self.steps(self.scale(logarithms[:, None])).tanh()
        found = dict(x_dict)
        for one, of_edges in zip(known, steps.split([len(ages) for ages in known.values()]), strict=True):
            targets, rows = edge_index_dict[one][1], len(x_dict[one[2]])
            sums = of_edges.new_zeros(rows, _STEPS).index_add(0, targets, of_edges)
            counts = torch.bincount(targets, minlength=rows).clamp(min=1)
            found[one[2]] = found[one[2]] + self.outputs[one](sums / counts[:, None])
        return found
