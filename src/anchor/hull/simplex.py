"""The lower convex hull of one chemical system, facet by facet, as a small linear programme.

The energy of the hull at composition x is the cheapest mixture of phases with that composition,

    e(x) = min_λ Σ_j λ_j E_j   with   Σ_j λ_j x_j = x,  λ ≥ 0,

and its optimal basis is a facet of the hull: k phases below whose plane no phase lies. A revised simplex
method started from the elements finds one facet in a few pivots on k×k matrices; the facet then answers for
every composition inside it. So a cold query costs one small programme, and a system that has been asked often
is a table of facets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgesv  # a fifth of np.linalg.inv's time on 4×4

from anchor.errors import AnchorError

ENERGY_TOLERANCE = 1e-11
"""eV/atom: a phase this little below a facet's plane lies on it."""
AMOUNT_TOLERANCE = 1e-10
"""Smaller amounts and pivots are zero."""
EDGE = 1e-8
"""A composition with less than this of one of a facet's phases lies on its edge."""


def find_facet(
    fractions: NDArray[np.float64], energies: NDArray[np.float64], target: Sequence[float]
) -> list[int]:
    """Phases of the hull facet over `target`.

    Only the pricing of all phases is an array operation: matrices of k×k numbers are faster as lists.

    Args:
        fractions: Atomic fractions; the first k phases are the elements (unit matrix).  # [k, n]
        energies: eV/atom.  # [n]
        target: Atomic fractions of the composition asked for.  # [k]

    Returns:
        Indices of the k phases that span the facet.
    """
    k = len(target)
    basis = list(range(k))
    inverse = [[float(i == j) for j in basis] for i in basis]  # of the matrix whose columns are the basis
    amounts = list(target)  # of the basis phases in the mixture
    plane = energies[:k].tolist()  # chemical potentials of the elements on the plane through the basis
    stalled = 0
    for _ in range(100 + 10 * len(energies)):
        above = energies - np.dot(plane, fractions)
        entering = int(above.argmin())
        if above[entering] >= -ENERGY_TOLERANCE:
            return basis
        bland = stalled > k  # lowest indices first, so that a degenerate corner is always left
        if bland:
            entering = int(np.argmax(above < -ENERGY_TOLERANCE))
        phase = fractions[:, entering].tolist()
        column = [sum(map(float.__mul__, row, phase)) for row in inverse]
        usable = [i for i, share in enumerate(column) if share > AMOUNT_TOLERANCE]
        step = max(0.0, min([amounts[i] / column[i] for i in usable]))
        tied = [i for i in usable if amounts[i] / column[i] <= step + AMOUNT_TOLERANCE]
        leaving = tied[0]
        if len(tied) > 1:
            leaving = min(tied, key=lambda i: basis[i] if bland else -column[i])
        stalled = stalled + 1 if step <= AMOUNT_TOLERANCE else 0

        scale = column[leaving]
        pivot = [value / scale for value in inverse[leaving]]
        for i, share in enumerate(column):
            if i != leaving and share:
                amounts[i] -= step * share
                inverse[i] = [x - share * y for x, y in zip(inverse[i], pivot, strict=True)]
        amounts[leaving], inverse[leaving], basis[leaving] = step, pivot, entering
        gap = float(above[entering])
        plane = [mu + gap * x for mu, x in zip(plane, pivot, strict=True)]
    raise AnchorError(f"the hull over {list(target)} was not found among {len(energies)} phases")


@dataclass
class SystemHull:
    """The hull of one chemical system: its phases, and the facets found so far.

    What it answers for a composition does not depend on what was asked before: inside a facet the facet is
    unique, and a composition on an edge (a known phase, a tie line) gets the one that `find_facet` gives it.

    Attributes:
        fractions: Atomic fractions of the competing phases, the elements first.  # [k, n]
        energies: eV/atom.  # [n]
        rows: Where the phases stand in the whole set.  # [n]
    """

    fractions: NDArray[np.float64]
    energies: NDArray[np.float64]
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        self._facets: dict[tuple[int, ...], int] = {}
        self._on_edge: dict[bytes, int] = {}
        self._inverses: list[NDArray[np.float64]] = []  # facet amounts = inverse @ composition
        self._planes: list[NDArray[np.float64]] = []  # hull energy = plane · composition
        self._stacked = np.zeros((0, len(self.fractions)))  # of the inverses, made when it is needed

    @property
    def n_facets(self) -> int:
        """How many facets are known by now."""
        return len(self._facets)

    def energy(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Energy of the hull, eV/atom, at atomic fractions.  # [n, k] -> [n]"""
        facets = self._locate(targets)
        planes = np.array(self._planes)[facets] if len(facets) > 1 else self._planes[facets[0]][None]
        return (planes * targets).sum(axis=1)

    def mixture(self, target: NDArray[np.float64]) -> list[tuple[int, float]]:
        """Phases (rows of the whole set) and their atomic fractions in the decomposition.  # [k]"""
        facet = self._locate(target[None])[0]
        members = list(self._facets)[facet]
        amounts = self._inverses[facet] @ target
        return [(int(self.rows[members[i]]), float(amounts[i])) for i in np.flatnonzero(amounts > 1e-8)]

    def _locate(self, targets: NDArray[np.float64]) -> list[int]:
        """Facet of each composition; new facets are found and kept.  # [n, k] -> [n]"""
        found = self._inside_known(targets)
        known = self.n_facets
        for i, facet in enumerate(found):
            if facet >= 0:
                continue
            key = targets[i].tobytes()
            if key not in self._on_edge:
                if self.n_facets > known:  # one of the new facets of this call may hold this one as well
                    found[i] = self._inside_known(targets[i : i + 1])[0]
                    if found[i] >= 0:
                        continue
                self._on_edge[key] = self._add(find_facet(self.fractions, self.energies, targets[i].tolist()))
            found[i] = self._on_edge[key]
        return found

    def _inside_known(self, targets: NDArray[np.float64]) -> list[int]:
        """Index of the known facet that holds each composition well inside, −1 where there is none.  # [n]"""
        n, k = targets.shape
        if not self._facets:
            return [-1] * n
        if len(self._stacked) < k * self.n_facets:
            self._stacked = np.concatenate(self._inverses)
        smallest = np.empty((n, self.n_facets))
        for a in range(0, n, 4096):  # bounds the memory of the next line
            amounts = targets[a : a + 4096] @ self._stacked.T
            smallest[a : a + 4096] = amounts.reshape(-1, self.n_facets, k).min(axis=2)
        best = smallest.argmax(axis=1)
        return np.where(smallest[np.arange(n), best] > EDGE, best, -1).tolist()

    def _add(self, facet: list[int]) -> int:
        members = tuple(sorted(facet))  # so that rounding does not depend on the path that led here
        if members not in self._facets:
            chosen = list(members)
            inverse = dgesv(self.fractions.take(chosen, axis=1), self.fractions[:, : len(chosen)])[2]
            self._facets[members] = len(self._facets)
            self._inverses.append(inverse)
            self._planes.append(self.energies.take(chosen) @ inverse)
        return self._facets[members]
