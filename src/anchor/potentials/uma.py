"""UMA of fairchem (uma-s-1p1, task omat); needs fairchem-core 2, and weights behind a licence."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_sim.state import SimState

from anchor.paths import sha256
from anchor.potentials.base import COMMON_ELEMENTS, Potential
from anchor.potentials.state import from_state


class UMA(Potential):
    """UMA from a checkpoint file. Energies are plain PBE (+U) totals of OMat24, uncorrected.

    Args:
        path: Checkpoint as published. It is a pickle: check its hash before (`weights.verified`).
        name: As in the registry.
        device: Where the network runs.
        dtype: Of the geometry that fairchem is given.
        task: Which of UMA's data sets to answer as; "omat" is inorganic crystals.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "uma",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        task: str = "omat",
    ) -> None:
        from fairchem.core.units.mlip_unit import InferenceSettings, load_predict_unit

        super().__init__(
            name=name,
            elements=COMMON_ELEMENTS,
            energies_corrected=False,
            checkpoint_hash=sha256(path),
            device=device,
            dtype=dtype,
        )
        self.task = task
        # Crystals of one batch differ in composition, so experts must not be merged for one of them.
        settings = InferenceSettings(merge_mole=False, compile=False, tf32=False)
        self.unit = load_predict_unit(str(path), settings, device=self._device.type)

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        from fairchem.core.datasets.atomic_data import AtomicData, atomicdata_list_to_batch

        graphs = [
            AtomicData.from_ase(atoms, task_name=self.task, r_edges=False, r_data_keys=["spin", "charge"])
            for atoms in from_state(state).to_atoms()
        ]
        with torch.enable_grad():
            found = self.unit.predict(atomicdata_list_to_batch(graphs))
        return {
            "energy": found["energy"].view(state.n_systems),
            "forces": found["forces"].view(state.n_atoms, 3),
            "stress": found["stress"].view(state.n_systems, 3, 3),
        }
