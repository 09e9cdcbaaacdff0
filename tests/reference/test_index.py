"""Bandwidths of the novelty index against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from anchor.reference.index import (
    RdfIndex,
    leave_one_out_distances,
    median_distance,
    nearest_other_distances,
)


@pytest.fixture(scope="module")
def embeddings() -> np.ndarray:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, (40, 12)).astype(float)
    return counts / counts.sum(axis=1, keepdims=True)


def test_leave_one_out_distances(embeddings: np.ndarray) -> None:
    for m, k in ((2, 10), (5, 2), (14, 10)):
        z = embeddings[:m]
        expected = []
        for i in range(m):
            others = sorted(np.linalg.norm(z[i] - z[j]) for j in range(m) if j != i)
            expected.append(np.mean(others[:k]))
        np.testing.assert_allclose(leave_one_out_distances(z, k), expected)
    assert len(leave_one_out_distances(embeddings[:1])) == 0


def test_nearest_other_distances(embeddings: np.ndarray) -> None:
    groups = np.arange(40) % 7
    expected = [
        min(np.linalg.norm(embeddings[i] - embeddings[j]) for j in range(40) if groups[i] != groups[j])
        for i in range(40)
    ]
    np.testing.assert_allclose(nearest_other_distances(embeddings, groups), expected, atol=1e-8)
    assert np.isinf(nearest_other_distances(embeddings, np.zeros(40, dtype=int))).all()


def test_index_by_formula(embeddings: np.ndarray) -> None:
    formulas = ["B", "A", "A", "C", "A", "B"]
    z = embeddings[:6].copy()
    z[5] = 0  # one atom in the cell: no pair, says nothing about polymorphs
    index = RdfIndex(z, formulas)
    np.testing.assert_array_equal(index.embeddings("A"), z[[1, 2, 4]])
    assert index.embeddings("X").shape == (0, 12)
    assert index.formulas == ("A", "B", "C")
    assert "A" in index
    assert "X" not in index
    distances = [np.linalg.norm(z[i] - z[j]) for i, j in ((1, 2), (1, 4), (2, 4))]
    assert index.bandwidth("A") == pytest.approx(np.median(distances))
    assert index.bandwidth("C") == index.bandwidth("X") == 0.0
    assert index.sigma_floor == pytest.approx(np.percentile(leave_one_out_distances(z[[1, 2, 4]]), 10))
    filled = nearest_other_distances(z[:5], np.array([1, 0, 0, 2, 0]))
    assert index.struct_bandwidth == pytest.approx(np.median(filled))


def test_stored_calibration_is_used_as_it_is(embeddings: np.ndarray) -> None:
    index = RdfIndex(
        embeddings[:2], ["A", "A"], bandwidths=np.array([0.5]), sigma_floor=0.25, struct_bandwidth=2.0
    )
    assert (index.bandwidth("A"), index.sigma_floor, index.struct_bandwidth) == (0.5, 0.25, 2.0)
    assert median_distance(embeddings[:1]) == 0.0


def test_index_without_polymorphs_has_no_floor(embeddings: np.ndarray) -> None:
    index = RdfIndex(embeddings[:2], ["A", "B"])
    assert index.sigma_floor == 0.0
    assert index.struct_bandwidth == pytest.approx(np.linalg.norm(embeddings[0] - embeddings[1]))
