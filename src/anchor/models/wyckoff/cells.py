"""Conventional cells: lengths and cosines that a space group allows, and primitive vectors from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.spacegroups import SpaceGroup

FREE_CELL: dict[str, tuple[int, ...]] = {
    "triclinic": (0, 1, 2, 3, 4, 5),
    "monoclinic": (0, 1, 2, 4),
    "orthorhombic": (0, 1, 2),
    "tetragonal": (0, 2),
    "hexagonal": (0, 2),
    "cubic": (0,),
}
"""Which of the six cell numbers a crystal system leaves free."""


def crystal_system(number: int) -> str:
    """Crystal system of a space group; trigonal groups have hexagonal axes."""
    for last, name in zip((2, 15, 74, 142, 194, 230), FREE_CELL, strict=True):
        if number <= last:
            return name
    raise ValueError(f"there is no space group {number}")


def full_cell(number: int, free: Sequence[float]) -> tuple[float, ...]:
    """All six numbers from the free ones of a group's crystal system (given in their six places)."""
    a, b, c, alpha, beta, gamma = free
    system = crystal_system(number)
    if system == "cubic":
        return (a, a, a, 0.0, 0.0, 0.0)
    if system in ("hexagonal", "tetragonal"):
        return (a, a, c, 0.0, 0.0, -0.5 if system == "hexagonal" else 0.0)
    if system == "orthorhombic":
        return (a, b, c, 0.0, 0.0, 0.0)
    if system == "monoclinic":
        return (a, b, c, 0.0, beta, 0.0)
    return (a, b, c, alpha, beta, gamma)


def cell_numbers(lattice: NDArray[np.float64]) -> tuple[float, ...]:
    """a, b, c, Å, cos α, cos β, cos γ.  # [3, 3] -> 6"""
    lengths = np.linalg.norm(lattice, axis=1)
    unit = lattice / lengths[:, None]
    cosines = [unit[i] @ unit[j] for i, j in ((1, 2), (0, 2), (0, 1))]
    return (*lengths.tolist(), *(float(c) for c in cosines))


def primitive_cell(group: SpaceGroup, cell: Sequence[float]) -> NDArray[np.float64]:
    """Primitive vectors, Å, as rows, of a conventional cell made to obey the group.  # [3, 3]"""
    a = np.array(cell[:3])
    alpha, beta, gamma = cell[3:]
    cosines = np.array([[1, gamma, beta], [gamma, 1, alpha], [beta, alpha, 1]])
    metric = group.basis @ (cosines * np.outer(a, a)) @ group.basis.T
    metric = group.symmetrise(metric)
    lowest = np.linalg.eigvalsh(metric)[0]
    if lowest < 1e-3:  # angles that make no cell: opened just enough
        metric += (1e-3 - lowest) * np.eye(3)
    return np.linalg.cholesky(metric).astype(np.float64)
