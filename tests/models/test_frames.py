"""One frame per crystal: it stays the crystal, many descriptions give one, structure types come out alike."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Element, Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.models.cells import standard_cells
from anchor.models.data import TrainingSet, reference_split
from anchor.models.frames import best_axes, canonical_frames, electropositivity, ranks, unimodular
from anchor.random import generator


@pytest.fixture(scope="module")
def some_crystals() -> Crystals:
    train = reference_split("train")
    return standard_cells(train[generator(0, "frames test").choice(len(train), 150, replace=False)])


def described_anew(crystals: Crystals, rng: np.random.Generator) -> Crystals:
    """Other axes of the same metric, another origin, atoms in another order."""
    matrices, inverses = unimodular()
    parts = []
    for crystal, choices in zip(crystals, best_axes(crystals.lattice), strict=True):
        chosen = rng.choice(choices)
        order = rng.permutation(len(crystal.numbers))
        frac = (crystal.frac @ inverses[chosen] + rng.random(3))[order]
        lattice = matrices[chosen] @ crystal.lattice[0]
        parts.append(Crystals(crystal.counts, crystal.numbers[order], frac % 1.0, lattice[None]))
    return Crystals.concatenate(parts)


def apart(one: Crystals, two: Crystals) -> float:
    """Largest distance, fractional, from an atom to the nearest one of its element in the other crystal."""
    gap = one.frac[:, None] - two.frac[None]
    gap = np.abs(gap - np.round(gap)).max(axis=-1)
    gap[one.numbers[:, None] != two.numbers[None]] = 1.0
    return float(gap.min(axis=1).max())


def test_frames_keep_the_crystal(some_crystals):
    framed = canonical_frames(some_crystals)
    np.testing.assert_allclose(framed.volume, some_crystals.volume, rtol=1e-9)
    np.testing.assert_array_equal(framed.numbers, some_crystals.numbers)
    assert (np.linalg.det(framed.lattice) > 0).all()
    matcher = StructureMatcher(primitive_cell=False, scale=False)
    for one, two in zip(framed[:40].to_structures(), some_crystals[:40].to_structures(), strict=True):
        displacement = matcher.get_rms_dist(one, two)
        assert displacement is not None
        assert displacement[0] < 1e-4


def test_many_descriptions_have_one_frame(some_crystals):
    one = canonical_frames(some_crystals)
    two = canonical_frames(described_anew(some_crystals, generator(1, "frames test")))
    gaps = np.array([apart(a, b) for a, b in zip(one, two, strict=True)])
    # Where lengths or angles differ by about the tolerance, the set of axes to choose from does too.
    assert (gaps < 1e-6).mean() > 0.95


def test_small_displacements_do_not_change_the_frame(some_crystals):
    """The score is smooth: except near ties, a rattled crystal gets the frame of the unrattled one."""
    rng = generator(2, "frames test")
    rattled = some_crystals.replace(
        frac=some_crystals.frac + 0.001 * rng.normal(size=some_crystals.frac.shape)
    )
    one, two = canonical_frames(some_crystals), canonical_frames(rattled)
    assert np.mean([apart(a, b) < 0.02 for a, b in zip(one, two, strict=True)]) > 0.9


def test_an_atom_of_the_first_element_is_the_origin(some_crystals):
    for crystal in canonical_frames(some_crystals):
        rank, _ = ranks(crystal.numbers[None])
        at_origin = np.abs(crystal.frac - np.round(crystal.frac)).max(axis=1) < 1e-9
        assert (rank[0][at_origin] == 0).any()


def test_crystals_of_one_structure_type_are_framed_alike():
    """Rock salt, zincblende and a layered iodide in other elements, cells and origins come out the same."""
    hexagonal = [[0, 0, 0], [1 / 3, 2 / 3, 0.25], [2 / 3, 1 / 3, 0.75]]
    acute = Lattice.from_parameters(4.1, 4.1, 6.9, 90.001, 89.999, 60)
    pairs = [
        (
            Structure(Lattice.hexagonal(4.0, 7.0), ["Mg", "I", "I"], hexagonal),
            Structure(
                acute, ["Cd", "Br", "Br"], [[0.3, 0.3, 0.1], [0.633, 0.633, 0.35], [0.967, 0.967, 0.85]]
            ),
        ),
        (
            Structure.from_spacegroup("F-43m", Lattice.cubic(5.4), ["Zn", "S"], [[0, 0, 0], [0.25] * 3]),
            Structure.from_spacegroup("F-43m", Lattice.cubic(6.1), ["Te", "Cd"], [[0, 0, 0], [0.25] * 3]),
        ),
    ]
    for one, two in pairs:
        a, b = (
            canonical_frames(standard_cells(Crystals.from_structures([s.get_primitive_structure()])))
            for s in (one, two)
        )
        order_a, order_b = (
            np.lexsort([*np.round(c.frac % 1.0, 2).T, electropositivity()[c.numbers]]) for c in (a, b)
        )
        gap = a.frac[order_a] - b.frac[order_b]
        assert np.abs(gap - np.round(gap)).max() < 0.02
        angles = [np.array(c.to_structures()[0].lattice.angles) for c in (a, b)]
        np.testing.assert_allclose(*angles, atol=0.1)


def test_unimodular_matrices():
    matrices, inverses = unimodular()
    assert len(matrices) == 6960
    np.testing.assert_array_equal(matrices @ inverses, np.broadcast_to(np.eye(3), matrices.shape))


@pytest.mark.parametrize(
    ("lattice", "count"),
    [
        (Lattice.cubic(4), 48),
        (Lattice.tetragonal(4, 6), 16),
        (Lattice.orthorhombic(4, 5, 6), 8),
        (Lattice.hexagonal(4, 6), 24),
        (Lattice([[0, 2, 2], [2, 0, 2], [2, 2, 0]]), 48),
        (Lattice([[-2, 2, 2], [2, -2, 2], [2, 2, -2]]), 48),
        (Lattice.from_parameters(4, 5, 6, 77, 81, 69), 2),
    ],
)
def test_best_axes_are_the_point_group_of_the_lattice(lattice, count):
    crystal = Crystals(np.array([1]), np.array([6]), np.zeros((1, 3)), lattice.matrix[None])
    assert len(best_axes(standard_cells(crystal).lattice)[0]) == count


def test_ranks_go_by_count_then_electronegativity():
    numbers = np.array([[8, 8, 8, 22, 20, 20], [17, 11, 0, 0, 0, 0]])
    rank, count = ranks(numbers)
    np.testing.assert_array_equal(rank, [[2, 2, 2, 0, 1, 1], [1, 0, 2, 2, 2, 2]])
    np.testing.assert_array_equal(count[0], [3, 3, 3, 1, 2, 2])
    order = sorted(("Cs", "Na", "Fe", "C", "O", "F"), key=lambda e: electropositivity()[Element(e).Z])
    assert order == ["Cs", "Na", "Fe", "C", "O", "F"]


def test_a_canonical_training_set_is_framed(some_crystals):
    framed = TrainingSet(some_crystals, frame="canonical")
    np.testing.assert_array_equal(framed.crystals.frac, canonical_frames(standard_cells(some_crystals)).frac)
    assert framed.hash == TrainingSet(some_crystals).hash
