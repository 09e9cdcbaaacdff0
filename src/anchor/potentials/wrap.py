"""Any torch-sim model as a potential of anchor: name its elements, its energy scale and its weights."""

from __future__ import annotations

import torch
from torch_sim.models.interface import ModelInterface
from torch_sim.state import SimState

from anchor.errors import InputError
from anchor.potentials.base import Potential


class Wrapped(Potential):
    """A torch-sim model that somebody else wrote.

    Args:
        model: Must give energy, forces and stress.
        name: What tables and hulls call it.
        elements: Atomic numbers it was trained on.
        energies_corrected: Whether its energies carry the Materials Project 2020 corrections.
        checkpoint_hash: SHA-256 of its weights (`anchor.paths.sha256(path)`): a hull made for one hash
            refuses energies of another.
    """

    def __init__(
        self,
        model: ModelInterface,
        *,
        name: str,
        elements: frozenset[int],
        energies_corrected: bool,
        checkpoint_hash: str,
    ) -> None:
        if not (model.compute_forces and model.compute_stress):
            raise InputError(
                f"the model '{name}' does not compute both forces and stresses",
                "build it with compute_forces=True and compute_stress=True",
            )
        super().__init__(
            name=name,
            elements=elements,
            energies_corrected=energies_corrected,
            checkpoint_hash=checkpoint_hash,
            device=model.device,
            dtype=model.dtype,
        )
        self.model = model

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        with torch.enable_grad():
            result = self.model(state.to(self._device, self._dtype))
        return {
            "energy": result["energy"].view(state.n_systems),
            "forces": result["forces"].view(state.n_atoms, 3),
            "stress": result["stress"].view(state.n_systems, 3, 3),
        }
