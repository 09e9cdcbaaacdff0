"""Crystals: nothing is lost on the way to pymatgen, ASE, padded arrays and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ase import Atoms
from hypothesis import given, settings
from hypothesis import strategies as st
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError

batches = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([0, 1, 20])),
    min_size=1,
    max_size=5,
)


def make(random_crystal: Callable[..., Crystals], parts: list[tuple[int, int, int]]) -> Crystals:
    return Crystals.concatenate(random_crystal(seed, atoms=atoms, skew=skew) for seed, atoms, skew in parts)


def assert_equal(a: Crystals, b: Crystals, *, frac_tolerance: float = 0.0) -> None:
    np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_array_equal(a.numbers, b.numbers)
    np.testing.assert_array_equal(a.lattice, b.lattice)
    np.testing.assert_allclose(a.frac, b.frac, rtol=0, atol=frac_tolerance)


@settings(max_examples=40, deadline=None)
@given(batches)
def test_pymatgen_round_trip_is_exact(
    random_crystal: Callable[..., Crystals], parts: list[tuple[int, int, int]]
) -> None:
    crystals = make(random_crystal, parts)
    assert_equal(Crystals.from_structures(crystals.to_structures()), crystals)


@settings(max_examples=40, deadline=None)
@given(batches)
def test_ase_round_trip_keeps_positions(
    random_crystal: Callable[..., Crystals], parts: list[tuple[int, int, int]]
) -> None:
    """ASE keeps Cartesian coordinates, so fractional ones come back to rounding; positions agree."""
    crystals = make(random_crystal, parts)
    back = Crystals.from_atoms(crystals.to_atoms())
    condition = np.linalg.cond(crystals.lattice).max()
    assert_equal(back, crystals, frac_tolerance=1e-13 * condition)
    np.testing.assert_allclose(back.cart, crystals.cart, atol=1e-10 * condition)


@settings(max_examples=40, deadline=None)
@given(batches, st.integers(0, 3))
def test_padding_round_trip_is_exact(
    random_crystal: Callable[..., Crystals], parts: list[tuple[int, int, int]], more: int
) -> None:
    crystals = make(random_crystal, parts)
    numbers, frac = crystals.padded(int(crystals.counts.max()) + more)
    assert numbers.shape == frac.shape[:2]
    assert_equal(Crystals.from_padded(numbers, frac, crystals.lattice), crystals)


@settings(max_examples=40, deadline=None)
@given(batches)
def test_pieces(random_crystal: Callable[..., Crystals], parts: list[tuple[int, int, int]]) -> None:
    crystals = make(random_crystal, parts)
    assert_equal(Crystals.concatenate(crystals), crystals)
    order = np.arange(len(crystals))[::-1]
    assert_equal(crystals[order][order], crystals)
    assert len(crystals[np.zeros(len(crystals), dtype=bool)]) == 0
    assert_equal(crystals[-1], random_crystal(parts[-1][0], atoms=parts[-1][1], skew=parts[-1][2]))
    structures = crystals.to_structures()
    assert crystals.formulas == [s.composition.reduced_formula for s in structures]
    for cell, structure in zip(crystals.compositions, structures, strict=True):
        amounts = dict(zip(cell.elements, cell.counts, strict=True))
        assert amounts == structure.composition.get_el_amt_dict()
    np.testing.assert_allclose(crystals.volume, [s.volume for s in structures])
    np.testing.assert_allclose(crystals.cart, np.concatenate([s.cart_coords for s in structures]), atol=1e-8)
    assert crystals.offsets[-1] == crystals.n_atoms == len(crystals.owner)


def test_replace_moves_atoms_only(random_crystal: Callable[..., Crystals]) -> None:
    crystals = make(random_crystal, [(1, 3, 0), (2, 2, 0)])
    moved = crystals.replace(frac=crystals.frac + 1)
    np.testing.assert_array_equal(moved.lattice, crystals.lattice)
    np.testing.assert_array_equal(moved.frac, crystals.frac + 1)


def test_empty_batches() -> None:
    empty = Crystals.empty()
    assert len(empty) == len(Crystals.concatenate([])) == len(Crystals.from_structures([])) == 0
    assert empty.to_structures() == empty.to_atoms() == empty.formulas == []
    assert empty.padded()[0].shape == (0, 0)


def test_bad_input_is_refused_with_its_cause(random_crystal: Callable[..., Crystals]) -> None:
    crystals = make(random_crystal, [(1, 3, 0)])
    with pytest.raises(InputError, match="crystal 1 has no atoms"):
        Crystals(np.array([3, 0]), crystals.numbers, crystals.frac, np.tile(crystals.lattice, (2, 1, 1)))
    with pytest.raises(InputError, match="one cell per crystal"):
        Crystals(crystals.counts, crystals.numbers, crystals.frac, np.tile(crystals.lattice, (2, 1, 1)))
    with pytest.raises(InputError, match="must be equal"):
        Crystals(np.array([2]), crystals.numbers, crystals.frac, crystals.lattice)
    with pytest.raises(InputError, match="3 atoms, more than the padded size 2"):
        crystals.padded(2)
    with pytest.raises(InputError, match="not periodic"):
        Crystals.from_atoms(
            Atoms("H2", positions=[[0, 0, 0], [0, 0, 1]], cell=[5, 5, 5], pbc=[True, True, False])
        )
    disordered = Structure(Lattice.cubic(4), [{"Na": 0.5, "K": 0.5}], [[0, 0, 0]])
    with pytest.raises(InputError, match="partially occupied"):
        Crystals.from_structures([disordered])
