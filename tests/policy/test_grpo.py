"""GRPO: a toy with a known optimum, a gradient worked out by hand, purity and resuming."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from anchor.chemistry.composition import Composition, Compositions
from anchor.chemistry.elements import INDEX
from anchor.chemistry.features import element_features
from anchor.config import Config, load_config
from anchor.errors import AnchorError, InputError
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Actions, Conditions, evaluate
from anchor.policy.grpo import Learner, Rollout, Scores, clipped_surrogate, each_group, group_advantages
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, h_max

SMALL = [
    "policy.state_dim=8", "policy.hidden_dim=16", "policy.element_embedding=8",
    "action_space.elements=[Li, O, Fe, P, S, Na]", "action_space.max_atoms=8", "grpo.group_size=12",
]  # fmt: skip


def small(*overrides: str) -> tuple[Config, Limits]:
    config = load_config(overrides=[*SMALL, *overrides]).config
    return config, Limits.from_config(config.action_space)


def many_oxygens(compositions: Compositions, context: Context) -> Scores:
    """The toy: binary oxides with as many atoms as possible are best. Depends on w, so states matter."""
    reward = [
        1.0 * ("O" in c.elements) + 0.5 * (c.k == 2) + 0.05 * c.n_atoms + 0.01 * context.weights[0]
        for c in compositions
    ]
    return Scores(np.array(reward))


def test_learns_a_toy_with_known_optimum() -> None:
    config, limits = small("grpo.learning_rate=5e-3", "reward.subgroup_mask=false")
    learner = Learner.start(config, limits)
    first = learner.rollout(0)
    for step in range(120):
        learner.step(step, each_group(many_oxygens))
    last = learner.rollout(10_000)
    rewards = [many_oxygens(*next(rollout.groups())).reward.mean() for rollout in (first, last)]
    best = 1 + 0.5 + 0.05 * 8
    assert rewards[0] < 1.4
    assert rewards[1] > best - 0.1
    assert (last.compositions.k == 2).mean() > 0.9


def test_first_epochs_gradient_is_the_hand_written_one() -> None:
    config, limits = small("grpo.epochs=1", "grpo.groups_per_step=2")
    policy = CompositionPolicy(config.policy, seed=3).double()
    with torch.no_grad():
        for head in (policy.cardinality, policy.element, policy.size, policy.stoichiometry):
            head[-1].weight *= 50
    learner = Learner.start(config, limits, policy=policy)
    rollout = learner.rollout(7)
    scores = list(each_group(many_oxygens)(rollout))
    scores[1] = Scores(scores[1].reward, np.arange(12) % 3 > 0)  # some are excluded
    before = {n: p.detach().numpy().copy() for n, p in learner.policy.named_parameters()}
    metrics = learner.update(rollout, scores)

    # −A·log π − β H by hand, at ratio 1, where the clip does nothing.
    terms = []
    for (compositions, context), score in zip(rollout.groups(), scores, strict=True):
        include = np.ones(12, dtype=bool) if score.include is None else score.include
        mean, std = score.reward[include].mean(), score.reward[include].std()
        for row in np.flatnonzero(include):
            advantage = (score.reward[row] - mean) / max(std, 0.05)
            terms.append((compositions[int(row)], context, advantage))

    def loss(parameters: dict[str, np.ndarray]) -> float:
        total = 0.0
        for composition, context, advantage in terms:
            log_prob, entropy = hand_evaluation(parameters, composition, context)
            total += -advantage * log_prob - metrics["beta"] * entropy
        return total / len(terms)

    rng = np.random.default_rng(0)
    shift = 1e-5
    for name, parameter in learner.policy.named_parameters():
        flat = int(np.abs(parameter.grad.numpy()).argmax()) if parameter.numel() > 1 else 0
        for entry in {flat, int(rng.integers(parameter.numel()))}:
            losses = []
            for sign in (1, -1):
                moved = {n: p.copy() for n, p in before.items()}
                moved[name].flat[entry] += sign * shift
                losses.append(loss(moved))
            expected = (losses[0] - losses[1]) / (2 * shift)
            assert float(parameter.grad.flatten()[entry]) == pytest.approx(expected, rel=1e-4, abs=1e-7), name
        # Adam's first step is the learning rate along the sign of the gradient.
        moved_by = parameter.detach().numpy() - before[name]
        gradient = parameter.grad.numpy()
        np.testing.assert_allclose(
            moved_by, -1e-4 * gradient / (np.abs(gradient) + 1e-8), rtol=1e-6, atol=1e-12
        )


def hand_evaluation(
    parameters: dict[str, np.ndarray], composition: Composition, context: Context
) -> tuple[float, float]:
    """log π and H of one action with plain loops, independent of the package's tensors and masks."""

    def mlp(name: str, x: np.ndarray) -> np.ndarray:
        for layer in (0, 2, 4):
            x = parameters[f"{name}.{layer}.weight"] @ x + parameters[f"{name}.{layer}.bias"]
            if layer < 4:
                x = x / (1 + np.exp(-x))
        return x

    def softmax(logits: dict[Any, float]) -> dict[Any, float]:
        norm = sum(math.exp(v) for v in logits.values())
        return {key: math.exp(v) / norm for key, v in logits.items()}

    def entropy(p: dict[Any, float]) -> float:
        return -sum(q * math.log(q) for q in p.values())

    mean = element_features()[context.subgroup].astype(float).mean(axis=0)
    projected = parameters["projection.weight"] @ mean + parameters["projection.bias"]
    state = np.concatenate([projected, context.weights])
    k, size = composition.k, composition.n_atoms
    allowed = np.flatnonzero(context.subgroup).tolist()
    p = softmax(dict(zip((2, 3, 4), mlp("cardinality", state), strict=True)))
    log_prob, total = math.log(p[k]), entropy(p)
    embedding = parameters["embedding"]
    drawn = np.zeros(embedding.shape[1])
    indices = [INDEX[symbol] for symbol in composition.elements]
    for position, element in enumerate(indices):
        logits = mlp("element", np.concatenate([drawn, state]))
        p = softmax({e: logits[e] for e in allowed if e not in indices[:position]})
        log_prob, total = log_prob + math.log(p[element]), total + entropy(p)
        drawn = drawn + embedding[element]
    logits = mlp("size", np.concatenate([drawn, state]))
    p = softmax({t: logits[t - 2] for t in range(k, 9)})
    log_prob, total = log_prob + math.log(p[size]), total + entropy(p)
    logits = [mlp("stoichiometry", np.concatenate([embedding[e], drawn, state]))[0] for e in indices]
    p = softmax(dict(enumerate(logits)))

    def weight(counts: tuple[int, ...]) -> float:
        return math.prod(p[i] ** (n - 1) / math.factorial(n - 1) for i, n in enumerate(counts))

    every = [c for c in itertools.product(range(1, 9), repeat=k) if sum(c) == size]
    log_prob += math.log(weight(composition.counts) / sum(weight(c) for c in every))
    return log_prob, total + (size - k) * entropy(p)


