"""The policy's distribution over compositions: exact sampling, log-probability and entropy.

Rows are independent: each has its own objective weights and element sub-group. The order in which elements
are drawn is part of the action, so Li2O and OLi2 are two actions with two probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.policy import multinomial, sequence
from anchor.policy.actions import from_actions, to_actions
from anchor.policy.categorical import categorical_entropy, draw, masked_log_softmax
from anchor.policy.constraints import CARDINALITIES, CELL_SIZES, Limits
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context

HEADS = ("k", "elements", "T", "rho")
"""Factors of eq:policy-factor, the columns of log-probabilities and entropies."""


@dataclass(frozen=True)
class Conditions:
    """What each row is conditioned on: objective weights [n, n_objectives] and sub-group [n, 84] bool."""

    weights: Tensor
    subgroup: Tensor

    @classmethod
    def from_contexts(
        cls, contexts: Sequence[Context], rows_each: int, policy: CompositionPolicy
    ) -> Conditions:
        """`rows_each` consecutive rows for every context, on the policy's device."""
        like = policy.embedding
        weights = torch.stack([torch.as_tensor(c.weights) for c in contexts]).to(like)
        subgroup = torch.stack([torch.as_tensor(c.subgroup) for c in contexts]).to(like.device)
        return cls(weights.repeat_interleave(rows_each, 0), subgroup.repeat_interleave(rows_each, 0))


@dataclass(frozen=True)
class Actions:
    """Given compositions with every mask along their way: all that `evaluate` needs beside the network.

    Attributes:
        k: Number of elements.  # [n]
        elements: Vocabulary indices, -1 after the last.  # [n, 4]
        counts: Atoms, 0 after the last.  # [n, 4]
        present: Slots with an element.  # [n, 4] bool
        k_mask, element_mask, size_mask:  # [n, 3], [n, 4, 84], [n, 19] bool
        lower, upper: Bounds of the surplus (counts minus one).  # [n, 4]
    """

    conditions: Conditions
    k: Tensor
    elements: Tensor
    counts: Tensor
    present: Tensor
    k_mask: Tensor
    element_mask: Tensor
    size_mask: Tensor
    lower: Tensor
    upper: Tensor

    @classmethod
    def prepare(cls, compositions: Compositions, conditions: Conditions, limits: Limits) -> Actions:
        """Masks of compositions whose rows match those of `conditions`. They do not depend on the network."""
        device = conditions.subgroup.device
        elements, counts = (torch.as_tensor(a, device=device) for a in to_actions(compositions))
        present = elements >= 0
        k = present.sum(-1)
        slot = torch.arange(MAX_ELEMENTS, device=device)
        subgroup = conditions.subgroup
        drawn = one_hot(elements.clamp(min=0), subgroup.shape[-1]) * present[..., None]
        chosen = drawn.cumsum(1) - drawn > 0  # before each draw  # [n, 4, 84]
        lower, upper = limits.count_bounds(elements)
        return cls(
            conditions=conditions,
            k=k,
            elements=elements,
            counts=counts,
            present=present,
            k_mask=limits.cardinality_mask(subgroup),
            element_mask=limits.element_mask(subgroup[:, None], chosen, k[:, None] - slot),
            size_mask=limits.size_mask(elements),
            lower=(lower - 1).clamp(min=0),
            upper=(upper - 1).clamp(min=0),
        )


@dataclass(frozen=True)
class ActionLogProbs:
    """Log-probability (eq:logp) and entropy (eq:entropy) of each action by head.  # both [n, 4]"""

    log_prob_by_head: Tensor
    entropy_by_head: Tensor

    @property
    def log_prob(self) -> Tensor:
        """log π_θ(c | s) (eq:logp).  # [n]"""
        return self.log_prob_by_head.sum(-1)

    @property
    def entropy(self) -> Tensor:
        """H[π_θ](s) along the sampled action, nats (eq:entropy).  # [n]"""
        return self.entropy_by_head.sum(-1)

    def detach(self) -> ActionLogProbs:
        """The same values without gradient."""
        return ActionLogProbs(self.log_prob_by_head.detach(), self.entropy_by_head.detach())


