"""Standard cells and the stream of training batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.errors import InputError
from anchor.models.cells import (
    from_lengths_and_angles,
    lengths_and_angles,
    standard_cells,
)
from anchor.models.data import (
    TrainingSet,
    held_out_formulas,
    reference_split,
    to_batches,
    training_crystals,
)
from anchor.random import generator
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def some_crystals() -> Crystals:
    train = reference_split("train")
    return train[generator(0, "learned test").choice(len(train), 60, replace=False)]


def other_description(crystals: Crystals, rng: np.random.Generator) -> Crystals:
    """The same crystals with other axes (unimodular), another orientation and another origin."""
    steps = [
        np.eye(3),
        np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]]),
        np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]),
    ]
    lattice, frac = crystals.lattice.copy(), crystals.frac.copy()
    for i in range(len(crystals)):
        transform = steps[rng.integers(3)] @ steps[rng.integers(3)].T @ steps[rng.integers(3)]
        rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        rotation *= np.sign(np.linalg.det(rotation))
        lattice[i] = transform @ lattice[i] @ rotation
        atoms = crystals.owner == i
        frac[atoms] = frac[atoms] @ np.linalg.inv(transform)
    return crystals.replace(frac=frac, lattice=lattice)


def sorted_distances(crystals: Crystals) -> np.ndarray:
    contacts = minimum_image_distances(crystals, self_images=True)
    order = np.lexsort([contacts.distance, contacts.crystal])
    return contacts.distance[order]


def test_standard_cells_are_niggli_cells_of_the_same_crystal(some_crystals):
    standard = standard_cells(some_crystals)
    np.testing.assert_allclose(sorted_distances(standard), sorted_distances(some_crystals), atol=1e-6)
    assert (np.linalg.det(standard.lattice) > 0).all()
    assert np.abs(np.triu(standard.lattice, 1)).max() < 1e-12
    for got, given in zip(standard.lattice[:20], some_crystals.lattice[:20], strict=True):
        niggli = Lattice(given).get_niggli_reduced_lattice(tol=1e-5)
        np.testing.assert_allclose(sorted(np.linalg.norm(got, axis=1)), sorted(niggli.lengths), rtol=2e-4)


def test_two_descriptions_of_a_crystal_give_one_cell(some_crystals):
    rng = generator(1, "descriptions")
    one = standard_cells(some_crystals)
    two = standard_cells(other_description(some_crystals, rng))
    # Where two lengths or two angles are equal within the tolerance, Niggli's rules leave a choice.
    metric_one, metric_two = (c.lattice @ c.lattice.swapaxes(1, 2) for c in (one, two))
    same = np.abs(metric_one - metric_two).max(axis=(1, 2)) < 1e-2
    assert same.mean() > 0.9
    np.testing.assert_allclose(one.volume, two.volume, rtol=1e-9)


def test_a_left_handed_cell_is_turned_without_moving_atoms(some_crystals):
    crystal = some_crystals[0]
    flipped = crystal.replace(
        lattice=crystal.lattice * np.array([[-1], [1], [1]]), frac=crystal.frac * np.array([-1, 1, 1])
    )
    assert np.linalg.det(flipped.lattice[0]) < 0
    standard = standard_cells(flipped)
    assert np.linalg.det(standard.lattice[0]) > 0
    np.testing.assert_allclose(sorted_distances(standard), sorted_distances(crystal), atol=1e-6)


def test_lengths_and_angles_agree_with_pymatgen(some_crystals):
    lattice = torch.from_numpy(some_crystals.lattice)
    lengths, angles = lengths_and_angles(lattice)
    truth = [Lattice(cell) for cell in some_crystals.lattice]
    np.testing.assert_allclose(lengths, [t.lengths for t in truth], rtol=1e-9)
    np.testing.assert_allclose(np.degrees(angles), [t.angles for t in truth], rtol=1e-6)
    back = from_lengths_and_angles(lengths, angles)
    np.testing.assert_allclose(back @ back.mT, lattice @ lattice.mT, atol=1e-8)
    assert torch.isnan(
        from_lengths_and_angles(torch.ones(3), torch.deg2rad(torch.tensor([60.0, 60, 170])))
    ).any()


def test_every_epoch_shows_every_crystal_once_and_steps_do_not_depend_on_history(some_crystals):
    data = TrainingSet(some_crystals)
    seen = np.concatenate([data.members(step, 25, seed=3) for step in range(12)])  # five epochs of 60
    for epoch in range(5):
        assert set(seen[60 * epoch : 60 * (epoch + 1)]) == set(range(60))
    np.testing.assert_array_equal(data.members(7, 25, seed=3), seen[175:200])
    first, again = list(data.batches(4, 25, seed=3)), list(data.batches(4, 25, seed=3))
    for (_, a), (_, b) in zip(first, again, strict=True):
        assert torch.equal(a.frac, b.frac)
        assert torch.equal(a.numbers, b.numbers)
    assert sum(len(batch) for _, batch in first) == 25
    assert sorted(np.concatenate([places for places, _ in first])) == list(range(25))


def test_steps_of_alike_crystals_show_the_same_crystals_with_fewer_sizes(some_crystals):
    data = TrainingSet(some_crystals)
    alike = [data.members(step, 10, seed=3, alike=6) for step in range(12)]  # two epochs of 60
    for epoch in range(2):
        assert set(np.concatenate(alike[6 * epoch : 6 * epoch + 6])) == set(range(60))
    counts = data.crystals.counts
    sizes = [len(np.unique(counts[chosen])) for chosen in alike]
    mixed = [len(np.unique(counts[data.members(step, 10, seed=3)])) for step in range(12)]
    assert sum(sizes) < 0.6 * sum(mixed)
    np.testing.assert_array_equal(data.members(7, 10, seed=3, alike=6), alike[7])
    first = [counts[chosen].mean() for chosen in alike[:6]]
    assert first != sorted(first), "sizes come in random order"


def test_augmentation_permutes_and_shifts_but_keeps_the_crystal(some_crystals):
    data = TrainingSet(some_crystals)
    chosen = data.crystals[data.members(0, 20, seed=0)]
    for places, batch in data.batches(0, 20, seed=0, translate=True):
        made = Crystals.from_padded(batch.numbers.numpy(), batch.frac.numpy(), batch.lattice.numpy())
        np.testing.assert_allclose(sorted_distances(made), sorted_distances(chosen[places]), atol=1e-4)


def test_batches_hold_all_crystals_of_a_size(some_crystals):
    groups = to_batches(some_crystals)
    assert sorted(np.concatenate([members for members, _ in groups])) == list(range(60))
    for members, batch in groups:
        assert (some_crystals.counts[members] == batch.n_atoms).all()


def test_held_out_formulas_never_reach_training(tmp_path: Path):
    reference = load_reference()
    val = int(np.flatnonzero(reference.split == "val")[0])
    train = int(np.flatnonzero(reference.split == "train")[0])
    crystals = reference.crystals[[val, train]]
    numbers, frac = crystals.padded(20)
    lengths, angles = lengths_and_angles(torch.from_numpy(crystals.lattice))
    path = tmp_path / "own.npz"
    np.savez(
        path,
        n_atoms=crystals.counts,
        numbers=numbers,
        frac_coords=frac,
        cell_parameters=np.concatenate([lengths, np.degrees(angles)], axis=1),
    )
    kept = training_crystals([str(path)])
    assert kept.formulas == [str(reference.formulas[train])]
    assert not held_out_formulas() & set(reference.formulas[reference.split == "train"].tolist())
    np.testing.assert_allclose(sorted_distances(kept), sorted_distances(crystals[1]), atol=1e-6)
    for structure, name in zip(crystals.to_structures(), ("held-out", "kept"), strict=True):
        structure.to(filename=str(tmp_path / f"{name}.cif"))
    from_cif = training_crystals([str(tmp_path / "held-out.cif"), str(tmp_path / "kept.cif")])
    assert from_cif.formulas == kept.formulas


def test_bad_sources_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="there is no file"):
        training_crystals([str(tmp_path / "no.npz")])
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="has no array"):
        training_crystals([str(tmp_path / "other.npz")])
    with pytest.raises(InputError, match="no crystals"):
        TrainingSet(Crystals.empty())


def test_large_crystals_are_left_out(tmp_path: Path):
    big = Structure(Lattice.cubic(20), ["Na"] * 21, generator(0, "big").random((21, 3)))
    big.to(filename=str(tmp_path / "big.cif"))
    assert len(training_crystals([str(tmp_path / "big.cif")])) == 0
