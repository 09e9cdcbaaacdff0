"""The 11 chemical families that composition diversity compares (the roles of K_comp in eq:diversity).

The paper names the classes only. Here a transition metal is early in groups 3–7 and late in groups 8–12,
La–Lu are lanthanides, As, Sb and Bi stay with the pnictogens and Te with the chalcogens, and H, C and the
noble gases, which fit no other class, are the residual one. Elements outside the vocabulary of 84 belong to
the family of their group, those after Ac to the actinides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS

MEMBERS: dict[str, tuple[str, ...]] = {
    "alkali": ("Li", "Na", "K", "Rb", "Cs", "Fr"),
    "alkaline earth": ("Be", "Mg", "Ca", "Sr", "Ba", "Ra"),
    "early transition metal": (
        "Sc", "Ti", "V", "Cr", "Mn",
        "Y", "Zr", "Nb", "Mo", "Tc",
        "Hf", "Ta", "W", "Re",
        "Rf", "Db", "Sg", "Bh",
    ),
    "late transition metal": (
        "Fe", "Co", "Ni", "Cu", "Zn",
        "Ru", "Rh", "Pd", "Ag", "Cd",
        "Os", "Ir", "Pt", "Au", "Hg",
        "Hs", "Mt", "Ds", "Rg", "Cn",
    ),
    "lanthanide": (
        "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu",
    ),
    "actinide": (
        "Ac", "Th", "Pa", "U", "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr",
    ),
    "p-block metal or metalloid": ("B", "Al", "Si", "Ga", "Ge", "In", "Sn", "Tl", "Pb", "Nh", "Fl"),
    "chalcogen": ("O", "S", "Se", "Te", "Po", "Lv"),
    "halogen": ("F", "Cl", "Br", "I", "At", "Ts"),
    "pnictogen": ("N", "P", "As", "Sb", "Bi", "Mc"),
    "residual": ("H", "C", "He", "Ne", "Ar", "Kr", "Xe", "Rn", "Og"),
}  # fmt: skip
"""Symbols of each family: a partition of all elements."""

FAMILIES: tuple[str, ...] = tuple(MEMBERS)
"""The 11 names."""

_FAMILY_OF = {symbol: i for i, symbols in enumerate(MEMBERS.values()) for symbol in symbols}

FAMILY: NDArray[np.int64] = np.array([_FAMILY_OF.get(symbol, -1) for symbol in SYMBOLS])
"""Position in `FAMILIES` by atomic number; -1 for the placeholder 0.  # [119]"""
FAMILY.setflags(write=False)
