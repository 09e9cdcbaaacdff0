"""One frame per crystal: which atom is the origin and which of equally good axes come first.

A crystal in its Niggli cell can still be written in many ways: any origin, any axes that give the same metric
(48 for a cube), and 60° or 120° for hexagonal ones, by rounding. A network that sees absolute coordinates
must learn that all of them mean the same, which costs most of a short training. Here every crystal is written
in one way, chosen so that crystals of one structure type come out alike:

1. Elements are ranked by their number of atoms, then by electronegativity: the rarest, most electropositive
   first. An atom of the first element is the origin.
2. Of all such atoms and of all axes of the best metric (`best_axes`), mirrored ones included, the choice with
   the largest Re Σ_k c_k F_k is taken, F_k = Σ_atoms w(rank) exp(2πi k·x). The score is smooth in the atoms'
   places, so crystals that differ little are framed alike; equal scores are one crystal by its own symmetry.

Mirror images count as one crystal: a chiral one may come out as its twin.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import NUMBERS
from anchor.chemistry.features import FEATURE_NAMES, element_features
from anchor.crystals.crystals import Crystals
from anchor.models.cells import upright

METRIC_TOLERANCE = 0.03
"""Differences of a squared length (relative) or of a cosine that do not count: 1.5 % of lengths, 1.7°."""
_CHUNK = 256
_TABLE = 119  # atomic numbers, and 0 for padding
_WEIGHT_OF_RANK = 0.618  # each further element counts less by this factor
_WAVES = np.array(
    [
        (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, -1), (1, 0, -1), (1, -1, 0),
        (1, 1, 1), (2, 0, 0), (0, 2, 0), (0, 0, 2),
    ]
)  # fmt: skip
# Amplitudes that fall slowly and differ; phases near 0 that differ, so that x and −x, and all axes, do too.
_FACTORS = 0.9 ** np.arange(len(_WAVES)) * np.exp(1j * 0.9 * np.sin(1.0 + 2.4 * np.arange(len(_WAVES))))


def canonical_frames(crystals: Crystals) -> Crystals:
    """The same crystals, up to mirror images, each in one frame; cells must be `standard_cells`."""
    weights, first = _roles(crystals)
    lattice, frac = crystals.lattice.copy(), crystals.frac.copy()
    offsets = crystals.offsets
    matrices, inverses = unimodular()
    for start in range(0, len(crystals), _CHUNK):
        axes = best_axes(crystals.lattice[start : start + _CHUNK])
        for i, choices in enumerate(axes, start=start):
            atoms = slice(offsets[i], offsets[i] + crystals.counts[i])
            places = frac[atoms] @ inverses[choices]  # [m, n, 3]
            waves = np.exp(2j * np.pi * (places @ _WAVES.T))  # [m, n, waves]
            total = np.einsum("a,maw->mw", weights[atoms], waves) * _FACTORS
            origins = np.flatnonzero(first[atoms])
            score = np.einsum("mw,mow->mo", total, waves[:, origins].conj()).real
            m, origin = np.unravel_index(int(score.argmax()), score.shape)
            frac[atoms] = places[m] - places[m, origins[origin]]
            lattice[i] = matrices[choices][m] @ lattice[i]
    return crystals.replace(frac=frac % 1.0, lattice=upright(lattice))


@cache
def unimodular() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All 6,960 matrices of −1, 0 and 1 with determinant ±1, and their inverses.  # [6960, 3, 3]"""
    every = np.array(list(product((-1.0, 0.0, 1.0), repeat=9))).reshape(-1, 3, 3)
    chosen = every[np.abs(np.abs(np.linalg.det(every)) - 1) < 1e-6]
    return chosen, np.rint(np.linalg.inv(chosen))


def best_axes(lattice: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Which of `unimodular` lead from each cell to the best one with as short axes, or its equals.

    Best: the largest |Σ cos| of its angles (all acute or all obtuse, as Niggli asks), 120° rather than 60°.
    Niggli's own rules leave that to rounding where an angle is nearly 90°.
    """
    metric = lattice @ lattice.swapaxes(1, 2)
    square = metric[:, [0, 1, 2], [0, 1, 2]]
    short = np.ones((len(lattice), len(unimodular()[0])), dtype=bool)
    for axis in range(3):
        after = metric.reshape(-1, 9) @ _products(axis, axis).T  # (M G Mᵀ)_ii is linear in G
        short &= np.abs(after - square[:, axis, None]) <= METRIC_TOLERANCE * square[:, axis, None]
    found = []
    for i in range(len(lattice)):
        choices = np.flatnonzero(short[i])
        length = np.sqrt(square[i])
        cosines = np.stack(
            [
                _products(row, column)[choices] @ metric[i].ravel() / (length[row] * length[column])
                for row, column in ((1, 2), (0, 2), (0, 1))
            ],
            axis=1,
        )
        total = cosines.sum(axis=1)
        best = int(np.argmax(np.abs(total) + METRIC_TOLERANCE * (total < 0)))
        alike = np.abs(cosines - cosines[best]).max(axis=1) <= METRIC_TOLERANCE
        found.append(choices[alike])
    return found


@cache
def _products(row: int, column: int) -> NDArray[np.float64]:
    """M_row ⊗ M_column of all matrices.  # [6960, 9]"""
    matrices = unimodular()[0]
    return np.einsum("mx,my->mxy", matrices[:, row], matrices[:, column]).reshape(-1, 9)


@cache
def electropositivity() -> NDArray[np.int64]:
    """Place of each atomic number when elements are ordered by electronegativity.  # [119]"""
    value = np.zeros(_TABLE)
    value[NUMBERS] = element_features()[:, FEATURE_NAMES.index("electronegativity")]
    order: NDArray[np.int64] = value.argsort(kind="stable").argsort()
    return order


def ranks(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each atom: the rank of its element, from 0, and its number of atoms.  # [b, n] -> [b, n], [b, n]"""
    equal = numbers[:, :, None] == numbers[:, None]
    count = equal.sum(axis=2)
    key = np.where(numbers > 0, count, _TABLE) * _TABLE + electropositivity()[numbers]  # padding last
    # Elements with a smaller key, each counted once.
    smaller = (key[:, None] < key[:, :, None]) / count[:, None]
    return np.rint(smaller.sum(axis=2)).astype(np.int64), count


def _roles(crystals: Crystals) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Weight of each atom in the score, and whether it is of the first element.  # [n_atoms] each"""
    numbers, _ = crystals.padded()
    rank, _ = ranks(numbers)
    of_atoms = rank[numbers > 0]
    weights: NDArray[np.float64] = np.power(_WEIGHT_OF_RANK, of_atoms)
    return weights, of_atoms == 0
