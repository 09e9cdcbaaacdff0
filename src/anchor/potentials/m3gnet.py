"""The M3GNet network of MatterSim, evaluated on edges instead of triplets.

The published network sums a three-body term over all pairs (j, k) of neighbours of an atom i:

    T_ij = f(r_ij) Σ_{k≠j} f(r_ik) R_ln(r_ik) Y_l(cos θ_jik).

By the addition theorem Y_l(cos θ_jik) is a sum over m of products of spherical harmonics of the two
directions, so the sum over k is a density A_i,nlm made once for each atom: the cost falls from triplets
(about ten for each edge) to edges, and nothing grows with the square of the coordination number. T does not
depend on the layer (only a gate of atom i does), so it is made once for all layers. The first linear map of
each edge network, of (v_i, v_j, e_ij), is split, and its atomic parts are applied to atoms. All of this is
exact: the mattersim package is the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import spherical_jn
from torch import Tensor, nn
from torch.nn.functional import silu

from anchor.potentials.graph import Graph
from anchor.potentials.messages import Links, MessagePassing

DEGREES = 4
"""l = 0 … 3, and as many radial functions for each."""


class M3GNet(nn.Module):
    """Atomic energies from a neighbour graph.

    Args:
        weights: State dictionary as MatterSim publishes it.
        num_blocks: Message-passing layers.
        units: Width of atom and edge features.
        cutoff: Å, of the graph.
        threebody_cutoff: Å, of the three-body term.
        max_l, max_n: Angular and radial functions of the three-body term.
        max_z: Largest atomic number.
        geometry: Type of the basis functions' constants; the rest keeps the weights' type.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        *,
        num_blocks: int,
        units: int,
        cutoff: float,
        threebody_cutoff: float,
        max_l: int,
        max_n: int,
        max_z: int,
        geometry: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if (max_l, max_n) != (DEGREES, DEGREES) or weights["normalizer.shift"].shape != (max_z + 1,):
            raise ValueError(f"unknown M3GNet layout: {max_l=}, {max_n=}, {max_z=}")
        self.threebody_cutoff = threebody_cutoff
        self.radial = SmoothBessel(weights, geometry)
        self.three_body = ThreeBody(cutoff, threebody_cutoff, geometry)
        self.layers = MessagePassing(weights, num_blocks, units)
        self.embedding = nn.Buffer(weights["atom_embedding.mlp.0.linear.weight"].T.contiguous())
        self.value = _layers(weights, "final.g", 3)
        self.gate = _layers(weights, "final.sigma", 3)
        self.scale = nn.Buffer(weights["normalizer.scale"].to(geometry))
        self.shift = nn.Buffer(weights["normalizer.shift"].to(geometry))

    def forward(self, graph: Graph) -> Tensor:
        """Atomic energies, eV, in the geometry's precision.  # [n_atoms]"""
        kind = self.embedding.dtype
        n_atoms = len(graph.numbers)
        i, j = graph.edges
        length = graph.vectors.norm(dim=1)
        short = length.detach() < self.threebody_cutoff
        bonds, wanted, weight = torch.nonzero(short).view(-1), None, None
        around = graph.vectors.index_select(0, bonds), length[bonds], i[bonds]
        if graph.chosen is not None and graph.copies is not None:  # of edges that are alike one is enough
            wanted = (torch.cumsum(short, 0) - 1)[graph.chosen][short[graph.chosen]]
            i, j, length, short = i[graph.chosen], j[graph.chosen], length[graph.chosen], short[graph.chosen]
            bonds, weight = torch.nonzero(short).view(-1), graph.copies.to(kind)[:, None]
        triplets = self.three_body(*around, n_atoms, wanted)  # [n_short, 16]
        basis = self.radial(length)  # [n_edges, 4]
        links = Links(i, j, bonds, i[bonds], weight, n_atoms)
        atom = self.layers(self.embedding[graph.numbers], basis.to(kind), triplets.to(kind), links)
        energy = (_run(self.value, atom) * torch.sigmoid(_run(self.gate, atom))).view(-1).to(length.dtype)
        return self.scale[graph.numbers].to(energy) * energy + self.shift[graph.numbers].to(energy)


class SmoothBessel(nn.Module):
    """Radial basis of edges whose value and slope vanish at the cutoff.  # [n_edges] -> [n_edges, 4]"""

    def __init__(self, weights: Mapping[str, Tensor], geometry: torch.dtype) -> None:
        super().__init__()
        norm, mix = weights["rbf.dn"].double(), weights["rbf.en"].double().view(-1)
        self.amplitude = nn.Buffer(weights["rbf.fnr_weights"].to(geometry))
        self.first = nn.Buffer(weights["rbf.n_1_pi_cutoff"].to(geometry))
        self.second = nn.Buffer(weights["rbf.n_2_pi_cutoff"].to(geometry))
        self.before = (mix[1:] / norm[:-1]).sqrt().tolist()
        self.norm = norm[1:].sqrt().tolist()

    def forward(self, length: Tensor) -> Tensor:
        u, v = length[:, None] * self.first.to(length), length[:, None] * self.second.to(length)
        raw = self.amplitude.to(length) * (u.sin() / u + v.sin() / v)
        basis = [raw[:, 0]]
        for n, (before, norm) in enumerate(zip(self.before, self.norm, strict=True), start=1):
            basis.append((raw[:, n] + before * basis[-1]) / norm)  # Gram–Schmidt against the one before
        return torch.stack(basis, dim=1)


