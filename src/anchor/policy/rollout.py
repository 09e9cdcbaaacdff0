"""What a rollout is conditioned on: objective weights w and an element sub-group S, and its entropy bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.policy.constraints import Limits


@dataclass(frozen=True, eq=False)
class Context:
    """The condition that all actions of one group share.

    Attributes:
        weights: Objective weights w: stability, novelty, d_struct, d_comp, own objectives.  # [n_objectives]
        subgroup: Elements that may be drawn, S.  # [84] bool
    """

    weights: NDArray[np.float64]
    subgroup: NDArray[np.bool_]


def sample_context(
    limits: Limits,
    rng: np.random.Generator,
    *,
    alpha: Sequence[float],
    weights: Sequence[float] | None = None,
    subgroup_mask: bool = True,
    smallest: int = 0,
) -> Context:
    """A rollout's context: w ~ Dirichlet(α) unless fixed, S by eq:subgroup unless the mask is off.

    Args:
        smallest: Fewest elements of S, where so many are allowed; the largest k at least.
    """
    drawn = rng.dirichlet(alpha)  # drawn even when w is fixed, so that S does not depend on that choice
    subgroup = (
        sample_subgroup(limits, rng, smallest=smallest) if subgroup_mask else limits.allowed.cpu().numpy()
    )
    return Context(drawn if weights is None else np.asarray(weights, dtype=np.float64), subgroup)


def evaluation_context(limits: Limits, *, alpha: Sequence[float]) -> Context:
    """The context of evaluations: w at the Dirichlet mean, no sub-group mask."""
    return Context(np.asarray(alpha, dtype=np.float64) / sum(alpha), limits.allowed.cpu().numpy())


def sample_subgroup(limits: Limits, rng: np.random.Generator, *, smallest: int = 0) -> NDArray[np.bool_]:
    """Random elements: the size uniform in {k_max, …, E}, then a uniform set of that size (eq:subgroup).

    Required elements are always members. Where users' count bounds leave the set without any composition,
    random elements join until it has one; nothing is drawn twice.

    Returns: # [84] bool
    """
    required = limits.required.cpu().numpy()
    others = rng.permutation(np.flatnonzero(limits.allowed.cpu().numpy() & ~required))
    fewest = max(max(limits.k), min(smallest, limits.n_allowed))
    size = int(rng.integers(fewest, limits.n_allowed + 1))
    subgroup = required.copy()
    subgroup[others[: size - required.sum()]] = True
    if limits.elements_differ:
        for element in others[size - required.sum() :]:
            if limits.cardinality_mask(torch.from_numpy(subgroup).to(limits.allowed.device)).any():
                break
            subgroup[element] = True
    return subgroup


def h_max(n_elements: int, *, k: Sequence[int] = (2, 3, 4), max_atoms: int = 20) -> float:
    """Largest entropy of one action with every head uniform, nats (eq:hmax).

    The paper takes n_elements = E, one constant for a run; with n_elements = |S| the bound knows the
    sub-group. A policy with uniform heads has only 0.59 of it, since it does not always draw the largest k
    and the largest cell. So the paper's controller, with its target of 0.85, pushes up from the first step.
    """
    bounds = [
        sum(math.log(n_elements - i) for i in range(size))
        + math.log(max_atoms - size + 1)
        + (max_atoms - size) * math.log(size)
        for size in k
        if size <= min(n_elements, max_atoms)
    ]
    return math.log(len(k)) + max(bounds)
