"""Compositions c = (k, e, T, rho) (eq:action): one readable object, and batches as ragged arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.chemistry.formula import parse_amounts, plain_formula, reduced_formula
from anchor.chemistry.symbols import near_symbol
from anchor.errors import InputError


@dataclass(frozen=True)
class Composition:
    """Atoms of a cell by element, in the order in which the elements were drawn or typed.

    Any element and number of elements is allowed; whether it is an action of the paper is a question for
    `anchor.chemistry.bounds.why_outside`. Two objects are equal when order and counts are.

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
                raise InputError(f"there is no element '{symbol}'", near_symbol(str(symbol)))
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
        return plain_formula(self.elements, self.counts)


def parse_formula(text: str) -> Composition:
    """The composition of a formula as people type it: 'Li2FeSiO4', 'Ca(OH)2', 'CuSO4·5H2O', 'Li2 Fe Si O4'.

    Raises:
        InputError: It cannot be read; the hint suggests the fix ('li2 fe si o4' -> 'Li2FeSiO4').
    """
    amounts = parse_amounts(text)
    return Composition(tuple(amounts), tuple(amounts.values()))


@dataclass(frozen=True, eq=False)
class Compositions:
    """A batch of n compositions of any elements, any number of them, any counts.

    Elements of one composition are contiguous and in their order, compositions follow one another. Arrays are
    never changed in place.

    Attributes:
        sizes: Elements of each composition.  # [n], int64
        numbers: Atomic numbers.  # [total], int64
        counts: Atoms of each element in the cell.  # [total], int64
    """

    sizes: NDArray[np.int64]
    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("sizes", "numbers", "counts"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64).reshape(-1))
        if (self.sizes < 1).any():
            raise InputError(f"composition {int(np.argmax(self.sizes < 1))} has no elements")
        if not len(self.numbers) == len(self.counts) == self.sizes.sum():
            raise InputError(
                f"{len(self.numbers)=}, {len(self.counts)=} and {self.sizes.sum()=} must be equal"
            )
        outside = (self.numbers < 1) | (self.numbers >= len(SYMBOLS))
        self._refuse("an atomic number that no element has", outside)
        self._refuse("counts that are not positive", self.counts < 1)
        for gap in range(1, int(self.sizes.max(initial=0))):  # neighbours, next but one, …
            same = np.zeros(len(self.numbers), dtype=bool)
            same[gap:] = (self.numbers[gap:] == self.numbers[:-gap]) & (self.owner[gap:] == self.owner[:-gap])
            self._refuse("an element twice", same)

    def _refuse(self, fault: str, bad: NDArray[np.bool_]) -> None:
        if bad.any():
            row = int(self.owner[np.argmax(bad)])
            own = slice(*self.offsets[row : row + 2])
            raise InputError(
                f"composition {row} has {fault}: elements {self.numbers[own]}, counts {self.counts[own]}"
            )

    # Making and joining

    @classmethod
    def from_list(cls, compositions: Iterable[Composition | str]) -> Compositions:
        """From single compositions or formulas (the cell as written)."""
        batch = [parse_formula(c) if isinstance(c, str) else c for c in compositions]
        return cls(
            np.array([c.k for c in batch], dtype=np.int64),
            np.array([NUMBER[symbol] for c in batch for symbol in c.elements], dtype=np.int64),
            np.array([n for c in batch for n in c.counts], dtype=np.int64),
        )

    @classmethod
    def of_atoms(cls, owner: NDArray[np.int64], numbers: NDArray[np.int64]) -> Compositions:
        """Of cells given atom by atom, elements by atomic number.

        Args:
            owner: Cell of each atom, from 0, none left out.  # [n_atoms]
            numbers: Atomic numbers.  # [n_atoms]
        """
        pairs, counts = np.unique(owner * len(SYMBOLS) + numbers, return_counts=True)
        cell, element = np.divmod(pairs, len(SYMBOLS))
        return cls(np.bincount(cell), element, counts)

    @classmethod
    def from_padded(cls, numbers: ArrayLike, counts: ArrayLike) -> Compositions:
        """From rectangles: atomic numbers and counts, both 0 where there is no element.  # two [n, m]"""
        numbers, counts = np.asarray(numbers), np.asarray(counts)
        present = numbers != 0
        wrong = ((counts != 0) & ~present).any(axis=1)
        if wrong.any():
            raise InputError(f"composition {int(np.argmax(wrong))} has counts where there is no element")
        return cls(present.sum(axis=1), numbers[present], counts[present])

    def padded(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inverse of `from_padded` for at most `size` elements each.  # two [n, size]"""
        if (largest := int(self.sizes.max(initial=0))) > size:
            raise InputError(
                f"{self[int(self.sizes.argmax())]} has {largest} elements, at most {size} are allowed"
            )
        place = self.owner * size + self.column
        numbers, counts = np.zeros((2, len(self) * size), dtype=np.int64)
        numbers[place], counts[place] = self.numbers, self.counts
        return numbers.reshape(-1, size), counts.reshape(-1, size)

    @classmethod
    def concatenate(cls, parts: Iterable[Compositions]) -> Compositions:
        """One batch of all compositions of `parts`, in order."""
        batches = [cls.from_list([]), *parts]
        return cls(
            np.concatenate([p.sizes for p in batches]),
            np.concatenate([p.numbers for p in batches]),
            np.concatenate([p.counts for p in batches]),
        )

    # What they are

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Index of each composition's first element, and the total at the end.  # [n + 1]"""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.sizes)])

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Which composition each element belongs to.  # [total]"""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def column(self) -> NDArray[np.int64]:
        """Place of each element in its composition, from 0.  # [total]"""
        return np.arange(len(self.numbers)) - np.repeat(self.offsets[:-1], self.sizes)

    @property
    def k(self) -> NDArray[np.int64]:
        """Number of elements.  # [n]"""
        return self.sizes

    @property
    def n_atoms(self) -> NDArray[np.int64]:
        """Atoms in the cell, T in the paper.  # [n]"""
        return np.diff(np.concatenate([[0], np.cumsum(self.counts)])[self.offsets])

    @property
    def amounts(self) -> NDArray[np.float64]:
        """Atoms by atomic number.  # [n, 119]"""
        amounts = np.zeros((len(self), len(SYMBOLS)))
        amounts[self.owner, self.numbers] = self.counts
        return amounts

    @property
    def formulas(self) -> list[str]:
        """Reduced formulas, as pymatgen writes them; some 300,000 per second."""
        return [reduced_formula(symbols, counts) for symbols, counts in self._rows()]

    @property
    def cells(self) -> list[str]:
        """The whole cells as text, elements in their order: 'Li4Fe2Si2O8'."""
        return [plain_formula(symbols, counts) for symbols, counts in self._rows()]

    def reduced(self) -> Compositions:
        """One formula unit of each, elements in the same order."""
        if not len(self):
            return self
        units = np.gcd.reduceat(self.counts, self.offsets[:-1])
        return Compositions(self.sizes, self.numbers, self.counts // units[self.owner])

    def times(self, units: int) -> Compositions:
        """Cells of `units` times the atoms."""
        return Compositions(self.sizes, self.numbers, self.counts * units)

    def _rows(self) -> Iterator[tuple[list[str], list[int]]]:
        symbols, counts = [SYMBOLS[z] for z in self.numbers.tolist()], self.counts.tolist()
        return ((symbols[a:b], counts[a:b]) for a, b in pairwise(self.offsets.tolist()))

    # Pieces

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Composition: ...

    @overload
    def __getitem__(self, index: slice | NDArray[np.generic] | Sequence[int]) -> Compositions: ...

    def __getitem__(
        self, index: int | slice | NDArray[np.generic] | Sequence[int]
    ) -> Composition | Compositions:
        """One composition for an integer, a batch for anything else that indexes an array."""
        if isinstance(index, (int, np.integer)):
            row = range(len(self))[index]
            own = slice(*self.offsets[row : row + 2])
            symbols = tuple(SYMBOLS[z] for z in self.numbers[own])
            return Composition(symbols, tuple(self.counts[own].tolist()))
        chosen = np.arange(len(self))[index]
        sizes = self.sizes[chosen]
        place = np.repeat(self.offsets[chosen] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        return Compositions(sizes, self.numbers[place], self.counts[place])

    def __iter__(self) -> Iterator[Composition]:
        return (Composition(tuple(symbols), tuple(counts)) for symbols, counts in self._rows())
