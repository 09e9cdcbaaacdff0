"""What every loader yields and what `load` gives back: crystals, and by name everything that was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import ArrayLike, NDArray
from pymatgen.core import DummySpecies, Structure

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import LONGEST_EDGE
from anchor.errors import AnchorError, InputError

ID_NAMES = ("material_id", "id", "immutable_id", "mat_id", "mp_id", "mpid", "structure_id", "entry_id")
"""Columns and keys that name a crystal, best first."""

ALIASES = {"energy_above_hull": "e_above_hull"}
"""Other spellings of the same quantity (Alex-MP-20 against MP-20)."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FURTHEST = 1e6  # cells; beyond it a fractional coordinate has lost the digits that place an atom
SMALLEST_VOLUME = 1e-6  # Å³; below this a cell has no volume and its distances no meaning


@dataclass(frozen=True)
class Skipped:
    """One file, row or frame that gave no crystal, and why."""

    source: str
    reason: str


@dataclass(frozen=True, eq=False)
class Found:
    """One crystal as a loader found it: numbers [n], frac [n, 3], lattice [3, 3] Å as rows."""

    source: str
    id: str
    numbers: NDArray[np.int64]
    frac: NDArray[np.float64]
    lattice: NDArray[np.float64]
    properties: dict[str, float] = field(default_factory=dict)


Item = Found | Skipped


@dataclass(frozen=True, eq=False)
class LoadedCrystals:
    """Crystals of one or many files, in reading order, and everything that was left out.

    Attributes:
        crystals: The n crystals.
        ids: Name of each: the source's own id, else the file's name and the frame or row.
        properties: Every numeric quantity of the source, NaN where a crystal has none.  # each [n], float64
            Known names: `energy` (total, eV, corrected where the source corrects), `band_gap` (eV),
            `formation_energy_per_atom` and `e_above_hull` (eV/atom). Other names are the source's own.
        source: File, and row, frame or key, of each crystal.
        skipped: What could not be read, with the reason.
        n_read: Everything that was tried: len(crystals) + len(skipped).
        ignored: Files of folders and archives whose names say that they hold no crystals.
    """

    crystals: Crystals
    ids: list[str]
    properties: dict[str, NDArray[np.float64]]
    source: list[str]
    skipped: list[Skipped]
    n_read: int
    ignored: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.crystals)
        assert self.n_read == n + len(self.skipped), f"{self.n_read=} != {n} + {len(self.skipped)}"
        assert len(self.ids) == len(self.source) == n
        assert all(len(column) == n for column in self.properties.values())

    def __len__(self) -> int:
        return len(self.crystals)

    @property
    def duplicate_ids(self) -> dict[str, int]:
        """Ids that several crystals share (all are kept), and how many share each."""
        return {id: n for id, n in Counter(self.ids).items() if n > 1}


def assemble(
    found: Sequence[Found], skipped: list[Skipped], *, n_read: int, ignored: list[str]
) -> LoadedCrystals:
    """One batch of all that was found."""
    names = dict.fromkeys(name for item in found for name in item.properties)
    crystals = Crystals.empty()
    if found:
        crystals = Crystals(
            np.array([len(item.numbers) for item in found]),
            np.concatenate([item.numbers for item in found]),
            np.concatenate([item.frac for item in found]),
            np.stack([item.lattice for item in found]),
        )
    return LoadedCrystals(
        crystals=crystals,
        ids=[item.id for item in found],
        properties={
            name: np.array([item.properties.get(name, np.nan) for item in found], dtype=np.float64)
            for name in names
        },
        source=[item.source for item in found],
        skipped=skipped,
        n_read=n_read,
        ignored=ignored,
    )


# One crystal


