"""M3GNet's message passing with a backward pass written by hand: features of atoms from what edges look like.

Automatic differentiation of these layers spends more time on gathers, copies and bookkeeping than on matrix
products. Written by hand each array is made once, gathers copy whole rows, products add to what is there, and
only the gradients that lead to the geometry are followed, never those by a weight. Edges with a three-body
term come first, so that they are a slice. The others' part of the first layer comes from a table
(`anchor.potentials.far_edges`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from anchor.potentials.far_edges import FarEdges, sums_of_rows

silu_backward = torch.ops.aten.silu_backward.default
silu_backward_into = torch.ops.aten.silu_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.default


@dataclass(frozen=True, eq=False)
class Links:
    """Who is whose neighbour.

    Attributes:
        i, j: Atoms of each edge; messages go from j to i.  # [n_edges]
        n_short: The first so many edges have a three-body term.
        weight: How many equivalent edges each stands for; None: one.  # [n_edges, 1]
        n_atoms: All of them.
    """

    i: Tensor
    j: Tensor
    n_short: int
    weight: Tensor | None
    n_atoms: int

    @cached_property
    def center(self) -> Tensor:
        """First atoms of edges with a three-body term.  # [n_short]"""
        return self.i[: self.n_short]

    @cached_property
    def pairs(self) -> Tensor:
        """Rows of both atoms of each edge where center and neighbour rows alternate.  # [n_edges, 2]"""
        return torch.stack([2 * self.i, 2 * self.j + 1], dim=1)

    @cached_property
    def columns(self) -> tuple[Tensor, Tensor]:
        """The same, one after the other.  # [n_edges], [n_edges]"""
        return 2 * self.i, 2 * self.j + 1

    @cached_property
    def near(self) -> Links:
        """Of edges with a three-body term only."""
        n = self.n_short
        weight = None if self.weight is None else self.weight[:n]
        return Links(self.i[:n], self.j[:n], n, weight, self.n_atoms)


class MessagePassing:
    """All layers of the published network: three-body terms and atoms update edges, edges update atoms.

    Args:
        weights: As published.
        num_blocks: Layers.
        units: Width of the features.
        far: The first layer of edges without a three-body term; None: there are no such edges.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], num_blocks: int, units: int, far: FarEdges | None = None
    ) -> None:
        self.edge_encoder = weights["edge_encoder.mlp.0.linear.weight"]
        self.edge_encoder_back = self.edge_encoder.T.contiguous()
        self.blocks = [Block(weights, f"graph_conv.{b}", units) for b in range(num_blocks)]
        self.far = far
        self.units = units

    def __call__(
        self,
        atom: Tensor,
        numbers: Tensor,
        length: Tensor,
        basis: Tensor,
        triplets: Tensor,
        links: Links,
    ) -> tuple[Tensor, Sequence[Any]]:
        """Features of atoms after the last layer, and what `backward` needs.

        Args:
            atom: Features of the elements.  # [n_atoms, units]
            numbers: The elements.  # [n_atoms]
            length: Of edges without a three-body term, Å.  # [n_edges - n_short]
            basis: Radial functions.  # [n_edges, 4]
            triplets: Three-body terms.  # [n_short, 16]
            links: Of the graph.
        """
        near = links.n_short
        encoded = basis[:near] @ self.edge_encoder_back
        edge = basis.new_empty(basis.shape[0], self.units)  # layers add to it in place
        torch.ops.aten.silu.out(encoded, out=edge[:near])
        slopes = None
        if self.far is not None and length.shape[0]:
            i, j = links.i[near:], links.j[near:]
            values, slopes = self.far(numbers.index_select(0, i), numbers.index_select(0, j), length)
            edge[near:] = values[:, : self.units]
            sent = values[:, self.units :]
            received = atom.index_add(0, i, sent if links.weight is None else sent * links.weight[near:])
        else:
            received = atom.clone()
        tapes = []
        for number, block in enumerate(self.blocks):
            if number == 0:
                tapes.append(block(atom, received, edge[:near], basis[:near], triplets, links.near))
            else:
                received = atom.clone()
                tapes.append(block(atom, received, edge, basis, triplets, links))
            atom = received
        return atom, (encoded, triplets, links, slopes, tapes)

    def backward(self, tape: Sequence[Any], by_atom: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients by the lengths (of far edges: through their first layer), basis and triplets.

        # [n_atoms, units] -> [n_edges - n_short], [4, n_edges], [n_short, 16]
        """
        encoded, triplets, links, slopes, tapes = tape
        n_edges, near = links.i.shape[0], links.n_short
        by_basis, by_triplets = triplets.new_zeros(4, n_edges), torch.zeros_like(triplets)
        by_edge: Tensor | None = None  # nobody looks at the edges after the last layer
        for number in range(len(self.blocks) - 1, 0, -1):
            given = by_basis, by_triplets, triplets, links
            by_atom, by_edge = self.blocks[number].backward(tapes[number], by_atom, by_edge, *given)
        by_length = triplets.new_zeros(n_edges - near)
        if slopes is not None:
            by_sent = by_atom.index_select(0, links.i[near:])
            if links.weight is not None:
                by_sent *= links.weight[near:]
            by_length = torch.linalg.vecdot(by_sent, slopes[:, self.units :])
            if by_edge is not None:
                by_length += torch.linalg.vecdot(by_edge[near:], slopes[:, : self.units])
        # Elements' features are given: nobody asks for gradients by the atoms of the first layer.
        at_near = None if by_edge is None else by_edge[:near]
        _, at_near = self.blocks[0].backward(
            tapes[0], by_atom, at_near, by_basis[:, :near], by_triplets, triplets, links.near, to_atoms=False
        )
        by_basis[:, :near].addmm_(self.edge_encoder_back, silu_backward(at_near, encoded).T)
        return by_length, by_basis, by_triplets


