"""Rates, means and protocols by name."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from anchor.errors import InputError
from anchor.evaluate.protocol import Mean, Rate, as_plain, over_seeds
from anchor.evaluate.registry import load_protocol


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_is_scipys(counts: tuple[int, int]) -> None:
    k, n = counts
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert Rate(k, n).interval() == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_rate_counts_what_failed() -> None:
    assert Rate.of([True, None, False, 1]) == Rate(2, 4)
    assert Rate(2, 4).value == 0.5
    assert math.isnan(Rate(0, 0).value)


def test_mean_is_numpys_over_what_exists() -> None:
    found = Mean.of([1.0, None, 2.0, float("nan"), 6.0])
    assert (found.value, found.std, found.n) == (3.0, pytest.approx(np.std([1, 2, 6], ddof=1)), 3)
    assert math.isnan(Mean.of([4.0]).std)
    assert Mean.of([]).n == 0


def test_over_seeds() -> None:
    found = over_seeds([Rate(1, 10), Rate(3, 10), Rate(5, 10)])
    assert (found.value, found.std) == (pytest.approx(0.3), pytest.approx(0.2))
    assert over_seeds([Rate(1, 10), Rate(3, 10)], count=True).value == 2


def test_as_plain_has_no_nan() -> None:
    assert as_plain(Mean.of([])) == {"value": None, "std": None, "n": 0, "low": None, "high": None}
    assert as_plain(Rate(1, 4))["k"] == 1


def test_load_protocol_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="'internel' is not a protocol") as caught:
        load_protocol("internel")
    assert "internal" in str(caught.value.hint)
    with pytest.raises(InputError, match="no option pre_relax"):
        load_protocol("internal", pre_relax="chgnet", gate=None)
    with pytest.raises(InputError, match="not a gate"):
        load_protocol("internal", gate="papre")


def test_fault_is_told_from_the_columns() -> None:
    protocol = load_protocol("internal")
    good = {"status": "measured", "reason": "", "valid": True, "gate_reason": ""}
    assert protocol.fault(good) == ""
    assert protocol.fault({**good, "valid": False, "gate_reason": "not neutral"}) == "not neutral"
    assert protocol.fault({**good, "status": "failed", "reason": "unreadable"}) == "unreadable"
    assert protocol.fault({**good, "comp_validity": False}) == "comp_validity"
