"""Space groups as operations on the primitive cell, and the sites (Wyckoff positions) they leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
import spglib
from numpy.typing import NDArray

_GRID = 24  # every isolated special position has coordinates in multiples of 1/24 of some standard cell


@dataclass(frozen=True, eq=False)
class Site:
    """All points with one site symmetry: `point + free @ projector`, free any vector.

    Attributes:
        multiplicity: Atoms per primitive cell that an atom here brings.
        freedom: Dimensions of the site: 0 a point, 1 a line, 2 a plane, 3 a general position.
        point: One of its points.  # [3]
        projector: Onto the directions in which it may move.  # [3, 3]
    """

    multiplicity: int
    freedom: int
    point: NDArray[np.float64]
    projector: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpaceGroup:
    """A space group on a primitive cell; row vectors of fractional coordinates x map to x @ W + w.

    Attributes:
        number: International number, 1 to 230.
        rotations: W, integers.  # [g, 3, 3]
        translations: w, in [0, 1).  # [g, 3]
        basis: Primitive vectors in units of the conventional ones, as rows.  # [3, 3]
    """

    number: int
    rotations: NDArray[np.int64]
    translations: NDArray[np.float64]
    basis: NDArray[np.float64]

    def images(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where every operation takes every point, not wrapped.  # [n, 3] -> [n, g, 3]"""
        return np.einsum("ni,gij->ngj", points, self.rotations) + self.translations

    def orbit(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """All different images of a point, wrapped into the primitive cell.  # [m, 3]"""
        images = self.images(point[None])[0]
        gaps = images[:, None] - images[None]
        same = (np.abs(gaps - np.rint(gaps)) < 1e-6).all(axis=2)
        first = np.unique(same.argmax(axis=1))
        return images[first] - np.floor(images[first] + 1e-9)

    def symmetrise(self, metric: NDArray[np.float64]) -> NDArray[np.float64]:
        """A metric tensor (dot products of the primitive vectors) averaged over the group.  # [3, 3]"""
        return np.einsum("gij,jk,glk->il", self.rotations, metric, self.rotations) / len(self.rotations)


@cache
def space_group(number: int) -> SpaceGroup:
    """Space group by its international number, in spglib's first setting."""
    operations = spglib.get_symmetry_from_database(default_setting(number))
    rotations, translations = operations["rotations"], operations["translations"]
    pure = translations[(rotations == np.eye(3, dtype=int)).all(axis=(1, 2))]
    basis = _primitive_basis(pure)
    inverse = np.linalg.inv(basis)
    new_rotations = np.rint(basis @ rotations.transpose(0, 2, 1) @ inverse).astype(np.int64)
    new_translations = translations @ inverse
    new_translations -= np.floor(new_translations + 1e-9)
    _, first = np.unique(new_rotations.reshape(-1, 9), axis=0, return_index=True)
    return SpaceGroup(number, new_rotations[first], new_translations[first], basis)


def default_setting(number: int) -> int:
    """spglib's first Hall number of a space group."""
    return _hall_numbers()[number]


@cache
def _hall_numbers() -> dict[int, int]:
    """The first Hall number of every space group."""
    found: dict[int, int] = {}
    for hall in range(1, 531):
        found.setdefault(spglib.get_spacegroup_type(hall).number, hall)
    return found


def _primitive_basis(centrings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Short vectors that span the lattice of all centring translations.  # [c, 3] -> [3, 3]"""
    whole = np.array(list(product((-1, 0, 1), repeat=3)))
    vectors = (centrings[:, None] + whole[None]).reshape(-1, 3)
    vectors = vectors[np.argsort((vectors**2).sum(axis=1), kind="stable")]
    vectors = vectors[(vectors**2).sum(axis=1) > 1e-6]
    for triple in combinations(range(min(len(vectors), 40)), 3):
        basis = vectors[list(triple)]
        if abs(np.linalg.det(basis) - 1 / len(centrings)) < 1e-6:
            return basis
    raise AssertionError("the centring translations of a space group always have a primitive basis")


@cache
def sites(number: int) -> tuple[Site, ...]:
    """The sites of a space group, found by the symmetry of points on a fine grid; the most special first.

    Points (freedom 0) are listed once per orbit. Lines and planes may be listed with their symmetric copies.
    """
    group = space_group(number)
    axis = np.arange(_GRID) / _GRID
    generic = np.array([[0.1234, 0.3456, 0.5678]])  # on no symmetry element of any group
    points = np.concatenate([np.array(list(product(axis, repeat=3))), generic])
    order = len(group.rotations)
    found: dict[tuple[bytes, bytes], Site] = {}
    taken: set[bytes] = set()
    for start in range(0, len(points), 2048):
        part = points[start : start + 2048]
        shift = group.images(part) - part[:, None]
        fixed = (np.abs(shift - np.rint(shift)) < 1e-6).all(axis=2)  # [n, g]
        for pattern in np.unique(fixed, axis=0):
            projector = group.rotations[pattern].mean(axis=0)
            freedom = round(float(np.trace(projector)))
            here = part[(fixed == pattern).all(axis=1)]
            # Points of one line or plane differ by a vector of the projector's range.
            remainder = here - here @ projector
            remainder -= np.floor(remainder + 1e-6)
            _, first = np.unique(np.rint(remainder * 1000), axis=0, return_index=True)
            for i in first:
                key = (pattern.tobytes(), np.rint(remainder[i] * 1000).tobytes())
                if key in found:
                    continue
                if freedom == 0:
                    orbit = np.rint(group.orbit(here[i]) * _GRID).astype(np.int64) % _GRID
                    least = min(map(bytes, orbit.astype(np.uint8)))
                    if least in taken:
                        continue
                    taken.add(least)
                found[key] = Site(order // int(pattern.sum()), freedom, here[i], projector)
    return tuple(sorted(found.values(), key=lambda site: (site.freedom, site.multiplicity)))
