"""Paired bootstrap against drawing pairs one by one, and by hand."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from anchor.errors import InputError
from anchor.evaluate.bootstrap import paired_difference
from anchor.random import generator


def test_equal_to_resampling_pairs() -> None:
    rng = generator(0, "test")
    first = (rng.random(300) < 0.4).astype(float)
    second = np.where(rng.random(300) < 0.7, first, rng.random(300) < 0.3)
    found = paired_difference(first, second)
    expected = bootstrap(
        (first, second),
        lambda a, b, axis: (a - b).mean(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        random_state=np.random.default_rng(1),
    ).confidence_interval
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.008)
    assert found.low < found.value < found.high
    assert (found.first_only, found.second_only) == (
        int(((first == 1) & (second == 0)).sum()),
        int(((first == 0) & (second == 1)).sum()),
    )


def test_pairing_narrows_the_interval() -> None:
    rng = generator(1, "test")
    base = rng.random(400) < 0.5
    better = base | (rng.random(400) < 0.05)
    paired = paired_difference(better, base)
    shuffled = paired_difference(better, rng.permutation(base))
    assert paired.high - paired.low < 0.5 * (shuffled.high - shuffled.low)


def test_no_difference_is_exactly_none() -> None:
    found = paired_difference([True, False, True], [True, False, True])
    assert (found.value, found.low, found.high, found.n) == (0, 0, 0, 3)


def test_same_seed_same_interval() -> None:
    values = ([1.5, 2.0, 4.0], [1.0, 2.5, 0.0])
    assert paired_difference(*values, seed=3) == paired_difference(*values, seed=3)


def test_what_cannot_be_paired_is_refused() -> None:
    with pytest.raises(InputError, match="2 and 1"):
        paired_difference([1, 2], [1])
    with pytest.raises(InputError, match="no pairs"):
        paired_difference([], [])
