"""One database's hulls for a potential: DFT, the potential's own energies, both; all on the database's scale.

OQMD and the Materials Project differ by 45 meV/atom on average, so that their energies are never in one hull:
each has its own calibration of each potential.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.hull.calibration import (
    COMPETING,
    METAL_PER_OXYGEN,
    N_FOLDS,
    Calibration,
    fit_calibration,
)
from anchor.hull.energies import Energies
from anchor.hull.filling import SOURCE, Filling
from anchor.hull.hull import Hull, HullIdentity
from anchor.hull.phases import Phases
from anchor.paths import BUNDLED, cache_dir
from anchor.reference.reference import Reference, load_reference

Database = Literal["oqmd", "mp"]
LABELS: dict[str, str] = {"oqmd": "OQMD", "mp": "Materials Project"}
Scheme = Literal["oqmd-by-presence", "oqmd", "mp"]
"""How a potential is calibrated: to which database, and (only to reproduce old numbers) with shifts by
presence instead of bounded ones."""
SCHEMES: tuple[Scheme, ...] = ("oqmd-by-presence", "oqmd", "mp")


@dataclass(frozen=True, eq=False)
class DatabaseHulls:
    """What a candidate is compared with on the scale of one database.

    Attributes:
        calibration: Of the potential, to this scale.
        dft: Hull of the database's formation energies.
        potential: Hull of the reference compounds' energies under the potential, and of the filling.
        union: Of both.
        own_energies: Formation energies of the compounds in `potential`, eV/atom.
    """

    calibration: Calibration
    dft: Hull
    potential: Hull
    union: Hull
    own_energies: NDArray[np.float64]

    def covered(self, hull: Hull) -> frozenset[int]:
        """Atomic numbers with a reference in the calibration and in `hull`."""
        return (
            frozenset(np.flatnonzero(np.isfinite(self.calibration.element_energy)).tolist()) & hull.elements
        )


def load_database(
    reference: Reference,
    energies: Energies,
    scheme: Scheme,
    identity: HullIdentity,
    filling: Filling | None = None,
) -> DatabaseHulls:
    """The hulls of one database for the potential that gave `energies` and made the `filling`."""
    calibration = load_calibration(energies.potential, reference, energies, scheme)
    own = potential_phases(reference, energies, calibration)
    if filling is not None:
        own = Phases.concatenate([own, filling.phases(calibration)])
    database: Database = "mp" if scheme == "mp" else "oqmd"
    dft = dft_hull(database)
    return DatabaseHulls(
        calibration,
        dft,
        _with_filling(_with_elements(own, LABELS[database]), identity),
        _with_filling(Phases.concatenate([dft.index.phases, own]), identity),
        own.energies,
    )


def _with_filling(phases: Phases, identity: HullIdentity) -> Hull:
    """Their hull, on which what was filled in does not compete with its own composition."""
    return Hull(phases, identity, np.flatnonzero(phases.sources == SOURCE))


@lru_cache(maxsize=2)
def dft_hull(database: Database = "oqmd") -> Hull:
    """The hull of a database's DFT formation energies; elements are at zero by definition."""
    reference = load_reference()
    if database == "oqmd":
        numbers, counts = reference.hull_numbers, reference.hull_counts
        energies = reference.hull_formation_energy
        identity = HullIdentity(reference.hash)
    else:
        numbers, counts = reference.mp_hull["numbers"], reference.mp_hull["counts"]
        energies = reference.mp_hull["formation_energy"].astype(np.float64)
        identity = HullIdentity(content_hash(reference.mp_hull))
    phases = Phases.from_arrays(numbers, counts, energies, LABELS[database])
    return Hull(_with_elements(phases, LABELS[database]), identity)


def _with_elements(phases: Phases, source: str) -> Phases:
    """The phases, and every element they hold at formation energy zero where no elemental phase is given."""
    single = np.count_nonzero(phases.numbers, axis=1) == 1
    absent = np.setdiff1d(phases.numbers[phases.numbers > 0], phases.numbers[single, 0]).tolist()
    elements = Phases.from_amounts([{z: 1.0} for z in absent], np.zeros(len(absent)), source)
    return Phases.concatenate([phases, elements]) if absent else phases


