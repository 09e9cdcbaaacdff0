"""Real potentials with real weights, loaded once for each test process."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.spacegroup import crystal

from anchor.crystals.crystals import Crystals
from anchor.potentials import Potential, load_potential
from anchor.potentials.registry import fetch_weights

HERE = ("mattersim-1m", "mattersim-5m", "chgnet", "sevennet-0", "sevennet-l3i5")
"""The potentials that must run in the standard environment."""


@cache
def cached(name: str, dtype: str = "float32") -> Potential:
    for part in name.split("+"):
        fetch_weights(part)
    return load_potential(name, dtype=dtype)


@pytest.fixture(scope="session")
def load():
    """`load("chgnet")`: a potential, its weights fetched if need be."""
    return cached


def rattled(atoms: Atoms, seed: int) -> Atoms:
    rng = np.random.default_rng(seed)
    atoms = atoms.copy()
    atoms.positions += rng.normal(0, 0.05, atoms.positions.shape)
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + rng.normal(0, 0.02, (3, 3))), scale_atoms=True)
    return atoms


@pytest.fixture(scope="session")
def solids() -> list[Atoms]:
    """A salt on its ideal sites, and a semiconductor, a metal and two oxides off theirs (skewed cells)."""
    rutile = crystal(
        ["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[4.59, 4.59, 2.96, 90, 90, 90]
    )
    perovskite = crystal(
        ["Sr", "Ti", "O"],
        [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)],
        spacegroup=221,
        cellpar=[3.905] * 3 + [90] * 3,
    )
    off = [bulk("Si", "diamond", a=5.43), bulk("Fe", "bcc", a=2.87), rutile, perovskite]
    return [bulk("NaCl", "rocksalt", a=5.64), *(rattled(atoms, seed) for seed, atoms in enumerate(off))]


@pytest.fixture(scope="session")
def crystals(solids) -> Crystals:
    return Crystals.from_atoms(solids)