def test_advantages_by_hand() -> None:
    rewards = np.array([[1.0, 2.0, 3.0, 99.0], [0.5, 0.5, 0.5, 0.5], [0.0, 0.02, 0.0, 0.02]])
    include = np.array([[True, True, True, False], [True] * 4, [True] * 4])
    found = group_advantages(rewards, include, std_floor=0.05)
    std = math.sqrt(2 / 3)  # population, not sample
    np.testing.assert_allclose(found[0], [-1 / std, 0, 1 / std, 0])
    np.testing.assert_array_equal(found[1], 0)
    np.testing.assert_allclose(found[2], [-0.2, 0.2, -0.2, 0.2])  # floored: 0.01 / 0.05


def test_clip_stops_the_gradient_only_where_the_ratio_already_moved_with_the_advantage() -> None:
    log_ratio = torch.tensor([0.5, 0.5, -0.5, -0.5, 0.1], requires_grad=True)
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    value = clipped_surrogate(log_ratio, advantage, clip=0.2)
    value.backward()
    e = math.exp
    expected = np.mean([1.2, -e(0.5), e(-0.5), -0.8, e(0.1)])
    assert value.item() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(log_ratio.grad * 5, [0, -e(0.5), e(-0.5), 0, e(0.1)], rtol=1e-6)