def potential_phases(reference: Reference, energies: Energies, calibration: Calibration) -> Phases:
    """The reference compounds as phases: their energies under the potential on the DFT scale.

    Elemental crystals are left out: on this scale elements are at zero by definition. OQMD fits the
    references of gases, halogens, P, S, Na and a few others to compounds, so that a potential's own Cl2 would
    come out 0.3 eV/atom below zero and make chlorides look unstable against it.
    """
    amounts = reference.crystals.compositions.amounts
    formation = calibration.formation_energy(amounts, energies.lowest)
    kept = np.flatnonzero(np.isfinite(formation) & ((amounts > 0).sum(axis=1) > 1))
    mappings = [{int(z): float(row[z]) for z in np.flatnonzero(row)} for row in amounts[kept]]
    return Phases.from_amounts(mappings, formation[kept], [str(reference.ids[i]) for i in kept])


# Calibrations


def load_calibration(
    name: str, reference: Reference, energies: Energies, scheme: Scheme = "oqmd"
) -> Calibration:
    """The stored calibration if it was fitted on these numbers, else a new fit (seconds)."""
    for folder in (BUNDLED, cache_dir()):
        path = calibration_path(name, folder, scheme)
        if path.exists():
            found = Calibration.load(path)
            if found.fitted_on == fit_hash(reference, energies, scheme):
                return found
    return calibrate(reference, energies, scheme)


def calibration_path(name: str, folder: Path, scheme: Scheme) -> Path:
    """File of a potential's calibration in the package or the cache folder."""
    ending = "calibration" if scheme == "oqmd-by-presence" else f"calibration-{scheme}"
    return folder / "energies" / f"{name}.{ending}.json"


def calibrate(reference: Reference, energies: Energies, scheme: Scheme = "oqmd") -> Calibration:
    """Fit a potential's calibration on its energies of the reference crystals."""
    rows, energy, target = _fit_data(reference, energies, scheme)
    amounts = reference.crystals.compositions.amounts[rows]
    return fit_calibration(
        amounts / amounts.sum(axis=1, keepdims=True),
        energy,
        target,
        formula_folds(reference.formulas[rows].tolist()),
        potential=energies.potential,
        checkpoint_hash=energies.checkpoint_hash,
        fitted_on=fit_hash(reference, energies, scheme),
        bounded=scheme != "oqmd-by-presence",
    )


def fit_hash(reference: Reference, energies: Energies, scheme: Scheme = "oqmd") -> str:
    """SHA-256 of everything a calibration is fitted on."""
    _, energy, target = _fit_data(reference, energies, scheme)
    identity = energies.checkpoint_hash + energies.crystals_hash
    identity += content_hash({"energy": energy, "formation_energy": target})
    if scheme != "oqmd-by-presence":
        identity += f"{METAL_PER_OXYGEN}{COMPETING}"
    return hashlib.sha256(identity.encode()).hexdigest()


def _fit_data(
    reference: Reference, energies: Energies, scheme: Scheme
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Crystals, their energies under the potential and DFT formation energies, eV/atom.  # [n] each

    OQMD's energies belong to the very crystals: single points at the DFT geometry. The Materials Project's
    are known by formula: the lowest crystal of each formula stands for it.
    """
    if scheme != "mp":
        formation = np.asarray(reference.formation_energy)
        return np.arange(len(formation)), energies.single_point, formation
    lowest: dict[str, int] = {}
    energy = energies.lowest
    for i, formula in enumerate(reference.formulas.tolist()):
        if formula in reference.mp_hull_energy and np.isfinite(energy[i]):
            best = lowest.setdefault(formula, i)
            lowest[formula] = i if energy[i] < energy[best] else best
    rows = np.array(sorted(lowest.values()), dtype=np.int64)
    target = np.array([reference.mp_hull_energy[f] for f in reference.formulas[rows].tolist()])
    return rows, energy[rows], target


def formula_folds(formulas: list[str]) -> NDArray[np.int64]:
    """Fold of each crystal by a hash of its formula: polymorphs stay together.  # [n]"""
    return np.array([hashlib.sha256(f.encode()).digest()[0] % N_FOLDS for f in formulas])
