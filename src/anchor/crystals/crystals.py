"""Crystals as batches: one ragged set of arrays that every other part of anchor passes around."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import ArrayLike, NDArray
from pymatgen.core import Lattice, Structure

from anchor.arrays import content_hash
from anchor.chemistry.composition import Compositions
from anchor.errors import InputError


@dataclass(frozen=True, eq=False)
class Crystals:
    """A batch of n ordered, fully periodic crystals with n_atoms atoms in all.

    Atoms of one crystal are contiguous, crystals follow in order. Arrays are never changed in place.

    Attributes:
        counts: Atoms per crystal.  # [n], int64
        numbers: Atomic numbers.  # [n_atoms], int64
        frac: Fractional coordinates, as given (not wrapped).  # [n_atoms, 3], float64
        lattice: Cell vectors as rows, Å.  # [n, 3, 3], float64
    """

    counts: NDArray[np.int64]
    numbers: NDArray[np.int64]
    frac: NDArray[np.float64]
    lattice: NDArray[np.float64]

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, dtype=np.int64).reshape(-1)
        numbers = np.asarray(self.numbers, dtype=np.int64).reshape(-1)
        frac = np.asarray(self.frac, dtype=np.float64).reshape(-1, 3)
        lattice = np.asarray(self.lattice, dtype=np.float64).reshape(-1, 3, 3)
        if (counts < 1).any():
            raise InputError(f"crystal {int(np.argmax(counts < 1))} has no atoms")
        if len(lattice) != len(counts):
            raise InputError(f"{len(lattice)=} != {len(counts)=}: one cell per crystal is needed")
        if not len(numbers) == len(frac) == counts.sum():
            raise InputError(f"{len(numbers)=}, {len(frac)=} and {counts.sum()=} must be equal")
        for name, value in {"counts": counts, "numbers": numbers, "frac": frac, "lattice": lattice}.items():
            object.__setattr__(self, name, value)

    # Size and pieces

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def n_atoms(self) -> int:
        return len(self.numbers)

    @property
    def hash(self) -> str:
        """SHA-256 of all arrays: the same crystals to the last bit."""
        return content_hash(vars(self))

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index of each crystal's first atom, and n_atoms at the end.  # [n + 1]"""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def owner(self) -> NDArray[np.int64]:
        """Which crystal each atom belongs to.  # [n_atoms]"""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def cart(self) -> NDArray[np.float64]:
        """Cartesian coordinates, Å.  # [n_atoms, 3]"""
        return np.einsum("ai,aij->aj", self.frac, self.lattice[self.owner])

    @property
    def volume(self) -> NDArray[np.float64]:
        """Cell volumes, Å³, always positive.  # [n]"""
        return np.abs(np.linalg.det(self.lattice))

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Which crystals have numbers only.  # [n]"""
        wrong = np.bincount(self.owner, ~np.isfinite(self.frac).all(axis=1), minlength=len(self))
        return (wrong == 0) & np.isfinite(self.lattice).all(axis=(1, 2))

    @property
    def formulas(self) -> list[str]:
        """Reduced formula of each crystal, as pymatgen writes it."""
        return self.compositions.formulas

    @property
    def compositions(self) -> Compositions:
        """Atoms of the cells, elements by atomic number.  # [n]"""
        return Compositions.of_atoms(self.owner, self.numbers)

    def _spans(self) -> Iterator[tuple[int, int]]:
        yield from itertools.pairwise(self.offsets.tolist())

    def __getitem__(self, index: int | slice | Sequence[int] | NDArray[Any]) -> Crystals:
        """A batch of the chosen crystals (an integer gives a batch of one)."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        offsets = self.offsets
        if len(chosen):
            atoms = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in chosen])
        else:
            atoms = np.zeros(0, dtype=np.int64)
        return Crystals(self.counts[chosen], self.numbers[atoms], self.frac[atoms], self.lattice[chosen])

    def __iter__(self) -> Iterator[Crystals]:
        return (self[i] for i in range(len(self)))

    def replace(self, *, frac: ArrayLike | None = None, lattice: ArrayLike | None = None) -> Crystals:
        """The same atoms elsewhere, or in other cells."""
        return Crystals(
            self.counts,
            self.numbers,
            self.frac if frac is None else np.asarray(frac),
            self.lattice if lattice is None else np.asarray(lattice),
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Crystals]) -> Crystals:
        """One batch of all crystals of `parts`, in order."""
        batches = list(parts)
        if not batches:
            return cls.empty()
        return cls(
            np.concatenate([p.counts for p in batches]),
            np.concatenate([p.numbers for p in batches]),
            np.concatenate([p.frac for p in batches]),
            np.concatenate([p.lattice for p in batches]),
        )

    @classmethod
    def empty(cls) -> Crystals:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3, 3)))

    # Padded arrays, for networks

    def padded(self, size: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers (0 = padding) and fractional coordinates on a rectangle.  # [n, size], [n, size, 3]"""
        largest = int(self.counts.max(initial=0))
        size = largest if size is None else size
        if largest > size:
            raise InputError(f"a crystal has {largest} atoms, more than the padded size {size}")
        column = np.arange(self.n_atoms) - np.repeat(self.offsets[:-1], self.counts)
        numbers = np.zeros((len(self), size), dtype=np.int64)
        frac = np.zeros((len(self), size, 3))
        numbers[self.owner, column] = self.numbers
        frac[self.owner, column] = self.frac
        return numbers, frac

    @classmethod
    def from_padded(cls, numbers: ArrayLike, frac: ArrayLike, lattice: ArrayLike) -> Crystals:
        """Inverse of `padded`: atoms with number 0 are dropped."""
        numbers, frac = np.asarray(numbers), np.asarray(frac)
        real = numbers > 0
        return cls(real.sum(axis=1), numbers[real], frac[real], np.asarray(lattice))

    # pymatgen and ASE

    @classmethod
    def from_structures(cls, structures: Structure | Sequence[Structure]) -> Crystals:
        """From pymatgen. Disordered structures are refused; cell orientation is kept."""
        batch = [structures] if isinstance(structures, Structure) else list(structures)
        for i, structure in enumerate(batch):
            if not structure.is_ordered:
                raise InputError(
                    f"structure {i} ({structure.composition.reduced_formula}) has partially occupied sites",
                    "order it first, for instance with pymatgen's OrderDisorderedStructureTransformation",
                )
            if not all(structure.lattice.pbc):
                raise InputError(f"structure {i} is not periodic in three dimensions")
        if not batch:
            return cls.empty()
        return cls(
            np.array([len(s) for s in batch]),
            np.concatenate([[site.specie.Z for site in s] for s in batch]),
            np.concatenate([s.frac_coords for s in batch]),
            np.stack([s.lattice.matrix for s in batch]),
        )

    def to_structures(self) -> list[Structure]:
        """As pymatgen structures, coordinates and cell orientation unchanged."""
        return [
            Structure(Lattice(cell), self.numbers[a:b], self.frac[a:b])
            for cell, (a, b) in zip(self.lattice, self._spans(), strict=True)
        ]

    @classmethod
    def from_atoms(cls, atoms: Atoms | Sequence[Atoms]) -> Crystals:
        """From ASE. Atoms must be periodic in three dimensions."""
        batch = [atoms] if isinstance(atoms, Atoms) else list(atoms)
        for i, item in enumerate(batch):
            if not all(item.pbc):
                raise InputError(
                    f"structure {i} ({item.get_chemical_formula()}) is not periodic: {item.pbc=}"
                )
        if not batch:
            return cls.empty()
        return cls(
            np.array([len(a) for a in batch]),
            np.concatenate([a.numbers for a in batch]),
            np.concatenate([a.get_scaled_positions(wrap=False) for a in batch]),
            np.stack([a.cell.array for a in batch]),
        )

    def to_atoms(self) -> list[Atoms]:
        """As ASE atoms, coordinates and cell orientation unchanged."""
        return [
            Atoms(numbers=self.numbers[a:b], scaled_positions=self.frac[a:b], cell=cell, pbc=True)
            for cell, (a, b) in zip(self.lattice, self._spans(), strict=True)
        ]
