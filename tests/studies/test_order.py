"""Paper order against fast order: only d_struct may differ, and only through siblings that were not made."""

from dataclasses import replace

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.priors import load_prior
from anchor.reference.reference import load_reference
from anchor.reward.score import Memory, Realisation
from anchor.search.environment import Environment, make_scorer
from anchor.studies.order import compare_orders, differences, only_neutral

CELLS = ["Na2Cl2", "Mg2O2", "Na3Cl", "KMg", "Na2O"]
NEUTRAL = np.array([True, True, False, False, True])
WEIGHTS = np.array([0.25, 0.25, 0.25, 0.25])


@pytest.fixture(scope="module")
def realisation() -> Realisation:
    crystals = load_prior("templates-all").sample(Compositions.from_list(CELLS), seed=0)
    assert isinstance(crystals, Crystals)
    n = len(CELLS)
    everyone = np.ones(n, dtype=bool)
    return Realisation(NEUTRAL, np.arange(n), crystals, everyone, np.full(n, 0.1), np.zeros(n, dtype=bool))


def test_only_structural_diversity_depends_on_the_order(realisation: Realisation) -> None:
    scorer = make_scorer(load_config().config, load_reference())
    compositions = Compositions.from_list(CELLS)
    paper = scorer.score(compositions, realisation, WEIGHTS, Memory())
    fast = scorer.score(compositions, only_neutral(realisation), WEIGHTS, Memory())
    assert (paper.valid == fast.valid).all()
    for column in (0, 1, 3):
        valid = paper.valid
        assert (paper.objectives[valid, column] == fast.objectives[valid, column]).all()
    change = (fast.reward - paper.reward)[paper.valid]
    d_struct = (fast.objectives - paper.objectives)[paper.valid, 2]
    assert change == pytest.approx(0.25 * d_struct)
    assert np.abs(d_struct).max() > 0

    found = differences([paper], [fast], std_floor=0.05)
    assert found["reward"]["max_abs"] == pytest.approx(np.abs(change).max(), abs=1e-5)
    assert found["advantage"]["n"] == len(CELLS)


def test_groups_without_charged_siblings_have_no_order(realisation: Realisation) -> None:
    neutral = replace(realisation, charge_ok=np.ones(len(CELLS), dtype=bool))
    assert (only_neutral(neutral).member == neutral.member).all()


def test_whole_study_on_one_small_group() -> None:
    sets = [
        "grpo.group_size=8", "relax.max_steps=2", "action_space.max_atoms=5", "action_space.k=[2]",
        "action_space.elements=[Na, Mg, O, F, Cl]", "run.workers=1",
    ]  # fmt: skip
    config = load_config(overrides=sets).config
    result = compare_orders(config, groups=1, environment=Environment.load(config))
    assert result["cost"]["paper"]["relaxations"] == 8
    assert 0 < result["cost"]["fast"]["relaxations"] <= 8
    assert result["saved"]["relaxations"] >= 1
    assert result["differences"]["advantage"]["n"] == 8
