"""Makes `relax_surfaces` importable however pytest is started, and gives the tests its potential."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from relax_surfaces import Morse


@pytest.fixture(scope="session")
def morse() -> Morse:
    return Morse()
