"""Does a potential do here what it should? Exact identities and finite differences on small crystals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from ase import Atoms
from ase.build import bulk, make_supercell

from anchor.crystals.crystals import Crystals
from anchor.potentials.base import Potential
from anchor.random import generator


@dataclass(frozen=True)
class Check:
    """What one crystal showed. Errors are absolute; `passed` compares them with the tolerances.

    Attributes:
        formula: Reduced formula.
        atoms: In the cell.
        energy_ev_per_atom: As evaluated in the batch.
        supercell_error_ev_per_atom: Energy of a doubled cell, per atom, against the cell's own.
        batch_error_ev_per_atom: Energy alone against energy in the batch.
        force_error_ev_per_angstrom: Slope of the energy along a random displacement against the forces.
        stress_error_ev_per_cubic_angstrom: Slope along a random strain against the stress.
        passed: All within tolerance.
    """

    formula: str
    atoms: int
    energy_ev_per_atom: float
    supercell_error_ev_per_atom: float
    batch_error_ev_per_atom: float
    force_error_ev_per_angstrom: float
    stress_error_ev_per_cubic_angstrom: float
    passed: bool


@dataclass(frozen=True)
class Precision:
    """How finely slopes can be measured: large steps curve, small ones drown in rounding.

    Attributes:
        step: Å for displacements; a tenth of it for strains (dimensionless).
        energy: Largest error that rounding explains, eV/atom.
        force: The same for slopes, eV/Å.
        stress: The same for stresses, eV/Å³.
    """

    step: float
    energy: float
    force: float
    stress: float


PRECISION = {
    torch.float32: Precision(step=5e-3, energy=1e-5, force=1e-2, stress=1e-3),
    torch.float64: Precision(step=3e-4, energy=1e-6, force=1e-4, stress=1e-5),
}


def check_crystals(seed: int = 0) -> list[Atoms]:
    """A salt, a semiconductor, a metal and an oxide, displaced and strained a little; one way for a seed."""
    oxide = Atoms(
        "Ti2O4",
        scaled_positions=[
            (0, 0, 0),
            (0.5, 0.5, 0.5),
            (0.305, 0.305, 0),
            (0.695, 0.695, 0),
            (0.195, 0.805, 0.5),
            (0.805, 0.195, 0.5),
        ],
        cell=[4.59, 4.59, 2.96],
        pbc=True,
    )
    crystals = [
        bulk("NaCl", "rocksalt", a=5.64),
        bulk("Si", "diamond", a=5.43),
        bulk("Cu", "fcc", a=3.61),
        oxide,
    ]
    rng = generator(seed, "potentials", "check")
    for atoms in crystals:
        atoms.positions += rng.normal(0.0, 0.05, atoms.positions.shape)
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + rng.normal(0.0, 0.01, (3, 3))), scale_atoms=True)
    return crystals


def check_potential(
    potential: Potential, crystals: list[Atoms] | None = None, *, seed: int = 0
) -> list[Check]:
    """Check a potential on small crystals (its own four by default); those it does not cover are left out."""
    given = Crystals.from_atoms(check_crystals(seed) if crystals is None else crystals)
    batch = given[potential.supports(given)]
    whole = potential.evaluate(batch)
    offsets = batch.offsets
    limit = PRECISION[potential.dtype]
    step, stretch = limit.step, limit.step / 10
    checks = []
    for k, atoms in enumerate(batch.to_atoms()):
        n = len(atoms)
        rng = generator(seed, "potentials", "slopes", k)
        direction = rng.normal(size=(n, 3))
        direction /= np.linalg.norm(direction)
        strain = rng.normal(size=(3, 3))
        strain = (strain + strain.T) / np.linalg.norm(strain + strain.T)
        moved = [displaced(atoms, sign * step * direction) for sign in (1, -1)]
        bent = [strained(atoms, sign * stretch * strain) for sign in (1, -1)]
        doubled = make_supercell(atoms, np.diag([1, 1, 2]))
        family = potential.evaluate(Crystals.from_atoms([*moved, *bent, doubled])).energy
        alone = potential.evaluate(batch[k]).energy[0]
        slope = -(family[0] - family[1]) / (2 * step)
        bend = (family[2] - family[3]) / (2 * stretch) / atoms.get_volume()
        errors = {
            "supercell_error_ev_per_atom": abs(family[4] / 2 - whole.energy[k]) / n,
            "batch_error_ev_per_atom": abs(alone - whole.energy[k]) / n,
            "force_error_ev_per_angstrom": abs(
                slope - np.sum(whole.forces[offsets[k] : offsets[k + 1]] * direction)
            ),
            "stress_error_ev_per_cubic_angstrom": abs(bend - np.sum(whole.stress[k] * strain)),
        }
        allowed = (limit.energy, limit.energy, limit.force, limit.stress)
        checks.append(
            Check(
                formula=batch[k].formulas[0],
                atoms=n,
                energy_ev_per_atom=float(whole.energy[k] / n),
                **{key: float(value) for key, value in errors.items()},
                passed=all(value <= most for value, most in zip(errors.values(), allowed, strict=True)),
            )
        )
    return checks


def displaced(atoms: Atoms, by: np.ndarray) -> Atoms:
    """The same crystal with its atoms moved, Å.  # [n, 3]"""
    copy = atoms.copy()
    copy.positions += by
    return copy


def strained(atoms: Atoms, strain: np.ndarray) -> Atoms:
    """The same crystal deformed by 1 + strain (symmetric, dimensionless).  # [3, 3]"""
    copy = atoms.copy()
    copy.set_cell(copy.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    return copy
