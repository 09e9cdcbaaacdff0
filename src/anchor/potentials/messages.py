"""M3GNet's message passing with a backward pass written by hand: features of atoms from what edges look like.

Automatic differentiation of these layers spends more time on gathers, copies and bookkeeping than on matrix
products. Written by hand each array is made once, gathers copy whole rows, and only the gradients that lead
to the geometry are followed: those by `basis` and `triplets`, never by a weight. Gradients are those of
automatic differentiation (tests, double precision), once; there are no second derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

silu_backward = torch.ops.aten.silu_backward.default
sigmoid_backward = torch.ops.aten.sigmoid_backward.default


@dataclass(frozen=True, eq=False)
class Links:
    """Who is whose neighbour.

    Attributes:
        i, j: Atoms of each edge; messages go from j to i.  # [n_edges]
        short: Edges with a three-body term.  # [n_short]
        center: Their first atoms, i[short].  # [n_short]
        weight: How many equivalent edges each stands for; None: one.  # [n_edges, 1]
        n_atoms: All of them.
    """

    i: Tensor
    j: Tensor
    short: Tensor
    center: Tensor
    weight: Tensor | None
    n_atoms: int


class MessagePassing(nn.Module):
    """All layers of the published network: three-body terms and atoms update edges, edges update atoms."""

    def __init__(self, weights: Mapping[str, Tensor], num_blocks: int, units: int) -> None:
        super().__init__()
        self.edge_encoder = nn.Buffer(weights["edge_encoder.mlp.0.linear.weight"])
        self.blocks = nn.ModuleList(Block(weights, f"graph_conv.{b}", units) for b in range(num_blocks))

    def forward(self, atom: Tensor, basis: Tensor, triplets: Tensor, links: Links) -> Tensor:
        """Features of atoms after the last layer, differentiable in `basis` and `triplets`.

        Args:
            atom: Features of the elements.  # [n_atoms, units]
            basis: Radial functions.  # [n_edges, 4]
            triplets: Three-body terms.  # [n_short, 16]
            links: Of the graph.
        """
        return _Passing.apply(atom, basis, triplets, links, self)


class _Passing(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, atom: Tensor, basis: Tensor, triplets: Tensor, links: Links, layers: MessagePassing
    ) -> Tensor:
        encoded = basis @ layers.edge_encoder.T
        edge = silu(encoded)  # [n_edges, units]; layers add to it in place
        tapes = []
        for block in layers.blocks:
            atom, tape = block(atom, edge, basis, triplets, links)
            tapes.append(tape)
        ctx.kept = encoded, basis, triplets, links, layers, tapes
        return atom

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_atom: Tensor) -> tuple[Tensor | None, ...]:
        encoded, basis, triplets, links, layers, tapes = ctx.kept
        by_basis, by_triplets = torch.zeros_like(basis), torch.zeros_like(triplets)
        by_edge: Tensor | None = None  # nobody looks at the edges after the last layer
        for block, tape in zip(reversed(layers.blocks), reversed(tapes), strict=True):
            by_atom, by_edge = block.backward(tape, by_atom, by_edge, by_basis, by_triplets, triplets, links)
        if by_edge is not None:
            by_basis.addmm_(silu_backward(by_edge, encoded), layers.edge_encoder)
        return None, by_basis, by_triplets, None, None


class Block(nn.Module):
    """One layer: three-body terms and atoms update the edges, edges update the atoms."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, units: int) -> None:
        super().__init__()
        self.edge_update = EdgeNetwork(weights, f"{prefix}.gated_mlp_edge", units)
        self.atom_update = EdgeNetwork(weights, f"{prefix}.gated_mlp_atom", units)
        self.edge_layer_edge = nn.Buffer(weights[f"{prefix}.edge_layer_edge.linear.weight"])
        self.edge_layer_atom = nn.Buffer(weights[f"{prefix}.edge_layer_atom.linear.weight"])
        three = f"{prefix}.three_body"
        self.center_gate = nn.Buffer(weights[f"{three}.atom_mlp.linear.weight"])
        self.center_bias = nn.Buffer(weights[f"{three}.atom_mlp.linear.bias"])
        self.triplet_value = nn.Buffer(weights[f"{three}.edge_gate_mlp.g.0.linear.weight"])
        self.triplet_gate = nn.Buffer(weights[f"{three}.edge_gate_mlp.sigma.0.linear.weight"])

    def forward(
        self, atom: Tensor, edge: Tensor, basis: Tensor, triplets: Tensor, links: Links
    ) -> tuple[Tensor, Sequence[Any]]:
        """New features of atoms, and what `backward` needs. `edge` is updated in place."""
        open_ = torch.addmm(self.center_bias, atom, self.center_gate.T).sigmoid_()
        opened = open_.index_select(0, links.center)
        gated = triplets * opened
        value, gate = gated @ self.triplet_value.T, (gated @ self.triplet_gate.T).sigmoid_()
        active = silu(value)
        edge.index_add_(0, links.short, active * gate)

        update, first = self.edge_update(atom, edge, links)
        by_length = basis @ self.edge_layer_edge.T
        edge.addcmul_(update, by_length)

        message, second = self.atom_update(atom, edge, links)
        length = basis @ self.edge_layer_atom.T
        cut = silu(length)
        if links.weight is not None:
            cut *= links.weight
        new = atom.index_add(0, links.i, message * cut)
        tape = (
            (open_, opened, value, active, gate),
            (update, by_length, first),
            (message, length, cut, second),
        )
        return new, tape

    def backward(
        self,
        tape: Sequence[Any],
        by_new: Tensor,
        by_edge: Tensor | None,
        by_basis: Tensor,
        by_triplets: Tensor,
        triplets: Tensor,
        links: Links,
    ) -> tuple[Tensor, Tensor]:
        """Gradients by the atoms and edges that came in; those by basis and triplets are added in place."""
        message, length, cut, second = tape[2]
        by_sent = by_new.index_select(0, links.i)  # [n_edges, units]
        by_cut = by_sent * message
        if links.weight is not None:
            by_cut *= links.weight
        by_basis.addmm_(silu_backward(by_cut, length), self.edge_layer_atom)
        by_atom, more = self.atom_update.backward(second, by_sent.mul_(cut), links)
        by_atom += by_new
        by_edge = more if by_edge is None else by_edge.add_(more)

        update, by_length, first = tape[1]
        by_basis.addmm_(by_edge * update, self.edge_layer_edge)
        at_atom, more = self.edge_update.backward(first, by_edge * by_length, links)
        by_atom += at_atom
        by_edge.add_(more)

        open_, opened, value, active, gate = tape[0]
        by_change = by_edge.index_select(0, links.short)
        by_gated = silu_backward(by_change * gate, value) @ self.triplet_value
        by_gated.addmm_(sigmoid_backward(by_change.mul_(active), gate), self.triplet_gate)
        by_open = torch.zeros_like(open_).index_add_(0, links.center, by_gated * triplets)
        by_atom.addmm_(sigmoid_backward(by_open, open_), self.center_gate)
        by_triplets.addcmul_(by_gated, opened)
        return by_atom, by_edge


