"""The backward pass that is written by hand, against finite differences."""

from __future__ import annotations

import pytest
import torch

from anchor.potentials.messages import Links, MessagePassing

UNITS, ATOMS, EDGES = 5, 3, 8


def weights(blocks: int) -> dict[str, torch.Tensor]:
    """Random ones of the published names and shapes, with few units."""
    random = torch.Generator().manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64) / 2

    found = {"edge_encoder.mlp.0.linear.weight": some(UNITS, 4)}
    for block in (f"graph_conv.{b}" for b in range(blocks)):
        for network in ("gated_mlp_edge", "gated_mlp_atom"):
            for part in ("g", "sigma"):
                for layer, width in ((0, 3 * UNITS), (1, UNITS)):
                    found[f"{block}.{network}.{part}.{layer}.linear.weight"] = some(UNITS, width)
                    found[f"{block}.{network}.{part}.{layer}.linear.bias"] = some(UNITS)
        found[f"{block}.edge_layer_edge.linear.weight"] = some(UNITS, 4)
        found[f"{block}.edge_layer_atom.linear.weight"] = some(UNITS, 4)
        found[f"{block}.three_body.atom_mlp.linear.weight"] = some(16, UNITS)
        found[f"{block}.three_body.atom_mlp.linear.bias"] = some(16)
        found[f"{block}.three_body.edge_gate_mlp.g.0.linear.weight"] = some(UNITS, 16)
        found[f"{block}.three_body.edge_gate_mlp.sigma.0.linear.weight"] = some(UNITS, 16)
    return found


class Layers(torch.autograd.Function):
    """Forward and backward pass as gradcheck wants them."""

    @staticmethod
    def forward(ctx, basis, triplets, layers, atom, links):
        numbers, far = torch.zeros(ATOMS, dtype=torch.int64), basis.new_zeros(0)
        found, ctx.tape = layers(atom, numbers, far, basis, triplets, links)
        ctx.layers = layers
        return found

    @staticmethod
    def backward(ctx, by_atom):
        _, by_basis, by_triplets = ctx.layers.backward(ctx.tape, by_atom)
        return by_basis.T, by_triplets, None, None, None


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_finite_differences(weighted: bool) -> None:
    layers = MessagePassing(weights(3), 3, UNITS)
    random = torch.Generator().manual_seed(1)
    i = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    j = torch.tensor([1, 2, 0, 0, 2, 1, 1, 0])
    copies = torch.tensor([1.0, 2, 1, 4, 1, 1, 3, 1], dtype=torch.float64)[:, None]
    links = Links(i, j, EDGES, copies if weighted else None, ATOMS)
    atom = torch.randn(ATOMS, UNITS, generator=random, dtype=torch.float64)
    basis = torch.randn(EDGES, 4, generator=random, dtype=torch.float64, requires_grad=True)
    triplets = torch.randn(EDGES, 16, generator=random, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda b, t: Layers.apply(b, t, layers, atom, links), (basis, triplets))


def test_an_edge_that_stands_for_two_counts_as_two() -> None:
    layers = MessagePassing(weights(1), 1, UNITS)
    random = torch.Generator().manual_seed(2)
    atom = torch.randn(2, UNITS, generator=random, dtype=torch.float64)
    basis = torch.randn(2, 4, generator=random, dtype=torch.float64)
    triplets = torch.randn(2, 16, generator=random, dtype=torch.float64)
    i, j, none = torch.tensor([0, 1]), torch.tensor([1, 0]), basis.new_zeros(0)
    twice = torch.tensor([[2.0], [1.0]], dtype=torch.float64)
    merged, _ = layers(atom, i, none, basis, triplets, Links(i, j, 2, twice, 2))
    rows = torch.tensor([0, 0, 1])
    links = Links(i[rows], j[rows], 3, None, 2)
    apart, _ = layers(atom, i, none, basis[rows], triplets[rows], links)
    torch.testing.assert_close(merged, apart, rtol=0, atol=1e-12)
