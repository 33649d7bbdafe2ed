"""`joined_quality`: the quality of nodes that ranks have evaluated a part of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from a3gnn.training.ranks.protocol import Ranks

if TYPE_CHECKING:
    from a3gnn.training.tally import Tally


def joined_quality(found: Tally, ranks: Ranks) -> float:
    """Returns the quality of all ranks' nodes, the same bits on each; rank 0 computes it."""
    found.join(ranks)
    value = torch.zeros(1, dtype=torch.float64)
    if not ranks.rank:
        value[0] = found.quality()
    ranks.broadcast(value, 0)
    return float(value)
