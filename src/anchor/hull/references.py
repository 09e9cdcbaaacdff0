"""The hulls a potential's energies are compared with: DFT, the potential's own, and the union of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.hull.calibration import N_FOLDS, Calibration, fit_calibration
from anchor.hull.energies import Energies, load_energies
from anchor.hull.hull import SCORED, Decomposition, Hull, HullIdentity
from anchor.hull.phases import N_NUMBERS, Phases
from anchor.paths import BUNDLED, cache_dir
from anchor.reference.reference import Reference, load_reference

if TYPE_CHECKING:
    from anchor.potentials.base import Potential

Kind = Literal["union", "dft", "potential"]
CORRECTION = "oqmd-calibration"
DFT_SOURCE = "OQMD"
DECIMALS = 9
"""Energies in eV/atom are rounded to this: a composition on an edge belongs to several facets, and which of
them answers may change the last bit from run to run."""


@dataclass(frozen=True, eq=False)
class HullScores:
    """Energies of n candidates against every hull, eV/atom, signed; NaN where not scored.

    Attributes:
        formation_energy: On the scale of the hulls.  # [n]
        above: Hull name ("dft", "potential", "union", …) → energy above that hull.  # [n] each
        kind: The hull that counts.
        status: "scored", or why not.  # [n]
    """

    formation_energy: NDArray[np.float64]
    above: dict[str, NDArray[np.float64]]
    kind: str
    status: list[str]

    @property
    def energy_above_hull(self) -> NDArray[np.float64]:
        """Against the hull that counts, eV/atom.  # [n]"""
        return self.above[self.kind]

    def against(self, hull: str) -> NDArray[np.float64]:
        """Energy above a hull by its name, eV/atom; NaN where it is not among them.  # [n]"""
        return self.above.get(hull, np.full(len(self.formation_energy), np.nan))


