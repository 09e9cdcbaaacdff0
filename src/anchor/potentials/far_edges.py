"""The first layer of M3GNet for edges without a three-body term: a table for each pair of elements.

Before the first layer an atom is its element and an edge its length, unless three-body terms, which end 1 Å
before the graph does, say more: what the first layer makes of such an edge, its new features and the message
along it, is a function of two elements and a length. It is smooth, and 20 Chebyshev points on that last Å
know it to 1e-9 (tests), below the rounding of single precision. About half of all edges are of this kind.

Tables are made in double precision, pair by pair, when a pair comes up first: to the last bit the same
whatever came before and whoever shares the batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import silu

from anchor.potentials.functions import Radial, chebyshev_points

POINTS = 20
MOST_PAIRS = 1024
"""Pairs of elements whose tables are kept, 40 kB each with 128 units; then all are forgotten."""


class FarEdges:
    """New features of far edges and messages along them, with derivatives by the length.

    Args:
        weights: As published.
        radial: Radial basis of edges.
        near: Å, from where there are no three-body terms.
        cutoff: Å, of the graph.
        like: Of the type in which tables are made, where they are to be.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        radial: Radial,
        near: float,
        cutoff: float,
        like: Tensor,
    ) -> None:
        self.near, self.cutoff = near, cutoff
        self.kind = weights["edge_encoder.mlp.0.linear.weight"].dtype
        points = chebyshev_points(POINTS)
        lengths = near + (points + 1) / 2 * (cutoff - near)
        order = np.arange(POINTS)
        # T_k at the points, whose inverse takes values there to coefficients of a Chebyshev series.
        series = np.linalg.inv(np.cos(order * np.arccos(points)[:, None]))  # [k, point]
        slope = np.polynomial.chebyshev.chebder(series) * 2 / (cutoff - near)
        differentiate = np.cos(order[:-1] * np.arccos(points)[:, None]) @ slope

        self.series, self.differentiate, self.order = (
            torch.from_numpy(x).to(like) for x in (series, differentiate, order)
        )
        first = "graph_conv.0"
        weights = {name: value.to(like) for name, value in weights.items() if _first_layer(name)}
        basis = torch.from_numpy(radial(lengths)).to(like)
        self.edge = silu(basis @ weights["edge_encoder.mlp.0.linear.weight"].T)  # [p, u]
        self.by_edge = basis @ weights[f"{first}.edge_layer_edge.linear.weight"].T
        self.by_atom = silu(basis @ weights[f"{first}.edge_layer_atom.linear.weight"].T)
        elements = weights["atom_embedding.mlp.0.linear.weight"].T  # [z, u]
        self.updates = [
            PairNetwork(weights, f"{first}.gated_mlp_{name}", elements) for name in ("edge", "atom")
        ]
        self.n_elements = len(elements)
        units = elements.shape[1]
        self._place = torch.full((self.n_elements**2,), -1, device=like.device)
        self._values = self._slopes = torch.empty(0, 2 * units, dtype=self.kind, device=like.device)

    def __call__(self, first: Tensor, second: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Features of edges and messages to the first atom, and both derivatives.

        Args:
            first, second: Elements.  # [n]
            length: Å, between `near` and the cutoff.  # [n]

        Returns:
            # [n, 2 units], [n, 2 units]
        """
        pair = first * self.n_elements + second
        place = self._place.index_select(0, pair)
        if bool((place < 0).any()):
            self._make(torch.unique(pair).tolist())
            place = self._place.index_select(0, pair)
        x = (length - self.near) * (2 / (self.cutoff - self.near)) - 1
        weights = torch.cos(x.clamp(-1, 1).acos_()[:, None] * self.order) @ self.series
        rows = place[:, None] * POINTS + torch.arange(POINTS, device=place.device)
        weights = weights.to(self.kind)
        return sums_of_rows(self._values, rows, weights), sums_of_rows(self._slopes, rows, weights)

    def _make(self, pairs: list[int]) -> None:
        """Tables of all these pairs. When there is no room for those that have none, all others go."""
        new = [pair for pair in pairs if self._place[pair] < 0]
        if len(self._values) // POINTS + len(new) > MOST_PAIRS:
            self._place.fill_(-1)
            self._values, self._slopes, new = self._values[:0], self._slopes[:0], pairs
        made = [self._table(*divmod(pair, self.n_elements)) for pair in new]
        for k, pair in enumerate(new, start=len(self._values) // POINTS):
            self._place[pair] = k
        self._values = torch.cat([self._values, *(values.to(self.kind) for values, _ in made)])
        self._slopes = torch.cat([self._slopes, *(slopes.to(self.kind) for _, slopes in made)])

    def _table(self, first: int, second: int) -> tuple[Tensor, Tensor]:
        """Values and derivatives at the points.  # [p, 2 units], [p, 2 units]"""
        update, send = self.updates
        edge = self.edge + update(first, second, self.edge) * self.by_edge
        values = torch.cat([edge, send(first, second, edge) * self.by_atom], dim=1)
        return values, self.differentiate @ values


class PairNetwork:
    """The gated network of an edge's update between two elements."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, elements: Tensor) -> None:
        parts = {
            name: [weights[f"{prefix}.{part}.{name}"] for part in ("g", "sigma")]
            for name in ("0.linear.weight", "0.linear.bias", "1.linear.weight", "1.linear.bias")
        }
        first, bias = torch.cat(parts["0.linear.weight"]), torch.cat(parts["0.linear.bias"])
        from_center, from_neighbour, from_edge = first.chunk(3, dim=1)
        self.center = elements @ from_center.T + bias  # [z, 2u]
        self.neighbour = elements @ from_neighbour.T
        self.from_edge = from_edge.T.contiguous()
        self.value, self.gate = (w.T.contiguous() for w in parts["1.linear.weight"])
        self.value_bias, self.gate_bias = parts["1.linear.bias"]

    def __call__(self, first: int, second: int, edge: Tensor) -> Tensor:
        """# [p, u] -> [p, u]"""
        on = silu(edge @ self.from_edge + self.center[first] + self.neighbour[second])
        value, gate = on.chunk(2, dim=1)
        return silu(value @ self.value + self.value_bias) * torch.sigmoid(gate @ self.gate + self.gate_bias)


def _first_layer(name: str) -> bool:
    return name.startswith(("atom_embedding", "edge_encoder", "graph_conv.0."))


def sums_of_rows(table: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """Sums over rows of a table, weighted or not: on a CPU in one pass.  # [r, c], [n, k] -> [n, c]"""
    if table.device.type != "cpu" or rows.shape[0] == 0:
        return sums_by_gather(table, rows, weights)
    starts = torch.arange(0, rows.numel(), rows.shape[1])
    flat = None if weights is None else weights.reshape(-1)
    return torch.embedding_bag(table, rows.reshape(-1), starts, False, 0, False, flat)[0]


def sums_by_gather(table: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """The same, row by row of each sum."""
    total = table.new_zeros(len(rows), table.shape[1])
    for k, chosen in enumerate(rows.unbind(dim=1)):
        more = table.index_select(0, chosen)
        total += more if weights is None else more * weights[:, k, None]
    return total
