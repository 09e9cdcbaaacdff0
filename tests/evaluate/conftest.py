"""Makes `toy_protocol` importable however pytest is started, and gives tests a few small crystals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from anchor.data.crystals import Crystals
from anchor.data.reference import load_reference


@pytest.fixture(scope="session")
def small() -> Crystals:
    """Forty reference crystals of two to four atoms, some formulas more than once."""
    crystals = load_reference().crystals
    return crystals[np.flatnonzero(crystals.counts <= 4)[:40]]
