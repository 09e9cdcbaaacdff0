"""The M3GNet network of MatterSim: energies of atoms from vectors between neighbours, and the way back.

Three-body terms are made from edges instead of triplets (`three_body`), functions of distances come from
tables (`functions`), messages are passed with a backward pass written by hand (`messages`), and half of the
first layer is a function of two elements and a distance (`far_edges`). All of this is exact but for rounding:
the mattersim package is the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from anchor.potentials.far_edges import FarEdges
from anchor.potentials.functions import DEGREES, Table, smooth_bessel
from anchor.potentials.graph import Graph
from anchor.potentials.messages import Links, MessagePassing, sigmoid_backward, silu_backward
from anchor.potentials.three_body import ThreeBody


class M3GNet:
    """Atomic energies from a neighbour graph.

    Args:
        weights: State dictionary as MatterSim publishes it, where the network is to run.
        num_blocks: Message-passing layers.
        units: Width of atom and edge features.
        cutoff: Å, of the graph.
        threebody_cutoff: Å, of the three-body term.
        max_l, max_n: Angular and radial functions of the three-body term.
        max_z: Largest atomic number.
        geometry: Type of all that is made of distances and directions; the rest keeps the weights' type.
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
        if (max_l, max_n) != (DEGREES, DEGREES) or weights["normalizer.shift"].shape != (max_z + 1,):
            raise ValueError(f"unknown M3GNet layout: {max_l=}, {max_n=}, {max_z=}")
        self.threebody_cutoff = threebody_cutoff
        self.geometry = geometry
        self.scale, self.shift = (weights[f"normalizer.{name}"].to(geometry) for name in ("scale", "shift"))
        radial = smooth_bessel(weights)
        self.radial = Table(radial, cutoff, self.scale)
        self.three_body = ThreeBody(cutoff, threebody_cutoff, self.scale)
        far = FarEdges(weights, radial, threebody_cutoff, cutoff, self.scale)
        self.layers = MessagePassing(weights, num_blocks, units, far)
        self.embedding = weights["atom_embedding.mlp.0.linear.weight"].T.contiguous()
        self.readout = Readout(weights)

    def __call__(self, graph: Graph) -> Tensor:
        """Atomic energies, eV, once differentiable in the graph's vectors.  # [n_atoms]"""
        return _Energies.apply(graph.vectors, graph, self)

    def run(self, graph: Graph) -> tuple[Tensor, Sequence[Any]]:
        """Atomic energies in the geometry's precision, and what `pull` needs.  # [n_atoms]"""
        kind = self.embedding.dtype
        vectors = graph.vectors.detach().to(self.geometry)
        length = torch.linalg.vector_norm(vectors, dim=1)
        i, j = graph.edges
        short = length < self.threebody_cutoff
        bonds = torch.nonzero(short).view(-1)
        near, wanted, weight = bonds, None, None
        far = torch.nonzero(~short).view(-1)
        if graph.chosen is not None:  # of edges that are alike one is enough
            inside = short.index_select(0, graph.chosen)
            near, far = graph.chosen[inside], graph.chosen[~inside]
            wanted = (torch.cumsum(short, 0) - 1).index_select(0, near)
        order = torch.cat([near, far])  # edges with a three-body term first
        if graph.chosen is not None and graph.copies is not None:
            weight = torch.cat([graph.copies[inside], graph.copies[~inside]]).to(kind)[:, None]
        links = Links(
            i.index_select(0, order), j.index_select(0, order), len(near), weight, len(graph.numbers)
        )
        around = length.index_select(0, bonds)
        unit = vectors.index_select(0, bonds) / around[:, None]
        triplets, seen = self.three_body(unit, around, i.index_select(0, bonds), links.n_atoms, wanted)
        reached = length.index_select(0, order)
        basis, slopes = self.radial(reached)
        atom, passed = self.layers(
            self.embedding.index_select(0, graph.numbers),
            graph.numbers,
            reached[len(near) :],
            basis.to(kind),
            triplets.to(kind),
            links,
        )
        raw, read = self.readout(atom)
        scale = self.scale.index_select(0, graph.numbers)
        energy = raw.to(self.geometry) * scale + self.shift.index_select(0, graph.numbers)
        kept = vectors, length, bonds, order, near, unit, around, seen, slopes, passed, read, scale
        return energy, kept

    def pull(self, kept: Sequence[Any], by_energy: Tensor) -> Tensor:
        """Gradient by the vectors.  # [n_atoms] -> [n_edges, 3]"""
        vectors, length, bonds, order, near, unit, around, seen, slopes, passed, read, scale = kept
        by_atom = self.readout.backward(read, (by_energy * scale).to(self.embedding.dtype))
        by_far, by_basis, by_triplets = self.layers.backward(passed, by_atom)
        by_reached = (by_basis.T * slopes).sum(dim=1)
        by_reached[len(near) :] += by_far
        by_length = torch.zeros_like(length).index_add_(0, order, by_reached)
        by_unit, by_around = self.three_body.backward(seen, by_triplets.to(self.geometry))
        # A direction is a vector by its length: the part of a gradient along the vector is lost.
        across = (by_unit - torch.linalg.vecdot(by_unit, unit)[:, None] * unit) / around[:, None]
        by_length.index_add_(0, bonds, by_around)
        return (vectors * (by_length / length)[:, None]).index_add_(0, bonds, across)


class _Energies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, graph: Graph, network: M3GNet) -> Tensor:
        energy, kept = network.run(graph)
        ctx.network, ctx.kept, ctx.kind = network, kept, vectors.dtype
        return energy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_energy: Tensor) -> tuple[Tensor, None, None]:
        return ctx.network.pull(ctx.kept, by_energy).to(ctx.kind), None, None


class Readout:
    """Gated network of three layers from an atom's features to a number, with its derivative."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.value = _Perceptron(weights, "final.g")
        self.gate = _Perceptron(weights, "final.sigma")

    def __call__(self, atom: Tensor) -> tuple[Tensor, Sequence[Any]]:
        """# [n, units] -> [n]"""
        (value, first), (gate, second) = self.value(atom), self.gate(atom)
        gate = gate.sigmoid_()
        return (value * gate).view(-1), (value, gate, first, second)

    def backward(self, tape: Sequence[Any], by_energy: Tensor) -> Tensor:
        """# [n] -> [n, units]"""
        value, gate, first, second = tape
        by = by_energy[:, None]
        by_atom = self.value.backward(first, by * gate)
        return by_atom.add_(self.gate.backward(second, sigmoid_backward(by * value, gate)))


class _Perceptron:
    """Three linear maps with swish between them."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str) -> None:
        self.w0, self.w1, self.w2 = (weights[f"{prefix}.{k}.linear.weight"] for k in range(3))
        self.b0, self.b1, self.b2 = (weights[f"{prefix}.{k}.linear.bias"] for k in range(3))

    def __call__(self, x: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        first = torch.addmm(self.b0, x, self.w0.T)
        second = torch.addmm(self.b1, silu(first), self.w1.T)
        return torch.addmm(self.b2, silu(second), self.w2.T), (first, second)

    def backward(self, tape: Sequence[Tensor], by: Tensor) -> Tensor:
        first, second = tape
        return silu_backward(silu_backward(by @ self.w2, second) @ self.w1, first) @ self.w0
