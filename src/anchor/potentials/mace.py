"""MACE (MACE-MPA-0 by default); needs mace-torch, which cannot share an environment with sevenn."""

from __future__ import annotations

from pathlib import Path

import torch

from anchor.paths import sha256
from anchor.potentials.base import GradientPotential
from anchor.potentials.graph import Graph


class MACE(GradientPotential):
    """MACE from a model file. Energies are plain PBE (+U) totals, uncorrected.

    Args:
        path: Model file as published. It is a pickle: check its hash before (`weights.verified`).
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "mace",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        import mace.modules  # noqa: F401  (the pickle names its classes)

        network = torch.load(path, map_location="cpu", weights_only=False)
        numbers = network.atomic_numbers.tolist()
        super().__init__(
            name=name,
            elements=frozenset(numbers),
            energies_corrected=False,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        self.cutoff = float(network.r_max)
        self.n_species = len(numbers)
        self.species = torch.zeros(119, dtype=torch.int64, device=self._device)
        self.species[numbers] = torch.arange(self.n_species, device=self._device)
        self.network = network.requires_grad_(False).to(self._device, dtype).eval()

    def energies(self, graph: Graph) -> torch.Tensor:
        owner = graph.system_idx[graph.edges[0]]
        shifts = torch.einsum("ei,eij->ej", graph.shifts.to(graph.cell.dtype), graph.cell[owner])
        data = {
            "positions": graph.positions.to(self._dtype),
            "shifts": shifts.to(self._dtype),
            "unit_shifts": graph.shifts.to(self._dtype),
            "cell": graph.cell.to(self._dtype).view(-1, 3),
            "edge_index": graph.edges,
            "node_attrs": torch.nn.functional.one_hot(self.species[graph.numbers], self.n_species).to(
                self._dtype
            ),
            "batch": graph.system_idx,
            "ptr": torch.nn.functional.pad(torch.cumsum(graph.counts, 0), (1, 0)),
        }
        return graph.sum_per_system(self.network(data, compute_force=False)["node_energy"])
