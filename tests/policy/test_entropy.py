"""Schedule and controller: hand-worked values, and the sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.config import Entropy
from anchor.policy.entropy import controlled_beta, scheduled_beta

PAPER = Entropy()
DECAYING = Entropy(decay_start=0.5, horizon=1000)


@pytest.mark.parametrize(
    ("structures", "beta"),
    [(0, 3.75e-3), (1000, 5.625e-3), (2000, 7.5e-3), (60_000, 7.5e-3), (100_000, 7.5e-3), (300_000, 7.5e-3)],
)
def test_paper_schedule(structures: int, beta: float) -> None:
    assert scheduled_beta(structures, PAPER) == pytest.approx(beta)


@pytest.mark.parametrize(
    ("structures", "beta"), [(500, 7.5e-3), (750, (7.5e-3 + 2e-3) / 2), (1000, 2e-3), (5000, 2e-3)]
)
def test_cosine_decay(structures: int, beta: float) -> None:
    assert scheduled_beta(structures, DECAYING) == pytest.approx(beta)


def test_too_little_entropy_raises_the_coefficient_and_too_much_lowers_it() -> None:
    assert controlled_beta(7.5e-3, 0.75, PAPER) == pytest.approx(7.5e-3 * 1.3)
    assert controlled_beta(7.5e-3, 0.95, PAPER) == pytest.approx(7.5e-3 * 0.7)


def test_dead_band_leaves_the_schedule_alone() -> None:
    for fraction in (0.8201, 0.85, 0.8799):
        assert controlled_beta(7.5e-3, fraction, PAPER) == 7.5e-3
    assert controlled_beta(7.5e-3, 0.8199, PAPER) > 7.5e-3


@given(st.floats(0, 2e-2), st.floats(0, 1), st.floats(0, 1))
def test_clipped_and_never_rising_with_entropy(scheduled: float, a: float, b: float) -> None:
    low, high = sorted([a, b])
    less, more = (controlled_beta(scheduled, fraction, PAPER) for fraction in (low, high))
    assert PAPER.minimum <= more <= less <= PAPER.maximum