def test_a_step_is_a_pure_function_and_resumes_bit_for_bit() -> None:
    config, limits = small("grpo.groups_per_step=2")
    whole = Learner.start(config, limits)
    for step in range(6):
        rollout, metrics = whole.step(step, each_group(many_oxygens))
    broken = Learner.start(config, limits)
    for step in range(6):
        broken = Learner.resume(config, limits, broken.state())
        again, metrics_again = broken.step(step, each_group(many_oxygens))
    assert rollout.compositions.cells == again.compositions.cells
    assert torch.equal(rollout.evaluation.log_prob_by_head, again.evaluation.log_prob_by_head)
    assert metrics == metrics_again
    assert whole.state() == broken.state()


def test_seeds_and_steps_draw_differently() -> None:
    config, limits = small()
    other, _ = small("run.seed=1")
    elements = [
        learner.rollout(step).compositions.cells
        for learner, step in [
            (Learner.start(config, limits), 0),
            (Learner.start(config, limits), 1),
            (Learner.start(other, limits), 0),
        ]
    ]
    assert elements[0] != elements[1]
    assert elements[0] != elements[2]


def test_excluded_candidates_have_no_influence() -> None:
    config, limits = small()
    states = []
    for value in (0.0, 1e6, float("nan")):
        learner = Learner.start(config, limits)
        rollout = learner.rollout(0)
        reward = np.linspace(0, 1, 12)
        reward[3] = value
        metrics = learner.update(rollout, [Scores(reward, np.arange(12) != 3)])
        states.append(learner.state())
    assert metrics["excluded"] == 1
    assert states[0] == states[1] == states[2]


def test_a_group_without_anyone_included_changes_nothing() -> None:
    config, limits = small()
    learner = Learner.start(config, limits)
    before = learner.state()
    metrics = learner.update(learner.rollout(0), [Scores(np.zeros(12), np.zeros(12, dtype=bool))])
    assert learner.state() == before
    assert metrics["included"] == 0


def test_equal_rewards_are_logged_and_only_entropy_moves_the_policy() -> None:
    config, limits = small("grpo.epochs=1")
    policy = CompositionPolicy(config.policy, seed=3).double()
    learner = Learner.start(config, limits, policy=policy)
    rollout = learner.rollout(0)
    metrics = learner.update(rollout, [Scores(np.full(12, -0.2))])
    assert metrics["zero_spread_groups"] == 1
    gradient = learner.policy.element[0].weight.grad.clone()
    fresh = Learner.start(config, limits, policy=policy)
    (-metrics["beta"] * evaluate(fresh.policy, rollout.actions).entropy.mean()).backward()
    torch.testing.assert_close(gradient, fresh.policy.element[0].weight.grad)


def test_metrics_and_the_two_entropy_bounds() -> None:
    config, limits = small()
    aware, _ = small("entropy.h_max=subgroup")
    learner = Learner.start(config, limits)
    rollout, metrics = learner.step(2, each_group(many_oxygens))
    assert metrics["entropy_max"] == pytest.approx(h_max(6, max_atoms=8))
    assert metrics["entropy"] == pytest.approx(float(rollout.evaluation.entropy.mean()), rel=1e-6)
    assert metrics["beta_scheduled"] == pytest.approx(7.5e-3 * (0.5 + 0.5 * 24 / 2000))
    assert metrics["approx_kl"] >= 0
    _, metrics = Learner.start(aware, limits).step(2, each_group(many_oxygens))
    size = int(rollout.contexts[0].subgroup.sum())
    assert metrics["entropy_max"] == pytest.approx(h_max(size, max_atoms=8))


