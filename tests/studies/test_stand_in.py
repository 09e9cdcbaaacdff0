"""The stand-in of the environment: outcomes follow the chances, and a known optimum is found."""

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER
from anchor.chemistry.spaces import sample_neutral
from anchor.config import load_config
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Learner
from anchor.random import generator
from anchor.studies.stand_in import STABLE_SHARE, StandIn, climb, summary

CONFIG = load_config().config


def constant(value: float):
    return lambda c: (np.full(len(c), value), np.zeros(len(c), dtype=bool))


def test_outcomes_follow_the_chances() -> None:
    batch = sample_neutral(1500, generator(0, "test"))
    energy, _ = StandIn(constant(0.3), CONFIG, offset_spread=0).energies(batch)
    assert np.mean(energy <= 0.1) == pytest.approx(0.3, abs=0.05)
    assert np.mean(energy <= 0) == pytest.approx(0.3 * STABLE_SHARE, abs=0.03)


def test_a_formula_has_one_outcome_in_one_world() -> None:
    batch = Compositions.from_list(["NaCl", "Na2Cl2", "MgO"])
    world = StandIn(constant(0.5), CONFIG)
    first, again = world.energies(batch)[0], world.energies(batch[::-1])[0][::-1]
    np.testing.assert_array_equal(first, again)
    assert first[0] == first[1] != first[2]
    assert StandIn(constant(0.5), CONFIG, seed=1).energies(batch)[0][0] != first[0]


def test_hidden_offsets_belong_to_elements() -> None:
    batch = Compositions.from_list(["NaCl", "NaBr", "KCl", "KBr"])
    p = StandIn(constant(0.5), CONFIG, offset_spread=1.0).probability(batch)[0]
    odds = np.log(p / (1 - p))
    assert odds[0] - odds[1] == pytest.approx(odds[2] - odds[3])
    assert odds[0] != pytest.approx(odds[1])


def test_only_the_first_unknown_valid_one_counts() -> None:
    rows = [
        ("NaCl", True, False, True, -0.1), ("NaCl", True, False, False, -0.1),
        ("Na2Cl", False, False, False, 0.0),
        ("MgO", True, True, True, -0.2), ("MgS", True, False, True, 0.05), ("Li2S", True, False, True, 0.2),
    ]  # fmt: skip
    assert summary(rows) == {"n": 6, "valid": 5, "unique": 5, "msun": 2, "sun": 1, "known": 1}


def test_a_learner_finds_the_known_optimum() -> None:
    """Only chlorides are ever near the hull: a policy that is paid for stability ends with them."""
    overrides = [
        "policy.state_dim=8", "policy.hidden_dim=32", "policy.element_embedding=8",
        "grpo.learning_rate=5e-3", "reward.count_bonus=0", "reward.weights=[1, 0, 0, 0]",
        "reward.subgroup_mask=false", "reward.stability_width=0.2", "entropy.base=0.002",
        "action_space.elements=[Li, Na, K, Mg, O, S, F, Cl]",
    ]  # fmt: skip
    config = load_config(overrides=overrides).config

    def chlorides(c: Compositions):
        chance = np.zeros(len(c))
        chance[c.owner[c.numbers == NUMBER["Cl"]]] = 0.99
        return np.clip(chance, 0.01, 0.99), np.zeros(len(c), dtype=bool)

    world = StandIn(chlorides, config, offset_spread=0)
    limits = Limits.from_config(config.action_space)
    curve = climb(config, Learner.start(config, limits), world, structures=3200, window=800)
    chlorides_met = [np.mean(["Cl" in r[0] for r in world.rows[a : a + 800]]) for a in (0, 2400)]
    assert [point["structures"] for point in curve] == [800, 1600, 2400, 3200]
    assert chlorides_met[1] > 0.95 > chlorides_met[0] + 0.1
    assert curve[-1]["valid"] > curve[0]["valid"]
