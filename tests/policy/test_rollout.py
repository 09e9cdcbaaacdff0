"""Contexts: sub-groups by eq:subgroup, Dirichlet weights, and the entropy bound by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from anchor.chemistry.elements import INDEX
from anchor.config import ActionSpace
from anchor.policy.constraints import Limits
from anchor.policy.rollout import evaluation_context, h_max, sample_context, sample_subgroup
from anchor.random import generator

ALPHA = (1.0, 4.0, 1.0, 1.0)


def test_subgroup_size_and_members_are_uniform() -> None:
    limits = Limits.from_config(ActionSpace())
    rng = generator(0, "subgroups")
    drawn = np.array([sample_subgroup(limits, rng) for _ in range(8100)])
    sizes = drawn.sum(axis=1)
    assert (sizes.min(), sizes.max()) == (4, 84)
    assert chisquare(np.bincount(sizes, minlength=85)[4:]).pvalue > 1e-3
    # Given the size, each element is a member with probability size / 84.
    small = drawn[sizes <= 10]
    assert chisquare(small.sum(axis=0)).pvalue > 1e-3


def test_subgroups_have_as_many_elements_as_asked_where_so_many_are_allowed() -> None:
    rng = generator(2, "subgroups")
    for allowed, least in ((("Li", "Na", "K", "O", "S", "Cl"), 6), (None, 30)):
        limits = Limits.from_config(ActionSpace(elements=allowed))
        sizes = [sample_subgroup(limits, rng, smallest=30).sum() for _ in range(200)]
        assert min(sizes) == least


def test_subgroup_keeps_required_and_allowed() -> None:
    limits = Limits.from_config(ActionSpace(must_contain=("O", "Fe"), exclude=("Pu",)))
    rng = generator(1, "subgroups")
    drawn = np.array([sample_subgroup(limits, rng) for _ in range(300)])
    assert drawn[:, [INDEX["O"], INDEX["Fe"]]].all()
    assert not drawn[:, INDEX["Pu"]].any()
    assert drawn.sum(axis=1).min() >= 4


def test_subgroup_always_holds_a_composition() -> None:
    # 20 atoms from two elements need one of the few elements with more than 4 atoms.
    tight = {symbol: 4 for symbol in INDEX if symbol not in ("O", "H")}
    limits = Limits.from_config(ActionSpace(k=(2,), min_atoms=16, max_counts=tight))
    rng = generator(2, "subgroups")
    for _ in range(50):
        assert limits.cardinality_mask(torch.from_numpy(sample_subgroup(limits, rng))).any()


def test_weights_follow_the_dirichlet_or_are_fixed() -> None:
    limits = Limits.from_config(ActionSpace())
    rng = generator(3, "weights")
    drawn = np.array([sample_context(limits, rng, alpha=ALPHA).weights for _ in range(3000)])
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), np.array(ALPHA) / 7, atol=0.02)
    fixed = sample_context(limits, generator(3, "x"), alpha=ALPHA, weights=(1, 0, 0, 0))
    free = sample_context(limits, generator(3, "x"), alpha=ALPHA)
    np.testing.assert_array_equal(fixed.weights, [1, 0, 0, 0])
    np.testing.assert_array_equal(fixed.subgroup, free.subgroup)


def test_switching_the_mask_off_allows_everything() -> None:
    limits = Limits.from_config(ActionSpace(exclude=("U",)))
    context = sample_context(limits, generator(4), alpha=ALPHA, subgroup_mask=False)
    assert context.subgroup.sum() == 83
    evaluation = evaluation_context(limits, alpha=ALPHA)
    np.testing.assert_allclose(evaluation.weights, [1 / 7, 4 / 7, 1 / 7, 1 / 7])
    assert evaluation.subgroup.sum() == 83


def test_h_max_by_hand() -> None:
    by_hand = math.log(3) + math.log(84 * 83 * 82 * 81) + math.log(17) + 16 * math.log(4)
    assert h_max(84) == pytest.approx(by_hand, rel=1e-12)
    assert h_max(10) < h_max(84)
    assert h_max(3, k=(2, 3, 4)) == pytest.approx(math.log(3) + math.log(6) + math.log(18) + 17 * math.log(3))
