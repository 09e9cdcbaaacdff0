"""SevenNet-0 and SevenNet-l3i5, with the weights that the sevenn package brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anchor.paths import sha256
from anchor.potentials.base import GradientPotential
from anchor.potentials.equivariant import PairConvolution, pairs_of_atoms
from anchor.potentials.graph import Graph

PAIRS = "pairs_of_atoms"
"""Where `Pairs` travel through sevenn's layers, which hand on a dictionary."""


class SevenNet(GradientPotential):
    """SevenNet from a checkpoint file. Energies are plain PBE (+U) totals of MPtrj, uncorrected.

    Args:
        path: Checkpoint of the sevenn package. It is a pickle: check its hash before (`weights.verified`).
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network.
        on_pairs: Evaluate convolutions on pairs of atoms (`equivariant`; the same numbers, several times
            cheaper). False, and any layer of a kind unknown here: on edges, as the package does.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "sevennet",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        on_pairs: bool = True,
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
        layers = convolutions(network) if on_pairs else {}
        for layer_name, layer in layers.items():
            network.replace_module(layer_name, layer)
        self.on_pairs = bool(layers)
        self.cpu_chunk_atoms = 128 if self.on_pairs else 32

    def _cast_species(self, _: torch.nn.Module, __: Any, data: dict[str, Any]) -> dict[str, Any]:
        """sevenn encodes species in single precision whatever the network's is."""
        return {
            key: value.to(self._dtype) if torch.is_tensor(value) and value.is_floating_point() else value
            for key, value in data.items()
        }

    def energies(self, graph: Graph) -> torch.Tensor:
        from sevenn import _keys as key

        data: dict[str, Any] = {
            key.NODE_FEATURE: graph.numbers,
            key.ATOMIC_NUMBERS: graph.numbers,
            key.BATCH: graph.system_idx,
            key.NUM_ATOMS: graph.counts,
        }
        vectors = graph.vectors.to(self._dtype)
        if self.on_pairs:
            pairs = pairs_of_atoms(graph)
            data |= {PAIRS: pairs, key.EDGE_VEC: vectors[pairs.edges]}
        else:
            data |= {key.EDGE_IDX: graph.edges, key.EDGE_VEC: vectors}
        return graph.sum_per_system(self.network(data)[key.ATOMIC_ENERGY].view(-1))


class Convolution(torch.nn.Module):
    """sevenn's convolution layer, evaluated on pairs of atoms."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.x, self.harmonics, self.radial = layer.key_x, layer.key_filter, layer.key_weight_input
        self.convolution = PairConvolution(layer.convolution, layer.weight_nn, float(layer.denominator))

    def forward(self, data: dict[str, Any]) -> dict[str, Any]:
        x, radial, harmonics = data[self.x], data[self.radial], data[self.harmonics]
        return data | {self.x: self.convolution(x, radial, harmonics, data[PAIRS])}


def convolutions(network: Any) -> dict[str, Convolution]:
    """All convolutions of a sevenn network by name; none when one of them is of a kind unknown here."""
    from sevenn.nn.convolution import IrrepsConvolution

    layers = {name: layer for name, layer in network.named_children() if name.endswith("convolution")}
    if not all(type(layer) is IrrepsConvolution for layer in layers.values()):
        return {}
    try:
        return {name: Convolution(layer) for name, layer in layers.items()}
    except ValueError:
        return {}
