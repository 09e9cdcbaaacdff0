"""Rates over a run: windows, counts and Wilson intervals."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from anchor.report.curves import rate_curves, wilson_interval
from anchor.search.tally import Tally


def candidate(
    formula: str, e_hull: float | None = 0.05, novelty: float | None = 0.75, **changes: Any
) -> dict[str, Any]:
    row = {"formula": formula, "valid": True, "status": "scored", "novelty": novelty, "known_in": ""}
    return row | {"energy_above_hull_ev_per_atom": e_hull} | changes


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (40, 1000)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    low, high = wilson_interval(np.array([k]), np.array([n]))
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert (low[0], high[0]) == (
        pytest.approx(expected.low, abs=1e-12),
        pytest.approx(expected.high, abs=1e-12),
    )


def test_wilson_without_trials_says_nothing() -> None:
    low, high = wilson_interval(np.array([0]), np.array([0]))
    assert (low[0], high[0]) == (0.0, 1.0)


def test_tally_by_hand() -> None:
    rows = [
        candidate("A"),  # MSUN
        candidate("A"),  # a repeat: not unique
        candidate("B", e_hull=-0.01),  # SUN
        candidate("C", e_hull=0.3),
        candidate("D", novelty=0.4),  # metastable, not novel
        candidate("E", known_in="mp,reference"),
        candidate("F", e_hull=None, novelty=None, valid=False, status="not realised"),
    ]
    tally = Tally().add_all(rows)
    assert tally.proposed == 7
    assert tally.counts == {
        "valid": 6, "unique": 6, "novel": 5, "metastable": 5, "stable": 1, "msun": 3, "sun": 1,
        "known": 1, "known_anywhere": 1,
    }  # fmt: skip
    assert tally.rate("valid") == pytest.approx(6 / 7)
    assert tally.status == {"scored": 6, "not realised": 1}


def test_windows_cover_every_candidate_once() -> None:
    rows = [candidate(f"X{i}", e_hull=0.05 if i >= 50 else 0.5) for i in range(100)]
    curve = rate_curves(rows, Tally(), windows=4)["metastable"]
    assert curve.trials.tolist() == [25, 25, 25, 25]
    assert curve.count.tolist() == [0, 0, 25, 25]
    assert curve.structures.tolist() == [12.5, 37.5, 62.5, 87.5]
    assert ((curve.low <= curve.rate) & (curve.rate <= curve.high)).all()
    assert rate_curves([], Tally()) == {}
