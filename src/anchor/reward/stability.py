"""Stability score (paper: app:reward/stability)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def stability_score(energy_above_hull: ArrayLike) -> NDArray[np.float64]:
    """s_stab = 1 − clip(E_hull, 0, 1) (eq:stab-score).

    Args:
        energy_above_hull: Signed, eV/atom; NaN (not scored) stays NaN.  # [n]

    Returns:
        1 on or below the hull, falling to 0 at 1 eV/atom.  # [n]
    """
    return 1.0 - np.clip(np.asarray(energy_above_hull, dtype=np.float64), 0.0, 1.0)