class PotentialHull:
    """Hulls for the energies of one potential, on the scale of the reference's DFT formation energies.

    Args:
        hulls: Hull by name; all with formation energies in eV/atom.
        calibration: Of the potential.
        identity: Of the whole: its checkpoint hash is the only one whose energies are accepted.
        kind: The hull that counts.
    """

    def __init__(
        self,
        hulls: dict[str, Hull],
        calibration: Calibration,
        identity: HullIdentity,
        *,
        kind: Kind = "union",
    ) -> None:
        self.hulls = hulls
        self.calibration = calibration
        self.identity = identity
        self.kind = kind
        calibrated = set(np.flatnonzero(np.isfinite(calibration.element_energy)).tolist())
        self.elements = frozenset(calibrated & hulls[kind].elements)
        """Atomic numbers that can be scored."""

    @property
    def searchable_elements(self) -> tuple[str, ...]:
        """Symbols of covered elements with a well-determined reference."""
        covered = {SYMBOLS[z] for z in self.elements}
        return tuple(s for s in self.calibration.searchable_elements if s in covered)

    def score(self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str) -> HullScores:
        """Energies above every hull.

        Args:
            crystals: Candidates; only their compositions matter.
            energies: Total energies of the potential, eV; NaN gives NaN.  # [n]
            checkpoint_hash: Of the potential that gave the energies; another one than the hull's raises.
        """
        energies = np.asarray(energies, dtype=np.float64)
        if energies.shape != (len(crystals),):
            raise InputError(f"{len(crystals)} crystals but energies of shape {energies.shape}")
        self.identity.require(checkpoint_hash)
        amounts = crystals.compositions.amounts
        formation = self.calibration.formation_energy(amounts, energies / crystals.counts)
        covered = np.zeros(N_NUMBERS, dtype=bool)
        covered[sorted(self.elements)] = True
        missing = (amounts > 0) & ~covered
        above = {
            name: np.round(hull.energy_above_hull(amounts, formation), DECIMALS)
            for name, hull in self.hulls.items()
        }
        status = [
            _status(np.flatnonzero(row).tolist(), energy)
            for row, energy in zip(missing, energies, strict=True)
        ]
        return HullScores(np.round(formation, DECIMALS), above, self.kind, status)

    def energy_above_hull(
        self, compositions: NDArray[np.float64] | list[str], formation_energies: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Energy above the hull that counts, of formation energies already on its scale, eV/atom.  # [n]"""
        return self.hulls[self.kind].energy_above_hull(compositions, formation_energies)

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None:
        """Competing phases on the hull that counts; None where an element has no reference."""
        return self.hulls[self.kind].decomposition(composition)


def _status(missing: list[int], energy: float) -> str:
    if missing:
        return f"not scored: no reference for {', '.join(SYMBOLS[z] for z in missing)}"
    return SCORED if np.isfinite(energy) else "not scored: no energy"


def load_hull(potential: Potential | str, kind: Kind = "union") -> PotentialHull:
    """The hulls of the bundled reference for a potential.

    Args:
        potential: Whose energies are to be compared; its weights' hash must be that of the bundled energies.
            A name is enough where no energies are to be computed.
        kind: The hull that counts: "dft" (OQMD), "potential" (the reference crystals' energies under the same
            potential) or "union" of both.
    """
    if kind not in get_args(Kind):
        raise InputError(f"there is no hull '{kind}'", nearest(kind, get_args(Kind)))
    if isinstance(potential, str):
        found = load_energies(potential, load_reference().crystals)
        return _load_hull(potential, found.checkpoint_hash, kind)
    return _load_hull(potential.name, potential.checkpoint_hash, kind)


@lru_cache(maxsize=8)
def _load_hull(name: str, checkpoint_hash: str, kind: Kind) -> PotentialHull:
    reference = load_reference()
    energies = load_energies(name, reference.crystals, checkpoint_hash=checkpoint_hash)
    calibration = load_calibration(name, reference, energies)
    own = potential_phases(reference, energies, calibration)
    dft = dft_hull()
    digest = hashlib.sha256(reference.hash.encode())
    digest.update(json.dumps(calibration.to_dict(), sort_keys=True).encode())
    digest.update(own.energies.tobytes())
    identity = HullIdentity(digest.hexdigest(), checkpoint_hash, CORRECTION)
    hulls = {
        "dft": dft,
        "potential": Hull(_with_elements(own), identity),
        "union": Hull(Phases.concatenate([dft.index.phases, own]), identity),
    }
    return PotentialHull(hulls, calibration, identity, kind=kind)


@lru_cache(maxsize=1)
def dft_hull() -> Hull:
    """The hull of the reference's DFT formation energies; elements are at zero by definition."""
    reference = load_reference()
    phases = Phases.from_arrays(
        reference.hull_numbers, reference.hull_counts, reference.hull_formation_energy, DFT_SOURCE
    )
    return Hull(_with_elements(phases), HullIdentity(reference.hash))


def _with_elements(phases: Phases) -> Phases:
    """The phases, and every element they hold at formation energy zero where no elemental phase is given."""
    single = np.count_nonzero(phases.numbers, axis=1) == 1
    absent = np.setdiff1d(phases.numbers[phases.numbers > 0], phases.numbers[single, 0]).tolist()
    elements = Phases.from_amounts([{z: 1.0} for z in absent], np.zeros(len(absent)), DFT_SOURCE)
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


def load_calibration(name: str, reference: Reference, energies: Energies) -> Calibration:
    """The stored calibration if it was fitted on these numbers, else a new fit (seconds)."""
    for folder in (BUNDLED, cache_dir()):
        path = calibration_path(name, folder)
        if path.exists():
            found = Calibration.load(path)
            if found.fitted_on == fit_hash(reference, energies):
                return found
    return calibrate(reference, energies)


def calibration_path(name: str, folder: Path) -> Path:
    """File of a potential's calibration in the package or the cache folder."""
    return folder / "energies" / f"{name}.calibration.json"


def calibrate(reference: Reference, energies: Energies) -> Calibration:
    """Fit a potential's calibration on its single points of the reference crystals."""
    amounts = reference.crystals.compositions.amounts
    return fit_calibration(
        amounts / amounts.sum(axis=1, keepdims=True),
        energies.single_point,
        np.asarray(reference.formation_energy, dtype=np.float64),
        formula_folds(list(reference.formulas)),
        potential=energies.potential,
        checkpoint_hash=energies.checkpoint_hash,
        fitted_on=fit_hash(reference, energies),
    )


def fit_hash(reference: Reference, energies: Energies) -> str:
    """SHA-256 of everything a calibration is fitted on."""
    arrays = {"energy": energies.single_point, "formation_energy": reference.formation_energy}
    identity = energies.checkpoint_hash + energies.crystals_hash + content_hash(arrays)
    return hashlib.sha256(identity.encode()).hexdigest()


def formula_folds(formulas: list[str]) -> NDArray[np.int64]:
    """Fold of each crystal by a hash of its formula: polymorphs stay together.  # [n]"""
    return np.array([hashlib.sha256(f.encode()).digest()[0] % N_FOLDS for f in formulas])