def crystal(
    source: str,
    id: str,
    numbers: ArrayLike,
    frac: ArrayLike,
    lattice: ArrayLike,
    properties: Mapping[str, float] | None = None,
) -> Found:
    """A checked crystal: known elements, finite coordinates, a cell with a volume."""
    z = np.asarray(numbers, dtype=np.int64).reshape(-1)
    x = np.asarray(frac, dtype=np.float64).reshape(-1, 3)
    cell = np.asarray(lattice, dtype=np.float64).reshape(3, 3)
    if not len(z):
        raise InputError("it has no atoms")
    if len(z) != len(x):
        raise InputError(f"{len(z)} elements but {len(x)} positions")
    if z.min() < 1 or z.max() > 118:
        raise InputError(f"atomic number {z[(z < 1) | (z > 118)][0]} is no element")
    if not (np.isfinite(x).all() and np.isfinite(cell).all()):
        raise InputError("a coordinate or a cell vector is not a finite number")
    if (volume := abs(np.linalg.det(cell))) < SMALLEST_VOLUME:
        raise InputError(f"the cell has no volume ({volume:.1e} Å³)")
    if (longest := np.abs(cell).max()) > LONGEST_EDGE:
        raise InputError(f"the cell is {longest:.3g} Å long, over {LONGEST_EDGE:g} Å: not a crystal")
    if (furthest := np.abs(x).max()) > FURTHEST:
        raise InputError(f"an atom lies {furthest:.3g} cells away from its cell")
    return Found(source, id, z, x, cell, dict(properties or {}))


def from_structure(
    source: str, id: str, structure: Structure, properties: Mapping[str, float] | None = None
) -> Found:
    """From pymatgen; disordered structures are refused."""
    if not structure.is_ordered:
        raise InputError(f"disordered: {structure.composition.reduced_formula} has partially occupied sites")
    if dummies := [str(site.specie) for site in structure if isinstance(site.specie, DummySpecies)]:
        raise InputError(f"'{dummies[0]}' is no element")
    numbers = [site.specie.Z for site in structure]
    return crystal(source, id, numbers, structure.frac_coords, structure.lattice.matrix, properties)


def from_atoms(source: str, id: str, atoms: Atoms, properties: Mapping[str, float] | None = None) -> Found:
    """From ASE; clusters, slabs and wires are refused."""
    if not all(atoms.pbc) or atoms.cell.rank < 3:
        raise InputError(f"not periodic in three dimensions (pbc {atoms.pbc.tolist()})")
    frac = atoms.get_scaled_positions(wrap=False)
    return crystal(source, id, atoms.numbers, frac, atoms.cell.array, properties)


# Ids and properties


def named(row: Mapping[str, Any], default: str) -> str:
    """The id a row gives itself, else `default`."""
    for name in ID_NAMES:
        value = row.get(name)
        if isinstance(value, (str, int, np.integer)) and str(value).strip():
            return str(value).strip()
    return default


def numeric(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row under their usual names. Numbers as text count, 'NaN' does not: a nitride."""
    values: dict[str, float] = {}
    for name, value in row.items():
        if name in ID_NAMES or not name or name.startswith("Unnamed"):
            continue  # the last two are pandas' index columns
        if isinstance(value, str):
            value = float(value) if NUMBER.fullmatch(value.strip()) else None
        if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, complex)):
            values[name if ALIASES.get(name) in row else ALIASES.get(name, name)] = float(value)
    return values


# Failures


def why(error: Exception) -> str:
    """One line on what an error means."""
    if isinstance(error, AnchorError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def attempt(source: str, read: Callable[[], Found]) -> Item:
    """Read one crystal, or say why not.

    The parsers of other packages raise whatever they like on bad input, so every error counts against the
    entry, by name. A missing package (an AnchorError that is not about the input) goes up.
    """
    try:
        return read()
    except InputError as error:
        return Skipped(source, error.message)
    except AnchorError:
        raise
    except Exception as error:
        return Skipped(source, why(error))


def guarded(source: str, items: Iterator[Item]) -> Iterator[Item]:
    """All items of a file; an error that ends the file early is one skipped item under the file's name."""
    try:
        yield from items
    except InputError as error:
        yield Skipped(source, error.message)
    except AnchorError:
        raise
    except Exception as error:
        yield Skipped(source, why(error))
