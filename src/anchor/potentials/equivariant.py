"""Equivariant convolutions (SevenNet, NequIP) evaluated on pairs of atoms instead of edges.

The published layer sends along each edge e: j → i, for each path (l₁, l₂, l₃) and channel u,

    m_e,k = w_e Σ_ab C_abk x_j,a Y_b(r_e),    w_e = Σ_h W_h h_h(|r_e|),

and adds up what arrives at i. Three things make this cheaper, all exact:

- All edges between the same two atoms (periodic images) share x_j, so Σ_e h_h(|r_e|) Y_b(r_e) is made once
  for each pair of atoms; W is applied to that sum, and the tensor product is taken once for each pair. A cell
  of ten atoms has about three times as many edges as pairs.
- The edge back is the same vector with the other sign and Y_b(−r) = (−1)^l₂ Y_b(r), so half of the edges are
  enough for both directions.
- C is sparse: the products of its few non-zero elements run over contiguous arrays of [pairs, channels].

The e3nn package's tensor product is the oracle of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from anchor.potentials.graph import Graph


@dataclass(frozen=True, eq=False)
class Pairs:
    """One of the two directions of each edge, and the pairs of atoms that they join.

    Attributes:
        edges: Rows of the graph's edges.  # [n_half]
        owner: Which pair each of them belongs to.  # [n_half]
        first, second: The atoms i ≤ j of each pair.  # [n_pairs]
    """

    edges: Tensor
    owner: Tensor
    first: Tensor
    second: Tensor


def one_direction(graph: Graph) -> Tensor:
    """Of an edge and its reverse, the one from the smaller atom index; between an atom and its own image, the
    one whose translation has a positive first non-zero component.  # [n_edges], bool"""
    i, j = graph.edges
    a, b, c = graph.shifts.unbind(dim=1)
    return (i < j) | ((i == j) & ((a > 0) | ((a == 0) & ((b > 0) | ((b == 0) & (c > 0))))))


