"""CHGNet 0.3.0, with the weights that the chgnet package brings."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import torch

from anchor.paths import sha256
from anchor.potentials.base import COMMON_ELEMENTS, GradientPotential
from anchor.potentials.chgnet_layers import split_layers
from anchor.potentials.equivariant import one_direction
from anchor.potentials.graph import Graph


class CHGNet(GradientPotential):
    """CHGNet with one backward pass instead of two. Energies are on the MP2020-corrected scale.

    Args:
        path: Checkpoint of the chgnet package; only tensors and plain values are unpickled.
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network.
        split: Apply linear maps before features are gathered (`chgnet_layers`; the same numbers, cheaper).
            False, and any layer of a kind unknown here: as the package does.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "chgnet",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        split: bool = True,
    ) -> None:
        from chgnet.model import CHGNet as Network

        super().__init__(
            name=name,
            elements=COMMON_ELEMENTS,
            energies_corrected=True,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        saved = torch.load(path, map_location="cpu", weights_only=True)["model"]
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its size
            network = Network(**saved["model_args"])
        network.load_state_dict(saved["state_dict"])
        self.cutoff = float(saved["model_args"]["atom_graph_cutoff"])
        self.angle_cutoff = float(saved["model_args"]["bond_graph_cutoff"])
        self.element_energy = network.composition_model.fc.weight.detach().view(-1).double()  # [94], eV
        self.split = split and split_layers(network)
        self.network = network.requires_grad_(False).to(self._device, dtype).eval()

    def energies(self, graph: Graph) -> torch.Tensor:
        from chgnet.model.model import BatchedGraph

        length = graph.vectors.norm(dim=1)
        bond, first = undirected(graph)
        left, right = angles(graph, length.detach() < self.angle_cutoff)
        unit = (graph.vectors / length[:, None]).to(self._dtype)
        bond_length = length[first].to(self._dtype)
        basis, network = self.network.bond_basis_expansion, self.network
        batch = BatchedGraph(
            atomic_numbers=graph.numbers,
            bond_bases_ag=basis.rbf_expansion_ag(bond_length),
            bond_bases_bg=basis.rbf_expansion_bg(bond_length),
            angle_bases=network.angle_basis_expansion(unit[left], unit[right]),
            batched_atom_graph=graph.edges.T,
            batched_bond_graph=torch.stack([graph.edges[0, left], bond[left], bond[right]], dim=1),
            atom_owners=graph.system_idx,
            directed2undirected=bond,
            atom_positions=[],
            strains=[],
            volumes=[],
        )
        per_atom = network._compute(batch)["e"]
        shift = graph.sum_per_system(self.element_energy.to(self._device)[graph.numbers - 1])
        return per_atom.to(shift.dtype) * graph.counts + shift


def undirected(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Pair each edge i → j with its reverse.

    Returns:
        The bond each edge is one half of [n_edges], and one of the two edges of each bond [n_bonds].
    """
    ahead = one_direction(graph)
    low, high = graph.edges.amin(dim=0), graph.edges.amax(dim=0)
    digits = [low, high, *torch.where(ahead[:, None], graph.shifts, -graph.shifts).T]
    reach = int(graph.shifts.abs().max()) if len(low) else 0
    key = torch.zeros_like(low)
    for digit, base in zip(digits, [len(graph.numbers)] * 2 + [2 * reach + 1] * 3, strict=True):
        key = key * base + digit  # one number for each bond: sorting rows of five is slow
    _, bond = torch.unique(key, return_inverse=True)
    edges = torch.nonzero(ahead).view(-1)
    return bond, torch.empty_like(edges).scatter(0, bond[edges], edges)


def angles(graph: Graph, short: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All ordered pairs of different short edges that leave the same atom.  # [n_angles], [n_angles]"""
    edges = torch.nonzero(short).view(-1)
    degree = torch.bincount(graph.edges[0, edges], minlength=len(graph.numbers))  # short edges of each atom
    start = torch.cumsum(degree, 0) - degree
    own = degree[graph.edges[0, edges]]
    left = torch.repeat_interleave(torch.arange(len(edges), device=edges.device), own)
    rank = torch.arange(len(left), device=edges.device) - torch.repeat_interleave(
        torch.cumsum(own, 0) - own, own
    )
    right = start[graph.edges[0, edges]][left] + rank
    different = left != right
    return edges[left[different]], edges[right[different]]
