"""Paper order against fast order: only d_struct may differ, and only through siblings that were not made."""

from dataclasses import replace

import numpy as np
import pytest
from outcome_tables import judged

from anchor.chemistry.composition import Compositions
from anchor.config import load_config
from anchor.outcomes.checks import Checks
from anchor.priors import load_prior
from anchor.reference.reference import load_reference
from anchor.reward.score import Memory
from anchor.search.environment import Environment, make_scorer
from anchor.search.realise import Realised
from anchor.studies.order import compare_orders, differences, only_neutral

CELLS = ["Na2Cl2", "Mg2O2", "Na3Cl", "KMg", "Na2O"]
NEUTRAL = np.array([True, True, False, False, True])
WEIGHTS = np.array([0.25, 0.25, 0.25, 0.25])


@pytest.fixture(scope="module")
def group() -> Realised:
    crystals = load_prior("templates-all").sample(Compositions.from_list(CELLS), seed=0)
    found = judged(crystals, load_config().config)
    assert found.outcomes.flags("charge_ok").tolist() == NEUTRAL.tolist()
    return found


def test_only_structural_diversity_depends_on_the_order(group: Realised) -> None:
    config, reference = load_config().config, load_reference()
    scorer = make_scorer(config, reference, Checks.from_config(config, reference))
    compositions = Compositions.from_list(CELLS)
    less = only_neutral(group)
    paper = scorer.score(compositions, group.outcomes, group.embeddings, WEIGHTS, Memory())
    fast = scorer.score(compositions, less.outcomes, less.embeddings, WEIGHTS, Memory())
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


def test_groups_without_charged_siblings_have_no_order(group: Realised) -> None:
    assert only_neutral(group).outcomes.at.tolist() == [0, 1, 4]
    neutral = replace(group, outcomes=group.outcomes.with_columns(charge_ok=np.ones(len(CELLS), dtype=bool)))
    assert (only_neutral(neutral).outcomes.at == neutral.outcomes.at).all()


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
