"""Stability score (paper: app:reward/stability)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def stability_score(energy_above_hull: ArrayLike, width: float = 1.0) -> NDArray[np.float64]:
    """s_stab = 1 − clip(E_hull, 0, 1) (eq:stab-score), with E_hull in units of `width`.

    Args:
        energy_above_hull: Signed, eV/atom; NaN (not scored) stays NaN.  # [n]
        width: Where the score reaches 0, eV/atom; 1 in the paper.

    Returns:
        1 on or below the hull, falling to 0 at `width`.  # [n]
    """
    return 1.0 - np.clip(np.asarray(energy_above_hull, dtype=np.float64) / width, 0.0, 1.0)