class Block:
    """One layer: three-body terms and atoms update the edges, edges update the atoms."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, units: int) -> None:
        self.edge_update = EdgeNetwork(weights, f"{prefix}.gated_mlp_edge", units)
        self.atom_update = EdgeNetwork(weights, f"{prefix}.gated_mlp_atom", units)
        # Products with four columns are five times slower than those with four rows.
        self.edge_layer_edge = weights[f"{prefix}.edge_layer_edge.linear.weight"].T.contiguous()
        self.edge_layer_atom = weights[f"{prefix}.edge_layer_atom.linear.weight"].T.contiguous()
        three = f"{prefix}.three_body"
        self.center_gate = weights[f"{three}.atom_mlp.linear.weight"]
        self.center_bias = weights[f"{three}.atom_mlp.linear.bias"]
        self.triplet_value = weights[f"{three}.edge_gate_mlp.g.0.linear.weight"]
        self.triplet_gate = weights[f"{three}.edge_gate_mlp.sigma.0.linear.weight"]
        self.center_gate_t = self.center_gate.T
        self.triplet_value_t, self.triplet_gate_t = self.triplet_value.T, self.triplet_gate.T

    def __call__(
        self, atom: Tensor, received: Tensor, edge: Tensor, basis: Tensor, triplets: Tensor, links: Links
    ) -> Sequence[Any]:
        """What `backward` needs. `edge` is updated in place, messages are added to `received`."""
        open_ = torch.addmm(self.center_bias, atom, self.center_gate_t).sigmoid_()
        opened = open_.index_select(0, links.center)
        gated = triplets * opened
        value, gate = gated @ self.triplet_value_t, (gated @ self.triplet_gate_t).sigmoid_()
        active = silu(value)
        edge[: links.n_short].addcmul_(active, gate)

        update, first = self.edge_update(atom, edge, links)
        by_length = basis @ self.edge_layer_edge
        edge.addcmul_(update, by_length)

        message, second = self.atom_update(atom, edge, links)
        length = basis @ self.edge_layer_atom
        cut = silu(length)
        if links.weight is not None:
            cut *= links.weight
        received.index_add_(0, links.i, message * cut)
        return (
            (open_, opened, value, active, gate),
            (update, by_length, first),
            (message, length, cut, second),
        )

    def backward(
        self,
        tape: Sequence[Any],
        by_new: Tensor,
        by_edge: Tensor | None,
        by_basis: Tensor,
        by_triplets: Tensor,
        triplets: Tensor,
        links: Links,
        *,
        to_atoms: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Gradients by the atoms and edges that came in; those by basis and triplets are added in place.

        `by_edge` is overwritten. Without `to_atoms` the gradient by atoms is not made.
        """
        message, length, cut, second = tape[2]
        by_sent = by_new.index_select(0, links.i)  # [n_edges, units]
        by_cut = by_sent * message
        if links.weight is not None:
            by_cut *= links.weight
        by_basis.addmm_(self.edge_layer_atom, silu_backward(by_cut, length).T)
        by_atom = by_new.clone() if to_atoms else None
        by_edge = self.atom_update.backward(second, by_sent.mul_(cut), by_edge, by_atom, links)

        update, by_length, first = tape[1]
        by_basis.addmm_(self.edge_layer_edge, (update * by_edge).T)
        by_edge = self.edge_update.backward(first, by_length * by_edge, by_edge, by_atom, links)

        open_, opened, value, active, gate = tape[0]
        by_change = by_edge[: links.n_short]
        by_gated = silu_backward(by_change * gate, value) @ self.triplet_value
        by_gated.addmm_(sigmoid_backward(active * by_change, gate), self.triplet_gate)
        by_triplets.addcmul_(by_gated, opened)
        if by_atom is None:
            return by_new, by_edge
        by_open = torch.zeros_like(open_).index_add_(0, links.center, by_gated.mul_(triplets))
        return by_atom.addmm_(sigmoid_backward(by_open, open_), self.center_gate), by_edge


