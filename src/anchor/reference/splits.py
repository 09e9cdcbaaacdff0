"""Train, validation and test by reduced formula, from a hash that never changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "val", "test")
SHARES = (0.8, 0.1, 0.1)


def split_of(formula: str) -> str:
    """Split of a reduced formula. All crystals of a formula share it, in any data set and on any machine."""
    position = int.from_bytes(hashlib.sha256(formula.encode()).digest()[:8], "big") / 2**64
    return SPLITS[int(np.searchsorted(np.cumsum(SHARES)[:-1], position, side="right"))]


def splits_of(formulas: Iterable[str]) -> NDArray[np.str_]:
    """Splits of many formulas.  # [n]"""
    return np.array([split_of(formula) for formula in formulas], dtype="<U5")
