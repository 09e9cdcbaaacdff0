"""Electrostatic energies of point charges on the sites of a crystal, by Ewald's sum."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import minkowski_reduce

COULOMB = 14.399645
"""e²/(4πε₀), eV Å."""
_DECAYS = 4.0  # both sums end where their Gaussians have fallen to exp(−16)


def coulomb_matrix(crystal: Crystals) -> NDArray[np.float64]:
    """M with ½ qᵀ M q the energy in eV of charges q (in e) that add up to zero, images included.

    One matrix serves for every way of putting charges on the sites.

    Args:
        crystal: A batch of one, n atoms.

    Returns: [n, n]
    """
    cell = minkowski_reduce(crystal.lattice)[0][0]
    n, volume = crystal.n_atoms, float(crystal.volume[0])
    width = np.sqrt(np.pi) * (n / volume**2) ** (1 / 6)  # 1/Å: both sums then cost about the same
    gaps = crystal.cart[None] - crystal.cart[:, None]  # [n, n, 3]
    gaps = gaps - np.rint(gaps @ np.linalg.inv(cell)) @ cell

    reach = _DECAYS / width
    images = _lattice_points(cell, reach + np.linalg.norm(gaps, axis=2).max())
    distance = np.linalg.norm(gaps[:, :, None] + images, axis=3)  # [n, n, images]
    near = (distance > 1e-8) & (distance < reach)
    safe = np.where(near, distance, 1.0)
    matrix = np.where(near, erfc(width * safe) / safe, 0.0).sum(axis=2)

    waves = _lattice_points(2 * np.pi * np.linalg.inv(cell).T, 2 * width * _DECAYS)
    squares = (waves**2).sum(axis=1)
    waves, squares = waves[squares > 1e-12], squares[squares > 1e-12]
    weights = 4 * np.pi / volume * np.exp(-squares / (4 * width**2)) / squares
    matrix += np.cos(gaps @ waves.T) @ weights
    matrix[np.diag_indices(n)] -= 2 * width / np.sqrt(np.pi)
    return COULOMB * matrix


def _lattice_points(basis: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Points of the lattice that rows of `basis` span within a radius of the origin.  # [m, 3]"""
    reach = np.floor(radius * np.linalg.norm(np.linalg.inv(basis), axis=0)).astype(int)
    points = np.array(list(product(*(range(-n, n + 1) for n in reach)))) @ basis
    return points[(points**2).sum(axis=1) <= radius**2]
