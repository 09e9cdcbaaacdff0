"""Confidence intervals on differences of paired evaluations, by bootstrap over the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anchor.errors import InputError
from anchor.random import generator

DRAWS = 10_000


@dataclass(frozen=True)
class Difference:
    """Mean of first − second over n pairs, and its interval.

    Attributes:
        value: The difference.
        low: Lower end of the interval.
        high: Upper end.
        n: Pairs.
        first_only: Pairs in which the first is larger (for flags: only the first has it).
        second_only: Pairs in which the second is larger.
    """

    value: float
    low: float
    high: float
    n: int
    first_only: int
    second_only: int


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, level: float = 0.95, seed: int = 0
) -> Difference:
    """Difference of the means of paired values with its percentile bootstrap interval.

    Pairs are drawn with replacement, `DRAWS` times. Drawing how often each distinct difference occurs is the
    same and needs no loop: there are three for flags.

    Args:
        first: Values of the first evaluation (flags count as 0 and 1).  # [n]
        second: Values of the second, in the same order.  # [n]
        level: Coverage of the interval.
        seed: Same seed, same interval.
    """
    if len(first) != len(second):
        raise InputError(f"{len(first)} and {len(second)} values cannot be paired")
    if not len(first):
        raise InputError("there are no pairs to compare")
    delta = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    values, counts = np.unique(delta, return_counts=True)
    drawn = generator(seed, "bootstrap").multinomial(len(delta), counts / len(delta), size=DRAWS)
    low, high = np.quantile(drawn @ values / len(delta), [(1 - level) / 2, (1 + level) / 2])
    return Difference(
        float(delta.mean()),
        float(low),
        float(high),
        len(delta),
        int((delta > 0).sum()),
        int((delta < 0).sum()),
    )
