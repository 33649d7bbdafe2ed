"""`LinkModel`: an encoder of nodes, an embedding per node and a decoder of pairs; and the losses of links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.errors import ModelError
from a3gnn.graphs.links import is_predicted
from a3gnn.graphs.types import GraphTypes
from a3gnn.models.decoders import MLP, make_decoder, taken
from a3gnn.pipeline.pairs import LinkExamples, Rivals
from a3gnn.sampling.link_history import node_columns, pair_columns
from a3gnn.task import Task

#: Hidden columns of `PastLinks`, a hyperparameter that no tune searches.
_PAST_WIDTH = 32


class NoEncoder(nn.Module):
    """An encoder without weights, so that a `LinkModel` has only an embedding per node.

    Args:
        out_channels: Columns of rows.
    """

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        """Returns zeros, float32, shape (num_nodes, out_channels) of each type."""
        return {kind: torch.zeros(len(rows), self.out_channels, device=rows.device) for kind, rows in x_dict.items()}


def embedding(types: GraphTypes, out_channels: int, **options: Any) -> NoEncoder:
    """Returns an encoder without weights; see `NoEncoder`."""
    return NoEncoder(out_channels)


class LinkModel(nn.Module):
    """Scores links from rows of nodes: the encoder's output plus an embedding of the node.

    With the dot product, each target has a learned bias, too. If links have times, rows are only the encoder's, because
    what is learned of a node is out of date later. Then a `PastLinks` adds to rows and scores.

    Args:
        encoder: `forward(x_dict, edge_index_dict)` returns rows of `width` columns by type.
        types: Types of the graph, with a relation as target.
        task: Its `hidden_channels` are the columns of rows; its `decoder` and `weight_decay` are used, too.
        outputs: Outputs per edge, by an `MLP`, if values of edges are predicted; 0 for links.

    Raises:
        ModelError: The encoder has its own loss, optimizer or schedule, or the width is odd for rotate.
    """

    def __init__(self, encoder: nn.Module, types: GraphTypes, task: Task, outputs: int = 0) -> None:
        super().__init__()
        from torch_geometric.nn.module_dict import ModuleDict  # PyG takes 65 MiB, which trainings of nodes need not

        width = task.hidden_channels
        for name in ("loss", "optimizer", "schedule"):
            if getattr(encoder, name, None) is not None:
                raise ModelError(f"{task.model}: {name} must be left out to predict links, whose decoder has its own")
        if task.decoder == "rotate" and width % 2:
            raise ModelError(f"hidden_channels must be even for the decoder rotate, got {width}")
        self.encoder, self.ends = encoder, (types.predicted[0], types.predicted[-1])
        self.nodes, alone = None, isinstance(encoder, NoEncoder)
        if alone or not types.has_times:
            self.nodes = ModuleDict({kind: nn.Embedding(types.num_nodes[kind], width) for kind in types.predicted})
            for table in self.nodes.values():
                nn.init.normal_(table.weight, std=width**-0.5 if alone else 0.1 * width**-0.5)
        has_bias = task.decoder == "dot" and self.nodes is not None and not outputs
        self.bias = nn.Embedding(types.num_nodes[self.ends[1]], 1) if has_bias else None
        if self.bias is not None:
            nn.init.zeros_(self.bias.weight)
        num_relations = sum(is_predicted(one, types.target) for one in types.metadata[1])
        self.decoder = MLP(width, 1, outputs) if outputs else make_decoder(task.decoder, width, num_relations)
        reads_past = types.has_times and task.pair_history > 0
        self.past = PastLinks(width, is_mutual=self.ends[0] == self.ends[1]) if reads_past else None
        self.updates_rows = not task.weight_decay
        self.takes_sparse = getattr(encoder, "takes_sparse", False)

    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], **values: dict[Any, Tensor]
    ) -> dict[str, Tensor]:
        """Returns the encoder's rows of both ends, by type; `values` and ages of edges are passed to it by name.

        Raises:
            ModelError: It returns something else.
        """
        found = self.encoder(x_dict, edge_index_dict, **values)
        if not isinstance(found, Mapping) or any(kind not in found for kind in self.ends):
            got = f"a dict of {', '.join(found)}" if isinstance(found, Mapping) else type(found).__name__
            raise ModelError(f"forward must return a dict with the rows of {' and '.join(self.ends)}, got {got}")
        return {kind: found[kind] for kind in self.ends}

    def rows(self, encoded: Tensor, ids: Tensor, *, are_tails: bool, past: Tensor | None = None) -> Tensor:
        """Returns the rows that the decoder takes, float32, shape (n, width), or (n, width + 1) with a bias.

        Args:
            encoded: The encoder's rows of nodes of one end, shape (n, width).
            ids: These nodes' ids within their type, int64, shape (n,).
            are_tails: Whether they are targets.
            past: Their values by earlier links (`LinkHistory.of_nodes`), if the model has `past`.
        """
        rows = encoded.float()
        if self.past is not None and past is not None:
            rows = rows + self.past.ends[are_tails](past)
        if self.nodes is None:
            return rows
        rows = rows + self._looked_up(self.nodes[self.ends[are_tails]], ids)
        if self.bias is None:
            return rows
        last = self._looked_up(self.bias, ids) if are_tails else rows.new_ones(len(rows), 1)
        return torch.cat([rows, last], dim=1)

    def _looked_up(self, table: nn.Module, ids: Tensor) -> Tensor:
        weight = table.weight
        assert isinstance(weight, Tensor)
        return functional.embedding(ids, weight, sparse=self.updates_rows and not weight.is_cuda)

    def outputs(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns the outputs for edges with these rows at their ends, float32, shape (num_edges, outputs)."""
        assert isinstance(self.decoder, MLP), "values of edges are predicted"
        return self.decoder.outputs(heads, tails, torch.zeros(len(heads), dtype=torch.int64, device=heads.device))

    def loss(self, heads: Tensor, tails: Tensor, examples: LinkExamples) -> Tensor:
        """Returns the mean loss of the pairs of a mini-batch (`NegativeDraws`), over all directions.

        Args:
            heads: The rows of its nodes of the source type.
            tails: The rows of its nodes of the target type.
            examples: The pairs.
        """
        own = self.decoder.pairs(taken(heads, examples.heads), taken(tails, examples.tails), examples.relations)
        own = self._with_past(own, examples.history)
        found = [self._against(one, own, heads, tails, examples) for one in examples.rivals]
        return torch.stack(found).mean()

    def _against(self, rivals: Rivals, own: Tensor, heads: Tensor, tails: Tensor, examples: LinkExamples) -> Tensor:
        """Returns the mean loss of pairs with the scores `own` against their `rivals` in one direction."""
        relations = examples.relations
        ends = (heads, examples.heads), (tails, examples.tails)
        (rows, places), (others, _) = ends if rivals.are_heads else ends[::-1]
        if rivals.known is not None:
            scores = self.decoder.block(
                taken(rows, places), taken(others, rivals.nodes), relations, are_heads=rivals.are_heads
            )
            scores = scores.masked_fill(rivals.known, float("-inf"))
            return functional.cross_entropy(torch.cat([own[:, None], scores], dim=1), torch.zeros_like(places))
        amount = rivals.nodes.shape[1]
        repeated = taken(rows, places).repeat_interleave(amount, dim=0), taken(others, rivals.nodes.reshape(-1))
        pair = repeated if rivals.are_heads else repeated[::-1]
        scores = self.decoder.pairs(*pair, relations.repeat_interleave(amount))
        scores = self._with_past(scores, rivals.history)
        labels = torch.cat([torch.ones_like(own), torch.zeros_like(scores)])
        return functional.binary_cross_entropy_with_logits(torch.cat([own, scores]), labels)

    def _with_past(self, scores: Tensor, history: Tensor | None) -> Tensor:
        return scores if self.past is None or history is None else scores + self.past.scores(history)


class PastLinks(nn.Module):
    """What a `LinkModel` adds for earlier links (`LinkHistory`).

    Attributes:
        ends: From the values of sources, and of targets, to columns that are added to their rows.
        pairs: From the values of pairs to a number that is added to their scores.

    Args:
        width: Columns of rows.
        is_mutual: Whether both ends have the same type.
    """

    def __init__(self, width: int, *, is_mutual: bool) -> None:
        super().__init__()
        columns = node_columns(is_mutual)
        self.ends = nn.ModuleList(_perceptron(columns, width) for _ in range(2))
        self.pairs = _perceptron(pair_columns(is_mutual), 1)

    def scores(self, history: Tensor) -> Tensor:
        """Returns what is added to the scores of pairs, float32, shape (num_pairs,); 0 without history.

        Args:
            history: The values of pairs, float32, shape (num_pairs, columns).
        """
        found: Tensor = self.pairs(history)[:, 0] * history.any(dim=1)
        return found


def _perceptron(columns: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(columns, _PAST_WIDTH), nn.ReLU(), nn.Linear(_PAST_WIDTH, outputs))