class EdgeNetwork:
    """Gated two-layer network of (v_i, v_j, e_ij); value and gate share the first matrix product.

    That product is split, and its atomic parts are applied to atoms, center and neighbour at once.
    """

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, units: int) -> None:
        first = torch.cat(
            [weights[f"{prefix}.{part}.0.linear.weight"] for part in ("g", "sigma")]
        )  # [2u, 3u]
        self.units = units
        self.from_atoms = torch.cat([first[:, :units], first[:, units : 2 * units]])  # [4u, u]
        self.from_edge = first[:, 2 * units :].contiguous()
        bias = torch.cat([weights[f"{prefix}.{part}.0.linear.bias"] for part in ("g", "sigma")])
        self.bias = torch.cat([bias, torch.zeros_like(bias)])
        self.value = weights[f"{prefix}.g.1.linear.weight"]
        self.value_bias = weights[f"{prefix}.g.1.linear.bias"]
        self.gate = weights[f"{prefix}.sigma.1.linear.weight"]
        self.gate_bias = weights[f"{prefix}.sigma.1.linear.bias"]
        self.from_atoms_t, self.from_edge_t = self.from_atoms.T, self.from_edge.T
        self.value_t, self.gate_t = self.value.T, self.gate.T

    def __call__(self, atom: Tensor, edge: Tensor, links: Links) -> tuple[Tensor, Sequence[Tensor]]:
        """Its values, and what `backward` needs.  # [n_edges, units]"""
        u = self.units
        rows = torch.addmm(self.bias, atom, self.from_atoms_t).view(-1, 2 * u)  # center, neighbour, center, …
        hidden = sums_of_rows(rows, links.pairs).addmm_(edge, self.from_edge_t)
        on = silu(hidden)
        value = torch.addmm(self.value_bias, on[:, :u], self.value_t)
        gate = torch.addmm(self.gate_bias, on[:, u:], self.gate_t).sigmoid_()
        active = silu(value)
        return active * gate, (hidden, value, active, gate)

    def backward(
        self,
        tape: Sequence[Tensor],
        by_value: Tensor,
        by_edge: Tensor | None,
        by_atom: Tensor | None,
        links: Links,
    ) -> Tensor:
        """Add gradients to `by_edge` and `by_atom` (None: not wanted); the first is given back."""
        hidden, value, active, gate = tape
        u = self.units
        by_on = torch.empty_like(hidden)
        torch.mm(silu_backward(by_value * gate, value), self.value, out=by_on[:, :u])
        torch.mm(sigmoid_backward(active * by_value, gate), self.gate, out=by_on[:, u:])
        by_hidden = silu_backward_into(by_on, hidden, grad_input=by_on)
        if by_atom is not None:
            by_rows = hidden.new_zeros(2 * links.n_atoms, 2 * u)
            center, neighbour = links.columns
            by_rows.index_add_(0, center, by_hidden).index_add_(0, neighbour, by_hidden)
            by_atom.addmm_(by_rows.view(-1, 4 * u), self.from_atoms)
        return by_hidden @ self.from_edge if by_edge is None else by_edge.addmm_(by_hidden, self.from_edge)
