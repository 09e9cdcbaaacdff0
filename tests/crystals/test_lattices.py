"""Minkowski reduction against ASE, and its defining inequalities."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ase.geometry import minkowski_reduce as ase_minkowski_reduce
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.crystals.lattices import minkowski_reduce, spans_a_cell


def skewed_cells(seed: int, n: int, skew: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, 3, 3)) * 5
    for i, j in ((0, 1), (1, 2), (2, 0), (0, 2)):
        step = np.broadcast_to(np.eye(3), (n, 3, 3)).copy()
        step[:, i, j] = rng.integers(-skew, skew + 1, n)
        cells = step @ cells
    return cells


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 30]))
def test_agrees_with_ase_and_is_unimodular(seed: int, skew: int) -> None:
    cells = skewed_cells(seed, 10, skew)
    reduced, transform = minkowski_reduce(cells)
    np.testing.assert_allclose(np.abs(np.linalg.det(transform)), 1.0, atol=1e-3)
    np.testing.assert_array_equal(transform @ cells, reduced)
    for cell, own in zip(cells, reduced, strict=True):
        theirs = np.sort(np.linalg.norm(ase_minkowski_reduce(cell)[0], axis=1))
        np.testing.assert_allclose(np.sort(np.linalg.norm(own, axis=1)), theirs, rtol=1e-6)


def test_reduced_vectors_are_the_successive_minima() -> None:
    cells = skewed_cells(3, 200, 20)
    reduced, _ = minkowski_reduce(cells)
    lengths = np.sort(np.linalg.norm(reduced, axis=2), axis=1)
    coefficients = np.array([c for c in product(range(-4, 5), repeat=3) if any(c)])
    for basis, length in zip(reduced, lengths, strict=True):
        vectors = coefficients @ basis
        vectors = vectors[np.argsort(np.linalg.norm(vectors, axis=1), kind="stable")]
        minima: list[np.ndarray] = []
        for vector in vectors:
            if np.linalg.matrix_rank(np.array([*minima, vector]), tol=1e-6) > len(minima):
                minima.append(vector)
            if len(minima) == 3:
                break
        np.testing.assert_allclose(length, np.linalg.norm(minima, axis=1), rtol=1e-9)


@pytest.mark.parametrize(
    "cell",
    [
        np.zeros((3, 3)),
        np.ones((3, 3)),
        np.full((3, 3), np.nan),
        np.diag([1.0, 1.0, 0.0]),
        np.diag([1, np.inf, 1]),
    ],
)
def test_cells_without_volume_are_named_and_left_alone(cell: np.ndarray) -> None:
    batch = np.stack([cell, np.eye(3)])
    np.testing.assert_array_equal(spans_a_cell(batch), [False, True])
    reduced, transform = minkowski_reduce(batch)
    np.testing.assert_array_equal(transform, [np.eye(3), np.eye(3)])
    np.testing.assert_array_equal(reduced, batch)
