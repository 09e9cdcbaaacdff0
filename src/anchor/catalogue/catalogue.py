"""The catalogue: crystals that searches found, with energies, hulls and what each has survived.

    catalogue = load_catalogue()
    for entry in catalogue.select(elements=["Na", "Mn", "P", "O"], most=0.0):
        print(entry.formula, entry.above_hull)

One compressed file: coordinates and cells in single precision (a thousandth of a picometre), everything else
in columns. Entries are sorted by what they survived, then by their energy above the hull.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash, load_arrays, pack_strings, save_arrays, unpack_strings
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.outcomes.columns import METASTABLE_BELOW, STABLE_BELOW
from anchor.paths import BUNDLED
from anchor.reading import read_json, whole_number
from anchor.writing import replace_file

SHIPPED = BUNDLED / "catalogue.npz"
"""The catalogue that ships."""
NAME = "catalogue"
"""What it is called where a campaign or a file may be named."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One crystal of a catalogue.

    Attributes:
        number: Place in the catalogue, from 1.
        formula: Reduced.
        crystal: Positions and cell relaxed under the catalogue's potential; a batch of one.
        spacegroup: Symbol.
        above_hull: Energy above the hull that counts, eV/atom, signed.
        above: Energy above each DFT hull by its database, eV/atom, signed.
        above_with_finds: Above the hull on which all entries lie too, eV/atom.
        formation_energy: On OQMD's scale, eV/atom.
        level: Highest level of `anchor verify` that it passed; 0: none was tried.
        why: Why it failed the next level; '' where none did.
        thin: Why its chemical system is thinly known; '' where it is not.
    """

    number: int
    formula: str
    crystal: Crystals
    spacegroup: str
    above_hull: float
    above: dict[str, float]
    above_with_finds: float
    formation_energy: float
    level: int
    why: str
    thin: str


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Entries in order.

    Attributes:
        crystals: One per entry.  # n
        number: Places in the whole catalogue, from 1.  # [n]
        formulas, spacegroups, why, thin: Texts of each entry.
        above_hull, above_oqmd, above_mp, above_with_finds, formation_energy: eV/atom.  # [n]
        level: Of verification.  # [n]
        card: Where it comes from.
    """

    crystals: Crystals
    number: NDArray[np.int64]
    formulas: list[str]
    spacegroups: list[str]
    why: list[str]
    thin: list[str]
    above_hull: NDArray[np.float64]
    above_oqmd: NDArray[np.float64]
    above_mp: NDArray[np.float64]
    above_with_finds: NDArray[np.float64]
    formation_energy: NDArray[np.float64]
    level: NDArray[np.int64]
    card: dict[str, Any]

    def __len__(self) -> int:
        return len(self.formulas)

    def __getitem__(self, i: int) -> Entry:
        databases = {"oqmd": float(self.above_oqmd[i]), "mp": float(self.above_mp[i])}
        return Entry(
            number=int(self.number[i]),
            formula=self.formulas[i],
            crystal=self.crystals[i],
            spacegroup=self.spacegroups[i],
            above_hull=float(self.above_hull[i]),
            above={name: value for name, value in databases.items() if np.isfinite(value)},
            above_with_finds=float(self.above_with_finds[i]),
            formation_energy=float(self.formation_energy[i]),
            level=int(self.level[i]),
            why=self.why[i],
            thin=self.thin[i],
        )

    def __iter__(self) -> Iterator[Entry]:
        return (self[i] for i in range(len(self)))

    def take(self, rows: NDArray[np.int64]) -> Catalogue:
        """Some entries, in this order."""

        def texts(values: list[str]) -> list[str]:
            return [values[i] for i in rows]

        return replace(
            self,
            crystals=self.crystals[rows],
            number=self.number[rows],
            formulas=texts(self.formulas),
            spacegroups=texts(self.spacegroups),
            why=texts(self.why),
            thin=texts(self.thin),
            above_hull=self.above_hull[rows],
            above_oqmd=self.above_oqmd[rows],
            above_mp=self.above_mp[rows],
            above_with_finds=self.above_with_finds[rows],
            formation_energy=self.formation_energy[rows],
            level=self.level[rows],
        )

    def select(
        self,
        *,
        elements: Collection[str] | None = None,
        must_contain: Collection[str] = (),
        exclude: Collection[str] = (),
        k: Collection[int] | None = None,
        most: float | None = None,
        level: int | None = None,
    ) -> Catalogue:
        """Entries within limits.

        Args:
            elements: Made of these only.
            must_contain: With all of these.
            exclude: Without any of these.
            k: Numbers of elements.
            most: At most this far above the hull with all entries on it, eV/atom.
            level: Passed at least this level of verification.
        """
        sets = self._element_sets()
        keep = np.ones(len(self), dtype=bool)
        if elements is not None:
            keep &= np.array([found <= set(elements) for found in sets], dtype=bool)
        if must_contain:
            keep &= np.array([found >= set(must_contain) for found in sets], dtype=bool)
        if exclude:
            keep &= np.array([not found & set(exclude) for found in sets], dtype=bool)
        if k is not None:
            keep &= np.array([len(found) in set(k) for found in sets], dtype=bool)
        if most is not None:
            keep &= self.above_with_finds <= most
        if level is not None:
            keep &= self.level >= level
        return self.take(np.flatnonzero(keep))

    def find(self, text: str) -> Entry:
        """The entry of a number or a formula.

        Raises:
            InputError: There is none.
        """
        from anchor.chemistry.composition import parse_formula

        wanted = whole_number(text)
        formula = None if wanted is not None else parse_formula(text).formula
        for i in range(len(self)):
            if self.number[i] == wanted or self.formulas[i] == formula:
                return self[i]
        raise InputError(f"the catalogue has no entry '{text}'", "see: anchor catalogue list")

    def counts(self) -> dict[str, int]:
        """How many there are, near the hull and on it, before and after they compete with one another."""
        return {
            "entries": len(self),
            "metastable": int((self.above_hull <= METASTABLE_BELOW).sum()),
            "stable": int((self.above_hull <= STABLE_BELOW).sum()),
            "stable_with_finds": int((self.above_with_finds <= STABLE_BELOW).sum()),
            "in_thin_systems": sum(bool(text) for text in self.thin),
            **{f"level_{n}": int((self.level >= n).sum()) for n in range(1, 7) if (self.level >= n).any()},
        }

    def _element_sets(self) -> list[set[str]]:
        return [set(composition.elements) for composition in self.crystals.compositions]


