"""Fitting by likelihood: q is reproduced where it can be enumerated, masks hold, same seed same bytes."""

import numpy as np
import pytest
import torch

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import INDEX
from anchor.config import ActionSpace, Policy
from anchor.errors import InputError
from anchor.policy import weights
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Conditions, sample
from anchor.policy.fitting import FitSettings, Target, fit_policy, formula_log_likelihood
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context
from anchor.random import generator, torch_generator

ALPHA = (1.0, 4.0, 1.0, 1.0)
SMALL = Policy(state_dim=8, hidden_dim=32, element_embedding=16, heads="informed")
FORMULAS = [
    "NaCl", "Na2O", "MgO", "MgCl2", "Na2S", "MgS", "Li2O", "LiCl", "Li2S", "NaMgCl3", "Na2MgO2", "Li2MgO2",
    "LiNaO", "LiNaS", "Mg2OCl2", "Na3OCl", "Li3OCl", "LiMgCl3", "Na2SO4", "MgSO4", "Li2SO4", "LiNaSO4",
]  # fmt: skip
LIMITS = Limits.from_config(ActionSpace(elements=("Li", "Na", "Mg", "O", "S", "Cl"), max_atoms=8))
QUICK = FitSettings(
    effective=12,
    element_cap=1.0,
    k_floor=0.0,
    steps=40,
    contexts=4,
    rows=16,
    held_out=0.0,
    learning_rate=1e-2,
)


def target(settings: FitSettings = QUICK) -> Target:
    chances = np.linspace(0.9, 0.1, len(FORMULAS))
    return Target.from_ranking(Compositions.from_list(FORMULAS), chances, settings)


def test_q_is_a_softmax_of_the_chances_at_the_temperature_that_spreads_it_as_asked() -> None:
    found = target()
    assert 1 / (found.q**2).sum() == pytest.approx(12, rel=1e-3)
    slope = np.diff(np.log(found.q)) / np.diff(np.linspace(0.9, 0.1, len(FORMULAS)))
    np.testing.assert_allclose(slope, 1 / found.temperature, rtol=1e-6)


def test_elements_are_capped_and_every_k_has_its_floor() -> None:
    settings = FitSettings(effective=12, element_cap=0.45, k_floor=0.2)
    found = target(settings)
    q, k = found.q, (found.elements >= 0).sum(axis=1)
    for symbol in ("Na", "Li", "Mg", "O", "Cl", "S"):
        assert q[(found.elements == INDEX[symbol]).any(axis=1)].sum() <= 0.45 * 1.005
    assert all(q[k == size].sum() >= 0.2 * 0.99 for size in (2, 3, 4))
    assert q[k == 4].sum() == pytest.approx(0.2, rel=0.02)  # one formula of 22, lifted to the floor


