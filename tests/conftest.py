"""Shared by all tests: one thread per worker, a few crystals and a potential without weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("ANCHOR_OFFLINE", "1")  # no test fetches 100 MB because it looks into an empty cache

import numpy as np
import pytest
from relax_surfaces import Morse

from anchor.crystals.crystals import Crystals
from anchor.reference.reference import load_reference

SLOW = set((Path(__file__).parent / "slow.txt").read_text().split())
"""Tests that `make test-fast` leaves out: the longest of a whole run with --durations."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.split("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def morse() -> Morse:
    return Morse()


@pytest.fixture(scope="session")
def small() -> Crystals:
    """Forty reference crystals of two to four atoms, some formulas more than once."""
    crystals = load_reference().crystals
    return crystals[np.flatnonzero(crystals.counts <= 4)[:40]]


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
