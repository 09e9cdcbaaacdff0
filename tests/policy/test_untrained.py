"""Untrained sources in the place of a learner: right measure, right limits, same contexts, no learning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.elements import VOCABULARY
from anchor.config import ActionSpace, Config, load_config
from anchor.errors import InputError
from anchor.policy.actions import to_actions
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Learner, Scores
from anchor.policy.untrained import Untrained, UntrainedName, draw_within
from anchor.random import generator


def configured(*overrides: str) -> tuple[Config, Limits]:
    config = load_config(overrides=["grpo.group_size=64", *overrides]).config
    return config, Limits.from_config(config.action_space)


@pytest.mark.parametrize("source", ["random", "neutral"])
@given(
    required=st.sets(st.sampled_from(["Li", "Fe", "O", "F"]), max_size=1),
    k=st.sampled_from([(2,), (3,), (2, 4)]),
    atoms=st.integers(6, 20),
)
@settings(max_examples=10, deadline=None)
def test_every_limit_holds(source: UntrainedName, required: set[str], k: tuple[int, ...], atoms: int) -> None:
    space = ActionSpace(
        k=k, max_atoms=atoms, must_contain=tuple(required), exclude=("Pb", "Hg"), max_counts={"O": 4},
        elements=("Li", "Na", "Fe", "Mn", "O", "F", "S", "Pb"), min_counts={"F": 2},
    )  # fmt: skip
    for composition in draw_within(source, 40, Limits.from_config(space), generator(0, "test")):
        counts = dict(zip(composition.elements, composition.counts, strict=True))
        assert composition.k in k
        assert composition.n_atoms <= atoms
        assert required <= set(counts) <= {"Li", "Na", "Fe", "Mn", "O", "F", "S"}
        assert counts.get("O", 0) <= 4
        assert counts.get("F", 2) >= 2


def test_random_is_uniform_in_k_and_elements() -> None:
    drawn = draw_within("random", 6000, Limits.from_config(ActionSpace()), generator(1, "test"))
    assert chisquare(np.bincount(drawn.k)[2:]).pvalue > 1e-3
    assert chisquare(np.bincount(to_actions(drawn)[0][:, 0], minlength=len(VOCABULARY))).pvalue > 1e-3


def test_neutral_is_neutral() -> None:
    assert is_neutral(draw_within("neutral", 500, Limits.from_config(ActionSpace()), generator(2, "t"))).all()


def test_impossible_wishes_end_with_a_reason() -> None:
    metals = Limits.from_config(ActionSpace(elements=("Na", "K", "Rb", "Cs")))
    with pytest.raises(InputError, match="neutral"):
        draw_within("neutral", 4, metals, generator(0, "t"))


def test_contexts_are_those_of_a_learner_without_subgroups() -> None:
    config, limits = configured("policy.source=random", "grpo.groups_per_step=2")
    untrained, learner = Untrained("random", limits, config), Learner.start(config, limits)
    for step in (0, 5):
        ours, theirs = untrained.rollout(step), learner.rollout(step)
        for a, b in zip(ours.contexts, theirs.contexts, strict=True):
            assert (a.weights == b.weights).all()
            assert a.subgroup.all()
        assert len(ours.compositions) == 128
        assert ours.log_probs == {}
        assert {len(values) for values in theirs.log_probs.values()} == {128}


def test_rewards_change_nothing() -> None:
    config, limits = configured("policy.source=neutral")
    untrained = Untrained("neutral", limits, config)
    before = untrained.rollout(1).compositions
    _, metrics = untrained.step(0, lambda _proposal: [Scores(np.arange(64.0))])
    assert metrics["reward_mean"] == 31.5
    assert "beta" not in metrics
    assert untrained.state() == b""
    assert untrained.rollout(1).compositions.cells == before.cells
