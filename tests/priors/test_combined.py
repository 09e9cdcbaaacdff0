"""The combined prior: whose crystals come first, and that the score can be learned."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anchor.priors import load_prior
from anchor.priors.base import Request
from anchor.priors.combined import FEATURES, CombinedPrior, fit_weights
from anchor.priors.testing import cell_of, displacement, held_out

VOTES, LOG_P, _, WRITTEN, _ = range(len(FEATURES))


@pytest.fixture(scope="module")
def prior() -> CombinedPrior:
    made = load_prior("combined")
    assert isinstance(made, CombinedPrior)
    return made


def with_weights(prior: CombinedPrior, weights: list[float]) -> CombinedPrior:
    return CombinedPrior(prior.templates, prior.wyckoff, np.array(weights))


def test_extreme_weights_give_either_prior_back(prior):
    cells = [cell_of(crystal) for crystal in held_out("val", 8, seed=1)]
    only_templates = with_weights(prior, [1.0, 0.0, 0.0, -1e3, 0.0]).sample(cells)
    only_written = with_weights(prior, [0.0, 1.0, 0.0, 1e3, -1e2]).sample(cells)
    templates = load_prior("templates", temperature=0.0).sample(cells)
    for i in range(len(cells)):
        assert displacement(only_templates[i], templates[i]) < 1e-3
    different = [not displacement(only_written[i], only_templates[i]) < 1e-3 for i in range(len(cells))]
    assert any(different)


def test_candidates_are_of_both_kinds_and_not_twice(prior):
    composition = cell_of(held_out("val", 1, seed=4)[0])
    request = Request(composition, math.gcd(*composition.counts), 0, 0, ("test", 0))
    candidates = prior.candidates([request])[0]
    features = np.array([candidate.features for candidate in candidates])
    assert 0 < features[:, WRITTEN].sum() < len(candidates)
    votes = features[features[:, WRITTEN] == 0, VOTES]
    assert (np.diff(votes) <= 0).all()
    assert (features[:, LOG_P] <= 0).all()
    assert all(candidate.crystal.n_atoms == composition.n_atoms for candidate in candidates)


def test_any_stoichiometry_and_any_number_of_draws(prior):
    made = prior.sample([{"K": 5, "Nb": 3, "S": 7, "F": 4}], 30, seed=3)  # no known crystal has it
    assert len(made) == 30
    assert (made.counts == 19).all()
    again = prior.sample([{"K": 5, "Nb": 3, "S": 7, "F": 4}], 30, seed=3)
    np.testing.assert_allclose(made.frac, again.frac)


def test_a_formula_leaves_the_cell_free(prior):
    made = prior.sample("MgO", 3)
    assert all(count % 2 == 0 for count in made.counts)
    assert made.counts[0] == 2  # rock salt


def test_weights_can_be_learned(prior):
    truth = held_out("val", 24, seed=5)
    _, before = fit_weights(with_weights(prior, [0.0] * 5), truth[:1])
    assert before["crystals"] == 1
    weights, report = fit_weights(prior, truth)
    assert weights[VOTES] > 0
    assert weights[LOG_P] > 0
    assert report["right_first"] >= report["right_first_templates_alone"]
    assert report["right_anywhere"] >= report["right_first"]
