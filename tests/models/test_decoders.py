from __future__ import annotations

import math

import pytest
import torch

from a3gnn.models.decoders import MLP, RotatE, make_decoder
from a3gnn.task import DECODERS


def rows(count: int, width: int = 8) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("are_heads", [True, False])
def test_blocks_have_the_scores_of_pairs(name: str, are_heads: bool) -> None:
    torch.manual_seed(1)
    decoder = make_decoder(name, 8, 3)  # type: ignore[arg-type]
    queries, candidates, relations = rows(5), rows(7), torch.tensor([0, 2, 1, 0, 2])
    block = decoder.block(queries, candidates, relations, are_heads=are_heads)
    assert block.shape == (5, 7)
    for query in range(5):
        one = queries[query].expand(7, -1)
        heads, tails = (one, candidates) if are_heads else (candidates, one)
        expected = decoder.pairs(heads, tails, relations[query].expand(7))
        torch.testing.assert_close(block[query], expected, rtol=1e-4, atol=1e-4)


def test_relations_matter_but_to_the_dot_product() -> None:
    heads, tails = rows(2), rows(3)[:2]
    for name in DECODERS:
        torch.manual_seed(1)
        decoder = make_decoder(name, 8, 2)
        if isinstance(decoder, MLP):
            torch.nn.init.normal_(decoder.relation)  # 0 at first
        one, other = (decoder.pairs(heads, tails, torch.full((2,), kind)) for kind in range(2))
        assert torch.equal(one, other) == (name == "dot")


def test_rotate_is_the_distance_of_rotated_complex_numbers() -> None:
    torch.manual_seed(1)
    decoder, relations = RotatE(8, 2), torch.tensor([0, 1, 1])
    heads, tails = rows(3), rows(4)[:3]
    turned = torch.complex(*heads.chunk(2, dim=1)) * torch.polar(torch.ones(3, 4), decoder.angle[relations])
    expected = 6 - (turned - torch.complex(*tails.chunk(2, dim=1))).abs().pow(2).sum(dim=1).sqrt()
    torch.testing.assert_close(decoder.pairs(heads, tails, relations), expected)
    assert decoder.angle.abs().max() <= math.pi


def test_equal_rows_have_a_gradient_in_a_block_of_rotate() -> None:
    decoder, row = RotatE(8, 1), rows(1).requires_grad_()
    with torch.no_grad():
        decoder.angle.zero_()
    decoder.block(row, row, torch.zeros(1, dtype=torch.int64)).sum().backward()
    assert row.grad is not None
    assert bool(row.grad.isfinite().all())


def test_pieces_of_a_large_block_of_the_mlp_are_its_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, relations = MLP(8, 1), torch.zeros(9, dtype=torch.int64)
    whole = decoder.block(rows(9), rows(6), relations)
    monkeypatch.setattr("a3gnn.models.decoders._MOST_ENTRIES", 100)
    torch.testing.assert_close(decoder.block(rows(9), rows(6), relations), whole)
