"""Wyckoff positions of a space group on its primitive cell, and the ways of naming them that are equivalent.

Found from the operations alone, so letters are not the International Tables': positions are numbered from the
most special to the general one. Coordinates are fractional, of the primitive cell of `space_group`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.spacegroups import Site, SpaceGroup, sites, space_group

_EXACT = 1e-4
_SHIFTS = np.array(list(product(range(-3, 4), repeat=3)))  # whole cells, near ones
FIRST_HEXAGONAL, LAST_HEXAGONAL = 143, 194


@dataclass(frozen=True, eq=False)
class Position:
    """A Wyckoff position: all points `point + u @ directions` have its site symmetry, for almost all u.

    Attributes:
        multiplicity: Atoms per primitive cell.
        freedom: Free coordinates, 0 to 3.
        point: The point at u = 0.  # [3]
        directions: Whole vectors; u and u + 1 are the same point of the crystal.  # [freedom, 3]
        projector: Onto the directions, for rows.  # [3, 3]
    """

    multiplicity: int
    freedom: int
    point: NDArray[np.float64]
    directions: NDArray[np.float64]
    projector: NDArray[np.float64]

    def coordinates(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Free coordinates in [0, 1) of those of the points that lie here.  # [n, 3] -> [m, freedom]"""
        on, shifted = _on(points - self.point, self.projector)
        if not self.freedom:
            return np.zeros((int(on.any()), 0))
        u = shifted[on] @ np.linalg.pinv(self.directions)
        u = u - np.floor(u)
        return np.where(u > 1 - _EXACT, 0.0, u)

    def place(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """The point of free coordinates u.  # [freedom] -> [3]"""
        return self.point + u @ self.directions


def _on(
    gaps: NDArray[np.float64], projector: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which vectors are in the projector's range up to whole cells, and those vectors, so shifted."""
    gaps = gaps - np.rint(gaps)
    tried = gaps[:, None] + _SHIFTS
    off = np.abs(tried - tried @ projector).max(axis=2)  # [n, 343]
    best = off.argmin(axis=1)
    return off.min(axis=1) < _EXACT, tried[np.arange(len(gaps)), best]


def find_positions(number: int) -> tuple[Position, ...]:
    """The Wyckoff positions of a space group, the most special first; `tables.positions` has them ready."""
    group = space_group(number)
    found: list[Position] = []
    for site in sites(number):
        generic = site.point + np.array([0.1237, 0.3719, 0.2361]) @ site.projector
        orbit = group.orbit(generic)
        if len(orbit) != site.multiplicity or any(_is_here(p, orbit) for p in found):
            continue
        found.append(_position(site))
    return tuple(found)


def _is_here(position: Position, orbit: NDArray[np.float64]) -> bool:
    return position.multiplicity == len(orbit) and bool(len(position.coordinates(orbit)))


def _position(site: Site) -> Position:
    point = site.point - site.point @ site.projector  # the origin of u nearest to that of the cell
    point = np.where(np.abs(point - np.rint(point)) < _EXACT, 0.0, point - np.floor(point))
    return Position(site.multiplicity, site.freedom, point, _directions(site), site.projector)


def _directions(site: Site) -> NDArray[np.float64]:
    """Shortest whole vectors that span all whole vectors in the range of the projector.  # [freedom, 3]"""
    inside = _SHIFTS[np.abs(_SHIFTS - _SHIFTS @ site.projector).max(axis=1) < _EXACT]
    inside = inside[np.lexsort((*-inside.T, (inside**2).sum(axis=1)))][1:]  # without the zero vector
    chosen: list[NDArray[np.int64]] = []
    for vector in inside:
        trial = np.array([*chosen, vector])
        if len(trial) <= site.freedom and np.linalg.matrix_rank(trial) == len(trial):
            whole = inside @ np.linalg.pinv(trial)
            in_span = np.abs(inside - whole @ trial).max(axis=1) < _EXACT
            if np.abs(whole[in_span] - np.rint(whole[in_span])).max() < _EXACT:
                chosen.append(vector)
    assert len(chosen) == site.freedom, "every rational subspace has a primitive basis of short vectors"
    return np.array(chosen, dtype=float).reshape(-1, 3)


# Equivalent descriptions


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Changes of origin and axes that turn a space group into itself: they rename positions only.

    Attributes:
        rotations: Of rows of primitive coordinates, x -> x @ R + t; one of each coset.  # [n, 3, 3]
        translations: # [n, 3]
        axes: The same rotations of the conventional axes.  # [n, 3, 3]
        polar: Projector onto the directions along which the origin is free.  # [3, 3]
    """

    rotations: NDArray[np.float64]
    translations: NDArray[np.float64]
    axes: NDArray[np.float64]
    polar: NDArray[np.float64]


@cache
def normaliser(number: int) -> Normaliser:
    """Equivalent descriptions of crystals of this group, the identity first.

    Axes: permutations with signs, or those of the hexagonal cell. Origins: quarters and eighths or, in
    hexagonal cells, thirds. Changes of cell shape (monoclinic, triclinic) are left to spglib's conventions.
    """
    group = space_group(number)
    polar = group.rotations.mean(axis=0)
    inverse = np.linalg.inv(group.basis)
    hexagonal = FIRST_HEXAGONAL <= number <= LAST_HEXAGONAL
    found: list[tuple[NDArray, NDArray, NDArray]] = []
    origins = _origins(hexagonal) @ inverse
    for axes in _axes(number):
        exact = group.basis @ axes @ inverse
        rotation = np.rint(exact)
        if np.abs(exact - rotation).max() > _EXACT:
            continue
        for translation in origins[_normalises(group, rotation, origins)]:
            if not any(_same_coset(group, polar, rotation, translation, r, t) for r, t, _ in found):
                found.append((rotation, translation, axes))
    rotations, translations, axes = (np.array(part) for part in zip(*found, strict=True))
    return Normaliser(rotations, translations, axes, polar)


def _axes(number: int) -> list[NDArray[np.float64]]:
    """Turns of the conventional axes that keep their lattice, whatever its free lengths; identity first."""
    if FIRST_HEXAGONAL <= number <= LAST_HEXAGONAL:
        turn, flip, up = (
            np.array([[1, 1, 0], [-1, 0, 0], [0, 0, 1.0]]),
            np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1.0]]),
            np.diag([1, 1, -1.0]),
        )
        return [
            np.linalg.matrix_power(turn, i) @ np.linalg.matrix_power(flip, j) @ np.linalg.matrix_power(up, k)
            for k, j, i in product(range(2), range(2), range(6))
        ]
    signs = [np.diag(s) for s in product((1.0, -1.0), repeat=3)]
    if number < 16:
        return [s for s in signs if abs(s.sum()) == 3 or (number > 2 and s[0, 0] == s[2, 2])]
    orders = permutations(range(3)) if number < 75 or number > 194 else [(0, 1, 2), (1, 0, 2)]
    return [np.eye(3)[list(order)] @ s for order in orders for s in signs]


def _origins(hexagonal: bool) -> NDArray[np.float64]:
    """Origins to try, in conventional coordinates, zero first.  # [n, 3]"""
    if hexagonal:
        planar = [(0, 0), (1 / 3, 2 / 3), (2 / 3, 1 / 3)]
        return np.array([(x, y, z / 6) for z in range(6) for x, y in planar])
    return np.array(list(product(np.arange(8) / 8, repeat=3)))


def _normalises(
    group: SpaceGroup, rotation: NDArray[np.float64], origins: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which translations t, with this rotation R, map every operation of the group onto one of the group.

    T: x -> xR + t turns x -> xW + w into T after it after T⁻¹: x -> xW' + (t − tW' + wR), W' = R⁻¹WR.
    """
    back = np.linalg.inv(rotation)
    turned = np.rint(back @ group.rotations @ rotation).astype(np.int64)  # [g, 3, 3]
    place = {r.tobytes(): i for i, r in enumerate(group.rotations)}
    target = [place.get(r.tobytes(), -1) for r in turned]
    if min(target) < 0:
        return np.zeros(len(origins), dtype=bool)
    moved = origins[:, None] - np.einsum("ti,gij->tgj", origins, turned) + group.translations @ rotation
    gap = moved - group.translations[target]
    return (np.abs(gap - np.rint(gap)) < _EXACT).all(axis=(1, 2))


def _same_coset(
    group: SpaceGroup,
    polar: NDArray[np.float64],
    rotation: NDArray[np.float64],
    translation: NDArray[np.float64],
    other: NDArray[np.float64],
    moved: NDArray[np.float64],
) -> bool:
    """Whether two changes of description differ by an operation of the group or along a polar direction."""
    step = np.rint(np.linalg.inv(other) @ rotation).astype(np.int64)
    for w, t in zip(group.rotations, group.translations, strict=True):
        if np.array_equal(w, step):
            gap = translation - (moved @ w + t)
            return bool(_on(gap[None], polar)[0][0])
    return False
