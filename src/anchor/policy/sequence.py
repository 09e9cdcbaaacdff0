"""Counts drawn one after another: the stoichiometry of a policy with informed heads.

The surplus of each slot (atoms beyond the first of each drawn element) has a categorical of its own, given
the elements, the atoms that are left and what the slots before it took. A count is allowed when the slots
after it can take the rest within their bounds: no draw ends in a dead end, and probabilities sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anchor.policy.categorical import categorical_entropy, draw, masked_log_softmax
from anchor.policy.multinomial import SURPLUS
from anchor.policy.network import CompositionPolicy


@dataclass(frozen=True)
class Given:
    """What is known before the first count.

    Attributes:
        state: s.  # [n, 4, state]
        own: Embedding of each slot's element, 0 without one.  # [n, 4, d]
        present: Slots with an element.  # [n, 4] bool
        lower, upper: Bounds of the surplus, inclusive, 0 without an element.  # [n, 4] int
    """

    state: Tensor
    own: Tensor
    present: Tensor
    lower: Tensor
    upper: Tensor

    @property
    def to_come(self) -> Tensor:
        """Elements without a count, this one included.  # [n, 4] int"""
        return _from_here(self.present.long())

    def allowed(self, left: Tensor) -> Tensor:
        """Surpluses of each slot after which the slots behind it can take the rest.  # [n, 4, 19] bool

        Args:
            left: Atoms left for the slot and those behind it.  # [n, 4] int
        """
        j = torch.arange(SURPLUS, device=left.device)
        rest = left[..., None] - j
        low, high = (_from_here(bound) - bound for bound in (self.lower, self.upper))
        inside = (self.lower[..., None] <= j) & (j <= self.upper[..., None])
        return inside & (low[..., None] <= rest) & (rest <= high[..., None])


def log_prob(policy: CompositionPolicy, given: Given, surplus: Tensor) -> tuple[Tensor, Tensor]:
    """Exact log-probability of a surplus [n, 4], and the entropy of the draws along it.  # two [n]

    A surplus outside its bounds has a log-probability near IMPOSSIBLE.
    """
    own, present = given.own, given.present
    left = _from_here(surplus)
    taken = own * (surplus + 1)[..., None]
    log_p, mask = _log_p(policy, given, taken.cumsum(1) - taken, left)
    chosen = log_p.gather(-1, surplus[..., None])[..., 0]
    entropy = categorical_entropy(log_p, mask)
    return torch.where(present, chosen, 0).sum(-1), torch.where(present, entropy, 0).sum(-1)


def sample(policy: CompositionPolicy, given: Given, total: Tensor, generator: torch.Generator) -> Tensor:
    """Draws whose sum is `total` [n].  # [n, 4] int"""
    placed = torch.zeros_like(given.own)
    left = total[:, None].expand(given.present.shape).clone()
    columns: list[Tensor] = []
    for slot in range(given.present.shape[1]):
        log_p, mask = _log_p(policy, given, placed, left)
        count = torch.where(given.present[:, slot], draw(log_p[:, slot], mask[:, slot], generator), 0)
        columns.append(count)
        left[:, slot + 1 :] -= count[:, None]
        placed[:, slot + 1 :] += (given.own[:, slot] * (count + 1)[:, None])[:, None]
    return torch.stack(columns, dim=-1)


def _log_p(policy: CompositionPolicy, given: Given, placed: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of every surplus of every slot, and what is allowed.  # two [n, 4, 19]"""
    drawn = given.own.sum(1, keepdim=True).expand_as(given.own)
    mask = given.allowed(left)
    logits = policy.count_logits(given.state, given.own, drawn, placed, left, given.to_come)
    return masked_log_softmax(logits, mask), mask


def _from_here(values: Tensor) -> Tensor:
    """Sum over a slot and all behind it.  # [n, 4] -> [n, 4]"""
    return values.flip(1).cumsum(1).flip(1)