def save_catalogue(path: Path, catalogue: Catalogue) -> str:
    """Write a catalogue and, beside it, its card; returns the hash of its content."""
    catalogue = as_stored(catalogue)
    crystals = catalogue.crystals
    arrays: dict[str, NDArray[Any]] = {
        "counts": crystals.counts.astype(np.uint8),
        "numbers": crystals.numbers.astype(np.uint8),
        "frac": (crystals.frac % 1.0).astype(np.float32),
        "lattice": crystals.lattice.astype(np.float32),
        "level": catalogue.level.astype(np.uint8),
        **{name: pack_strings(getattr(catalogue, name)) for name in TEXTS},
        **{name: getattr(catalogue, name) for name in ENERGIES},
    }
    digest = content_hash(arrays)
    save_arrays(path, arrays)
    card = {**catalogue.card, "counts": catalogue.counts(), "content_hash": digest}
    replace_file(path.with_suffix(".json"), json.dumps(card, indent=1) + "\n")
    return digest


TEXTS = ("formulas", "spacegroups", "why", "thin")
DIGITS = 5
"""Of energies in the file, eV/atom: far below their errors, and the file stays small."""
ENERGIES = ("above_hull", "above_oqmd", "above_mp", "above_with_finds", "formation_energy")


def as_stored(catalogue: Catalogue) -> Catalogue:
    """With energies as the file has them, so that counts before and after storing are the same."""
    return replace(catalogue, **{name: np.round(getattr(catalogue, name), DIGITS) for name in ENERGIES})


@cache
def load_catalogue(path: Path = SHIPPED) -> Catalogue:
    """A catalogue from its file; by default the one that ships.

    Raises:
        InputError: The file is none, or its content is not what its card says.
    """
    if not path.is_file():
        raise MissingDependencyError(
            f"there is no catalogue '{path}'", "make one: anchor catalogue build CAMPAIGN --out FILE.npz"
        )
    try:
        arrays = load_arrays(path)
        card = read_json(path.with_suffix(".json"))
        stated = card["content_hash"]
    except (InputError, KeyError) as error:
        raise InputError(
            f"'{path}' is no readable catalogue: {error}", "bring it and its card back"
        ) from error
    if content_hash(arrays) != stated:
        raise InputError(
            f"the content of '{path}' is not that of its card", "bring both back, or build it again"
        )
    n = len(arrays["counts"])
    crystals = Crystals(
        arrays["counts"].astype(np.int64),
        arrays["numbers"].astype(np.int64),
        arrays["frac"].astype(np.float64),
        arrays["lattice"].astype(np.float64),
    )
    return Catalogue(
        crystals=crystals,
        number=np.arange(1, n + 1),
        level=arrays["level"].astype(np.int64),
        card=card,
        formulas=unpack_strings(arrays["formulas"]),
        spacegroups=unpack_strings(arrays["spacegroups"]),
        why=unpack_strings(arrays["why"]),
        thin=unpack_strings(arrays["thin"]),
        above_hull=arrays["above_hull"].astype(np.float64),
        above_oqmd=arrays["above_oqmd"].astype(np.float64),
        above_mp=arrays["above_mp"].astype(np.float64),
        above_with_finds=arrays["above_with_finds"].astype(np.float64),
        formation_energy=arrays["formation_energy"].astype(np.float64),
    )


def is_catalogue(place: str) -> bool:
    """Whether a name stands for a catalogue, not for a campaign."""
    return (place == NAME and not Path(place).is_dir()) or place.endswith(".npz")


def open_catalogue(place: str) -> Catalogue:
    """The catalogue of a name for which `is_catalogue` holds."""
    return load_catalogue(SHIPPED if place == NAME else Path(place))
