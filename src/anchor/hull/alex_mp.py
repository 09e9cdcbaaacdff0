"""The paper's own hull: MatterGen's Alex-MP reference on the Materials Project 2020 corrected scale.

For people who have the reference set (an LMDB file of computed entries). Candidates are put on the same scale
exactly as the paper does (app:reward/stability): the relaxed structure and its energy become a computed entry
with the settings that the Materials Project would have used, and `MaterialsProject2020Compatibility` corrects
it. Potentials that were trained on corrected energies (CHGNet) are taken as they are.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import NUMBER, VOCABULARY
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.formats import load
from anchor.hull.hull import Decomposition, Hull, HullIdentity
from anchor.hull.phases import Phases
from anchor.hull.references import HullScores

if TYPE_CHECKING:
    from pymatgen.core import Structure
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    from anchor.potentials.base import Potential

KIND = "alex-mp"


def computed_entry(structure: Structure, energy: float) -> ComputedStructureEntry:
    """A structure and its total energy (eV) as the Materials Project would have computed it (U, POTCARs)."""
    from pymatgen.analysis.structure_analyzer import oxide_type
    from pymatgen.entries.computed_entries import ComputedStructureEntry
    from pymatgen.io.vasp.sets import MPRelaxSet

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the k-points and smearing of a calculation that is not run
        inputs = MPRelaxSet(structure)
        incar = inputs.incar
    hubbard = bool(incar.get("LDAU", False))
    values = incar["LDAUU"] if hubbard else []
    return ComputedStructureEntry(
        structure,
        energy,
        parameters={
            "run_type": "GGA+U" if hubbard else "GGA",
            "is_hubbard": hubbard,
            "hubbards": dict(zip(inputs.poscar.site_symbols, values, strict=True)) if hubbard else {},
            "potcar_symbols": [f"PBE {symbol}" for symbol in inputs.potcar_symbols],
        },
        data={"oxide_type": oxide_type(structure)},
    )


def mp2020_energies(entries: Iterable[ComputedStructureEntry]) -> NDArray[np.float64]:
    """Corrected total energies, eV; NaN for entries that are not compatible with the corrections.  # [n]"""
    from pymatgen.entries.compatibility import MaterialsProject2020Compatibility

    scheme = MaterialsProject2020Compatibility()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one line per entry whose oxidation states had to be guessed
        processed = [scheme.process_entry(entry, clean=True, inplace=False) for entry in entries]
    return np.array([np.nan if entry is None else entry.energy for entry in processed], dtype=np.float64)


def corrected_energies(crystals: Crystals, energies: NDArray[np.float64]) -> NDArray[np.float64]:
    """A potential's total energies (eV) with the corrections of 2020; NaN stays NaN.  # [n]"""
    found = np.full(len(crystals), np.nan)
    valid = np.flatnonzero(np.isfinite(energies))
    structures = crystals[valid].to_structures()
    found[valid] = mp2020_energies(
        computed_entry(structure, float(energies[i])) for i, structure in zip(valid, structures, strict=True)
    )
    return found


def phases_from_entries(entries: Iterable[Mapping[str, Any]]) -> Phases:
    """Phases of ComputedStructureEntry dictionaries: corrected here; incompatible ones are left out."""
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    parsed = [ComputedStructureEntry.from_dict(dict(entry)) for entry in entries]
    energies = mp2020_energies(parsed)
    kept = np.flatnonzero(np.isfinite(energies))
    if not len(kept):
        raise InputError(f"none of {len(parsed)} entries can carry the Materials Project 2020 corrections")
    amounts = [{e.Z: float(n) for e, n in parsed[i].composition.items()} for i in kept]
    atoms = np.array([parsed[i].composition.num_atoms for i in kept])
    return Phases.from_amounts(amounts, energies[kept] / atoms, [str(parsed[i].entry_id) for i in kept])


def phases_from_file(path: Path) -> Phases:
    """Phases of a reference set whose entries carry their corrections already (MatterGen's LMDB, or JSON)."""
    loaded = load(path, on_error="skip")
    if "energy" not in loaded.properties:
        raise InputError(f"{path} holds structures without energies", "give a file of computed entries")
    amounts = loaded.crystals.compositions.amounts
    energies = loaded.properties["energy"] / loaded.crystals.counts
    kept = np.flatnonzero(np.isfinite(energies))
    mappings = [{int(z): float(row[z]) for z in np.flatnonzero(row)} for row in amounts[kept]]
    return Phases.from_amounts(mappings, energies[kept], [loaded.ids[i] for i in kept])


class AlexMPHull:
    """The Alex-MP hull for the energies of one potential.

    Args:
        phases: Reference entries with corrected energies, eV/atom.
        potential: Whose energies are compared; whether they need the corrections is its own declaration.
    """

    def __init__(self, phases: Phases, potential: Potential) -> None:
        digest = hashlib.sha256(phases.numbers.tobytes())
        digest.update(phases.fractions.tobytes())
        digest.update(phases.energies.tobytes())
        scheme = "mp2020" if not potential.energies_corrected else "mp2020-in-potential"
        self.identity = HullIdentity(
            digest.hexdigest(), potential.checkpoint_hash, f"{scheme}/pymatgen-{version('pymatgen')}"
        )
        self.hull = Hull(phases, self.identity)
        self.elements = self.hull.elements
        self._corrected = potential.energies_corrected

    @property
    def searchable_elements(self) -> tuple[str, ...]:
        """Symbols of the policy's vocabulary that it covers; none of its references was fitted."""
        return tuple(symbol for symbol in VOCABULARY if NUMBER[symbol] in self.elements)

    def score(self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str) -> HullScores:
        """Energies above the hull; see `PotentialHull.score`. Formation energies are against its elements."""
        self.identity.require(checkpoint_hash)
        energies = np.asarray(energies, dtype=np.float64)
        amounts = crystals.compositions.amounts
        total = energies if self._corrected else corrected_energies(crystals, energies)
        per_atom = total / crystals.counts
        status = self.hull.status(amounts)
        for i in np.flatnonzero(~np.isfinite(total)):
            reason = "no MP2020 correction" if np.isfinite(energies[i]) else "no energy"
            status[i] = f"not scored: {reason}"
        phases = self.hull.index.phases
        level = np.full(amounts.shape[1], np.nan)
        for z, row in self.hull.index.elements.items():
            level[z] = phases.energies[row]
        scale = np.where(amounts > 0, amounts * level, 0.0).sum(axis=1) / crystals.counts
        return HullScores(
            per_atom - scale, {KIND: self.hull.energy_above_hull(amounts, per_atom)}, KIND, status
        )

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None:
        """Competing phases; None where an element has no reference."""
        return self.hull.decomposition(composition)


def load_alex_mp(path: Path | None, potential: Potential) -> AlexMPHull:
    """The Alex-MP hull of a reference file for one potential."""
    if path is None or not path.exists():
        raise InputError(
            "the Alex-MP hull needs its reference file" + (f", and {path} is not there" if path else ""),
            "name it: --set hull.path=FILE (MatterGen's reference_MP2020correction.gz, or computed entries)",
        )
    return AlexMPHull(phases_from_file(path), potential)
