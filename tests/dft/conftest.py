"""GPAW where it is installed, and crystals that it calculates in seconds."""

from pathlib import Path

import pytest
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.dft.engine import gpaw_python
from anchor.dft.jobs import Job
from anchor.dft.rules import Settings
from anchor.errors import MissingDependencyError


@pytest.fixture(scope="session")
def gpaw() -> Path:
    try:
        return gpaw_python()
    except MissingDependencyError as error:
        pytest.skip(f"{error.message}; make test-dft installs it")


@pytest.fixture(scope="session")
def salt() -> Crystals:
    sites = [[0, 0, 0], [0.5, 0.5, 0.5]]
    return Crystals.from_structures(
        Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.69), ["Na", "Cl"], sites)
    )


@pytest.fixture(scope="session")
def job(salt: Crystals) -> Job:
    """Rock salt with few plane waves and k-points."""
    return Job.of(salt, Settings(250.0, 16.0))
