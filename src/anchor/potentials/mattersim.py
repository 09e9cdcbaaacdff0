"""MatterSim-v1.0.0, 1M and 5M parameters: the paper's training and evaluation potentials."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_sim.state import SimState

from anchor.paths import sha256
from anchor.potentials.base import GradientPotential
from anchor.potentials.graph import Graph, neighbour_graph
from anchor.potentials.m3gnet import M3GNet
from anchor.potentials.state import geometry_dtype


class MatterSim(GradientPotential):
    """MatterSim from a checkpoint file. Energies are plain PBE (+U) totals, uncorrected.

    Args:
        path: Weight file as published; only tensors and plain values are unpickled.
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network; the published weights are single precision.
    """

    takes_orbits = True

    def __init__(
        self,
        path: Path,
        *,
        name: str = "mattersim",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        weights = checkpoint["model"]
        # An element that training never saw kept an energy shift of zero (Po, At, Rn, Fr, Ra).
        seen = torch.nonzero(weights["normalizer.shift"].abs() > 1e-6).view(-1)
        super().__init__(
            name=name,
            elements=frozenset(seen.tolist()),
            energies_corrected=False,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        self.cutoff = float(checkpoint["model_args"]["cutoff"])
        if checkpoint["model_args"]["units"] > 128:
            self.cpu_chunk_atoms = 16
        weights = {key: value.to(self._device, dtype) for key, value in weights.items()}
        self.network = M3GNet(weights, **checkpoint["model_args"], geometry=geometry_dtype(device))

    def energies(self, graph: Graph) -> torch.Tensor:
        return graph.sum_per_system(self.network(graph))

    @torch.no_grad()
    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        """As any gradient potential's; the way back to positions and cells is short enough to go by hand."""
        chosen = self._representatives(state)
        graph = neighbour_graph(state, state.positions, None, cutoff=self.cutoff, representative=chosen)
        atomic, kept = self.network.run(graph)
        stands_for = torch.ones_like(atomic) if graph.multiplicity is None else graph.multiplicity.to(atomic)
        by_vectors = self.network.pull(kept, stands_for)
        forces, virial = graph.pulls(by_vectors.to(graph.positions.dtype))
        volume = torch.linalg.det(state.cell).abs()
        energy = graph.sum_per_system(atomic)
        return {"energy": energy, "forces": forces, "stress": virial / volume[:, None, None]}
