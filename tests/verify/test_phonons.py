"""Phonons against phonopy with another implementation of the potential, and modes against energies."""

from itertools import pairwise, product

import numpy as np
import pytest
from ase.build import bulk
from ase.data import atomic_masses
from phonopy import Phonopy
from phonopy.physical_units import get_physical_units
from phonopy.structure.atoms import PhonopyAtoms
from relax_surfaces import Morse

from anchor.crystals.crystals import Crystals
from anchor.potentials.registry import find, load_potential
from anchor.potentials.weights import verified
from anchor.relax.engine import relax
from anchor.relax.parallel import Relaxer
from anchor.verify.phonons import (
    DISPLACEMENT,
    SHORTEST,
    Phonons,
    Supercell,
    commensurate_cell,
    lattice_points,
    multiples,
    primitive,
)


def phonons_of(atoms, potential) -> tuple[Supercell, Phonons]:
    found = relax(
        primitive(Crystals.from_atoms(atoms)), potential, cell=True, max_steps=200, fmax=1e-3, symmetry=True
    )
    supercell = Supercell.of(found.crystals)
    return supercell, supercell.phonons(Relaxer(potential).evaluate(supercell.displaced).forces)


@pytest.fixture(scope="module")
def mattersim():
    return load_potential("mattersim-1m")


def test_force_constants_are_those_of_another_implementation(mattersim) -> None:
    """phonopy, driven one displacement at a time by the ASE calculator of MatterSim's own package."""
    forcefield = pytest.importorskip("mattersim.forcefield")
    supercell, _ = phonons_of(bulk("NaCl", "rocksalt", 5.64), mattersim)
    crystal = supercell.crystal
    other = Phonopy(
        PhonopyAtoms(numbers=crystal.numbers, scaled_positions=crystal.frac, cell=crystal.lattice[0]),
        supercell_matrix=np.diag(supercell.multiples),
        primitive_matrix=np.eye(3),
    )
    other.generate_displacements(distance=DISPLACEMENT)
    calculator = forcefield.MatterSimCalculator(
        load_path=str(verified(find("mattersim-1m").weights, hint="")), device="cpu"
    )
    forces = []
    for cell in other.supercells_with_displacements:
        (atoms,) = Crystals(
            np.array([len(cell)]), cell.numbers, cell.scaled_positions, cell.cell[None]
        ).to_atoms()
        atoms.calc = calculator
        forces.append(atoms.get_forces())
    other.forces = forces
    other.produce_force_constants(show_drift=False)
    other.symmetrize_force_constants(show_drift=False)
    assert supercell.work.force_constants == pytest.approx(other.force_constants, abs=1e-4)


@pytest.mark.parametrize(
    ("atoms", "stable"),
    [(bulk("NaCl", "rocksalt", 5.64), True), (bulk("Cu", "fcc", 3.6), True), (bulk("Cu", "sc", 2.4), False)],
    ids=["rock salt", "fcc copper", "simple cubic copper"],
)
def test_minima_and_saddles(atoms, stable, mattersim) -> None:
    _, found = phonons_of(atoms, mattersim)
    assert (found.lowest > 0.5) if stable else (found.lowest < -1)
    at_rest = found.frequencies[np.abs(found.q).max(axis=1) < 1e-9][0]
    assert np.sort(np.abs(at_rest))[:3] == pytest.approx([0, 0, 0], abs=1e-3)  # translations


@pytest.fixture(scope="module")
def ordered() -> tuple[Morse, Phonons]:
    """An alloy of two masses at a minimum of the Morse potential, four cells along one axis."""
    potential = Morse()
    return potential, phonons_of(bulk("CuAg", "cesiumchloride", 2.9), potential)[1]


def test_a_mode_costs_what_its_frequency_says(ordered) -> None:
    """Curvature of the energy along every kind of wave, real or not: E = ½ ω² Σ m u²."""
    potential, found = ordered
    unit = get_physical_units().DefaultToTHz
    seen = 0
    for row in range(0, len(found.q), 3):
        for band in (0, found.frequencies.shape[1] - 1):
            frequency = found.judged[row, band]
            if np.isnan(frequency):
                continue
            size = 0.01
            weights = [{band: 1.0 + 0.3j}, {band: -1.0 - 0.3j}, {band: 0j}]
            three = Crystals.concatenate(found.distorted(row, one, largest=size) for one in weights)
            plus, minus, still = potential.evaluate(three).energy
            moved = (three[0].cart - three[2].cart) ** 2
            inertia = (atomic_masses[three[0].numbers][:, None] * moved).sum()
            squared = (plus + minus - 2 * still) / inertia * unit**2  # THz²
            assert np.sign(squared) * np.sqrt(abs(squared)) == pytest.approx(frequency, rel=0.02, abs=0.05)
            seen += 1
    assert seen > 10


def test_soft_modes_are_named_once(ordered) -> None:
    _, found = ordered
    below = float(np.nanmedian(found.judged))
    modes = found.soft(below)
    values = [found.judged[row, bands[0]] for row, bands in modes]
    assert values == sorted(values)
    assert values[-1] < below
    assert values[0] == found.lowest
    assert all(a < b for a, b in pairwise(values))


def test_no_lattice_vector_of_a_supercell_is_short() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([s for s in product(range(-3, 4), repeat=3) if any(s)])
    for _ in range(20):
        cell = primitive(
            Crystals(np.array([1]), np.array([29]), np.zeros((1, 3)), rng.uniform(-6, 6, (1, 3, 3)))
        ).lattice[0]
        times = multiples(cell)
        assert all(n == 1 or n % 2 == 0 for n in times)
        assert np.linalg.norm(steps @ (np.array(times)[:, None] * cell), axis=1).min() >= SHORTEST


@pytest.mark.parametrize(
    ("q", "order"),
    [((0, 0, 0), 1), ((0.5, 0, 0), 2), ((0.5, 0.5, 0.5), 2), ((0.25, 0, 0.5), 4), ((0.25, -0.25, 0.5), 4)],
)
def test_the_smallest_cell_with_whole_waves(q, order) -> None:
    matrix = commensurate_cell(np.array(q), np.diag([3.0, 4.0, 5.0]))
    assert round(np.linalg.det(matrix)) == order
    assert matrix @ np.array(q) == pytest.approx(np.rint(matrix @ np.array(q)))
    assert len(lattice_points(matrix)) == order
