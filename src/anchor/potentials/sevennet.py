"""SevenNet-0 and SevenNet-l3i5, with the weights that the sevenn package brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anchor.paths import sha256
from anchor.potentials.base import GradientPotential
from anchor.potentials.graph import Graph


class SevenNet(GradientPotential):
    """SevenNet from a checkpoint file. Energies are plain PBE (+U) totals of MPtrj, uncorrected.

    Args:
        path: Checkpoint of the sevenn package. It is a pickle: check its hash before (`weights.verified`).
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network.
    """

    cpu_chunk_atoms = 32

    def __init__(
        self,
        path: Path,
        *,
        name: str = "sevennet",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        from sevenn.util import load_checkpoint

        network = load_checkpoint(path).build_model()
        super().__init__(
            name=name,
            elements=frozenset(network.type_map),
            energies_corrected=False,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        self.cutoff = float(network.cutoff)
        network.delete_module_by_key(
            "force_output"
        )  # gradients are ours: one pass, in the geometry's precision
        network.key_grad = None
        network.set_is_batch_data(True)
        network.onehot_idx_to_onehot.register_forward_hook(self._cast_species)
        self.network = network.requires_grad_(False).to(self._device, dtype).eval()

    def _cast_species(self, _: torch.nn.Module, __: Any, data: dict[str, Any]) -> dict[str, Any]:
        """sevenn encodes species in single precision whatever the network's is."""
        return {
            key: value.to(self._dtype) if torch.is_tensor(value) and value.is_floating_point() else value
            for key, value in data.items()
        }

    def energies(self, graph: Graph) -> torch.Tensor:
        from sevenn import _keys as key

        data = {
            key.NODE_FEATURE: graph.numbers,
            key.ATOMIC_NUMBERS: graph.numbers,
            key.EDGE_IDX: graph.edges,
            key.EDGE_VEC: graph.vectors.to(self._dtype),
            key.BATCH: graph.system_idx,
            key.NUM_ATOMS: graph.counts,
        }
        return graph.sum_per_system(self.network(data)[key.ATOMIC_ENERGY].view(-1))
