"""The 11 chemical families that composition diversity compares (the roles of K_comp in eq:diversity).

The paper names the classes only. Here a transition metal is early in groups 3–7 and late in groups 8–12,
La–Lu are lanthanides, As, Sb and Bi stay with the pnictogens and Te with the chalcogens, and H and C, which
fit no other class, are the residual one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import VOCABULARY

MEMBERS: dict[str, tuple[str, ...]] = {
    "alkali": ("Li", "Na", "K", "Rb", "Cs"),
    "alkaline earth": ("Be", "Mg", "Ca", "Sr", "Ba"),
    "early transition metal": (
        "Sc", "Ti", "V", "Cr", "Mn",
        "Y", "Zr", "Nb", "Mo", "Tc",
        "Hf", "Ta", "W", "Re",
    ),
    "late transition metal": (
        "Fe", "Co", "Ni", "Cu", "Zn",
        "Ru", "Rh", "Pd", "Ag", "Cd",
        "Os", "Ir", "Pt", "Au", "Hg",
    ),
    "lanthanide": (
        "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu",
    ),
    "actinide": ("Ac", "Th", "Pa", "U", "Np", "Pu"),
    "p-block metal or metalloid": ("B", "Al", "Si", "Ga", "Ge", "In", "Sn", "Tl", "Pb"),
    "chalcogen": ("O", "S", "Se", "Te"),
    "halogen": ("F", "Cl", "Br", "I"),
    "pnictogen": ("N", "P", "As", "Sb", "Bi"),
    "residual": ("H", "C"),
}  # fmt: skip
"""Symbols of each family: a partition of the vocabulary."""

FAMILIES: tuple[str, ...] = tuple(MEMBERS)
"""The 11 names."""

_FAMILY_OF = {symbol: i for i, symbols in enumerate(MEMBERS.values()) for symbol in symbols}

FAMILY: NDArray[np.int64] = np.array([_FAMILY_OF[symbol] for symbol in VOCABULARY])
"""Position in `FAMILIES` of each vocabulary element.  # [84]"""
FAMILY.setflags(write=False)