def pairs_of_atoms(graph: Graph) -> Pairs:
    """The pairs of atoms that edges join."""
    edges = torch.nonzero(one_direction(graph)).view(-1)
    i, j = graph.edges[:, edges]
    n = len(graph.numbers)
    key, owner = torch.unique(i * n + j, return_inverse=True)
    return Pairs(edges, owner, key // n, key % n)


class PairConvolution(nn.Module):
    """One convolution on pairs of atoms.

    Args:
        product: e3nn's tensor product: "uvu" paths only, one channel in the second factor, external weights.
        radial: Network of edges whose output is linear in its last layer, an e3nn FullyConnectedNet.
        denominator: Divides the sums.

    Raises:
        ValueError: The layer is of another kind.
    """

    def __init__(self, product: Any, radial: Any, denominator: float) -> None:
        super().__init__()
        if (
            any(p.connection_mode != "uvu" or not p.has_weight for p in product.instructions)
            or any(mul != 1 for mul, _ in product.irreps_in2)
            or product.shared_weights
            or [p.i_out for p in product.instructions] != list(range(len(product.irreps_out)))
            or radial[-1].act is not None
        ):
            raise ValueError(f"not a convolution that can be evaluated on pairs: {product}")
        self.irreps = product.irreps_in1
        self.hidden = nn.Sequential(*list(radial)[:-1])
        self.denominator = denominator
        like = radial[-1].weight
        matrix = radial[-1](torch.eye(len(like), dtype=like.dtype, device=like.device))  # [hidden, weights]
        widths = [p.path_shape[0] for p in product.instructions]
        self.paths = nn.ModuleList(
            Path(product, path, coupling, weight.detach().clone())
            for path, coupling, weight in zip(
                product.instructions, couplings(product, like), matrix.split(widths, dim=1), strict=True
            )
        )

    def forward(self, x: Tensor, radial_basis: Tensor, harmonics: Tensor, pairs: Pairs) -> Tensor:
        """Sums of messages at each atom.

        Args:
            x: Features in e3nn's order.  # [n_atoms, d_in]
            radial_basis: Of the half of the edges in `pairs`.  # [n_half, n_basis]
            harmonics: The same, spherical harmonics.  # [n_half, d_harmonics]
            pairs: Who is joined.

        Returns:
            Features in e3nn's order.  # [n_atoms, d_out]
        """
        hidden = self.hidden(radial_basis) / self.denominator
        density = Density.apply(harmonics.T, hidden, pairs.owner, len(pairs.first))
        parts = [
            x[:, where].view(len(x), mul, ir.dim).permute(2, 0, 1)  # [2 l + 1, n_atoms, mul]
            for (mul, ir), where in zip(self.irreps, self.irreps.slices(), strict=True)
        ]
        sums = Messages.apply(list(self.paths), pairs, density, *parts)
        return torch.cat([part.permute(1, 2, 0).flatten(start_dim=1) for part in sums], dim=1)


class Path(nn.Module):
    """The constants of one path (l₁, l₂, l₃).

    Attributes:
        source: Which of the input's irreps.
        filter: Which of the harmonics.
        way_back: Sign of Y(−r) / Y(r).
        size: 2 l₃ + 1.
        coupling: (a, b, k, C_abk), the non-zero ones.
        weight: W.  # [hidden, mul]
    """

    def __init__(self, product: Any, path: Any, coupling: Tensor, weight: Tensor) -> None:
        super().__init__()
        self.source: int = path.i_in1
        self.filter: slice = product.irreps_in2.slices()[path.i_in2]
        self.way_back = (-1) ** product.irreps_in2[path.i_in2].ir.l
        self.size = coupling.shape[2]
        elements = torch.nonzero(coupling.abs() > 1e-6).tolist()  # zero but for rounding; others are > 0.01
        self.coupling = [(a, b, k, float(coupling[a, b, k])) for a, b, k in elements]
        self.weight = nn.Buffer(weight)


def couplings(product: Any, like: Tensor) -> list[Tensor]:
    """C_abk of each path with the package's own normalisation: what its product makes of unit vectors."""
    left, right, out = product.irreps_in1, product.irreps_in2, product.irreps_out
    found = []
    for path in product.instructions:
        n, m = left[path.i_in1].ir.dim, right[path.i_in2].ir.dim
        x, y = like.new_zeros(n, left.dim), like.new_zeros(m, right.dim)
        x[:, left.slices()[path.i_in1]][:, :n] = torch.eye(n).to(x)  # the first channel
        y[:, right.slices()[path.i_in2]] = torch.eye(m).to(y)
        x, y = x.repeat_interleave(m, dim=0), y.repeat(n, 1)
        z = product(x, y, like.new_ones(n * m, product.weight_numel))[:, out.slices()[path.i_out]]
        found.append(z[:, : out[path.i_out].ir.dim].view(n, m, -1))
    return found


class Density(torch.autograd.Function):
    """Sums of Y_b h_h over the edges of each pair.

    [d_harmonics, n_half], [n_half, hidden] -> [d_harmonics, n_pairs, hidden]
    """

    @staticmethod
    def forward(ctx: Any, harmonics: Tensor, hidden: Tensor, owner: Tensor, n_pairs: int) -> Tensor:
        ctx.save_for_backward(harmonics, hidden, owner)
        out = hidden.new_zeros(len(harmonics), n_pairs, hidden.shape[1])
        for y, row in zip(harmonics, out, strict=True):
            row.index_add_(0, owner, y[:, None] * hidden)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        harmonics, hidden, owner = ctx.saved_tensors
        to_harmonics, to_hidden = torch.empty_like(harmonics), torch.zeros_like(hidden)
        for y, g, to_y in zip(harmonics, gradients[0], to_harmonics, strict=True):
            rows = g.index_select(0, owner)
            torch.linalg.vecdot(rows, hidden, out=to_y)
            to_hidden.addcmul_(y[:, None], rows)
        return to_harmonics, to_hidden, None, None


class Messages(torch.autograd.Function):
    """Σ_ab C_abk y_b x_a along every path and pair in both directions, summed at the targets.

    A function of the density [d_harmonics, n_pairs, hidden] and of the atoms' features, one tensor for each
    l₁ [2 l₁ + 1, n_atoms, mul]; returns one tensor for each path [2 l₃ + 1, n_atoms, mul].
    """

    @staticmethod
    def forward(ctx: Any, paths: list[Path], pairs: Pairs, density: Tensor, *parts: Tensor) -> Any:
        n_pairs, n_atoms = len(pairs.first), parts[0].shape[1]
        starts = torch.cat([pairs.second, pairs.first])
        sources = [part.index_select(1, starts).unflatten(1, (2, n_pairs)) for part in parts]
        filters, sums = [], []
        for path in paths:
            y = density[path.filter] @ path.weight  # [2 l₂ + 1, n_pairs, mul]
            x = sources[path.source]
            messages = x.new_zeros(path.size, *x.shape[1:])
            y_, x_, m_ = y.unbind(), x.unbind(), messages.unbind()
            for a, b, k, c in path.coupling:
                m_[k].addcmul_(y_[b], x_[a], value=c)
            total = x.new_zeros(path.size, n_atoms, x.shape[3])
            total.index_add_(1, pairs.first, messages[:, 0])
            total.index_add_(1, pairs.second, messages[:, 1], alpha=path.way_back)
            filters.append(y)
            sums.append(total)
        ctx.paths, ctx.pairs, ctx.filters, ctx.sources, ctx.n_atoms = paths, pairs, filters, sources, n_atoms
        ctx.density_shape = density.shape
        return tuple(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        pairs, n_pairs = ctx.pairs, len(ctx.pairs.first)
        targets = torch.cat([pairs.first, pairs.second])
        to_density = gradients[0].new_zeros(ctx.density_shape)
        to_sources = [torch.zeros_like(source) for source in ctx.sources]
        for path, y, gradient in zip(ctx.paths, ctx.filters, gradients, strict=True):
            x, to_x = ctx.sources[path.source], to_sources[path.source]
            g = gradient.index_select(1, targets).unflatten(1, (2, n_pairs))
            if path.way_back < 0:
                g[:, 1].neg_()
            to_y = x.new_zeros(len(y), *x.shape[1:])
            y_, x_, g_, to_y_, to_x_ = (t.unbind() for t in (y, x, g, to_y, to_x))
            for a, b, k, c in path.coupling:
                to_x_[a].addcmul_(y_[b], g_[k], value=c)
                to_y_[b].addcmul_(x_[a], g_[k], value=c)
            to_density[path.filter] += to_y.sum(dim=1) @ path.weight.T
        starts = torch.cat([pairs.second, pairs.first])
        to_parts = [
            to.new_zeros(len(to), ctx.n_atoms, to.shape[3]).index_add_(1, starts, to.flatten(1, 2))
            for to in to_sources
        ]
        return None, None, to_density, *to_parts
