"""The reference that ships: known crystals, hull energies and formulas, with what is derived from them."""

from __future__ import annotations

import json
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import load_arrays, unpack_strings
from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import rdf_from_counts
from anchor.errors import MissingDependencyError
from anchor.paths import BUNDLED
from anchor.reference.bonds import BondTable
from anchor.reference.index import RdfIndex
from anchor.reference.listed import Listed
from anchor.reference.splits import SPLITS

CRYSTALS_FILE = "reference-crystals.npz"
HULL_FILE = "reference-hull.npz"
KNOWN_FILE = "reference-known.npz"
INDEX_FILE = "reference-index.npz"
MP_HULL_FILE = "reference-hull-mp.npz"
LISTED_FILE = "reference-listed.npz"
CARD_FILE = "reference-card.json"


class Reference:
    """Known crystals and energies that hull, novelty, gate and priors share. Parts are read when first used.

    Energies are OQMD's (PBE), eV/atom; those of the Materials Project stand apart in `mp_hull`. `hash`
    identifies crystals, OQMD's hull energies and known formulas; the card has a hash of every file.

    Args:
        folder: Where `anchor data build` wrote the files.
    """

    def __init__(self, folder: Path = BUNDLED) -> None:
        self.folder = folder

    @cached_property
    def card(self) -> dict[str, Any]:
        """The data card: provenance, licences, counts, removals, hashes."""
        path = self.folder / CARD_FILE
        if not path.is_file():
            raise MissingDependencyError(f"{path} is missing", "make the reference with: anchor data build")
        return json.loads(path.read_text(encoding="utf-8"))

    @property
    def hash(self) -> str:
        """SHA-256 of the arrays of crystals, hull energies and known formulas."""
        return str(self.card["hash"])

    # Crystals

    @cached_property
    def _crystals(self) -> dict[str, NDArray]:
        return load_arrays(self.folder / CRYSTALS_FILE)

    @cached_property
    def crystals(self) -> Crystals:
        """All n reference crystals, at most 20 atoms each."""
        arrays = self._crystals
        return Crystals(arrays["counts"], arrays["numbers"], arrays["frac"], arrays["lattice"])

    @cached_property
    def ids(self) -> NDArray[np.str_]:
        """'oqmd-' and OQMD's number of the calculation.  # [n]"""
        return np.array([f"oqmd-{number}" for number in self._crystals["oqmd_id"].tolist()])

    @cached_property
    def formulas(self) -> NDArray[np.str_]:
        """Reduced formula of each crystal.  # [n]"""
        return np.array(unpack_strings(self._crystals["formulas"]))

    @cached_property
    def prototype(self) -> NDArray[np.str_]:
        """Stoichiometry, formula units, Wyckoff letters and space group, as 'AB3_6_f_adg_165'.  # [n]"""
        return np.array(unpack_strings(self._crystals["prototype"]))

    @property
    def spacegroup(self) -> NDArray[np.int64]:
        """International number of the space group.  # [n]"""
        return self._crystals["spacegroup"].astype(np.int64)

    @cached_property
    def formation_energy(self) -> NDArray[np.float64]:
        """DFT formation energy, eV/atom, elements at 0.  # [n]"""
        return self._crystals["formation_energy"].astype(np.float64)

    @cached_property
    def stability(self) -> NDArray[np.float64]:
        """OQMD's distance to the hull of all *other* compositions, eV/atom; negative on the hull.  # [n]"""
        return self._crystals["stability"].astype(np.float64)

    @cached_property
    def e_above_hull(self) -> NDArray[np.float64]:
        """Energy above OQMD's full hull, eV/atom: max(stability, 0), so 0 on the hull.  # [n]"""
        return np.maximum(self.stability, 0.0)

    @cached_property
    def band_gap(self) -> NDArray[np.float64]:
        """PBE band gap, eV, NaN where OQMD has none.  # [n]"""
        return self._crystals["band_gap"].astype(np.float64)

    @cached_property
    def split(self) -> NDArray[np.str_]:
        """'train', 'val' or 'test', by reduced formula.  # [n]"""
        return np.array(SPLITS)[self._crystals["split"]]

    # Hull energies

    @cached_property
    def _hull(self) -> dict[str, NDArray]:
        return load_arrays(self.folder / HULL_FILE)

    @cached_property
    def hull_formulas(self) -> list[str]:
        """Reduced formulas with a DFT energy, without quarantined ones and without elements (0).  # [m]"""
        return unpack_strings(self._hull["formulas"])

    @cached_property
    def hull_formation_energy(self) -> NDArray[np.float64]:
        """Lowest formation energy of each of `hull_formulas`, eV/atom.  # [m]"""
        return self._hull["formation_energy"].astype(np.float64)

    @property
    def hull_numbers(self) -> NDArray[np.uint8]:
        """Atomic numbers of each of `hull_formulas`, ascending, 0 = padding.  # [m, 7]"""
        return self._hull["numbers"]

    @property
    def hull_counts(self) -> NDArray[np.uint8]:
        """Atoms per formula unit of each of `hull_numbers`.  # [m, 7]"""
        return self._hull["counts"]

    @cached_property
    def mp_hull(self) -> dict[str, NDArray]:
        """The same of the Materials Project: "numbers", "counts", "formation_energy" (another scale)."""
        return load_arrays(self.folder / MP_HULL_FILE)

    @cached_property
    def mp_hull_energy(self) -> dict[str, float]:
        """Lowest formation energy by reduced formula in the Materials Project, eV/atom, without elements."""
        energies = self.mp_hull["formation_energy"].astype(np.float64).tolist()
        return dict(zip(unpack_strings(self.mp_hull["formulas"]), energies, strict=True))

    # Known formulas

    @cached_property
    def _known(self) -> dict[str, NDArray]:
        return load_arrays(self.folder / KNOWN_FILE)

    @cached_property
    def known_formulas(self) -> frozenset[str]:
        """Reduced formulas of the Materials Project."""
        return frozenset(unpack_strings(self._known["mp_formulas"]))

    @cached_property
    def mp_e_above_hull(self) -> dict[str, float]:
        """Lowest energy above the Materials Project's own hull, eV/atom, by formula (NaN: listed without)."""
        formulas = unpack_strings(self._known["mp_formulas"])
        return dict(zip(formulas, self._known["mp_e_above_hull"].tolist(), strict=True))

    @cached_property
    def _known_sources(self) -> dict[str, frozenset[str]]:
        more = unpack_strings(self._known["oqmd_formulas"])  # quarantined, or of larger ICSD crystals only
        return {
            "reference": frozenset(self.formulas.tolist()),
            "mp": self.known_formulas,
            "oqmd": frozenset(self.hull_formulas) | frozenset(more),
        }

    def known(self, formula: str) -> set[str]:
        """Which of 'reference', 'mp', 'oqmd', 'icsd', 'cod' and 'mp-old' list this reduced formula."""
        found = {source for source, formulas in self._known_sources.items() if formula in formulas}
        return found | self.listed.sources(formula)

    @cached_property
    def listed(self) -> Listed:
        """Formulas and space groups of ICSD and COD, and formulas of an older Materials Project."""
        return Listed(load_arrays(self.folder / LISTED_FILE))

    # Derived

    @cached_property
    def _index(self) -> dict[str, NDArray]:
        return load_arrays(self.folder / INDEX_FILE)

    @cached_property
    def rdf(self) -> RdfIndex:
        """Embeddings by formula and the calibrated bandwidths."""
        arrays = self._index
        return RdfIndex(
            rdf_from_counts(arrays["rdf_counts"]),
            self.formulas.tolist(),
            bandwidths=arrays["bandwidths"],
            sigma_floor=float(arrays["sigma_floor"]),
            struct_bandwidth=float(arrays["struct_bandwidth"]),
        )

    @cached_property
    def bonds(self) -> BondTable:
        """Shortest separation of every pair of elements."""
        arrays = self._index
        return BondTable(arrays["bond_minimum"], arrays["bond_crystals"], arrays["bond_shortest_in"])


@cache
def load_reference() -> Reference:
    """The reference bundled with the package; one object per process."""
    return Reference()