class EdgeNetwork(nn.Module):
    """Gated two-layer network of (v_i, v_j, e_ij); value and gate share the first matrix product."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, units: int) -> None:
        super().__init__()
        first = torch.cat(
            [weights[f"{prefix}.{part}.0.linear.weight"] for part in ("g", "sigma")]
        )  # [2u, 3u]
        self.units = units
        self.from_center = nn.Buffer(first[:, :units].contiguous())
        self.from_neighbour = nn.Buffer(first[:, units : 2 * units].contiguous())
        self.from_edge = nn.Buffer(first[:, 2 * units :].contiguous())
        self.bias = nn.Buffer(
            torch.cat([weights[f"{prefix}.{part}.0.linear.bias"] for part in ("g", "sigma")])
        )
        self.value = nn.Buffer(weights[f"{prefix}.g.1.linear.weight"])
        self.value_bias = nn.Buffer(weights[f"{prefix}.g.1.linear.bias"])
        self.gate = nn.Buffer(weights[f"{prefix}.sigma.1.linear.weight"])
        self.gate_bias = nn.Buffer(weights[f"{prefix}.sigma.1.linear.bias"])

    def forward(self, atom: Tensor, edge: Tensor, links: Links) -> tuple[Tensor, Sequence[Tensor]]:
        """Its values, and what `backward` needs.  # [n_edges, units]"""
        u = self.units
        hidden = edge @ self.from_edge.T
        hidden += torch.addmm(self.bias, atom, self.from_center.T).index_select(0, links.i)
        hidden += (atom @ self.from_neighbour.T).index_select(0, links.j)
        on = silu(hidden)
        value = torch.addmm(self.value_bias, on[:, :u], self.value.T)
        gate = torch.addmm(self.gate_bias, on[:, u:], self.gate.T).sigmoid_()
        active = silu(value)
        return active * gate, (hidden, value, active, gate)

    def backward(self, tape: Sequence[Tensor], by_value: Tensor, links: Links) -> tuple[Tensor, Tensor]:
        """Gradients by atoms and edges.  # [n_atoms, units], [n_edges, units]"""
        hidden, value, active, gate = tape
        u = self.units
        by_on = torch.empty_like(hidden)
        torch.mm(silu_backward(by_value * gate, value), self.value, out=by_on[:, :u])
        torch.mm(sigmoid_backward(by_value * active, gate), self.gate, out=by_on[:, u:])
        by_hidden = silu_backward(by_on, hidden)
        at_center = hidden.new_zeros(links.n_atoms, 2 * u)
        at_neighbour = torch.zeros_like(at_center).index_add_(0, links.j, by_hidden)
        at_center.index_add_(0, links.i, by_hidden)
        by_atom = at_center @ self.from_center
        by_atom.addmm_(at_neighbour, self.from_neighbour)
        return by_atom, by_hidden @ self.from_edge
