"""Saved policies: bit-exact round trips, clear refusals."""

from typing import Any

import pytest
import torch
from safetensors.torch import save as save_tensors

from anchor.config import Policy
from anchor.errors import InputError
from anchor.policy import weights
from anchor.policy.network import CompositionPolicy
from anchor.weights import pack, unpack

SMALL = Policy(state_dim=8, hidden_dim=16, element_embedding=8)


def trained() -> tuple[CompositionPolicy, torch.optim.Adam]:
    policy = CompositionPolicy(SMALL, n_objectives=5, seed=1)
    optimiser = weights.make_optimiser(policy, 1e-3)
    for _ in range(3):
        optimiser.zero_grad()
        policy.cardinality_logits(torch.ones(2, 13)).sum().backward()
        optimiser.step()
    return policy, optimiser


def test_round_trip_is_bit_exact() -> None:
    policy, optimiser = trained()
    data = weights.save(policy, optimiser)
    again, optimiser_again = weights.load(data, learning_rate=1e-3)
    assert again.n_objectives == 5
    assert again.config == SMALL
    assert weights.save(again, optimiser_again) == data
    parameter = again.cardinality[0].weight
    assert float(optimiser_again.state[parameter]["step"]) == 3
    assert torch.equal(
        optimiser_again.state[parameter]["exp_avg_sq"],
        optimiser.state[policy.cardinality[0].weight]["exp_avg_sq"],
    )


def test_policy_alone_and_dtype() -> None:
    policy = CompositionPolicy(SMALL).double()
    again = weights.load_policy(weights.save(policy))
    assert again.embedding.dtype == torch.float64
    assert torch.equal(again.embedding, policy.embedding)


@pytest.mark.parametrize("data", [b"", b"not weights at all", save_tensors({"x": torch.ones(2)})])
def test_foreign_files_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="not a policy file"):
        weights.load_policy(data)


@pytest.mark.parametrize(
    "change", [{"sizes": None}, {"sizes": {"state_dim": "x"}}, {"sizes": {"odd": 1}}, {"n_objectives": "x"}]
)
def test_a_card_that_was_tampered_with_is_refused(change: dict[str, Any]) -> None:
    card, tensors = unpack(weights.save(CompositionPolicy(SMALL)), what="policy")
    with pytest.raises(InputError, match="policy file is damaged"):
        weights.load_policy(pack(tensors, card | change))


def test_a_card_that_is_no_object_is_refused() -> None:
    for card in ("3", "[" * 100_000):
        with pytest.raises(InputError, match="the card of a policy file is damaged"):
            weights.load_policy(save_tensors({"x": torch.ones(2)}, metadata={"anchor": card}))


def test_missing_weights_are_refused() -> None:
    policy = CompositionPolicy(SMALL)
    del policy.size
    with pytest.raises(InputError, match="damaged"):
        weights.load_policy(weights.save(policy))


def test_other_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = weights.save(CompositionPolicy(SMALL))
    monkeypatch.setattr(weights, "element_features", lambda: torch.zeros(84, 38).numpy())
    with pytest.raises(InputError, match="descriptors"):
        weights.load_policy(data)


def test_weights_that_are_not_finite_are_refused() -> None:
    policy, _ = trained()
    with torch.no_grad():
        next(policy.parameters()).fill_(float("nan"))
    with pytest.raises(InputError, match="not finite"):
        weights.load_policy(weights.save(policy))
