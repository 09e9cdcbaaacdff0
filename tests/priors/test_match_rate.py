"""The match rate, checked against pymatgen and on priors whose score is known."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.priors.base import Prior, Sampled
from anchor.priors.match_rate import displacement, held_out, measure
from anchor.priors.templates import TemplatePrior


class Oracle(Prior):
    """Gives the right answer on the draws in `right`, and nonsense (all atoms at one point) otherwise."""

    def __init__(self, truth: Crystals, right: set[int]) -> None:
        self.name, self.hash, self.max_atoms = "oracle", "0", 20
        self.elements = frozenset(range(1, 119))
        self.right = right
        self.answers = {tuple(np.sort(c.numbers)): c for c in truth}

    def draw(self, requests):
        batch = []
        for request in requests:
            answer = self.answers[tuple(np.sort(request.composition.numbers))]
            if request.draw not in self.right:
                answer = answer.replace(frac=np.zeros_like(answer.frac))
            batch.append(answer)
        return Crystals.concatenate(batch)


@pytest.fixture(scope="module")
def truth() -> Crystals:
    crystals = held_out("test", 12, seed=1)
    _, first = np.unique([str(np.sort(c.numbers)) for c in crystals], return_index=True)
    return crystals[np.sort(first)]


def test_right_answers_score_one(truth):
    summary = measure(Oracle(truth, {0}), truth, 1).summary()
    assert summary["match_rate"] == 1
    assert summary["rmse"] == pytest.approx(0, abs=1e-4)
    assert summary["volume_error_median"] == pytest.approx(0, abs=1e-9)
    assert summary["valid"] == 1
    assert sum(part["crystals"] for part in summary["by_atoms"].values()) == len(truth)
    assert sum(part["crystals"] for part in summary["by_elements"].values()) == len(truth)


def test_best_of_k_and_first_sample_are_told_apart(truth):
    several = truth[np.flatnonzero(truth.counts > 1)]
    summary = measure(Oracle(several, {2}), several, 3).summary()
    assert summary["match_rate"] == 1
    assert summary["match_rate_first_sample"] == 0
    assert summary["valid"] == pytest.approx(1 / 3)


def test_displacement_is_pymatgens(truth):
    matcher = StructureMatcher(stol=0.5, angle_tol=10, ltol=0.3)
    rng = np.random.default_rng(0)
    for crystal in truth[:6]:
        moved = crystal.replace(frac=crystal.frac + rng.normal(scale=0.01, size=crystal.frac.shape))
        expected = matcher.get_rms_dist(moved.to_structures()[0], crystal.to_structures()[0])
        assert displacement(moved, crystal) == pytest.approx(expected[0])
    assert np.isnan(displacement(truth[0], truth[1]))


def test_templates_reach_their_aim_on_a_small_sample():
    """60 % is the aim of the whole split; 40 crystals of it must not fall below 50 %."""
    summary = measure(TemplatePrior(), held_out("test", 40), 1).summary()
    assert summary["match_rate"] > 0.5
    assert summary["rmse"] < 0.1


def test_two_processes_give_the_same(truth):
    prior = Oracle(truth, {0, 1})
    one, two = (measure(prior, truth[:4], 2, workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one.displacement, two.displacement)


def test_bad_requests(truth):
    with pytest.raises(InputError, match="k=0"):
        measure(Oracle(truth, {0}), truth, 0)
    with pytest.raises(InputError, match="no split"):
        held_out("tset")


def test_what_nobody_made_stays_in_the_denominator(truth):
    class Silent(Oracle):
        def draw(self, requests):
            made = super().draw(requests)
            kept = [i for i, request in enumerate(requests) if request.draw == 0]
            missing = dict.fromkeys(set(range(len(requests))) - set(kept), "no more")
            return Sampled(made[kept], np.array(kept), [self.name] * len(kept), missing)

    summary = measure(Silent(truth, {0}), truth, 2).summary()
    assert (summary["missing"], summary["match_rate"], summary["fallbacks"]) == (len(truth), 1.0, 0)
    assert summary["valid"] == 0.5
    none = measure(Silent(truth, set()), truth, 2).summary()
    assert none["match_rate"] == 0
