"""The convolution on pairs of atoms against e3nn's tensor product on edges."""

from __future__ import annotations

import pytest
import torch
from e3nn.nn import FullyConnectedNet
from e3nn.o3 import Irreps, TensorProduct, spherical_harmonics
from torch.nn.functional import silu

from anchor.potentials.equivariant import PairConvolution, pairs_of_atoms
from anchor.potentials.graph import neighbour_graph
from anchor.potentials.state import to_state

HARMONICS = Irreps("1x0e+1x1e+1x2e")
INPUTS = Irreps("6x0e+4x1e+3x2e")


@pytest.fixture
def graph(crystals):
    """Five small crystals: many images of each pair, and of an atom with itself."""
    state = to_state(crystals)
    return neighbour_graph(state, state.positions, torch.zeros_like(state.cell), cutoff=5.0)


def layer() -> tuple[TensorProduct, FullyConnectedNet]:
    """All paths of INPUTS × HARMONICS up to l = 2, and a network for their weights; double precision."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = [
            (mul, ir, i, j)
            for i, (mul, x) in enumerate(INPUTS)
            for j, (_, y) in enumerate(HARMONICS)
            for ir in x * y
            if ir.l <= 2
        ]
        product = TensorProduct(
            INPUTS,
            HARMONICS,
            Irreps([(mul, ir) for mul, ir, _, _ in found]),
            [(i, j, k, "uvu", True) for k, (_, _, i, j) in enumerate(found)],
            shared_weights=False,
            internal_weights=False,
        )
        return product, FullyConnectedNet([5, 7, product.weight_numel], silu)
    finally:
        torch.set_default_dtype(default)


def test_pairs_hold_each_edge_once(graph):
    pairs = pairs_of_atoms(graph)
    i, j = graph.edges[:, pairs.edges]
    assert torch.equal(i, pairs.first[pairs.owner])
    assert torch.equal(j, pairs.second[pairs.owner])
    assert len(torch.unique(torch.stack([pairs.first, pairs.second]), dim=1).T) == len(pairs.first)
    assert len(pairs.first) < len(pairs.edges)
    rows = torch.cat([graph.edges.T, graph.shifts], dim=1)
    kept = rows[pairs.edges]
    turned = torch.cat([kept[:, [1, 0]], -kept[:, 2:]], dim=1)
    both = {tuple(row) for row in torch.cat([kept, turned]).tolist()}
    assert both == {tuple(row) for row in rows.tolist()}
    assert len(both) == 2 * len(kept)


def test_equals_the_tensor_product_on_edges_and_its_gradients(graph):
    torch.manual_seed(0)
    product, radial = layer()
    convolution = PairConvolution(product, radial, denominator=3.0)
    pairs = pairs_of_atoms(graph)
    x = torch.randn(len(graph.numbers), INPUTS.dim, dtype=torch.float64, requires_grad=True)
    vectors = graph.vectors.detach().requires_grad_()

    def inputs(v):
        basis = torch.exp(-((v.norm(dim=1)[:, None] - torch.arange(1, 6)) ** 2))
        return basis, spherical_harmonics(HARMONICS, v, normalize=True)

    half_basis, half_harmonics = inputs(vectors[pairs.edges])
    ours = convolution(x, half_basis, half_harmonics, pairs)
    basis, harmonics = inputs(vectors)
    i, j = graph.edges
    messages = product(x[j], harmonics, radial(basis))
    theirs = messages.new_zeros(len(x), messages.shape[1]).index_add(0, i, messages) / 3.0
    assert torch.allclose(ours, theirs, atol=1e-11)

    test = torch.randn_like(ours)
    our_x, our_vectors = torch.autograd.grad((ours * test).sum(), [x, vectors])
    their_x, their_vectors = torch.autograd.grad((theirs * test).sum(), [x, vectors])
    assert torch.allclose(our_x, their_x, atol=1e-11)

    def pull(gradient):  # one direction of each edge stands for both: compare what acts on atoms
        zeros = gradient.new_zeros(len(x), 3)
        return zeros.index_add(0, j, gradient).index_add(0, i, gradient, alpha=-1)

    assert torch.allclose(pull(our_vectors), pull(their_vectors), atol=1e-11)
    assert pull(our_vectors).abs().max() > 1e-3


def test_refuses_layers_of_another_kind():
    product, radial = layer()
    product.instructions[0] = product.instructions[0]._replace(connection_mode="uvv")
    with pytest.raises(ValueError, match="on pairs"):
        PairConvolution(product, radial, denominator=1.0)
