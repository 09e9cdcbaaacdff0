"""Multinomial truncated to a box of counts: exact normaliser, log-probability and sampling (eq:head-c).

The surplus ñ of four slots (atoms beyond the one that each drawn element has) is multinomial with
probabilities p, conditioned on a_i ≤ ñ_i ≤ b_i. Its weight is ∏ p_i^ñ_i / ñ_i!, so the normaliser for Σ ñ = n
is the coefficient of x^n in the product of the slots' truncated exponential series. Everything is done with
logarithms, since a forced improbable count underflows otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anchor.policy.categorical import IMPOSSIBLE
from anchor.policy.constraints import CELL_SIZES

SURPLUS = CELL_SIZES[-1] - CELL_SIZES[0] + 1
"""Possible values of a slot's surplus: 0 to 18."""


def log_terms(log_p: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Log of p_i^j / j! for each surplus j inside the box, IMPOSSIBLE outside.

    Args:
        log_p: Log-probability of each slot.  # [n, 4]
        lower, upper: Bounds of the surplus, inclusive.  # [n, 4] int

    Returns: # [n, 4, 19]
    """
    j = torch.arange(SURPLUS, device=log_p.device)
    inside = (lower[..., None] <= j) & (j <= upper[..., None])
    terms = j * log_p[..., None] - torch.lgamma(j.to(log_p.dtype) + 1)
    return torch.where(inside, terms, IMPOSSIBLE)


def _rest(series: Tensor, total: Tensor) -> Tensor:
    """Log-coefficient of x^(total − j) for each j; IMPOSSIBLE below x^0.  # [n, 19], [n, m] -> [n, m, 19]"""
    j = torch.arange(SURPLUS, device=series.device)
    power = total[..., None] - j
    values = series.gather(-1, power.clamp(min=0).flatten(1)).view(power.shape)
    return torch.where(power >= 0, values, IMPOSSIBLE)


def _suffix_series(terms: Tensor) -> list[Tensor]:
    """Log-coefficients of the product of the series of slots i … 3, for i = 1, 2, 3.  # each [n, 19]"""
    every_total = torch.arange(SURPLUS, device=terms.device).expand(len(terms), SURPLUS)
    series = [terms[:, -1]]
    for slot in range(terms.shape[1] - 2, 0, -1):
        product = terms[:, slot, None, :] + _rest(series[0], every_total)
        series.insert(0, product.logsumexp(-1))
    return series


def log_prob(surplus: Tensor, log_p: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Exact log-probability of a surplus under the truncated multinomial; differentiable in log_p.

    Args:
        surplus: Atoms of each slot beyond the first.  # [n, 4] int
        log_p, lower, upper: As in `log_terms`.

    Returns: # [n]; about IMPOSSIBLE when the surplus is outside the box
    """
    terms = log_terms(log_p, lower, upper)
    weight = terms.gather(-1, surplus[..., None])[..., 0].sum(-1)
    total = surplus.sum(-1, keepdim=True)
    rest = _rest(_suffix_series(terms)[0], total)[:, 0]
    return weight - (terms[:, 0] + rest).logsumexp(-1)


def sample(total: Tensor, log_p: Tensor, lower: Tensor, upper: Tensor, generator: torch.Generator) -> Tensor:
    """Exact draws: each slot's surplus given those before it and what the slots after it can take.

    Args:
        total: Atoms to distribute; some surplus inside the box must have this sum.  # [n] int
        log_p, lower, upper: As in `log_terms`.

    Returns: surplus.  # [n, 4] int
    """
    terms = log_terms(log_p, lower, upper)
    series = _suffix_series(terms)
    left, drawn = total, []
    for slot, rest in enumerate(series):
        weights = (terms[:, slot] + _rest(rest, left[:, None])[:, 0]).softmax(-1)
        drawn.append(torch.multinomial(weights, 1, generator=generator)[:, 0])
        left = left - drawn[-1]
    return torch.stack([*drawn, left], dim=-1)
