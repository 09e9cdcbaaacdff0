"""Jobs: one hash per calculation."""

from dataclasses import replace

import numpy as np
import pytest
import spglib

from anchor.crystals.crystals import Crystals
from anchor.dft.jobs import Job
from anchor.dft.rules import Settings, settings_for
from anchor.reference.reference import Reference, load_reference


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


def crystal(reference: Reference, formula: str) -> Crystals:
    rows = np.flatnonzero(reference.formulas == formula)
    return reference.crystals[[int(rows[np.argmin(reference.formation_energy[rows])])]]


def test_the_hash_knows_everything_that_counts(reference: Reference) -> None:
    salt = crystal(reference, "NaCl")
    job = Job.of(salt, Settings(400.0, 1000.0))
    noisy = salt.replace(lattice=salt.lattice * (1 + 1e-6))
    assert Job.of(noisy, Settings(400.0, 1000.0)).hash == job.hash
    others = [
        Job.of(salt, Settings(500.0, 1000.0)),
        Job.of(salt, Settings(400.0, 2000.0)),
        Job.of(salt, Settings(400.0, 1000.0), relax=True),
        Job.of(salt.replace(lattice=salt.lattice * 1.001), Settings(400.0, 1000.0)),
        replace(job, version=job.version + 1),
    ]
    assert len({job.hash, *(other.hash for other in others)}) == 6


@pytest.mark.parametrize("formula", ["TiS", "Si3Mo5", "Al2O3"])
def test_symmetry_operations_form_a_group_to_the_last_digits(reference: Reference, formula: str) -> None:
    """GPAW asks that every operation maps the atoms onto atoms within 1e-10; six digits of a third do not."""
    job = Job.of(crystal(reference, formula), settings_for([formula]))
    cell = (job.crystal.lattice[0], job.crystal.frac, job.crystal.numbers)
    found = spglib.get_symmetry(cell, symprec=1e-3)
    frac = np.array(job.frac)
    for rotation, translation in zip(found["rotations"], found["translations"], strict=True):
        exact = np.round(translation * 24) / 24
        shift = exact if np.abs(exact - translation).max() < 1e-5 else translation
        moved = frac @ rotation.T + shift
        apart = moved[:, None] - frac[None]
        apart -= np.round(apart)
        assert np.abs(apart).max(axis=2).min(axis=1).max() < 1e-10


def test_spin_and_u_follow_from_the_elements(reference: Reference) -> None:
    job = Job.of(crystal(reference, "NiO"), settings_for(["NiO"]))
    assert job.hubbard == (("Ni", "d", 6.4),)
    assert sorted(job.magnetic) == [0.0, 2.0]
    assert "ferromagnetic start" in job.text
    assert "U(Ni) 6.4 eV" in job.text
    assert Job.of(crystal(reference, "NdAs"), settings_for(["NdAs"])).generated == ("Nd",)


def test_what_is_calculated_is_the_crystal(reference: Reference) -> None:
    given = crystal(reference, "K2Se")
    made = Job.of(given, settings_for(["K2Se"])).crystal
    assert made.formulas == given.formulas
    assert made.volume[0] / made.n_atoms == pytest.approx(given.volume[0] / given.n_atoms, rel=1e-4)


def test_cost_grows_with_what_makes_it_grow(reference: Reference) -> None:
    job = Job.of(crystal(reference, "K2Se"), Settings(400.0, 200.0))
    assert replace(job, cutoff=500.0).cost > job.cost
    assert replace(job, mesh=(6, 6, 6)).cost > job.cost
    assert replace(job, magnetic=(1.0, 0.0, 0.0)).cost > job.cost
