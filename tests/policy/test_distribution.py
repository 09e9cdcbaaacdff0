"""The policy's distribution: probabilities sum to one, samples follow them, gradients are finite."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from anchor.chemistry.composition import Composition, Compositions
from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.config import ActionSpace, Policy
from anchor.policy.actions import to_actions
from anchor.policy.constraints import Limits
from anchor.policy.distribution import HEADS, Actions, Conditions, evaluate, sample
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, h_max, sample_subgroup
from anchor.random import generator, torch_generator

ALPHA = (1.0, 4.0, 1.0, 1.0)

SPACES = {
    "plain": ActionSpace(elements=("Li", "O", "Fe", "P"), max_atoms=6),
    "capped": ActionSpace(elements=("Li", "O", "Fe", "P"), max_atoms=8, max_atoms_per_element=3),
    "bounded": ActionSpace(
        elements=("Li", "O", "Fe", "P"),
        min_atoms=5,
        max_atoms=8,
        max_counts={"O": 4, "Li": 1, "P": 2},
        min_counts={"O": 2},
    ),
    "required": ActionSpace(
        elements=("Li", "O", "Fe", "P", "S"), max_atoms=5, must_contain=("O", "Fe"), k=(2, 3)
    ),
}

HEADS_OF = pytest.mark.parametrize("heads", ["paper", "informed"])


def sharp_policy(seed: int = 0, heads: str = "paper") -> CompositionPolicy:
    """An untrained policy with strong preferences, in float64, so that mistakes in probabilities show."""
    config = Policy(state_dim=8, hidden_dim=16, element_embedding=8, heads=heads)
    policy = CompositionPolicy(config, seed=seed).double()
    with torch.no_grad():
        for head in (policy.cardinality, policy.element, policy.size, policy.stoichiometry):
            head[-1].weight *= 100
    return policy


def every_action(space: ActionSpace) -> Compositions:
    """All ordered actions of a small space, by brute force."""
    elements = space.elements or VOCABULARY
    actions = []
    for k in space.k:
        for drawn in itertools.permutations(elements, k):
            if not set(space.must_contain) <= set(drawn):
                continue
            ranges = [
                range(
                    space.min_counts.get(e, 1),
                    min(space.max_counts.get(e, 12), space.max_atoms_per_element, space.max_atoms) + 1,
                )
                for e in drawn
            ]
            actions += [
                Composition(drawn, counts)
                for counts in itertools.product(*ranges)
                if space.min_atoms <= sum(counts) <= space.max_atoms
            ]
    return Compositions.from_list(actions)


def conditions(policy: CompositionPolicy, limits: Limits, rows: int) -> Conditions:
    return Conditions.from_contexts([evaluation_context(limits, alpha=ALPHA)], rows, policy)


@HEADS_OF
@pytest.mark.parametrize("name", SPACES)
def test_probabilities_of_all_actions_sum_to_one(name: str, heads: str) -> None:
    limits, policy = Limits.from_config(SPACES[name]), sharp_policy(heads=heads)
    actions = every_action(SPACES[name])
    found = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, len(actions)), limits))
    assert len(actions) > 50
    assert float(found.log_prob.detach().exp().sum()) == pytest.approx(1, abs=1e-10)


@HEADS_OF
@pytest.mark.parametrize("name", SPACES)
def test_sampling_frequencies_pass_chi_square(name: str, heads: str) -> None:
    limits, policy, n = Limits.from_config(SPACES[name]), sharp_policy(3, heads), 20_000
    actions = every_action(SPACES[name])
    exact = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, len(actions)), limits))
    drawn = sample(policy, conditions(policy, limits, n), limits, torch_generator(0, "test", name))
    index = {(tuple(e), tuple(c)): i for i, (e, c) in enumerate(rows(actions))}
    observed = np.bincount([index[tuple(e), tuple(c)] for e, c in rows(drawn)], minlength=len(actions))
    expected = exact.log_prob.detach().exp().numpy() * n
    common = expected >= 5
    merged = [*observed[common], observed[~common].sum()], [*expected[common], expected[~common].sum()]
    assert chisquare(*merged).pvalue > 1e-3


def rows(compositions: Compositions) -> zip:
    return zip(*(array.tolist() for array in to_actions(compositions)), strict=True)


def test_float32_agrees_with_float64() -> None:
    limits, policy = Limits.from_config(SPACES["bounded"]), sharp_policy()
    actions = every_action(SPACES["bounded"])
    double = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, len(actions)), limits))
    policy.float()
    single = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, len(actions)), limits))
    torch.testing.assert_close(single.log_prob.double(), double.log_prob, atol=1e-3, rtol=1e-4)


def test_informed_heads_can_be_certain_of_any_stoichiometry() -> None:
    """Independent surplus atoms cannot: 6 atoms of which one falls on the first element, at most 40 %."""
    limits = Limits.from_config(ActionSpace(elements=("K", "Pt", "Cl")))
    actions = Compositions.from_list([Composition(("K", "Pt", "Cl"), (2, 1, 6))])
    best = {}
    for heads in ("paper", "informed"):
        policy = sharp_policy(heads=heads)
        prepared = Actions.prepare(actions, conditions(policy, limits, 1), limits)
        optimiser = torch.optim.Adam(policy.parameters(), lr=0.03)
        for _ in range(60):
            optimiser.zero_grad()
            loss = -evaluate(policy, prepared).log_prob_by_head[:, 3].sum()
            loss.backward()
            optimiser.step()
        best[heads] = float((-loss.detach()).exp())
    assert best["informed"] > 0.9
    assert 0.3 < best["paper"] < 6 * (1 / 6) * (5 / 6) ** 5 + 1e-6


def test_order_of_elements_is_part_of_the_action() -> None:
    limits, policy = Limits.from_config(ActionSpace()), sharp_policy()
    actions = Compositions.from_list([Composition(("Li", "O"), (2, 1)), Composition(("O", "Li"), (1, 2))])
    found = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, 2), limits))
    by_head = found.log_prob_by_head
    assert by_head[0, 1] != by_head[1, 1]
    torch.testing.assert_close(by_head[0, [0, 2, 3]], by_head[1, [0, 2, 3]])  # k, T, ρ do not see the order


def test_actions_outside_the_subgroup_are_impossible_but_finite() -> None:
    limits, policy = Limits.from_config(ActionSpace()), sharp_policy()
    subgroup = np.zeros(84, dtype=bool)
    subgroup[[INDEX[s] for s in ("Li", "Fe", "P", "S")]] = True
    context = Context(np.full(4, 0.25), subgroup)
    actions = Compositions.from_list(["Li2O", "Li2S"])
    found = evaluate(policy, Actions.prepare(actions, Conditions.from_contexts([context], 2, policy), limits))
    assert found.log_prob[0] < -1e8
    assert found.log_prob[1] > -50
    assert torch.isfinite(found.log_prob).all()


def test_entropies_are_the_closed_forms() -> None:
    limits = Limits.from_config(ActionSpace())
    policy = CompositionPolicy().double()
    with torch.no_grad():
        for head in (policy.cardinality, policy.element, policy.size, policy.stoichiometry):
            head[-1].weight.zero_()  # every head uniform
    actions = Compositions.from_list(["Li2O", "Li3PO4", "Li12Fe2P2O4"])
    found = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, 3), limits))
    expected = [
        [np.log(3), sum(np.log(84 - i) for i in range(k)), np.log(20 - k + 1), (t - k) * np.log(k)]
        for k, t in [(2, 3), (3, 8), (4, 20)]
    ]
    np.testing.assert_allclose(found.entropy_by_head.detach(), expected, rtol=1e-9)
    assert len(HEADS) == 4
    # The last action attains the bound of eq:hmax.
    assert found.entropy[2].item() == pytest.approx(h_max(84), rel=1e-12)


def test_entropy_of_a_uniform_policy_is_far_below_the_papers_target() -> None:
    limits, policy, n = Limits.from_config(ActionSpace()), CompositionPolicy(), 4000
    conditioned = conditions(policy, limits, n)
    drawn = sample(policy, conditioned, limits, torch_generator(0, "uniform"))
    entropy = evaluate(policy, Actions.prepare(drawn, conditioned, limits)).entropy.mean()
    assert 0.55 < entropy.item() / h_max(84) < 0.62


@HEADS_OF
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_gradients_are_finite_under_every_mask(name: str, heads: str) -> None:
    limits, policy = Limits.from_config(SPACES[name]), sharp_policy(heads=heads).float()
    rng = generator(0, name)
    contexts = [Context(rng.dirichlet(ALPHA), sample_subgroup(limits, rng)) for _ in range(8)]
    conditioned = Conditions.from_contexts(contexts, 4, policy)
    drawn = sample(policy, conditioned, limits, torch_generator(0, name))
    with torch.autograd.detect_anomaly(check_nan=True):
        found = evaluate(policy, Actions.prepare(drawn, conditioned, limits))
        (found.log_prob.sum() + found.entropy.sum()).backward()
    assert torch.isfinite(found.entropy_by_head).all()
    assert (found.entropy_by_head >= 0).all()
    gradients = [p.grad for p in policy.parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in gradients)


def test_forced_draws_have_probability_one_and_no_entropy() -> None:
    space = ActionSpace(elements=("Li", "O"), k=(2,), must_contain=("Li", "O"), max_atoms=2)
    limits, policy = Limits.from_config(space), sharp_policy()
    actions = Compositions.from_list(["LiO"])
    found = evaluate(policy, Actions.prepare(actions, conditions(policy, limits, 1), limits))
    assert found.log_prob_by_head[0, [0, 2, 3]].abs().max() < 1e-12
    assert found.entropy_by_head[0, [0, 2, 3]].abs().max() < 1e-12


def test_sampling_is_a_function_of_the_stream() -> None:
    limits, policy = Limits.from_config(ActionSpace()), CompositionPolicy()
    draws = [
        sample(policy, conditions(policy, limits, 50), limits, torch_generator(0, "a", step))
        for step in (1, 1, 2)
    ]
    assert draws[0].cells == draws[1].cells
    np.testing.assert_array_equal(draws[0].counts, draws[1].counts)
    assert draws[0].cells != draws[2].cells
