"""Which rows of OQMD-ICSD become reference crystals: rules in order, each removal counted and named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ase.data import covalent_radii
from numpy.typing import NDArray
from pymatgen.analysis.structure_matcher import StructureMatcher
from scipy.optimize import nnls

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances, shortest_distances
from anchor.reference.raw import RawCrystals

MAX_ATOMS = 20
MAX_FORMATION_ENERGY = 5.0  # eV/atom
MAX_STABILITY = 2.0  # eV/atom above the hull of all others
MIN_DISTANCE = 0.7  # Å; the shortest real bond, H-H, is 0.74
MIN_RADIUS_RATIO = (
    0.63  # of the sum of covalent radii; the shortest believable contacts (Pu-Pu, U-O) start at 0.65
)
MAX_VOLUME_RATIO = 2.5  # of the sum of atomic volumes; open frameworks (zeolites, cyanides) end at 2.3
SAME_ENERGY = 1e-3  # eV/atom
SAME_VOLUME = 1e-2  # relative


@dataclass(frozen=True)
class Removal:
    """One cleaning rule and the rows it took (rows that an earlier rule took do not count again)."""

    rule: str
    rows: NDArray[np.int64]


def clean(raw: RawCrystals) -> tuple[NDArray[np.int64], list[Removal]]:
    """Rows to keep, ascending, and what each rule removed, in the order of application."""
    rows = np.arange(len(raw.crystals))
    removals: list[Removal] = []

    def drop(rule: str, bad: NDArray[np.bool_]) -> None:
        nonlocal rows
        removals.append(Removal(rule, rows[bad]))
        rows = rows[~bad]

    drop(f"more than {MAX_ATOMS} atoms in the cell", raw.crystals.counts > MAX_ATOMS)
    drop("the same OQMD calculation listed again", _listed_before(raw.oqmd_id[rows]))
    drop(
        f"formation energy above {MAX_FORMATION_ENERGY:g} eV/atom, or more than {MAX_STABILITY:g} eV/atom "
        "above the hull, or not finite",
        ~(raw.formation_energy[rows] <= MAX_FORMATION_ENERGY) | ~(raw.stability[rows] <= MAX_STABILITY),
    )
    drop(
        f"two atoms closer than {MIN_DISTANCE:g} Å (periodic images included)",
        shortest_distances(raw.crystals[rows]) < MIN_DISTANCE,
    )
    drop(
        f"two atoms closer than {MIN_RADIUS_RATIO:g} of the sum of their covalent radii",
        smallest_radius_ratio(raw.crystals[rows]) < MIN_RADIUS_RATIO,
    )
    drop(
        f"volume above {MAX_VOLUME_RATIO:g} times the sum of atomic volumes (layers with vacuum between)",
        volume_ratio(raw.crystals[rows]) > MAX_VOLUME_RATIO,
    )
    drop(
        "the same structure calculated again (matcher; energy within 1 meV/atom, volume within 1 %)",
        _same_structure_before(raw, rows),
    )
    return rows, removals


def smallest_radius_ratio(crystals: Crystals) -> NDArray[np.float64]:
    """Smallest distance over sum of covalent radii (Cordero et al. 2008, from ASE) of each crystal.  # [n]"""
    contacts = minimum_image_distances(crystals, self_images=True)
    radii = covalent_radii[crystals.numbers]
    ratio = contacts.distance / (radii[contacts.first] + radii[contacts.second])
    smallest = np.full(len(crystals), np.inf)
    np.minimum.at(smallest, contacts.crystal, ratio)
    return smallest


def volume_ratio(crystals: Crystals) -> NDArray[np.float64]:
    """Cell volume over the sum of atomic volumes, these fitted to the batch itself.  # [n]

    Least squares of the relative error, on which a cell full of vacuum has little leverage.
    """
    amounts = crystals.compositions.amounts
    atomic_volumes, _ = nnls(amounts / crystals.volume[:, None], np.ones(len(crystals)))
    return crystals.volume / (amounts @ atomic_volumes)


def _listed_before(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(ids, return_index=True)[1]] = False
    return repeated


def _same_structure_before(raw: RawCrystals, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows match a kept earlier row of the same formula. Tight tolerances: polytypes stay apart."""
    matcher = StructureMatcher(ltol=0.05, stol=0.1, angle_tol=2.0, primitive_cell=True, scale=False)
    crystals = raw.crystals[rows]
    structures: dict[int, object] = {}

    def structure(i: int) -> object:
        if i not in structures:
            structures[i] = crystals[i].to_structures()[0]
        return structures[i]

    volume = crystals.volume / crystals.counts
    energy = raw.formation_energy[rows]
    groups: dict[str, list[int]] = {}
    for i, formula in enumerate(crystals.formulas):
        groups.setdefault(formula, []).append(i)
    again = np.zeros(len(rows), dtype=bool)
    for members in groups.values():
        for position, i in enumerate(members):
            again[i] = any(
                not again[j]
                and abs(energy[i] - energy[j]) <= SAME_ENERGY
                and abs(volume[i] / volume[j] - 1) <= SAME_VOLUME
                and matcher.fit(structure(i), structure(j))
                for j in members[:position]
            )
    return again