def test_wrong_or_broken_scores_are_refused() -> None:
    config, limits = small()
    learner = Learner.start(config, limits)
    rollout = learner.rollout(0)
    with pytest.raises(InputError, match="rewards"):
        learner.update(rollout, [Scores(np.zeros(11))])
    with pytest.raises(InputError, match="not finite"):
        learner.update(rollout, [Scores(np.full(12, np.nan))])


def test_a_shipped_policy_is_extended_to_own_objectives() -> None:
    config, limits = small("reward.alpha=[1, 4, 1, 1, 1]", "reward.objectives=[package.module:cost]")
    policy = CompositionPolicy(config.policy, seed=9)
    learner = Learner.start(config, limits, policy=policy)
    assert learner.policy.n_objectives == 5
    compositions = Compositions.from_list(["Li2O", "FePO4"])
    plain = Conditions.from_contexts([evaluation_context(limits, alpha=(1, 4, 1, 1))], 2, policy)
    own = Context(
        np.array([1 / 7, 4 / 7, 1 / 7, 1 / 7, 0.3]), evaluation_context(limits, alpha=(1,)).subgroup
    )
    more = Conditions.from_contexts([own], 2, learner.policy)
    torch.testing.assert_close(
        evaluate(policy, Actions.prepare(compositions, plain, limits)).log_prob,
        evaluate(learner.policy, Actions.prepare(compositions, more, limits)).log_prob,
    )


# Bounded staleness


def pipelined(learner: Learner, steps: int, *, score: Callable[[Rollout], Sequence[Scores]]) -> list[Rollout]:
    """Steps as a campaign takes them that relaxes s + 1 at a time; answers come in order."""
    under_way: deque[Rollout] = deque()
    taken: list[Rollout] = []
    for step in range(steps):
        while len(under_way) <= learner.config.search.staleness:
            under_way.append(learner.rollout(step + len(under_way)))
        taken.append(under_way.popleft())
        learner.update(taken[-1], score(taken[-1]))
    return taken


@pytest.mark.parametrize("staleness", [0, 1, 4])
def test_learns_the_toy_from_rollouts_of_earlier_policies(staleness: int) -> None:
    settings = ("grpo.learning_rate=5e-3", "reward.subgroup_mask=false", f"search.staleness={staleness}")
    learner = Learner.start(*small(*settings))
    taken = pipelined(learner, 120, score=each_group(many_oxygens))
    rewards = [many_oxygens(*next(rollout.groups())).reward.mean() for rollout in taken]
    assert np.mean(rewards[:5]) < 1.4
    assert np.mean(rewards[-5:]) > 1 + 0.5 + 0.05 * 8 - 0.1


def test_ratios_are_those_to_the_policy_that_sampled() -> None:
    """After an update by others the first epoch's ratio is not one: a copy of θ_old would say it is."""
    config, limits = small("search.staleness=1", "grpo.epochs=1", "grpo.learning_rate=1e-2")
    learner = Learner.start(config, limits)
    first, second = learner.rollout(0), learner.rollout(1)
    assert learner.update(first, each_group(many_oxygens)(first))["approx_kl"] == 0
    with torch.no_grad():
        ratio = evaluate(learner.policy, second.actions).log_prob - second.evaluation.log_prob
    expected = float((ratio.double().exp() - 1 - ratio.double()).mean())
    assert expected > 1e-6
    metrics = learner.update(second, each_group(many_oxygens)(second))
    assert metrics["approx_kl"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_what_was_under_way_is_sampled_again(stop: int) -> None:
    config, limits = small("search.staleness=3")
    whole = Learner.start(config, limits)
    taken = pipelined(whole, 9, score=each_group(many_oxygens))
    broken = Learner.start(config, limits)
    pipelined(broken, stop, score=each_group(many_oxygens))
    resumed = Learner.resume(config, limits, broken.state(), updates=stop)
    assert resumed.state() == broken.state()
    for step in range(stop, stop + 4):
        assert resumed.rollout(step).compositions.cells == taken[step].compositions.cells
    with pytest.raises(AnchorError, match="cannot be sampled"):
        resumed.rollout(stop + 4)
