"""CHGNet's layers without the concatenation of features.

The published layers gather the features of atoms, bonds and angles to every edge (or angle), concatenate them
and apply a linear map. Here each part of the map is applied to what it belongs to, and the results are
gathered and added: an atom's part is computed once for the atom instead of once for each of its 45 edges.
Exact but for rounding; the chgnet package is the oracle of the tests.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu


def split_layers(network: Any) -> bool:
    """Put the layers below in the place of the package's; whether they are all of the kind known here."""
    from chgnet.model.layers import AngleUpdate, AtomConv, BondConv

    kinds = {AtomConv: AtomLayer, BondConv: BondLayer, AngleUpdate: AngleLayer}
    lists = [network.atom_conv_layers, network.bond_conv_layers, network.angle_layers]
    try:
        built = [[kinds[type(layer)](layer) for layer in layers] for layers in lists]
    except (KeyError, ValueError):
        return False
    for layers, new in zip(lists, built, strict=True):
        for k, layer in enumerate(new):
            layers[k] = layer
    network.angle_layers[-1] = None  # nothing reads the angles after the last bonds
    return True


class Gated(nn.Module):
    """A gated network of concatenated features; value and gate share the first matrix products.

    Args:
        network: chgnet's GatedMLP of one or two linear maps.
        parts: Into how many features of equal width its input is split.

    Raises:
        ValueError: It is built in another way.
    """

    def __init__(self, network: Any, parts: int) -> None:
        super().__init__()
        value, gate = (
            [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
            for mlp in (network.mlp_core, network.mlp_gate)
        )
        known = (nn.Linear, nn.SiLU, nn.Dropout)
        if (
            len(value) not in (1, 2)
            or not all(type(m) in known for m in [*network.mlp_core.layers, *network.mlp_gate.layers])
            or type(network.activation) is not nn.SiLU
        ):
            raise ValueError(f"not a gated network that can be split: {network}")
        weight = torch.cat([value[0].weight, gate[0].weight])  # [2 hidden, parts · width]
        self.weights = nn.ParameterList(
            nn.Parameter(part.contiguous(), requires_grad=False) for part in weight.chunk(parts, dim=1)
        )
        self.bias = nn.Buffer(torch.cat([value[0].bias, gate[0].bias]).detach())
        self.second = nn.ModuleList([value[1], gate[1]] if len(value) == 2 else [])
        self.norms = nn.ModuleList(norm or nn.Identity() for norm in (network.bn1, network.bn2))

    def forward(self, *parts: tuple[Tensor, Tensor | None]) -> Tensor:
        """Each part is features and the row of them that each edge (angle) takes; None: its own row."""
        hidden: Tensor | None = None
        for (features, rows), weight in zip(parts, self.weights, strict=True):
            mapped = linear(features, weight, self.bias if hidden is None else None)
            mapped = mapped if rows is None else mapped.index_select(0, rows)
            hidden = mapped if hidden is None else hidden + mapped
        assert hidden is not None
        if self.second:
            halves = silu(hidden).chunk(2, dim=1)
            value, gate = (layer(half) for layer, half in zip(self.second, halves, strict=True))
        else:
            value, gate = hidden.chunk(2, dim=1)
        return silu(self.norms[0](value)) * torch.sigmoid(self.norms[1](gate))


class AtomLayer(nn.Module):
    """chgnet's AtomConv: bonds and neighbours update the atoms."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        if layer.atom_norm is not None or not (layer.resnet and layer.use_mlp_out):
            raise ValueError(f"not the atom layer of CHGNet 0.3: {layer}")
        self.gated = Gated(layer.twoBody_atom, parts=3)
        self.out = layer.mlp_out

    def forward(
        self,
        atom_feas: Tensor,
        bond_feas: Tensor,
        bond_weights: Tensor,
        atom_graph: Tensor,
        directed2undirected: Tensor,
    ) -> Tensor:
        i, j = atom_graph.unbind(dim=1)
        message = self.gated((atom_feas, i), (bond_feas, directed2undirected), (atom_feas, j))
        message = message * bond_weights.index_select(0, directed2undirected)
        return atom_feas + self.out(torch.zeros_like(atom_feas).index_add(0, i, message))


class BondLayer(nn.Module):
    """chgnet's BondConv: angles update the bonds."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        if layer.bond_norm is not None or not (layer.resnet and layer.use_mlp_out):
            raise ValueError(f"not the bond layer of CHGNet 0.3: {layer}")
        self.gated = Gated(layer.twoBody_bond, parts=4)
        self.out = layer.mlp_out

    def forward(
        self,
        atom_feas: Tensor,
        bond_feas: Tensor,
        bond_weights: Tensor,
        angle_feas: Tensor,
        bond_graph: Tensor,
    ) -> Tensor:
        atom, left, right = bond_graph.unbind(dim=1)
        update = self.gated((bond_feas, left), (bond_feas, right), (angle_feas, None), (atom_feas, atom))
        update = update * bond_weights.index_select(0, left) * bond_weights.index_select(0, right)
        return bond_feas + self.out(torch.zeros_like(bond_feas).index_add(0, left, update))


class AngleLayer(nn.Module):
    """chgnet's AngleUpdate: bonds update the angles."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        if layer.angle_norm is not None or not layer.resnet:
            raise ValueError(f"not the angle layer of CHGNet 0.3: {layer}")
        self.gated = Gated(layer.twoBody_bond, parts=4)

    def forward(self, atom_feas: Tensor, bond_feas: Tensor, angle_feas: Tensor, bond_graph: Tensor) -> Tensor:
        atom, left, right = bond_graph.unbind(dim=1)
        return angle_feas + self.gated(
            (bond_feas, left), (bond_feas, right), (angle_feas, None), (atom_feas, atom)
        )
