"""Generalised coordinates against ASE's FrechetCellFilter and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase.filters import FrechetCellFilter
from relax_surfaces import Morse, rattled

from anchor.relax.coordinates import geometry, largest_row, start, to_crystals
from anchor.relax.evaluator import Evaluator
from anchor.relax.one_by_one import AseCalculator

CPU = torch.device("cpu")


def deformed(seed: int, *, cell: bool = True):
    """Three crystals of different sizes, away from their reference cells by a few percent."""
    crystals = rattled(seed, n=3)
    frame, at = start(crystals, [0, 1, 2], cell=cell, size=10, device=CPU)
    generator = torch.Generator().manual_seed(seed)
    moved = at + 0.3 * torch.randn(at.shape, generator=generator, dtype=at.dtype) * frame.moves[..., None]
    return crystals, frame, moved


def test_start_is_the_given_geometry() -> None:
    crystals = rattled(0, n=3)
    frame, at = start(crystals, [5, 1, 7], cell=True, size=9, device=CPU)
    positions, cells = geometry(frame, at)
    assert frame.index.tolist() == [5, 1, 7]
    np.testing.assert_allclose(positions, crystals.cart, atol=1e-13)
    np.testing.assert_array_equal(cells, crystals.lattice)


def test_crystals_are_where_the_coordinates_say() -> None:
    _, frame, moved = deformed(1)
    positions, cells = geometry(frame, moved)
    found = to_crystals(frame, moved)
    np.testing.assert_allclose(found.cart, positions, atol=1e-12)
    np.testing.assert_allclose(found.lattice, cells, atol=1e-13)


@pytest.mark.parametrize("cell", [True, False])
def test_gradient_is_the_derivative_of_the_energy(morse: Morse, cell: bool) -> None:
    _, frame, moved = deformed(2, cell=cell)
    evaluate = Evaluator(morse, 1000)
    _, found, errors = evaluate(frame, moved)
    assert not errors
    step = 1e-5
    for row in range(moved.shape[1]):
        for axis in range(3):
            shift = torch.zeros_like(moved)
            shift[:, row, axis] = step * frame.moves[:, row]
            up, down = evaluate(frame, moved + shift)[0], evaluate(frame, moved - shift)[0]
            np.testing.assert_allclose(found[:, row, axis], (up - down) / (2 * step), atol=2e-6)


def test_gradient_and_criterion_are_those_of_ase(morse: Morse) -> None:
    crystals, frame, moved = deformed(3)
    found = Evaluator(morse, 1000)(frame, moved)[1]
    ended = to_crystals(frame, moved)
    for i, (first, last) in enumerate(zip(crystals.to_atoms(), ended.to_atoms(), strict=True)):
        target = FrechetCellFilter(first)  # its reference is the cell it was made with
        first.set_cell(last.cell)
        first.positions = last.positions
        first.calc = AseCalculator(morse)
        forces = target.get_forces()
        n = len(first)
        np.testing.assert_allclose(-found[i, 3 : 3 + n], forces[:n], atol=1e-9)
        np.testing.assert_allclose(-found[i, :3], forces[n:], atol=1e-9)
        assert float(largest_row(found)[i]) == pytest.approx(np.linalg.norm(forces, axis=1).max(), abs=1e-9)


def test_fixed_cells_and_padding_feel_nothing(morse: Morse) -> None:
    _, frame, moved = deformed(4, cell=False)
    found = Evaluator(morse, 1000)(frame, moved)[1]
    assert (found[:, :3] == 0).all()
    assert (found[0, 3 + int(frame.counts[0]) :] == 0).all()
    assert (found[0, 3 : 3 + int(frame.counts[0])] != 0).any()
