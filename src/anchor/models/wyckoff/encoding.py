"""A crystal as its symmetry: space group, one Wyckoff position per orbit, free coordinates, cell numbers.

Of all equivalent descriptions (origins, axes, which atom stands for its orbit) one is chosen, so that equal
crystals are equal sequences.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import spglib
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.crystals.spacegroups import SpaceGroup, default_setting, space_group
from anchor.models.wyckoff.cells import cell_numbers, primitive_cell
from anchor.models.wyckoff.positions import normaliser
from anchor.models.wyckoff.tables import positions

SYMPREC = 0.1
"""Å; smaller distortions are taken for noise."""
_SAME = 1e-3  # fractional coordinates
_MOST_TIES = 32


@dataclass(frozen=True)
class Orbit:
    """Atoms that symmetry makes equal.

    Attributes:
        element: Atomic number.
        position: Index into `positions(group)`.
        free: Its free coordinates, in [0, 1).
    """

    element: int
    position: int
    free: tuple[float, ...]


@dataclass(frozen=True)
class Encoded:
    """A crystal described by its symmetry.

    Attributes:
        group: International number of the space group.
        orbits: Element by element (`element_order`), positions ascending.
        cell: Lengths a, b, c, Å, and cosines of α, β, γ of the conventional cell.
    """

    group: int
    orbits: tuple[Orbit, ...]
    cell: tuple[float, ...]

    @property
    def counts(self) -> dict[int, int]:
        """Atoms of each element in the primitive cell."""
        total: dict[int, int] = {}
        for orbit in self.orbits:
            multiplicity = positions(self.group)[orbit.position].multiplicity
            total[orbit.element] = total.get(orbit.element, 0) + multiplicity
        return total


def element_order(counts: dict[int, int]) -> list[int]:
    """Elements in the order in which they are placed: fewest atoms first, then the least electronegative."""
    return sorted(counts, key=lambda z: (counts[z], _electronegativity(z), z))


@cache
def _electronegativity(number: int) -> float:
    from pymatgen.core import Element

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noble gases have none is known
        value = Element(SYMBOLS[number]).X
    return 2.0 if np.isnan(value) else float(value)


# From crystals


def encode(crystal: Crystals, *, symprec: float = SYMPREC) -> Encoded | None:
    """The description of a crystal (a batch of one); None where spglib finds no symmetry to describe."""
    standard = _standard(crystal, symprec)
    if standard is None:
        return None
    group, lattice, points, numbers = standard
    orbits = _orbits(group, points, numbers)
    if orbits is None:
        return None
    return _canonical(group, lattice, orbits)


def _standard(
    crystal: Crystals, symprec: float
) -> tuple[SpaceGroup, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]] | None:
    """Space group, conventional lattice, and the atoms of the primitive cell in the group's own setting."""
    cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
    found = spglib.get_symmetry_dataset(cell, symprec=symprec)
    if found is not None and found.hall_number != default_setting(found.number):
        found = spglib.get_symmetry_dataset(cell, symprec=symprec, hall_number=default_setting(found.number))
    if found is None:
        return None
    group = space_group(found.number)
    points = found.std_positions @ np.linalg.inv(group.basis)
    points = points - np.floor(points + 1e-6)
    gaps = points[:, None] - points[None]
    same = (np.abs(gaps - np.rint(gaps)) < _SAME).all(axis=2)
    first = np.unique(same.argmax(axis=1))
    return group, found.std_lattice, points[first], found.std_types[first]


def _orbits(
    group: SpaceGroup, points: NDArray[np.float64], numbers: NDArray[np.int64]
) -> list[tuple[int, int, NDArray[np.float64]]] | None:
    """(element, position, one of its points) of every orbit."""
    left = np.ones(len(points), dtype=bool)
    found = []
    while left.any():
        first = int(np.flatnonzero(left)[0])
        images = group.images(points[first][None])[0]
        gaps = points[:, None] - images[None]
        members = (np.abs(gaps - np.rint(gaps)) < 5 * _SAME).all(axis=2).any(axis=1)
        members &= left & (numbers == numbers[first])
        position = _position_of(group, group.orbit(points[first]))
        if position is None or positions(group.number)[position].multiplicity != members.sum():
            return None
        left &= ~members
        found.append((int(numbers[first]), position, points[first]))
    return found


