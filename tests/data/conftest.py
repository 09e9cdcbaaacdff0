"""Shared by the tests of anchor.data: random crystals in cells of any shape, also absurdly skewed ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anchor.data.crystals import Crystals


@pytest.fixture(scope="session")
def random_crystal() -> Callable[..., Crystals]:
    return _random_crystal


def _random_crystal(seed: int, *, atoms: int, skew: int) -> Crystals:
    """One crystal in a cell of 3 to 8 Å, written in a basis sheared by up to `skew` steps per vector."""
    rng = np.random.default_rng(seed)
    cell = np.diag(rng.uniform(3, 8, 3)) + rng.uniform(-1.5, 1.5, (3, 3))
    shear = np.eye(3)
    for i, j in ((0, 1), (1, 2), (2, 0), (1, 0)):
        step = np.eye(3)
        step[i, j] = rng.integers(-skew, skew + 1)
        shear = step @ shear
    return Crystals(
        np.array([atoms]), rng.integers(1, 95, atoms), rng.uniform(-2, 3, (atoms, 3)), (shear @ cell)[None]
    )
