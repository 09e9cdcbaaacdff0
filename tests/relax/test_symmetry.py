"""Symmetry that a relaxation keeps, against ASE's symmetrisation, spglib and relaxations without it."""

from __future__ import annotations

import numpy as np
import pytest
import spglib
import torch
from ase import Atoms
from ase.build import bulk
from ase.spacegroup import crystal as ase_crystal
from ase.spacegroup.symmetrize import prep_symmetry, symmetrize_rank1, symmetrize_rank2
from relax_surfaces import Morse, rattled

from anchor.crystals.crystals import Crystals
from anchor.potentials.registry import load_potential
from anchor.potentials.state import SymmetricState, to_state
from anchor.relax.coordinates import gradient, start
from anchor.relax.engine import relax
from anchor.relax.symmetry import find_symmetry

CPU = torch.device("cpu")


def rutile(x: float = 0.305) -> Atoms:
    cell = [4.6, 4.6, 2.95, 90, 90, 90]
    return ase_crystal(["Cu", "Ag"], [(0, 0, 0), (x, x, 0)], spacegroup=136, cellpar=cell)


def corundum() -> Atoms:
    cell = [5.1, 5.1, 13.6, 90, 90, 120]
    basis = [(0, 0, 0.355), (0.31, 0, 0.25)]
    return ase_crystal(["Cu", "Ag"], basis, spacegroup=167, cellpar=cell, primitive_cell=True)


EXAMPLES = {
    "rutile": rutile(),
    "corundum": corundum(),
    "wurtzite": bulk("CuAg", "wurtzite", a=3.9, c=6.5),
    "supercell": bulk("CuAg", "rocksalt", a=5.2) * (2, 2, 2),
}


def one(atoms: Atoms) -> Crystals:
    return Crystals.from_atoms([atoms])


def operations(crystal: Crystals, symprec: float) -> int:
    found = spglib.get_symmetry((crystal.lattice[0], crystal.frac, crystal.numbers), symprec=symprec)
    return len(found["rotations"])


@pytest.mark.parametrize(
    ("name", "orbits", "cell_freedom", "atom_freedom"),
    # Atoms: one oxygen coordinate; one of the metal and one of oxygen; u and the polar axis; none.
    [("rutile", 2, 2, 1), ("corundum", 2, 2, 2), ("wurtzite", 2, 2, 2), ("supercell", 2, 1, 0)],
)
def test_projector_has_the_rank_of_the_free_parameters(
    name: str, orbits: int, cell_freedom: int, atom_freedom: int
) -> None:
    symmetry = find_symmetry(one(EXAMPLES[name]))
    assert symmetry is not None
    projector = symmetry.projector()
    assert len(np.unique(symmetry.orbit)) == orbits
    np.testing.assert_allclose(projector, projector.T, atol=1e-12)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    # Of deformations the six symmetric ones count: the others are rotations, which may keep a symmetry, too.
    strain = np.eye(9)[[0, 4, 8]].tolist() + [
        (np.eye(9)[a] + np.eye(9)[b]) / 2**0.5 for a, b in [(1, 3), (2, 6), (5, 7)]
    ]
    assert np.trace(np.array(strain) @ projector[:9, :9] @ np.array(strain).T) == pytest.approx(cell_freedom)
    assert np.trace(projector[9:, 9:]) == pytest.approx(atom_freedom)


@pytest.mark.parametrize("name", EXAMPLES)
def test_projector_symmetrises_as_ase_does(name: str) -> None:
    atoms = EXAMPLES[name]
    rng = np.random.default_rng(0)
    forces, stress = rng.normal(size=(len(atoms), 3)), rng.normal(size=(3, 3))
    stress += stress.T
    rotations, translations, maps = prep_symmetry(atoms, symprec=1e-4)
    inverse = np.linalg.inv(atoms.cell.array)
    expected = symmetrize_rank1(atoms.cell, inverse, forces, rotations, translations, maps)
    symmetry = find_symmetry(one(atoms))
    assert symmetry is not None
    projector = symmetry.projector()
    np.testing.assert_allclose((projector[9:, 9:] @ forces.ravel()).reshape(-1, 3), expected, atol=1e-6)
    expected = symmetrize_rank2(atoms.cell, inverse, stress, rotations)
    np.testing.assert_allclose((projector[:9, :9] @ stress.ravel()).reshape(3, 3), expected, atol=1e-6)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_crystal_near_its_symmetry_is_put_onto_it(name: str) -> None:
    atoms = EXAMPLES[name].copy()
    exact = operations(one(atoms), 1e-4)
    rng = np.random.default_rng(1)
    atoms.positions += np.array([0.3, 0.2, 0.1]) + rng.uniform(-2e-4, 2e-4, atoms.positions.shape)
    atoms.set_cell(atoms.cell.array + rng.uniform(-1e-4, 1e-4, (3, 3)), scale_atoms=True)
    near = one(atoms)
    assert operations(near, 1e-6) < exact
    symmetry = find_symmetry(near)
    assert symmetry is not None
    assert operations(symmetry.crystal, 1e-8) == exact == len(symmetry.rotations)
    assert np.abs(symmetry.crystal.cart - near.cart).max() < 1e-3


