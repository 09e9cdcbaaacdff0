"""Categorical distributions over what a mask allows: log-probabilities, entropy, draws."""

from __future__ import annotations

import torch
from torch import Tensor

IMPOSSIBLE = -1e9
"""Logarithm of a probability of zero: finite, so that gradients through masked entries are 0 and not NaN."""


def masked_log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """log softmax of mask(g, A), with IMPOSSIBLE instead of −∞ outside A."""
    return torch.where(mask, logits, IMPOSSIBLE).log_softmax(-1)


def categorical_entropy(log_p: Tensor, mask: Tensor) -> Tensor:
    """−Σ p log p over the allowed choices, nats."""
    inside = torch.where(mask, log_p, 0)
    return -(torch.where(mask, inside.exp(), 0) * inside).sum(-1)


def draw(logits: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """One index per row from softmax(mask(g, A)).  # [n, m] -> [n]"""
    probabilities = torch.where(mask, logits, IMPOSSIBLE).softmax(-1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
