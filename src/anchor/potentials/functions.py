"""Functions of distances and directions with their derivatives, made by few array operations.

Radial functions are smooth: polynomials of degree 5 on intervals of 1/64 Å follow those of M3GNet to 1e-13.
A look into such a table costs the same for twenty functions as for one, where each sine, quotient and step of
a recurrence is a pass over all edges of its own, and another one for its derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import spherical_jn
from torch import Tensor

DEGREES = 4
"""l = 0 … 3, and as many radial functions for each."""
PER_ANGSTROM = 64
"""Intervals of a table."""
DEGREE = 5
"""Of its polynomials."""

Radial = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Table:
    """Radial functions from a table, with their derivatives.

    Args:
        functions: [n] Å -> [n, k], smooth between 0 and the cutoff; never asked for either end.
        cutoff: Å, to where they are wanted.
        like: Tensor of the type and place that the table is to have.
    """

    def __init__(self, functions: Radial, cutoff: float, like: Tensor) -> None:
        self.intervals = round(np.ceil(cutoff * PER_ANGSTROM))
        points = chebyshev_points(DEGREE + 1)
        at = (np.arange(self.intervals)[:, None] + (points + 1) / 2) / PER_ANGSTROM
        values = functions(at.reshape(-1)).reshape(self.intervals, DEGREE + 1, -1)
        powers = np.linalg.solve(((points[:, None] + 1) / 2) ** np.arange(DEGREE + 1), values)
        self.coefficients = torch.from_numpy(powers).to(like)  # [interval, power, k]

    def __call__(self, length: Tensor) -> tuple[Tensor, Tensor]:
        """Values and derivatives.  # [n] -> [n, k], [n, k]"""
        scaled = length * PER_ANGSTROM
        interval = scaled.long().clamp_(max=self.intervals - 1)
        t = (scaled - interval)[:, None]
        terms = self.coefficients.index_select(0, interval).unbind(dim=1)
        value, slope = torch.addcmul(terms[-2], terms[-1], t), terms[-1]
        for term in reversed(terms[:-2]):  # Horner's scheme, and its derivative
            slope = torch.addcmul(value, slope, t)
            value = torch.addcmul(term, value, t)
        return value, slope * PER_ANGSTROM


def chebyshev_points(n: int) -> NDArray[np.float64]:
    """Where to know a smooth function between −1 and 1, ends not included.  # [n]"""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def smooth_bessel(weights: Mapping[str, Tensor]) -> Radial:
    """Radial basis of edges whose value and slope vanish at the cutoff.  # [n] -> [n, 4]"""
    named = ("rbf.dn", "rbf.en", "rbf.fnr_weights", "rbf.n_1_pi_cutoff", "rbf.n_2_pi_cutoff")
    norm, mix, amplitude, first, second = (weights[name].double().view(-1).cpu().numpy() for name in named)

    def basis(length: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = length[:, None] * first, length[:, None] * second
        raw = amplitude * (np.sin(u) / u + np.sin(v) / v)
        found = [raw[:, 0]]
        for n in range(1, raw.shape[1]):  # Gram–Schmidt against the one before
            found.append((raw[:, n] + np.sqrt(mix[n] / norm[n - 1]) * found[-1]) / np.sqrt(norm[n]))
        return np.stack(found, axis=1)

    return basis


def three_body_radial(cutoff: float, threebody_cutoff: float) -> Radial:
    """j_l(root_ln r / cutoff) f(r) for each l and n, then the envelope f itself.  # [n] -> [n, 17]"""
    roots = bessel_roots()  # [l, n]

    def radial(length: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = (length / threebody_cutoff)[:, None]
        envelope = 1 - ratio**3 * (10 - 15 * ratio + 6 * ratio**2)
        x = length[:, None] / cutoff
        waves = [spherical_jn(l, roots[l] * x) * envelope for l in range(DEGREES)]
        return np.concatenate([*waves, envelope], axis=1)

    return radial


def bessel_roots() -> NDArray[np.float64]:
    """The first positive zeros of j_l; those of j_l lie between neighbouring ones of j_{l-1}.  # [4, 4]"""
    zeros = np.pi * np.arange(1, 2 * DEGREES + 1)
    table = [zeros[:DEGREES]]
    for l in range(1, DEGREES):
        zeros = np.array([brentq(lambda x, l=l: spherical_jn(l, x), a, b) for a, b in pairwise(zeros)])
        table.append(zeros[:DEGREES])
    return np.stack(table)


_A, _B, _C, _D = 3**0.5, (5 / 8) ** 0.5, (3 / 8) ** 0.5, 15**0.5
HARMONICS: tuple[dict[str, float], ...] = (
    {"": 1},
    {"x": 1},
    {"y": 1},
    {"z": 1},
    {"xy": _A},
    {"yz": _A},
    {"zz": 1, "xx": -1 / 2, "yy": -1 / 2},
    {"xz": _A},
    {"xx": _A / 2, "yy": -_A / 2},
    {"xxy": 3 * _B, "yyy": -_B},
    {"xyz": _D},
    {"yzz": 4 * _C, "xxy": -_C, "yyy": -_C},
    {"zzz": 1, "xxz": -3 / 2, "yyz": -3 / 2},
    {"xzz": 4 * _C, "xxx": -_C, "xyy": -_C},
    {"xxz": _D / 2, "yyz": -_D / 2},
    {"xxx": _B, "xyy": -3 * _B},
)
"""C_lm for l = 0 … 3 with Σ_m C_lm(u) C_lm(v) = P_l(u·v) (Racah's normalisation), as polynomials."""


class SolidHarmonics:
    """`HARMONICS` of unit vectors, and what they make of a gradient: two small matrix products.

    Monomials are those of (1, u), (1, u) ⊗ u and (1, u) ⊗ u ⊗ u, so that each is made once.
    """

    def __init__(self, like: Tensor) -> None:
        self.values, self.slopes = like.new_zeros(40, 16), like.new_zeros(13, 3, 16)
        for column, polynomial in enumerate(HARMONICS):
            for monomial, factor in polynomial.items():
                axes = ["xyz".index(name) for name in monomial]
                self.values[_place(axes), column] += factor
                for k, axis in enumerate(axes):
                    self.slopes[_place(axes[:k] + axes[k + 1 :]), axis, column] += factor

    def __call__(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Harmonics, and the monomials that `backward` needs.  # [n, 3] -> [n, 16], [n, 13]"""
        squares = (unit[:, :, None] * unit[:, None, :]).view(-1, 9)
        cubes = (squares[:, :, None] * unit[:, None, :]).view(-1, 27)
        monomials = torch.cat([torch.ones_like(unit[:, :1]), unit, squares, cubes], dim=1)
        return monomials @ self.values, monomials[:, :13]

    def backward(self, monomials: Tensor, by_harmonics: Tensor) -> Tensor:
        """Gradient by the vectors, across the sphere included.  # [n, 16] -> [n, 3]"""
        slopes = (monomials @ self.slopes.view(13, 48)).view(-1, 3, 16)
        return slopes.mul_(by_harmonics[:, None, :]).sum(dim=2)


def _place(axes: list[int]) -> int:
    """Of a monomial of degree 0 … 3 among 1, u, u ⊗ u, u ⊗ u ⊗ u."""
    place = 0
    for axis in axes:
        place = 3 * place + axis
    return (0, 1, 4, 13)[len(axes)] + place