@pytest.mark.parametrize(
    ("formulas", "chances", "message"),
    [
        ([], [], "empty"),
        (["NaCl", "Na2Cl2", "MgO"], [0.1, 0.2, 0.3], "twice"),
        (["NaCl", "MgO", "Li2O"], [0.1, np.nan, 0.3], "number"),
        (["NaCl", "MgO", "Li2O"], [0.1, 0.2, 0.3], "cannot be spread"),
    ],
)
def test_impossible_rankings_are_refused(formulas: list[str], chances: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Target.from_ranking(Compositions.from_list(formulas), np.array(chances), FitSettings(effective=5))


def test_limits_leave_out_what_they_forbid() -> None:
    space = ActionSpace(elements=("Na", "Mg", "O", "Cl"), k=(3,), max_atoms=5, max_counts={"Cl": 2})
    found = target().within(Limits.from_config(space))
    assert set(found.compositions.formulas) == {"Na2MgO2", "Mg2Cl2O", "Na3ClO"}
    with pytest.raises(InputError, match="none of the ranking"):
        target().within(Limits.from_config(ActionSpace(must_contain=("Fe",))))


def test_draws_stay_in_the_subgroup_in_every_order() -> None:
    inside = np.zeros(84, dtype=bool)
    inside[[INDEX[s] for s in ("Li", "Na", "O", "S")]] = True
    nothing = np.zeros(84, dtype=bool)
    nothing[[INDEX["Fe"], INDEX["P"]]] = True
    contexts = [Context(np.full(4, 0.25), mask) for mask in (inside, nothing, inside)]
    drawn, kept = target().draw(contexts, 300, generator(0, "test"))
    assert [c.subgroup is inside for c in kept] == [True, True]
    assert {e for c in drawn for e in c.elements} == {"Li", "Na", "O", "S"}
    assert {c.formula for c in drawn} <= set(target().compositions.formulas)
    assert len({c.formula for c in drawn}) == 9  # of 22 within Li, Na, O, S
    orders = {c.elements for c in drawn if set(c.elements) == {"Li", "Na", "O"}}
    assert len(orders) == 6


@pytest.mark.parametrize("heads", ["informed", "paper"])
def test_the_fit_raises_the_likelihood(heads: str) -> None:
    policy = CompositionPolicy(SMALL.model_copy(update={"heads": heads}))
    curve = fit_policy(policy, target(), LIMITS, QUICK, alpha=ALPHA, every=20)
    assert [point["step"] for point in curve] == [0, 20, 40]
    assert curve[0]["log_likelihood"] + 2 < curve[1]["log_likelihood"] < curve[2]["log_likelihood"]


def test_q_is_reproduced() -> None:
    settings = FitSettings(**{**vars(QUICK), "steps": 250, "unmasked": 1.0})
    policy, wanted = CompositionPolicy(SMALL), target()
    before = kl(policy, wanted)
    fit_policy(policy, wanted, LIMITS, settings, alpha=ALPHA, every=250)
    assert before > 3
    assert kl(policy, wanted) < 0.05


def kl(policy: CompositionPolicy, wanted: Target) -> float:
    """KL(q ‖ π) over formulas, nats: what π spends on others counts against it."""
    log_pi = formula_log_likelihood(policy, wanted, LIMITS, alpha=ALPHA)
    return float(wanted.q @ (np.log(wanted.q) - log_pi))


def test_formula_likelihood_is_the_share_of_draws() -> None:
    policy, wanted, n = CompositionPolicy(SMALL), target(), 20_000
    fit_policy(policy, wanted, LIMITS, QUICK, alpha=ALPHA, every=40)
    expected = np.exp(formula_log_likelihood(policy, wanted, LIMITS, alpha=ALPHA))
    context = Context(np.array(ALPHA) / 7, LIMITS.allowed.numpy())
    drawn = sample(
        policy, Conditions.from_contexts([context], n, policy), LIMITS, torch_generator(1, "draws")
    )
    # the same cell only: Na2Cl2 is another action with the formula NaCl
    cells = [(c.formula, c.n_atoms) for c in drawn]
    for composition, p in zip(wanted.compositions, expected, strict=True):
        share = cells.count((composition.formula, composition.n_atoms)) / n
        assert share == pytest.approx(p, abs=5 * np.sqrt(p / n) + 1e-4)


def test_same_seed_same_bytes() -> None:
    found = []
    for seed in (0, 0, 1):
        policy = CompositionPolicy(SMALL)
        settings = FitSettings(**{**vars(QUICK), "steps": 5, "seed": seed})
        fit_policy(policy, target(), LIMITS, settings, alpha=ALPHA)
        found.append(weights.save(policy))
    assert found[0] == found[1] != found[2]


def test_held_out_formulas_are_never_learned_from() -> None:
    settings = FitSettings(**{**vars(QUICK), "held_out": 0.25, "steps": 40})
    learned, unseen = target().split(0.25, seed=0)
    assert len(unseen) == 6
    assert not set(learned.compositions.formulas) & set(unseen.compositions.formulas)
    curve = fit_policy(CompositionPolicy(SMALL), target(), LIMITS, settings, alpha=ALPHA, every=40)
    assert curve[-1]["log_likelihood"] > curve[-1]["held_out"]
    assert torch.isfinite(torch.tensor(curve[-1]["held_out"]))
