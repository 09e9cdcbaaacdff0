"""What outcomes teach: against a Gaussian process written down plainly, and what it must never do."""

import numpy as np
import pytest
from scipy.stats import norm

from anchor.chemistry.composition import Compositions
from anchor.screening import learning
from anchor.screening.learning import Belief, covariance, descriptors, promised

FORMULAS = ["NaCl", "KCl", "KBr", "RbBr", "MgO", "CaO", "LaOF", "NdOF", "KYSe2", "RbYSe2", "CsFeF3", "LiCoO2"]


@pytest.fixture(scope="module")
def belief() -> Belief:
    rng = np.random.default_rng(0)
    stable = rng.uniform(0.1, 0.6, len(FORMULAS))
    return Belief.of(Compositions.from_list(FORMULAS), stable + 0.2, stable)


def test_chances_before_any_outcome_are_ordered_as_promised(belief: Belief) -> None:
    near, on = belief.after(np.zeros(0, dtype=np.int64), np.zeros(0))
    assert (on <= near).all()
    assert np.argsort(on).tolist() == np.argsort(-belief.mean).tolist()


def test_the_promise_is_the_normal_distribution_with_both_chances() -> None:
    mean, width = 0.04, 0.08
    found = promised(np.array([norm.cdf(0.1, mean, width)]), np.array([norm.cdf(0.0, mean, width)]))
    assert found == pytest.approx([mean], abs=1e-9)


@pytest.mark.parametrize("most", [1024, 6])
def test_it_is_the_posterior_of_a_gaussian_process(
    belief: Belief, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact while every outcome is an anchor; with half as many, still not surer than the exact one."""
    monkeypatch.setattr(learning, "ANCHORS", most)
    rows, above = np.array([0, 2, 4, 6, 8, 2]), np.array([0.05, -0.1, 0.2, np.nan, -0.02, -0.12])
    heard = np.nan_to_num(above, nan=learning.HIGHEST)
    among = covariance(belief.where[rows], belief.where[rows]) + learning.NOISE**2 * np.eye(6)
    across = covariance(belief.where, belief.where[rows])
    mean = belief.mean + across @ np.linalg.solve(among, heard - belief.mean[rows])
    variance = np.diag(covariance(belief.where, belief.where)) - np.einsum(
        "ij,ji->i", across, np.linalg.solve(among, across.T)
    )
    expected = norm.cdf(0.0, mean, np.sqrt(variance + learning.NOISE**2))
    assert belief.after(rows, above)[1] == pytest.approx(expected, abs=1e-4)


def test_neighbours_learn_more_than_strangers() -> None:
    n = len(FORMULAS)
    belief = Belief.of(Compositions.from_list(FORMULAS), np.full(n, 0.7), np.full(n, 0.4))
    before = belief.after(np.zeros(0, dtype=np.int64), np.zeros(0))[1]
    after = belief.after(np.array([FORMULAS.index("KYSe2")]), np.array([0.3]))[1]
    fall = before - after
    assert fall[FORMULAS.index("KYSe2")] > fall[FORMULAS.index("RbYSe2")] > 0.02
    assert fall[FORMULAS.index("RbYSe2")] > 3 * abs(fall[FORMULAS.index("MgO")])


def test_the_size_of_the_cell_and_the_order_of_elements_do_not_matter() -> None:
    one, other = (descriptors(Compositions.from_list([f])) for f in ("KYSe2", "Se4Y2K2"))
    assert np.array_equal(one, other)