def test_what_has_no_symmetry_or_not_nearly_enough_is_left_alone() -> None:
    crystals = rattled(3, n=3)
    assert [find_symmetry(crystal) for crystal in crystals] == [None] * 3
    plain = relax(crystals, Morse(), cell=True, max_steps=30, fmax=0.01)
    kept = relax(crystals, Morse(), cell=True, max_steps=30, fmax=0.01, symmetry=True)
    np.testing.assert_allclose(kept.energy, plain.energy, atol=1e-10)
    np.testing.assert_array_equal(kept.steps, plain.steps)


@pytest.mark.parametrize("old", ["1", "0"])
def test_what_spglib_cannot_judge_has_no_symmetry(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGLIB_OLD_ERROR_HANDLING", old)
    twice = one(Atoms("Cu2", scaled_positions=[(0, 0, 0), (0, 0, 1e-6)], cell=[3, 3, 3], pbc=True))
    assert find_symmetry(twice) is None


class Orbits(Morse):
    takes_orbits = True


@pytest.fixture(scope="module")
def double():
    return load_potential("mattersim-1m", dtype=torch.float64)


def gradients(crystals: Crystals, potential, *, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Energies, and gradients along symmetric changes."""
    frame, at = start(crystals, range(len(crystals)), cell=True, size=16, device=CPU, symmetry=True)
    state = to_state(crystals)
    if symmetric:
        state = SymmetricState(**vars(state), orbit=frame.orbit[frame.atoms], groups=frame.neighbours.items)
    found = potential(state)
    return found["energy"], gradient(frame, at, found["forces"], found["stress"])


def test_one_atom_of_each_orbit_gives_energy_forces_and_stress_of_all(double) -> None:
    # Two chunks of the potential, and a crystal without symmetry among the others.
    crystals = Crystals.concatenate([*(one(atoms) for atoms in EXAMPLES.values()), rattled(4, n=1)])
    exact = [find_symmetry(crystal) for crystal in crystals]
    crystals = Crystals.concatenate(
        [c if s is None else s.crystal for c, s in zip(crystals, exact, strict=True)]
    )
    for potential in (Orbits(), double):
        potential.cpu_chunk_atoms = 5
        whole_energy, whole = gradients(crystals, potential, symmetric=False)
        energy, part = gradients(crystals, potential, symmetric=True)
        torch.testing.assert_close(energy, whole_energy, rtol=0, atol=1e-9)
        torch.testing.assert_close(part, whole, rtol=0, atol=1e-9)
        assert float(whole.abs().max()) > 0.1


@pytest.mark.parametrize("cell", [False, True])
@pytest.mark.parametrize("optimizer", ["quasi-newton", "fire"])
@pytest.mark.parametrize("kind", [Morse, Orbits])
def test_relaxation_ends_where_it_ends_without(kind: type[Morse], optimizer: str, cell: bool) -> None:
    crystals = Crystals.concatenate(one(atoms) for atoms in EXAMPLES.values())
    settings = {"cell": cell, "max_steps": 300, "fmax": 1e-3, "optimizer": optimizer}
    plain = relax(crystals, Morse(), **settings)
    kept = relax(crystals, kind(), symmetry=True, **settings)
    done = (plain.status == "converged") & (kept.status == "converged")
    assert done.sum() >= 3
    # A symmetric saddle is left by rounding without symmetry, and never with it.
    higher = kept.energy - plain.energy
    assert higher.min() > -1e-5
    assert (np.abs(higher) < 1e-5).sum() >= 3
    for before, after in zip(crystals, kept.crystals, strict=True):
        assert operations(after, 1e-6) >= operations(before, 1e-4)


def test_mattersim_relaxes_the_same_with_symmetry() -> None:
    potential = load_potential("mattersim-1m")
    rock = [bulk("MgO", "rocksalt", a=4.3) * (2, 2, 1), bulk("ZnO", "wurtzite", a=3.3, c=5.2)]
    crystals = Crystals.from_atoms(rock)
    plain = relax(crystals, potential, cell=True, max_steps=50, fmax=0.01)
    kept = relax(crystals, potential, cell=True, max_steps=50, fmax=0.01, symmetry=True)
    assert (kept.status == "converged").all()
    np.testing.assert_allclose(kept.energy_per_atom, plain.energy_per_atom, atol=1e-4)
    np.testing.assert_allclose(kept.crystals.volume, plain.crystals.volume, rtol=2e-3)
