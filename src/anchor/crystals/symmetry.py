"""The space group of a crystal."""

from __future__ import annotations

import spglib

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
