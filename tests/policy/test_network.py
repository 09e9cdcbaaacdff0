"""The network: sizes of the paper, no global randomness, more objectives by zero columns."""

import numpy as np
import pytest
import torch

from anchor.chemistry.features import element_features
from anchor.config import Policy
from anchor.errors import InputError
from anchor.policy.network import CompositionPolicy

SMALL = Policy(state_dim=8, hidden_dim=16, element_embedding=8)
INFORMED = SMALL.model_copy(update={"heads": "informed"})


def inputs(n: int, n_objectives: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, 84, generator=generator) < 0.3, torch.rand(n, n_objectives, generator=generator)


def test_state_is_projected_mean_descriptor_and_weights() -> None:
    policy = CompositionPolicy()
    subgroup, weights = inputs(3, 4)
    state = policy.state(subgroup, weights).detach().numpy()
    assert state.shape == (3, 36)
    matrix, bias = policy.projection.weight.detach().numpy(), policy.projection.bias.detach().numpy()
    for row in range(3):
        mean = element_features()[subgroup[row].numpy()].mean(axis=0)
        np.testing.assert_allclose(state[row, :32], matrix @ mean + bias, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(state[row, 32:], weights[row])


def test_seed_decides_the_weights_and_global_state_is_untouched() -> None:
    before = torch.get_rng_state()
    first, again, other = (CompositionPolicy(SMALL, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.element[0].weight, again.element[0].weight)
    assert not torch.equal(first.element[0].weight, other.element[0].weight)


def test_untrained_heads_are_nearly_uniform() -> None:
    policy = CompositionPolicy()
    state = policy.state(*inputs(20, 4))
    for logits in (
        policy.cardinality_logits(state),
        policy.element_logits(state, torch.zeros(20, 32), torch.full((20,), 3)),
        policy.size_logits(state, torch.zeros(20, 32)),
    ):
        assert logits.abs().max() < 0.1


@pytest.mark.parametrize("config", [SMALL, INFORMED], ids=["paper", "informed"])
def test_new_objectives_change_nothing_at_first_and_then_learn(config: Policy) -> None:
    policy = CompositionPolicy(config, seed=5).double()
    extended = policy.extend_objectives(6)
    subgroup, weights = inputs(7, 6)
    weights = weights.double()
    old = policy.state(subgroup, weights[:, :4])
    new = extended.state(subgroup, weights)
    drawn = torch.randn(7, 8, dtype=torch.float64)
    torch.testing.assert_close(extended.cardinality_logits(new), policy.cardinality_logits(old))
    slots = torch.arange(7) % 4 + 1
    torch.testing.assert_close(
        extended.element_logits(new, drawn, slots), policy.element_logits(old, drawn, slots)
    )
    torch.testing.assert_close(extended.size_logits(new, drawn), policy.size_logits(old, drawn))
    torch.testing.assert_close(counts(extended, new, drawn, slots), counts(policy, old, drawn, slots))
    extended.element_logits(new, drawn, slots)[:, 0].sum().backward()
    assert extended.element[0].weight.grad[:, -2:].abs().max() > 0


def counts(
    policy: CompositionPolicy, state: torch.Tensor, drawn: torch.Tensor, slots: torch.Tensor
) -> torch.Tensor:
    if policy.informed:
        return policy.count_logits(state, drawn, drawn, drawn, slots, slots)
    return policy.stoichiometry_logits(state, drawn, drawn)


def test_informed_heads_know_how_many_elements_are_to_come() -> None:
    drawn = torch.randn(1, 8)
    for config in (SMALL, INFORMED):
        policy = CompositionPolicy(config)
        state = policy.state(*inputs(1, 4))
        two, three = (policy.element_logits(state, drawn, torch.tensor([n])) for n in (2, 3))
        assert torch.equal(two, three) == (config is SMALL)


def test_objectives_cannot_be_lost() -> None:
    with pytest.raises(InputError, match="cannot lose"):
        CompositionPolicy(SMALL, n_objectives=5).extend_objectives(4)
    with pytest.raises(InputError, match="at least 4"):
        CompositionPolicy(SMALL, n_objectives=3)