class ThreeBody(nn.Module):
    """T_ij of the module's docstring, for edges inside the three-body cutoff."""

    def __init__(self, cutoff: float, threebody_cutoff: float, geometry: torch.dtype) -> None:
        super().__init__()
        roots = bessel_roots()  # [l, n]
        peak = np.abs([spherical_jn(l + 1, roots[l]) for l in range(DEGREES)])
        degree = np.arange(DEGREES)[:, None]
        # Radial normalisation, and Y_l(cos θ) = sqrt((2 l + 1) / 4π) P_l(cos θ).
        scale = np.sqrt(2.0 / cutoff**3) / peak * np.sqrt((2 * degree + 1) / (4 * np.pi))
        self.cutoff, self.threebody_cutoff = cutoff, threebody_cutoff
        self.roots = nn.Buffer(torch.from_numpy(roots).to(geometry))
        self.scale = nn.Buffer(torch.from_numpy(scale).to(geometry))
        self.degree = nn.Buffer(torch.arange(DEGREES).repeat_interleave(torch.tensor([1, 3, 5, 7])))

    def forward(
        self, vectors: Tensor, length: Tensor, center: Tensor, n_atoms: int, wanted: Tensor | None = None
    ) -> Tensor:
        """Sum over the other neighbours of each edge's first atom, for the wanted edges (None: for all).

        # [n_short, 3] -> [n_wanted, 16]
        """
        ratio = length / self.threebody_cutoff
        envelope = 1 - ratio**3 * (10 - 15 * ratio + 6 * ratio**2)
        x = self.roots.to(length) * (length / self.cutoff)[:, None, None]  # [n_short, l, n]
        weighted = spherical_bessel(x) * envelope[:, None, None]
        harmonics = solid_harmonics(vectors / length[:, None])  # [n_short, lm]
        contribution = weighted.index_select(1, self.degree) * harmonics[:, :, None]  # [n_short, lm, n]
        zeros = contribution.new_zeros((n_atoms, *contribution.shape[1:]))
        density = zeros.index_add(0, center, contribution)  # [n_atoms, lm, n]
        if wanted is not None:
            weighted, harmonics, envelope, center = (
                values.index_select(0, wanted) for values in (weighted, harmonics, envelope, center)
            )
        others = density.index_select(0, center) * harmonics[:, :, None]
        summed = torch.stack(
            [part.sum(dim=1) for part in others.split([1, 3, 5, 7], dim=1)], dim=1
        )  # [·, l, n]
        # P_l(1) = 1: the term k = j is taken out again.
        return ((summed - weighted) * envelope[:, None, None] * self.scale.to(length)).flatten(start_dim=1)


def _layers(weights: Mapping[str, Tensor], prefix: str, stop: int, start: int = 0) -> nn.ModuleList:
    """Linear maps `prefix`.start … `prefix`.stop − 1 of the published network."""
    layers = nn.ModuleList()
    for k in range(start, stop):
        weight, bias = weights[f"{prefix}.{k}.linear.weight"], weights[f"{prefix}.{k}.linear.bias"]
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        layer.load_state_dict({"weight": weight, "bias": bias})
        layers.append(layer)
    return layers


def _run(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Linear maps with swish between them, none after the last."""
    for k, layer in enumerate(layers):
        x = layer(silu(x) if k else x)
    return x


def solid_harmonics(unit: Tensor) -> Tensor:
    """C_lm for l = 0 … 3 with Σ_m C_lm(u) C_lm(v) = P_l(u·v) (Racah's normalisation).  # [n, 3] -> [n, 16]"""
    x, y, z = unit.unbind(dim=1)
    xx, yy, zz = x * x, y * y, z * z
    a, b, c = 3**0.5, (5 / 8) ** 0.5, (3 / 8) ** 0.5
    terms = [torch.ones_like(x), x, y, z]
    terms += [a * x * y, a * y * z, (3 * zz - 1) / 2, a * x * z, a / 2 * (xx - yy)]
    terms += [b * y * (3 * xx - yy), 15**0.5 * x * y * z, c * y * (5 * zz - 1), z * (5 * zz - 3) / 2]
    terms += [c * x * (5 * zz - 1), 15**0.5 / 2 * z * (xx - yy), b * x * (xx - 3 * yy)]
    return torch.stack(terms, dim=1)


def spherical_bessel(x: Tensor) -> Tensor:
    """j_l(x) with l along dimension 1, by upward recurrence (x > l / 2 here: stable).  # [n, 4, k]"""
    sine, cosine = x.sin(), x.cos()
    rows = []
    for l in range(DEGREES):
        u, s, c = x[:, l], sine[:, l], cosine[:, l]
        below, here = c / u, s / u  # j_{-1}, j_0
        for order in range(l):
            below, here = here, (2 * order + 1) / u * here - below
        rows.append(here)
    return torch.stack(rows, dim=1)


def bessel_roots() -> np.ndarray:
    """The first positive zeros of j_l; those of j_l lie between neighbouring ones of j_{l-1}.  # [4, 4]"""
    zeros = np.pi * np.arange(1, 2 * DEGREES + 1)
    table = [zeros[:DEGREES]]
    for l in range(1, DEGREES):
        zeros = np.array([brentq(lambda x, l=l: spherical_jn(l, x), a, b) for a, b in pairwise(zeros)])
        table.append(zeros[:DEGREES])
    return np.stack(table)
