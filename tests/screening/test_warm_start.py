"""Warm start on free rewards, and what it leaves behind."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.cli.main import app as main
from anchor.cli.policy import app
from anchor.config import load_config
from anchor.hull.references import dft_hull
from anchor.policy.constraints import Limits
from anchor.policy.draw import draw_compositions
from anchor.policy.grpo import Proposal
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context
from anchor.priors import templates
from anchor.reference.reference import load_reference
from anchor.screening import warm_start as free
from anchor.screening.evidence import dft_hulls
from anchor.screening.plausibility import load_plausibility
from anchor.screening.surrogate import PairNetwork, Sizes, Surrogate
from anchor.search.policies import DEFAULT_POLICY, load_trained

SEARCHABLE = ("Li", "Na", "K", "Mg", "Ca", "Al", "Si", "Ti", "Fe", "Zn", "N", "O", "F", "S", "Cl")


@pytest.fixture(scope="module")
def estimator() -> free.Estimator:
    """Real hull, reference and templates; an untrained surrogate is as good as any for the arithmetic."""
    members = [PairNetwork(Sizes(8, 12, 1), member=m) for m in range(2)]
    surrogate = Surrogate(members, floor=(0.05, 0.05), scale=(1.0, 1.0))
    return free.Estimator(surrogate, dft_hulls(), load_reference(), templates.load(), load_plausibility())


@pytest.fixture
def config():
    return free.warm_start_config(structures=512, overrides=["grpo.groups_per_step=2"])


# Estimates


def test_estimate_agrees_with_its_parts(estimator: free.Estimator) -> None:
    batch = Compositions.from_list(["NaCl", "Na4Cl4", "NaCl2", "K7Mg2O8F3", "MgAl2O4", "Y2Co4P4"])
    found = estimator(batch)
    energy, spread = estimator.surrogate.predict(batch)
    above = energy - np.stack([dft_hull(name).hull_energy(batch.formulas) for name in ("oqmd", "mp")], axis=1)
    np.testing.assert_allclose(found.evidence.above_hull, above.max(axis=1), atol=1e-9)
    larger = [own[i] for own, i in zip(spread, above.argmax(axis=1), strict=True)]
    np.testing.assert_allclose(found.evidence.spread, larger)
    assert found.neutral.tolist() == is_neutral(batch).tolist()
    assert found.known.tolist() == [bool(load_reference().known(f)) for f in batch.formulas]
    probability = estimator.plausibility.probability(found.evidence)
    np.testing.assert_allclose(found.find, np.where(found.neutral, probability, 0))


def test_utility_rises_from_nothing_to_almost_two() -> None:
    p = np.array([0.0, 1e-9, math.exp(-5), 0.02, 1.0])
    tiny = math.exp(-5)
    expected = [0, 1e-9 / 0.02, tiny / (tiny + 0.02) + 0.5, 0.5 + 1 + math.log(0.02) / 10, 1 / 1.02 + 1]
    np.testing.assert_allclose(free.find_utility(p), expected)


# Reward


def test_reward_worked_by_hand(estimator: free.Estimator, config) -> None:
    score = free.FreeReward(estimator, config)
    batch = Compositions.from_list(["K2MgSN2", "NaCl", "Na2Cl", "NaCl"])
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    estimate = estimator(batch)
    assert estimate.neutral.tolist()[1:] == [True, False, True]
    (scores,) = score(Proposal(0, [Context(weights, np.ones(84, dtype=bool))], batch, len(batch)))
    result = scores.reward
    # NaCl: known, so no novelty; proposed twice in the group, so n_f = 2 for both, and paid once
    evidence = estimate.evidence
    stability = 1 - np.clip(evidence.above_hull[1] + evidence.spread[1], 0, 1)
    # families: NaCl against K2MgSN2, Na2Cl and NaCl
    d_comp = _d_comp(batch, 1)
    expected = 0.4 * stability + 0.2 * free.STRUCTURAL_DIVERSITY + 0.1 * d_comp + 1 / math.sqrt(2)
    paid = 2.0 * 0.4 * (estimate.find[1] / (estimate.find[1] + 0.02) + 1 + math.log(estimate.find[1]) / 10)
    cost = estimator.settings.atom_cost * 2
    assert result[[1, 3]].tolist() == pytest.approx([expected + paid - cost, expected - cost])
    assert result[2] == config.reward.invalid
    assert score.counts == Counter({"NaCl": 2} | ({estimate.formulas[0]: 1} if estimate.neutral[0] else {}))


def _d_comp(batch: Compositions, row: int) -> float:
    from anchor.chemistry.elements import NUMBER
    from anchor.chemistry.families import FAMILY

    sets = [{int(FAMILY[NUMBER[e]]) for e in c.elements} for c in batch]
    others = [s for i, s in enumerate(sets) if i != row]
    return 1 - sum(len(sets[row] & s) / len(sets[row] | s) for s in others) / len(others)


def test_a_find_is_paid_once(estimator: free.Estimator, config) -> None:
    batch = Compositions.from_list(["Li5Zn2N2Cl3"] * 2)
    estimate = estimator(batch)
    assert estimate.neutral.all()
    assert not estimate.known.any()
    believed = replace(estimate, find=np.array([0.5, 0.5]))
    score = free.FreeReward(_Fixed(estimator, believed), config)
    context = Context(np.array([0.0, 1.0, 0.0, 0.0]), np.ones(84, dtype=bool))
    proposal = Proposal(0, [context], batch, len(batch))
    first, repeat = score(proposal)[0].reward
    worth = estimator.settings.weight * (0.5 / 0.52 + 1 - math.log(2) / 10)
    assert first - repeat == pytest.approx(config.novelty.bootstrap + worth)
    later = score(proposal)[0].reward
    assert later[0] == later[1] == pytest.approx(1 / math.sqrt(4) - estimator.settings.atom_cost * 12)


class _Fixed:
    """An estimator that always answers the same."""

    def __init__(self, real: free.Estimator, answer: free.Estimate) -> None:
        self.settings, self.answer = real.settings, answer

    def __call__(self, _compositions: Compositions) -> free.Estimate:
        return self.answer


# Learning


@pytest.fixture(scope="module")
def learned(estimator: free.Estimator):
    config = free.warm_start_config(structures=2560, overrides=["grpo.groups_per_step=4"])
    limits = Limits.from_config(config.action_space, searchable=SEARCHABLE)
    return limits, *free.warm_start(config, limits, estimator, window=1000)


def test_warm_start_learns_neutrality_and_its_own_finds(learned) -> None:
    _, _, run = learned
    assert run["end"]["neutral"] > 2 * run["start"]["neutral"]
    assert run["end"]["plausible"] > run["start"]["plausible"]
    assert [p["rollouts"] for p in run["curve"]] == [1024, 2048, 2560]
    assert sum(p["n"] for p in run["curve"]) == run["rollouts"] == 2560


def test_warm_start_is_reproducible_and_stays_within_the_limits(learned, estimator: free.Estimator) -> None:
    limits, policy, _ = learned
    config = free.warm_start_config(structures=2560, overrides=["grpo.groups_per_step=4"])
    again, _ = free.warm_start(config, limits, estimator, window=1000)
    for name, tensor in policy.state_dict().items():
        assert tensor.equal(again.state_dict()[name]), name
    drawn, _ = draw_compositions(policy, 200, limits, [1 / 7, 4 / 7, 1 / 7, 1 / 7])
    assert {e for c in drawn for e in c.elements} <= set(SEARCHABLE)


def test_policy_stays_conditioned_on_the_objectives(learned) -> None:
    limits, policy, _ = learned
    import torch

    subgroup = limits.allowed[None]
    states = [policy.state(subgroup, torch.tensor([w])) for w in ([1.0, 0, 0, 0], [0, 1.0, 0, 0])]
    logits = [policy.cardinality_logits(s) for s in states]
    assert not torch.allclose(*logits)


def test_description_counts_what_it_names(estimator: free.Estimator) -> None:
    batch = Compositions.from_list(["NaCl", "NaCl", "Na2Cl2", "K2MgSN2", "Na2Cl"])
    found = free.describe(batch, estimator(batch))
    assert (found["n"], found["unique"], found["mean_atoms"]) == (5, 3, 3.4)
    assert found["k"] == [4, 0, 1]
    shares = np.array([4, 4, 1, 1, 1, 1]) / 12  # Na, Cl, K, Mg, S, N
    assert found["effective_elements"] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), abs=0.06)
    assert found["most_frequent_elements"]["Na"] == 4


def test_paper_mode_does_not_warm_start() -> None:
    assert load_config(preset="paper").config.policy.start_from is None


# What ships


def test_shipped_policy_is_the_one_of_its_card() -> None:
    import hashlib

    data = DEFAULT_POLICY.read_bytes()
    card = json.loads(DEFAULT_POLICY.with_suffix(".json").read_text())
    assert hashlib.sha256(data).hexdigest() == card["sha256"]
    assert len(data) < 4_000_000
    shipped = load_trained("default")
    drawn = shipped.draw(500, seed=1)
    untrained = replace(shipped, network=CompositionPolicy()).draw(500, seed=1)
    assert is_neutral(drawn).sum() > 400 > 3 * is_neutral(untrained).sum()
    assert len(set(drawn.formulas)) > 480
    elements = Counter(e for c in drawn for e in c.elements)
    assert max(elements.values()) < 0.3 * 500
    assert set(drawn.k.tolist()) == {2, 3, 4}


def test_describe_command_draws_what_sample_draws() -> None:
    result = CliRunner().invoke(app, ["describe", "default", "-n", "100", "--seed", "3", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["n"] == 100
    assert found["neutral"] > 70
    result = CliRunner().invoke(main, ["sample", "default", "-n", "100", "--seed", "3", "--json"])
    rows = json.loads(result.stdout)
    assert found["neutral"] == sum(row["charge_neutral"] for row in rows)
    assert found["known"] == sum(bool(row["known_in"]) for row in rows)
    elements = Counter(e for c in Compositions.from_list([r["cell"] for r in rows]) for e in c.elements)
    for symbol, count in found["most_frequent_elements"].items():
        assert elements[symbol] == count


def test_unknown_policy_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["describe", str(tmp_path / "none.safetensors")])
    assert result.exit_code != 0
    assert "no policy file" in str(result.exception)
