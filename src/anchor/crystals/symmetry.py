"""The space group of a crystal, by name and as permutations of its sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import spglib
from numpy.typing import NDArray
from spglib.error import SpglibError

from anchor.crystals.crystals import Crystals

SYMPREC = 0.05
"""Å, tolerance: relaxed crystals are symmetric to about f_max / stiffness."""


def space_group(crystal: Crystals, *, symprec: float = SYMPREC) -> tuple[str, int]:
    """Symbol and number of one crystal's space group; ('unknown', 0) where spglib finds none."""
    found = spglib.get_spacegroup((crystal.lattice[0], crystal.frac, crystal.numbers), symprec=symprec)
    if found is None:
        return "unknown", 0
    symbol, number = found.rsplit(" (", 1)
    return symbol, int(number.rstrip(")"))


@dataclass(frozen=True, eq=False)
class Operations:
    """Operations of the space group of one crystal of n atoms, translations inside the cell included.

    Attributes:
        rotations: W, acting on columns of fractional coordinates.  # [g, 3, 3], int64
        images: Which atom each operation takes each atom to.  # [g, n], int64
        missed: How far from it the atom lands, fractional, to the nearest image.  # [g, n, 3]
        carried: Into which cell, that of the image being the origin.  # [g, n, 3], int64
    """

    rotations: NDArray[np.int64]
    images: NDArray[np.int64]
    missed: NDArray[np.float64]
    carried: NDArray[np.int64]


def find_operations(crystal: Crystals, tolerance: float) -> Operations | None:
    """The operations of a single crystal within a tolerance (Å); None where spglib finds none that fit."""
    lattice, frac, numbers = crystal.lattice[0], crystal.frac, crystal.numbers
    try:
        found = spglib.get_symmetry((lattice, frac, numbers), symprec=tolerance)
    except SpglibError:  # by default it still answers None
        return None
    if found is None:
        return None
    rotations = found["rotations"].astype(np.int64)
    images = np.empty((len(rotations), len(frac)), dtype=np.int64)
    missed = np.empty((len(rotations), len(frac), 3))
    carried = np.empty((len(rotations), len(frac), 3), dtype=np.int64)
    for g, (rotation, translation) in enumerate(zip(rotations, found["translations"], strict=True)):
        gap = (frac @ rotation.T + translation)[:, None] - frac  # [from, to, 3]
        cells = np.rint(gap)
        gap -= cells
        images[g] = np.square(gap @ lattice).sum(axis=2).argmin(axis=1)
        missed[g] = gap[np.arange(len(frac)), images[g]]
        carried[g] = cells[np.arange(len(frac)), images[g]]
    if (numbers[images] != numbers).any() or (np.sort(images, axis=1) != np.arange(len(frac))).any():
        return None
    return Operations(rotations, images, missed, carried)