def _position_of(group: SpaceGroup, orbit: NDArray[np.float64]) -> int | None:
    for i, position in enumerate(positions(group.number)):
        if position.multiplicity == len(orbit) and len(position.coordinates(orbit)):
            return i
    return None


@cache
def renamings(number: int) -> NDArray[np.int64]:
    """What every change of description (`normaliser`) makes of every position.  # [changes, positions]"""
    group, change = space_group(number), normaliser(number)
    table = np.empty((len(change.rotations), len(positions(number))), dtype=np.int64)
    for i, position in enumerate(positions(number)):
        point = position.place(np.array([0.1237, 0.3719, 0.2361])[: position.freedom])
        for j, (rotation, translation) in enumerate(zip(change.rotations, change.translations, strict=True)):
            renamed = _position_of(group, group.orbit(point @ rotation + translation))
            assert renamed is not None, "a normaliser maps positions onto positions"
            table[j, i] = renamed
    return table


def _canonical(
    group: SpaceGroup,
    lattice: NDArray[np.float64],
    orbits: Sequence[tuple[int, int, NDArray[np.float64]]],
) -> Encoded | None:
    """The description with the smallest positions, then the smallest coordinates."""
    change, table = normaliser(group.number), renamings(group.number)
    counts: dict[int, int] = {}
    for element, position, _ in orbits:
        counts[element] = counts.get(element, 0) + positions(group.number)[position].multiplicity
    rank = {element: i for i, element in enumerate(element_order(counts))}
    names = [sorted((rank[element], int(row[position])) for element, position, _ in orbits) for row in table]
    least = min(names)
    ties = [i for i, name in enumerate(names) if name == least]
    has_polar = bool(np.abs(change.polar).max() > 0)
    best: tuple[list[list[int]], list[tuple[int, int, tuple[float, ...]]], int] | None = None
    for i in ties:
        moved = [
            (rank[element], int(table[i, position]), point @ change.rotations[i] + change.translations[i])
            for element, position, point in orbits
        ]
        # Along polar directions the origin is free: some atom of the first position is put at zero.
        firsts = [np.zeros(3)]
        if has_polar:
            same = [group.orbit(point) for r, position, point in moved if (r, position) == least[0]]
            firsts = list(np.concatenate(same))[: max(1, _MOST_TIES // len(ties))]
        for first in firsts:
            placed = []
            for r, position, point in moved:
                images = group.orbit(point - first @ change.polar)
                candidates = positions(group.number)[position].coordinates(images)
                if not len(candidates):
                    return None
                placed.append((r, position, min(map(tuple, candidates.tolist()), key=_rounded)))
            placed.sort(key=lambda orbit: (*orbit[:2], _rounded(orbit[2])))
            name = [_rounded(free) for _, _, free in placed]
            if best is None or name < best[0]:
                best = (name, placed, i)
    assert best is not None, "there is at least the identity"
    elements = list(rank)
    _, placed, chosen = best
    cell = np.linalg.inv(change.axes[chosen]) @ lattice
    return Encoded(
        group.number, tuple(Orbit(elements[r], p, free) for r, p, free in placed), cell_numbers(cell)
    )


def _rounded(free: tuple[float, ...]) -> list[int]:
    return [round(x / _SAME) for x in free]


# And back


def decode(encoded: Encoded) -> Crystals:
    """The primitive cell of a description; cell numbers that the group does not allow are averaged."""
    group = space_group(encoded.group)
    numbers, frac = [], []
    for orbit in encoded.orbits:
        position = positions(encoded.group)[orbit.position]
        points = group.orbit(position.place(np.array(orbit.free)))
        if len(points) != position.multiplicity:  # free coordinates hit a more special position
            points = _full_orbit(group, position.place(np.array(orbit.free)), position.multiplicity)
        numbers += [orbit.element] * len(points)
        frac.append(points)
    return Crystals(
        np.array([len(numbers)]),
        np.array(numbers),
        np.concatenate(frac) % 1.0,
        primitive_cell(group, encoded.cell)[None],
    )


def _full_orbit(group: SpaceGroup, point: NDArray[np.float64], multiplicity: int) -> NDArray[np.float64]:
    """Images of a point that is more special than its position, repeated to the position's multiplicity."""
    orbit = group.orbit(point)
    return np.tile(orbit, (multiplicity // len(orbit), 1))
