"""Minkowski reduction of many lattices at once: the shortest basis of each, and the way to it."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

_GAIN = 1e-10  # a vector counts as shorter only beyond rounding, so that ties end the loop
_MAX_ROUNDS = 1000  # far above what any finite cell needs; every round shortens a vector
_MIN_VOLUME_RATIO = 1e-13  # volume / (a·b·c) below which three vectors span no cell in double precision
_NEIGHBOURS = np.array(list(product((-1, 0, 1), repeat=2)))  # [9, 2]

LONGEST_EDGE = 1e4
"""Å. The longest known cells have some hundreds; neighbour searches count in integers that overflow between
1e6 and 1e7 Å, and end the whole process."""


def spans_a_cell(lattice: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which cells are finite and have a volume that double precision can tell from zero.  # [n]"""
    finite = np.asarray(np.isfinite(lattice).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], lattice, 0.0)
    lengths = np.linalg.norm(safe, axis=2)
    return finite & (np.abs(np.linalg.det(safe)) > _MIN_VOLUME_RATIO * lengths.prod(axis=1))


def minkowski_reduce(
    lattice: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reduced cells and the unimodular integer matrices that make them: `reduced = transform @ lattice`.

    In a Minkowski-reduced basis b1 is a shortest lattice vector, and a vector wrapped to coefficients in
    [-1/2, 1/2] has its shortest equivalent among the 27 next images (P. Q. Nguyen and D. Stehlé, ACM Trans.
    Algorithms 5, 46, 2009, for three dimensions). This is the greedy algorithm of that paper, on all cells
    together. Cells that do not span a volume (see `spans_a_cell`) come back as they are.

    Args:
        lattice: Cell vectors as rows, Å.  # [n, 3, 3]
    """
    lattice = np.asarray(lattice, dtype=np.float64)
    transform = np.broadcast_to(np.eye(3, dtype=np.int64), lattice.shape).copy()
    usable = spans_a_cell(lattice)
    active = np.flatnonzero(usable)
    for _ in range(_MAX_ROUNDS):
        if not len(active):
            break
        transform[active], changed = _reduce_once(transform[active], lattice[active])
        active = active[changed]
    reduced = lattice.copy()
    reduced[usable] = transform[usable] @ lattice[usable]
    return reduced, transform


def _reduce_once(
    transform: NDArray[np.int64], lattice: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sort by length, reduce b2 by b1, then b3 by both; says which cells became shorter."""
    lengths = np.linalg.norm(transform @ lattice, axis=2)
    order = np.argsort(lengths, axis=1, kind="stable")
    transform = np.take_along_axis(transform, order[:, :, None], axis=1)
    b1, b2, b3 = np.moveaxis(transform @ lattice, 1, 0)
    overlap = np.rint(_dot(b1, b2) / _dot(b1, b1)).astype(np.int64)
    shorter_b2 = b2 - overlap[:, None] * b1
    pair_changed = _dot(shorter_b2, shorter_b2) < (1 - _GAIN) * _dot(b2, b2)
    overlap[~pair_changed] = 0
    transform[:, 1] -= overlap[:, None] * transform[:, 0]

    # b3 against the plane of b1 and b2, once these two are a reduced pair: the closest lattice point of the
    # plane is next to the rounded coefficients of the projection.
    best = _closest_in_plane(b1, b2, b3)
    shorter_b3 = b3 - best[:, :1] * b1 - best[:, 1:] * b2
    plane_changed = ~pair_changed & (_dot(shorter_b3, shorter_b3) < (1 - _GAIN) * _dot(b3, b3))
    best[~plane_changed] = 0
    transform[:, 2] -= best[:, :1] * transform[:, 0] + best[:, 1:] * transform[:, 1]
    return transform, pair_changed | plane_changed


def _closest_in_plane(
    b1: NDArray[np.float64], b2: NDArray[np.float64], b3: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Integers (i, j) for which b3 - i b1 - j b2 is shortest, for a reduced pair b1, b2.  # [n, 2]"""
    g11, g12, g22 = _dot(b1, b1), _dot(b1, b2), _dot(b2, b2)
    p1, p2 = _dot(b1, b3), _dot(b2, b3)
    det = g11 * g22 - g12**2
    flat = det <= 0  # only before b1, b2 are reduced: the answer is not used then
    det = np.where(flat, 1.0, det)
    centre = np.stack([(g22 * p1 - g12 * p2) / det, (g11 * p2 - g12 * p1) / det], axis=1)
    centre = np.rint(np.where(flat[:, None], 0.0, centre))
    trial = centre[:, None, :] + _NEIGHBOURS  # [n, 9, 2]
    rest = b3[:, None] - trial[..., :1] * b1[:, None] - trial[..., 1:] * b2[:, None]
    choice = np.argmin(_dot(rest, rest), axis=1)
    return np.take_along_axis(trial, choice[:, None, None], axis=1)[:, 0].astype(np.int64)


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.einsum("...i,...i->...", a, b)
