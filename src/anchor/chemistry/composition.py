"""Composition actions c = (k, e, T, rho) (eq:action): one readable object, and batches as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import INDEX, NUMBER, NUMBERS, SYMBOLS, VOCABULARY
from anchor.chemistry.formula import parse_amounts, reduced_formula
from anchor.errors import InputError, nearest

MAX_ELEMENTS = 4
"""Columns of the batched arrays: no action has more elements."""


@dataclass(frozen=True)
class Composition:
    """Atoms of a cell by element, in the order in which the elements were drawn or typed.

    Any element and number of elements is allowed; whether it is an action of the paper is a question for
    `anchor.chemistry.spaces.why_outside`. Two objects are equal when order and counts are.

    Attributes:
        elements: Distinct symbols.  # [k]
        counts: Atoms of each element in the cell, rho in the paper.  # [k]
    """

    elements: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        elements, counts = tuple(self.elements), tuple(int(n) for n in self.counts)
        if counts != tuple(self.counts):
            raise InputError(f"counts must be whole numbers, got {self.counts}")
        if not elements or len(elements) != len(counts):
            raise InputError(
                f"{len(elements)} elements and {len(counts)} counts: one count per element is needed"
            )
        for symbol in elements:
            if symbol not in NUMBER:
                raise InputError(f"there is no element '{symbol}'", nearest(str(symbol), NUMBER))
        if len(set(elements)) < len(elements):
            raise InputError(f"an element appears twice in {elements}", "add its counts")
        if min(counts) < 1:
            raise InputError(f"counts must be positive, got {counts}")
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "counts", counts)

    @property
    def k(self) -> int:
        """Number of elements."""
        return len(self.elements)

    @property
    def n_atoms(self) -> int:
        """Atoms in the cell, T in the paper."""
        return sum(self.counts)

    @property
    def formula(self) -> str:
        """Reduced formula as pymatgen writes it, f(c) in the paper."""
        return reduced_formula(self.elements, self.counts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Atomic number of every atom of the cell, one element after the other.  # [n_atoms]"""
        return np.repeat(np.array([NUMBER[symbol] for symbol in self.elements]), self.counts)

    def __str__(self) -> str:
        """The whole cell, elements in their order: 'Li4Fe2Si2O8'."""
        pairs = zip(self.elements, self.counts, strict=True)
        return "".join(symbol if n == 1 else f"{symbol}{n}" for symbol, n in pairs)


def parse_formula(text: str) -> Composition:
    """The composition of a formula as people type it: 'Li2FeSiO4', 'Ca(OH)2', 'CuSO4·5H2O', 'Li2 Fe Si O4'.

    Raises:
        InputError: It cannot be read; the hint suggests the fix ('li2 fe si o4' -> 'Li2FeSiO4').
    """
    amounts = parse_amounts(text)
    return Composition(tuple(amounts), tuple(amounts.values()))


