"""Truncated multinomial: against SciPy without truncation, brute force with it; chi-square of samples."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, multinomial

from anchor.policy.categorical import IMPOSSIBLE
from anchor.policy.multinomial import log_prob, sample


def boxes(total: int, lower: list[int], upper: list[int]) -> list[tuple[int, ...]]:
    """Every surplus inside the box with the given sum."""
    ranges = [range(a, b + 1) for a, b in zip(lower, upper, strict=True)]
    return [n for n in itertools.product(*ranges) if sum(n) == total]


def weights(surpluses: list[tuple[int, ...]], p: np.ndarray) -> np.ndarray:
    return np.array(
        [math.prod(q**j / math.factorial(j) for q, j in zip(p, n, strict=True)) for n in surpluses]
    )


@st.composite
def truncations(draw: st.DrawFn) -> tuple[int, list[int], list[int], np.ndarray]:
    """A total and a box that it fits in, with probabilities."""
    lower = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    upper = [a + draw(st.integers(0, 6)) for a in lower]
    total = draw(st.integers(sum(lower), min(sum(upper), 18)))
    p = np.array(draw(st.lists(st.floats(1e-3, 1), min_size=4, max_size=4)))
    return total, lower, upper, p / p.sum()


@settings(deadline=None, max_examples=60)
@given(truncations())
def test_log_prob_is_the_truncated_multinomial(case: tuple[int, list[int], list[int], np.ndarray]) -> None:
    total, lower, upper, p = case
    surpluses = boxes(total, lower, upper)
    expected = weights(surpluses, p)
    n = len(surpluses)
    found = log_prob(
        torch.tensor(surpluses),
        torch.tensor(np.log(p)).expand(n, 4),
        torch.tensor(lower).expand(n, 4),
        torch.tensor(upper).expand(n, 4),
    )
    np.testing.assert_allclose(found.exp().numpy(), expected / expected.sum(), rtol=1e-9)


def test_without_truncation_it_is_scipys_multinomial() -> None:
    p = np.array([0.5, 0.2, 0.2, 0.1])
    surpluses = boxes(7, [0] * 4, [18] * 4)
    n = len(surpluses)
    found = log_prob(
        torch.tensor(surpluses),
        torch.tensor(np.log(p)).expand(n, 4),
        torch.zeros(n, 4, dtype=torch.int64),
        torch.full((n, 4), 18),
    )
    np.testing.assert_allclose(found, multinomial.logpmf(surpluses, 7, p), rtol=1e-10)


def test_outside_the_box_is_impossible_but_finite() -> None:
    found = log_prob(
        torch.tensor([[12, 0, 0, 0]]),
        torch.log(torch.full((1, 4), 0.25)),
        torch.zeros(1, 4, dtype=torch.int64),
        torch.full((1, 4), 11),
    )
    assert IMPOSSIBLE * 2 < float(found) < IMPOSSIBLE / 2


def test_forced_improbable_counts_are_exact_in_float32() -> None:
    # 11 atoms must go to an element of probability e^-60, far below float32's range when multiplied out.
    log_p = torch.tensor([[0.0, -60.0, 0.0, 0.0]])
    zeros, upper = torch.zeros(1, 4, dtype=torch.int64), torch.tensor([[5, 11, 0, 0]])
    assert float(log_prob(torch.tensor([[5, 11, 0, 0]]), log_p, zeros, upper)) == pytest.approx(0, abs=1e-3)


def test_gradient_matches_finite_differences() -> None:
    torch.manual_seed(0)
    log_p = torch.randn(6, 4, dtype=torch.float64).log_softmax(-1).requires_grad_()
    surplus = torch.tensor(
        [[3, 2, 1, 0], [2, 2, 2, 2], [5, 0, 1, 1], [4, 4, 0, 0], [1, 0, 0, 5], [0, 0, 0, 2]]
    )
    lower, upper = torch.zeros(6, 4, dtype=torch.int64), torch.full((6, 4), 5)
    assert torch.autograd.gradcheck(lambda x: log_prob(surplus, x, lower, upper), log_p)


def test_samples_have_the_right_frequencies() -> None:
    lower, upper, p, n = [1, 0, 0, 0], [4, 3, 5, 0], np.array([0.6, 0.25, 0.149, 0.001]), 20_000
    drawn = sample(
        torch.full((n,), 6),
        torch.tensor(np.log(p)).expand(n, 4),
        torch.tensor(lower).expand(n, 4),
        torch.tensor(upper).expand(n, 4),
        torch.Generator().manual_seed(1),
    ).tolist()
    surpluses = boxes(6, lower, upper)
    expected = weights(surpluses, p)
    observed = [drawn.count(list(surplus)) for surplus in surpluses]
    assert sum(observed) == n  # nothing outside the box
    assert chisquare(observed, expected / expected.sum() * n).pvalue > 1e-3
