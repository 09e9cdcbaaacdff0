"""Crystals as torch-sim states, and back.

torch-sim keeps cell vectors as columns (`cell = lattice.mT`); everywhere else in anchor they are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ase.data import atomic_masses
from torch_sim.state import SimState

from anchor.crystals.crystals import Crystals
from anchor.potentials.edges import SymmetricNeighbours


@dataclass(kw_only=True)
class SymmetricState(SimState):
    """Crystals whose symmetry is known: atoms of one orbit are copies of each other.

    A potential may look at one atom of each orbit only. Its energies are the same; of its forces and stresses
    only the part is right that keeps the symmetry, the mean over the group's operations
    (`anchor.relax.symmetry`).

    Attributes:
        orbit: The first atom of each atom's orbit, counted within its system.  # [n_atoms], int64
        group: Which of `groups` each system has.  # [n_systems], int64
        groups: Who finds the edges of a system with symmetry; None for one without.
    """

    orbit: torch.Tensor
    group: torch.Tensor
    groups: Sequence[SymmetricNeighbours | None]

    _atom_attributes = SimState._atom_attributes | {"orbit"}
    _system_attributes = SimState._system_attributes | {"group"}
    _global_attributes = SimState._global_attributes | {"groups"}

    def __init__(
        self,
        *,
        orbit: torch.Tensor,
        groups: Sequence[SymmetricNeighbours | None],
        group: torch.Tensor | None = None,
        **attributes: Any,
    ) -> None:
        self.orbit, self.groups = orbit, groups
        self.group = torch.arange(len(groups), device=orbit.device) if group is None else group
        super().__init__(**attributes)

    def neighbours_of(self, system: int) -> SymmetricNeighbours | None:
        """Who finds the edges of a system that has symmetry."""
        return self.groups[int(self.group[system])]

    def representatives(self) -> torch.Tensor:
        """The first atom of each atom's orbit, counted over all systems.  # [n_atoms], int64"""
        first = torch.cumsum(self.n_atoms_per_system, 0) - self.n_atoms_per_system
        return first[self.system_idx] + self.orbit


def geometry_dtype(device: str | torch.device) -> torch.dtype:
    """Double precision for positions and cells wherever the device has it (Apple's MPS has not)."""
    return torch.float32 if torch.device(device).type == "mps" else torch.float64


def to_state(
    crystals: Crystals, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> SimState:
    """A torch-sim state of all crystals, in order.

    Args:
        crystals: n crystals with n_atoms atoms in all.
        device: Where the tensors live.
        dtype: Of positions and cells; the default keeps double precision where the device has it.

    Returns:
        State with positions [n_atoms, 3] Å, cell [n, 3, 3] Å (cell vectors as columns), masses [n_atoms] u.
    """
    dtype = geometry_dtype(device) if dtype is None else dtype
    return SimState(
        positions=torch.as_tensor(crystals.cart, dtype=dtype, device=device),
        masses=torch.as_tensor(atomic_masses[crystals.numbers], dtype=dtype, device=device),
        cell=torch.as_tensor(crystals.lattice, dtype=dtype, device=device).mT.contiguous(),
        pbc=True,
        atomic_numbers=torch.as_tensor(crystals.numbers, device=device),
        system_idx=torch.as_tensor(crystals.owner, device=device),
    )


def from_state(state: SimState) -> Crystals:
    """The crystals of a torch-sim state, in order; positions are not wrapped."""
    lattice = state.cell.detach().mT.cpu().double().numpy()
    cart = state.positions.detach().cpu().double().numpy()
    owner = state.system_idx.cpu().numpy()
    counts = np.bincount(owner, minlength=len(lattice))
    frac = np.einsum("ai,aij->aj", cart, _inverse(lattice)[owner])
    return Crystals(counts, state.atomic_numbers.cpu().numpy(), frac, lattice)


def _inverse(lattice: np.ndarray) -> np.ndarray:
    """Inverse of each cell, NaN for singular or non-finite ones.  # [n, 3, 3]"""
    determinant = np.linalg.det(np.where(np.isfinite(lattice), lattice, 0.0))
    usable = np.isfinite(lattice).all(axis=(1, 2)) & (np.abs(determinant) > 1e-12)
    inverse = np.full_like(lattice, np.nan)
    inverse[usable] = np.linalg.inv(lattice[usable])
    return inverse
