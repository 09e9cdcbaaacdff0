"""Orb (orb-v3-conservative-inf-omat by default); needs orb-models 0.5."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_sim.state import SimState

from anchor.paths import sha256
from anchor.potentials.base import COMMON_ELEMENTS, Potential
from anchor.potentials.state import from_state


class Orb(Potential):
    """Orb from a weight file. Energies are plain PBE (+U) totals, uncorrected.

    Args:
        path: Weight file as published; orb-models unpickles tensors only.
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the network.
        architecture: Function of `orb_models.forcefield.pretrained` that builds the network of these weights.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "orb",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        architecture: str = "orb_v3_conservative_inf_omat",
    ) -> None:
        from orb_models.forcefield import pretrained

        super().__init__(
            name=name,
            elements=COMMON_ELEMENTS,
            energies_corrected=False,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        precision = "float64" if dtype == torch.float64 else "float32-highest"
        before = torch.get_default_dtype()
        try:
            build = getattr(pretrained, architecture)
            self.network = build(
                weights_path=str(path), device=self._device, precision=precision, compile=False
            )
        finally:
            torch.set_default_dtype(before)  # orb-models changes it for the whole process
        conservative = hasattr(self.network, "grad_forces_name")
        self.forces_key = self.network.grad_forces_name if conservative else "forces"
        self.stress_key = self.network.grad_stress_name if conservative else "stress"

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        from orb_models.forcefield.atomic_system import ase_atoms_to_atom_graphs
        from orb_models.forcefield.base import batch_graphs

        graphs = [
            ase_atoms_to_atom_graphs(
                atoms, self.network.system_config, device=self._device, output_dtype=self._dtype
            )
            for atoms in from_state(state).to_atoms()
        ]
        with torch.enable_grad():
            found = self.network.predict(batch_graphs(graphs))
        xx, yy, zz, yz, xz, xy = found[self.stress_key].view(state.n_systems, 6).unbind(dim=1)
        rows = [torch.stack(row, dim=1) for row in ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))]
        return {
            "energy": found["energy"].view(state.n_systems),
            "forces": found[self.forces_key],
            "stress": torch.stack(rows, dim=1),
        }
