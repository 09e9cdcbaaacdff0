"""What the outcomes of a campaign teach the free estimate: a Gaussian process over compositions.

The estimate is wrong in families: what it promises too much for one rare-earth oxyhalide it promises for all.
So every relaxation says something about formulas alike. Prior: the distance to the hulls is normal around
what the two chances of a formula say. Covariance: compositions are alike when their elements, in the order of
electronegativity, and their amounts are. After each block of outcomes the chances follow anew, in a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr, ndtri

from anchor.chemistry.composition import Compositions
from anchor.chemistry.features import element_features
from anchor.policy.actions import to_actions
from anchor.screening.chances import METASTABLE_BELOW, STABLE_BELOW
from anchor.screening.families import electronegativities

Array = NDArray[np.float64]

AMPLITUDE, LENGTH, NOISE, COMMON = 0.08, 1.5, 0.06, 0.02
"""Standard deviation of the estimate's error that compositions alike share, eV/atom; how unlike they may be
(in units of `descriptors`); of the rest of the error; of what all share. Chosen by the log-likelihood of
2,500 of 8,192 outcomes of a screened search, given 1,000 others (docs/screening.md)."""
LOWEST, HIGHEST = -0.15, 0.35
"""eV/atom: energies beyond are taken for these, and what failed for the highest. One explosion must not teach
anything about its neighbours."""
ANCHORS = 1024
"""Outcomes that span the space of functions; up to so many, the process is exact, and later an approximation
(deterministic training conditional) whose cost grows linearly."""
AMOUNTS = 6.0
"""Weight of atomic fractions: a tenth more of an element is a fifth of the way to an unlike element."""


def descriptors(compositions: Compositions) -> Array:
    """Elements from the most electronegative on, and their fractions.  # [n, 4 · 38 + 4]"""
    elements, counts = to_actions(compositions)
    order = np.argsort(
        np.where(elements >= 0, -electronegativities()[elements], np.inf), axis=1, kind="stable"
    )
    elements = np.take_along_axis(elements, order, axis=1)
    fractions = np.take_along_axis(counts, order, axis=1) / counts.sum(axis=1, keepdims=True)
    of_elements = np.where(elements[..., None] >= 0, _element_table()[elements], 0.0)
    return np.concatenate(
        [of_elements.reshape(len(elements), np.prod(of_elements.shape[1:])), AMOUNTS * fractions], axis=1
    )


@cache
def _element_table() -> Array:
    """Standardised features of elements; two unlike ones are about √8 apart.  # [84, 38]"""
    features = element_features().astype(np.float64)
    scaled = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-3)
    return 2 * scaled / np.sqrt(features.shape[1])


def promised(metastable: Array, stable: Array) -> Array:
    """Mean of the normal distribution with these two chances, eV/atom above the hulls.  # [n]"""
    on = ndtri(np.clip(stable, 1e-3, 1 - 1e-3))
    near = ndtri(np.clip(metastable, np.clip(stable, 1e-3, None) + 1e-3, 1 - 1e-4))
    width = np.clip((METASTABLE_BELOW - STABLE_BELOW) / np.maximum(near - on, 1e-2), 0.03, 0.3)
    return STABLE_BELOW - on * width


def covariance(a: Array, b: Array) -> Array:
    """Of the errors of compositions with these descriptors, eV²/atom².  # [n, d], [m, d] -> [n, m]"""
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    return AMPLITUDE**2 * np.exp(-np.maximum(squared, 0) / (2 * LENGTH**2)) + COMMON**2


@dataclass(frozen=True, eq=False)
class Errors:
    """What outcomes teach of the estimate's error: the posterior of the process, at any composition.

    Attributes:
        anchors: Descriptors of the outcomes that span the space of functions.  # [a, d]
        root, inner: Cholesky factors of their covariance, and of the precision in its basis.  # [a, a] each
        weights: Of the posterior mean in that basis.  # [a]
    """

    anchors: Array
    root: Array
    inner: Array
    weights: Array

    @classmethod
    def of(cls, where: Array, error: Array) -> Errors:
        """After outcomes at these descriptors, so much above what was promised, eV/atom.  # [m, d], [m]"""
        spread = np.linspace(0, len(where) - 1, min(len(where), ANCHORS)).astype(np.int64)
        anchors = where[spread]
        root = cholesky(covariance(anchors, anchors) + 1e-8 * np.eye(len(anchors)), lower=True)
        seen = solve_triangular(root, covariance(anchors, where), lower=True)  # [a, m]
        inner = cholesky(np.eye(len(anchors)) + seen @ seen.T / NOISE**2, lower=True)
        return cls(anchors, root, inner, solve_triangular(inner, seen @ error / NOISE**2, lower=True))

    def at(self, where: Array) -> tuple[Array, Array]:
        """Mean of the error and by how much its variance is smaller.  # [n, d] -> [n], [n]"""
        basis = solve_triangular(self.root, covariance(self.anchors, where), lower=True)  # [a, n]
        spread = solve_triangular(self.inner, basis, lower=True)
        return spread.T @ self.weights, (basis**2).sum(axis=0) - (spread**2).sum(axis=0)


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of some compositions before any outcome.

    Attributes:
        where: Their descriptors.  # [n, d]
        mean: Expected energy above the hulls, eV/atom.  # [n]
    """

    where: Array
    mean: Array

    @classmethod
    def of(cls, compositions: Compositions, metastable: Array, stable: Array) -> Belief:
        return cls(descriptors(compositions), promised(metastable, stable))

    def __getitem__(self, rows: NDArray[np.int64]) -> Belief:
        return Belief(self.where[rows], self.mean[rows])

    def errors(self, above: Array) -> Errors | None:
        """What these compositions teach, once it is known what came of each; None: there are none.

        Args:
            above: eV/atom above the hulls; NaN where nothing valid came.  # [n]
        """
        if not len(above):
            return None
        return Errors.of(self.where, np.clip(np.nan_to_num(above, nan=HIGHEST), LOWEST, HIGHEST) - self.mean)

    def given(self, errors: Errors | None) -> tuple[Array, Array]:
        """Mean and standard deviation of the energy above the hulls after outcomes, eV/atom.  # [n] each"""
        mean, variance = self.mean, np.full(len(self.mean), AMPLITUDE**2 + COMMON**2)
        if errors is not None:
            shift, explained = errors.at(self.where)
            mean, variance = mean + shift, np.maximum(variance - explained, 0.0)
        return mean, np.sqrt(variance + NOISE**2)

    def after(self, rows: NDArray[np.int64], above: Array) -> tuple[Array, Array]:
        """P(within 0.1 eV/atom) and P(on the hulls) of all after some of them were tried.

        Args:
            rows: Of these compositions, as often as they were tried.  # [m]
            above: What came of them, eV/atom above the hulls; NaN where nothing valid came.  # [m]

        Returns: # [n] each
        """
        return chances(*self.given(self[rows].errors(above)))


def chances(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """P(within 0.1 eV/atom) and P(on the hulls) of normal distributions.  # [n] each"""
    return ndtr((METASTABLE_BELOW - mean) / deviation), ndtr((STABLE_BELOW - mean) / deviation)
