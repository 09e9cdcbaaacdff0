"""Several potentials as one: mean energies, forces and stresses, and how far the members are apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import nn
from torch_sim.state import SimState

from anchor.errors import InputError
from anchor.potentials.base import Potential


class Ensemble(Potential):
    """Mean over members, with `energy_std` [n] eV and `forces_std` [n_atoms, 3] eV/Å (population spread).

    Forces compare across all potentials. Total energies carry each training set's own reference, so the
    spread of energies means something only between members trained on the same kind of data.

    Args:
        members: At least two different potentials on one device.
    """

    def __init__(self, members: Sequence[Potential]) -> None:
        hashes = sorted(member.checkpoint_hash for member in members)
        if len(members) < 2 or len(set(hashes)) < len(members):
            names = " + ".join(member.name for member in members)
            raise InputError(f"an ensemble needs at least two different potentials, not {names or 'none'}")
        devices = {str(member.device) for member in members}
        if len(devices) > 1:
            raise InputError(
                f"the members of an ensemble must share one device, not {', '.join(sorted(devices))}"
            )
        super().__init__(
            name="+".join(member.name for member in members),
            elements=frozenset.intersection(*(member.elements for member in members)),
            energies_corrected=all(member.energies_corrected for member in members),
            checkpoint_hash=hashlib.sha256("+".join(hashes).encode()).hexdigest(),
            device=members[0].device,
            dtype=members[0].dtype,
        )
        self.members = nn.ModuleList(members)

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        results = [member.compute(state) for member in self.members]  # type: ignore[operator]
        stacked = {
            key: torch.stack([result[key].detach().to(state.dtype) for result in results])
            for key in ("energy", "forces", "stress")
        }
        mean = {key: values.mean(dim=0) for key, values in stacked.items()}
        spread = {f"{key}_std": stacked[key].std(dim=0, correction=0) for key in ("energy", "forces")}
        return mean | spread
