"""The elements: all that have a symbol, and the 84 that the policy may choose (Table `tab:elements`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from ase.data import chemical_symbols
from numpy.typing import NDArray

from anchor.errors import InputError, nearest

SYMBOLS: tuple[str, ...] = tuple(chemical_symbols)
"""Symbol by atomic number, H = 1 to Og = 118; entry 0 is a placeholder."""

NUMBER: dict[str, int] = {symbol: number for number, symbol in enumerate(SYMBOLS) if number > 0}
"""Atomic number by symbol."""

VOCABULARY: tuple[str, ...] = tuple(
    """
    H  Li Be B  C  N  O  F  Na Mg Al Si P  S  Cl
    K  Ca Sc Ti V  Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br
    Rb Sr Y  Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I
    Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W  Re Os Ir Pt Au Hg Tl Pb Bi
    Ac Th Pa U  Np Pu
    """.split()  # noqa: SIM905 (rows are readable, 84 quoted strings are not)
)
"""The 84 symbols of the policy in ascending atomic number: MP-20's 89 without He, Ne, Ar, Kr and Xe."""

INDEX: dict[str, int] = {symbol: index for index, symbol in enumerate(VOCABULARY)}
"""Position in the vocabulary by symbol."""

NUMBERS: NDArray[np.int64] = np.array([NUMBER[symbol] for symbol in VOCABULARY])
"""Atomic numbers of the vocabulary.  # [84]"""
NUMBERS.setflags(write=False)


def vocabulary_indices(symbols: Iterable[str]) -> NDArray[np.int64]:
    """Vocabulary positions of the distinct symbols, ascending; InputError for any other element."""
    symbols = set(symbols)
    for symbol in sorted(symbols - set(INDEX)):
        raise InputError(f"'{symbol}' is not in the vocabulary of 84 elements", nearest(symbol, INDEX))
    return np.array(sorted(INDEX[symbol] for symbol in symbols), dtype=np.int64)