@dataclass(frozen=True, eq=False)
class Compositions:
    """A batch of n compositions of up to four vocabulary elements. Arrays are never changed in place.

    Attributes:
        elements: Vocabulary indices in the order drawn, -1 after the last.  # [n, 4], int64
        counts: Atoms of each element in the cell, 0 after the last.  # [n, 4], int64
    """

    elements: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        elements = np.asarray(self.elements, dtype=np.int64).reshape(-1, MAX_ELEMENTS)
        counts = np.asarray(self.counts, dtype=np.int64).reshape(-1, MAX_ELEMENTS)
        if len(elements) != len(counts):
            raise InputError(f"{len(elements)=} != {len(counts)=}")
        present = elements >= 0
        padded_at_end = (present[:, 1:] <= present[:, :-1]).all(axis=1) & present[:, 0]
        ordered = np.sort(elements, axis=1)
        repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
        for fault, bad in {
            "an index outside the vocabulary": ((elements < -1) | (elements >= len(VOCABULARY))).any(axis=1),
            "padding (-1) before an element": ~padded_at_end,
            "counts that are not positive exactly where there is an element": (
                ((counts > 0) != present) | (counts < 0)
            ).any(axis=1),
            "an element twice": repeated,
        }.items():
            if bad.any():
                row = int(np.argmax(bad))
                raise InputError(f"composition {row} has {fault}: {elements[row]}, counts {counts[row]}")
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_list(cls, compositions: Iterable[Composition | str]) -> Compositions:
        """From single compositions or formulas (the cell as written)."""
        batch = [parse_formula(c) if isinstance(c, str) else c for c in compositions]
        elements = np.full((len(batch), MAX_ELEMENTS), -1, dtype=np.int64)
        counts = np.zeros((len(batch), MAX_ELEMENTS), dtype=np.int64)
        for row, composition in enumerate(batch):
            if composition.k > MAX_ELEMENTS:
                raise InputError(
                    f"{composition} has {composition.k} elements, at most {MAX_ELEMENTS} are allowed"
                )
            outside = [symbol for symbol in composition.elements if symbol not in INDEX]
            if outside:
                raise InputError(f"{composition} has {outside[0]}, which is not one of the 84 elements")
            elements[row, : composition.k] = [INDEX[symbol] for symbol in composition.elements]
            counts[row, : composition.k] = composition.counts
        return cls(elements, counts)

    @classmethod
    def from_crystals(cls, crystals: Any) -> Compositions:
        """Atoms of the cells, by atomic number."""
        found = []
        for crystal in crystals:
            numbers, counts = np.unique(crystal.numbers, return_counts=True)
            found.append(Composition(tuple(SYMBOLS[z] for z in numbers), tuple(counts.tolist())))
        return cls.from_list(found)

    @classmethod
    def concatenate(cls, parts: Iterable[Compositions]) -> Compositions:
        """One batch of all compositions of `parts`, in order."""
        batches = list(parts)
        empty = np.zeros((0, MAX_ELEMENTS), dtype=np.int64)
        return cls(
            np.concatenate([empty, *(p.elements for p in batches)]),
            np.concatenate([empty, *(p.counts for p in batches)]),
        )

    @property
    def k(self) -> NDArray[np.int64]:
        """Number of elements.  # [n]"""
        return (self.elements >= 0).sum(axis=1)

    @property
    def n_atoms(self) -> NDArray[np.int64]:
        """Atoms in the cell, T in the paper.  # [n]"""
        return self.counts.sum(axis=1)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Atomic number of each element, 0 after the last.  # [n, 4]"""
        return np.where(self.elements >= 0, NUMBERS[self.elements], 0)

    @property
    def formulas(self) -> list[str]:
        """Reduced formulas, as pymatgen writes them; some 300,000 per second."""
        rows = zip(self.k.tolist(), self.elements.tolist(), self.counts.tolist(), strict=True)
        return [
            reduced_formula([VOCABULARY[e] for e in elements[:k]], counts[:k]) for k, elements, counts in rows
        ]

    def __len__(self) -> int:
        return len(self.elements)

    @overload
    def __getitem__(self, index: int) -> Composition: ...

    @overload
    def __getitem__(self, index: slice | NDArray[np.generic] | Sequence[int]) -> Compositions: ...

    def __getitem__(
        self, index: int | slice | NDArray[np.generic] | Sequence[int]
    ) -> Composition | Compositions:
        """One composition for an integer, a batch for anything else that indexes an array."""
        if isinstance(index, (int, np.integer)):
            k = int((self.elements[index] >= 0).sum())
            symbols = tuple(VOCABULARY[e] for e in self.elements[index, :k])
            return Composition(symbols, tuple(self.counts[index, :k].tolist()))
        return Compositions(self.elements[index], self.counts[index])

    def __iter__(self) -> Iterator[Composition]:
        return (self[row] for row in range(len(self)))
