"""CAN: the formula, the five-step rule, and what a repeat can earn."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial import KDTree

from anchor.reward.novelty import History, adaptive_novelty, knn_novelty, median_bandwidth

EMBEDDINGS = arrays(np.float64, st.tuples(st.integers(1, 25), st.just(6)), elements=st.floats(0, 1))
POINT = arrays(np.float64, 6, elements=st.floats(0, 1))


@dataclass
class SmallIndex:
    """A reference index held in a dictionary."""

    known: dict[str, np.ndarray] = field(default_factory=dict)
    sigma_floor: float = 0.05

    def embeddings(self, formula: str) -> np.ndarray:
        return self.known.get(formula, np.zeros((0, 6)))

    def bandwidth(self, formula: str) -> float:
        return median_bandwidth(self.embeddings(formula), 0.0)


@given(POINT, EMBEDDINGS, st.floats(0.01, 2), st.integers(1, 12))
def test_knn_novelty_equals_a_kd_tree(z: np.ndarray, known: np.ndarray, sigma: float, k: int) -> None:
    distance, _ = KDTree(known).query(z, k=[*range(1, min(k, len(known)) + 1)])
    expected = 1 - np.mean(np.exp(-(distance**2) / (2 * sigma**2)))
    assert knn_novelty(z, known, sigma, k) == pytest.approx(np.clip(expected, 0, 1), abs=1e-12)


@given(POINT, EMBEDDINGS, st.integers(1, 25))
def test_copies_bound_the_score(z: np.ndarray, known: np.ndarray, copies: int) -> None:
    """With m copies in Z a repeat earns at most 1 − m / min(k_nn, |Z|), and 0 after k_nn copies."""
    k_nn, everything = 10, np.concatenate([known, np.repeat(z[None], copies, axis=0)])
    bound = 1 - min(copies, k_nn) / min(k_nn, len(everything))
    score = knn_novelty(z, everything, median_bandwidth(everything, 0.05), k_nn)
    assert 0 <= score <= bound + 1e-12


def test_median_bandwidth_by_hand() -> None:
    points = np.array([[0.0], [1.0], [4.0]])  # distances 1, 3, 4
    assert median_bandwidth(points, 0.5) == 3.0
    assert median_bandwidth(points, 3.5) == 3.5
    assert median_bandwidth(points[:1], 0.5) == 0.5


def test_the_five_step_rule() -> None:
    known = np.array([[1.0, 0, 0, 0, 0, 0]])
    index, history = SmallIndex({"NaCl": known}), History()
    z = np.array([0, 1.0, 0, 0, 0, 0])

    first = adaptive_novelty("NaCl", z, index, history)
    assert (first.branch, first.value) == ("reference", pytest.approx(1.0))
    assert np.isnan(first.against_history)
    history.append("NaCl", z)
    again = adaptive_novelty("NaCl", z, index, history)
    assert (again.branch, again.value) == ("both", 0.0)
    assert again.against_reference == pytest.approx(1.0)

    unknown = adaptive_novelty("KF", z, index, history, bootstrap=0.75)
    assert (unknown.branch, unknown.value) == ("bootstrap", 0.75)
    history.append("KF", z)
    repeat = adaptive_novelty("KF", z, index, history)
    assert (repeat.branch, repeat.value) == ("history", 0.0)
    other = adaptive_novelty("KF", known[0], index, history)
    assert other.value > 0.75  # a distinct structure may score above the bootstrap
    assert adaptive_novelty("KF", z, index, None).branch == "bootstrap"  # evaluation: history off


def test_the_floor_tames_a_family_of_near_identical_references() -> None:
    pair = np.array([[1.0, 0, 0, 0, 0, 0], [1.0, 1e-9, 0, 0, 0, 0]])
    index, near = SmallIndex({"A": pair}), np.array([0.99, 0.01, 0, 0, 0, 0])
    assert adaptive_novelty("A", near, index, None).value < 0.1
    assert adaptive_novelty("A", near, index, None, sigma_floor=1e-6).value == pytest.approx(1.0)


@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), POINT), max_size=60), st.integers(1, 8))
def test_history_is_first_in_first_out(items: list[tuple[str, np.ndarray]], cap: int) -> None:
    history = History(cap=cap)
    for formula, z in items:
        history.append(formula, z)
    for name in ("A", "B"):
        expected = [z for formula, z in items if formula == name][-cap:]
        assert len(history.embeddings(name)) == len(expected)
        assert all((a == b).all() for a, b in zip(history.embeddings(name), expected, strict=True))
    forgetful, stored = History(cap=cap, in_mind=1), list[tuple[str, np.ndarray]]()
    forgetful.recall = lambda name: [z for formula, z in stored if formula == name]
    for formula, z in items:
        forgetful.append(formula, z)
        stored.append((formula, z))
    for name in ("A", "B"):
        np.testing.assert_array_equal(forgetful.embeddings(name), history.embeddings(name))
    rebuilt = History(cap=cap)
    for formula, z in history:
        rebuilt.append(formula, z)
    assert all((rebuilt.embeddings(f) == history.embeddings(f)).all() for f in ("A", "B"))