def evaluate(policy: CompositionPolicy, actions: Actions) -> ActionLogProbs:
    """Exact log-probability and the paper's closed-form entropy of each action, differentiable.

    An action outside its masks has a log-probability near IMPOSSIBLE (finite).
    """
    state = policy.state(actions.conditions.subgroup, actions.conditions.weights)
    present = actions.present
    own = policy.embedding[actions.elements.clamp(min=0)] * present[..., None]  # [n, 4, d]
    drawn = own.sum(1)
    before = own.cumsum(1) - own
    per_slot = state[:, None].expand(-1, MAX_ELEMENTS, -1)

    log_k = masked_log_softmax(policy.cardinality_logits(state), actions.k_mask)
    slots = actions.k[:, None] - torch.arange(MAX_ELEMENTS, device=actions.k.device)
    log_e = masked_log_softmax(policy.element_logits(per_slot, before, slots), actions.element_mask)
    log_t = masked_log_softmax(policy.size_logits(state, drawn), actions.size_mask)
    log_prob_rho, entropy_rho = _stoichiometry(policy, actions, per_slot, own)

    of_elements = log_e.gather(-1, actions.elements.clamp(min=0)[..., None])[..., 0]
    size = actions.counts.sum(-1, keepdim=True)
    log_prob = [
        log_k.gather(-1, actions.k[:, None] - CARDINALITIES[0])[:, 0],
        torch.where(present, of_elements, 0).sum(-1),
        log_t.gather(-1, size - CELL_SIZES[0])[:, 0],
        log_prob_rho,
    ]
    entropies = [
        categorical_entropy(log_k, actions.k_mask),
        torch.where(present, categorical_entropy(log_e, actions.element_mask), 0).sum(-1),
        categorical_entropy(log_t, actions.size_mask),
        entropy_rho,
    ]
    return ActionLogProbs(torch.stack(log_prob, dim=-1), torch.stack(entropies, dim=-1))


def _stoichiometry(
    policy: CompositionPolicy, actions: Actions, state: Tensor, own: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of the counts, given everything before.  # two [n]

    Args:
        state, own: s, and the embedding of the element, of each slot.  # [n, 4, ...]
    """
    drawn = own.sum(1, keepdim=True).expand_as(own)
    surplus = (actions.counts - 1).clamp(min=0)
    present = actions.present
    if policy.informed:
        given = sequence.Given(state, own, present, actions.lower, actions.upper)
        return sequence.log_prob(policy, given, surplus)
    log_rho = masked_log_softmax(policy.stoichiometry_logits(state, own, drawn), present)
    log_p = multinomial.log_prob(surplus, torch.where(present, log_rho, 0), actions.lower, actions.upper)
    return log_p, surplus.sum(-1) * categorical_entropy(log_rho, present)


@torch.no_grad()
def sample(
    policy: CompositionPolicy, conditions: Conditions, limits: Limits, generator: torch.Generator
) -> Compositions:
    """One composition per row of `conditions`, drawn in the order of eq:policy-factor.

    Args:
        generator: On the policy's device; the only source of randomness.
    """
    subgroup = conditions.subgroup
    state = policy.state(subgroup, conditions.weights)
    k = CARDINALITIES[0] + draw(
        policy.cardinality_logits(state), limits.cardinality_mask(subgroup), generator
    )

    chosen = torch.zeros_like(subgroup)
    drawn = state.new_zeros(len(state), policy.embedding.shape[1])
    columns, embeddings = [], []
    for slot in range(MAX_ELEMENTS):
        mask = limits.element_mask(subgroup, chosen, k - slot)
        element = draw(policy.element_logits(state, drawn, k - slot), mask, generator)
        active = slot < k
        chosen = chosen | (one_hot(element, chosen.shape[-1]).bool() & active[:, None])
        embeddings.append(policy.embedding[element] * active[:, None])
        drawn = drawn + embeddings[-1]
        columns.append(torch.where(active, element, -1))
    elements = torch.stack(columns, dim=-1)
    own = torch.stack(embeddings, dim=1)

    size = CELL_SIZES[0] + draw(policy.size_logits(state, drawn), limits.size_mask(elements), generator)

    present = elements >= 0
    per_slot = state[:, None].expand(-1, MAX_ELEMENTS, -1)
    lower, upper = ((bound - 1).clamp(min=0) for bound in limits.count_bounds(elements))
    if policy.informed:
        surplus = sequence.sample(
            policy, sequence.Given(per_slot, own, present, lower, upper), size - k, generator
        )
    else:
        logits = policy.stoichiometry_logits(per_slot, own, drawn[:, None].expand_as(own))
        log_p = torch.where(present, masked_log_softmax(logits, present), 0)
        surplus = multinomial.sample(size - k, log_p, lower, upper, generator)
    counts = torch.where(present, surplus + 1, 0)
    return from_actions(elements.cpu().numpy(), counts.cpu().numpy())
