"""What a sampler ends with, as crystals, and which of them have a cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import spans_a_cell

VOLUMES = (2.0, 300.0)
"""Å³ per atom that a cell may have."""
LONGEST = 60.0
"""Å; longest cell vector."""
MOST_PAIRS = 40_000
"""Pairs of atoms per network call: about 1 GB of features."""


def finished_crystals(numbers: NDArray[np.int64], frac: Tensor, cell: Tensor) -> Crystals:
    """Crystals of one size, right-handed; cells may be broken.  # [b, n], [b, n, 3], [b, 3, 3]"""
    lattice = cell.double().cpu().numpy()
    places = frac.double().cpu().numpy() % 1.0
    left_handed = np.nan_to_num(np.linalg.det(np.nan_to_num(lattice))) < 0
    sign = np.where(left_handed, -1.0, 1.0)[:, None, None]  # the same crystal with its axes turned round
    b, n = numbers.shape
    return Crystals(np.full(b, n), numbers.ravel(), (sign * places % 1.0).reshape(-1, 3), sign * lattice)


def usable_cells(crystals: Crystals) -> NDArray[np.bool_]:
    """Which cells are cells: finite, not flat, of no absurd volume.  # [n]"""
    atoms_finite = np.ones(len(crystals), dtype=bool)
    np.logical_and.at(atoms_finite, crystals.owner, np.isfinite(crystals.frac).all(axis=1))
    usable = atoms_finite & spans_a_cell(crystals.lattice)
    lattice = np.where(usable[:, None, None], crystals.lattice, np.eye(3))
    per_atom = np.abs(np.linalg.det(lattice)) / crystals.counts
    longest = np.linalg.norm(lattice, axis=2).max(axis=1)
    return usable & (per_atom >= VOLUMES[0]) & (per_atom <= VOLUMES[1]) & (longest <= LONGEST)
