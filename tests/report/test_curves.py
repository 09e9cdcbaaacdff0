"""Curves over a run: windows, counts, Wilson and bootstrap intervals."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from anchor.outcomes.tally import Tally, split_time
from anchor.report.curves import bootstrap_interval, campaign_curves, window_edges
from anchor.statistics import wilson_interval


def candidate(
    formula: str, e_hull: float | None = 0.05, novelty: float | None = 0.75, **changes: Any
) -> dict[str, Any]:
    row = {
        "formula": formula, "valid": True, "status": "scored", "novelty": novelty, "known_in": "", "step": 0,
        "charge_ok": True, "novelty_branch": "bootstrap", "reward": 1.0, "included": True, "stability": 0.5,
        "d_struct": 0.5, "d_comp": 0.5, "count_bonus": 1.0,
    }  # fmt: skip
    return row | {"energy_above_hull_ev_per_atom": e_hull} | changes


def steps(n: int, size: int, **metrics: Any) -> list[dict[str, Any]]:
    return [{"step": i, "structures": (i + 1) * size, "metrics": metrics} for i in range(n)]


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


def test_bootstrap_of_single_values_agrees_with_scipy() -> None:
    """With clusters of one value each it is the ordinary percentile bootstrap."""
    values = np.random.default_rng(0).normal(size=40)
    low, high = bootstrap_interval(values, np.ones(40, dtype=np.int64), np.random.default_rng(1))
    expected = bootstrap((values,), np.mean, method="percentile", rng=2).confidence_interval
    spread = values.std() / np.sqrt(40)
    assert low == pytest.approx(expected.low, abs=0.25 * spread)
    assert high == pytest.approx(expected.high, abs=0.25 * spread)


def test_bootstrap_resamples_whole_clusters() -> None:
    """Equal values within a cluster carry no more information than one of them."""
    rng = np.random.default_rng
    means = rng(0).normal(size=20)
    one = bootstrap_interval(means, np.ones(20, dtype=np.int64), rng(1))
    many = bootstrap_interval(32 * means, np.full(20, 32), rng(1))
    assert one == pytest.approx(many)
    assert np.isnan(bootstrap_interval(np.array([3.0, 0.0]), np.array([2, 0]), rng(1))).all()


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
        "new_msun": 2, "new_sun": 1, "known": 1, "known_anywhere": 1,
    }  # fmt: skip
    assert tally.rate("valid") == pytest.approx(6 / 7)
    assert tally.status == {"scored": 6, "not realised": 1}


def test_windows_cover_every_step_once() -> None:
    assert window_edges(156).tolist()[-1] == 156
    assert len(window_edges(156)) == 21
    assert window_edges(20).tolist() == [0, 4, 8, 12, 16, 20]
    assert window_edges(1).tolist() == [0, 1]


def test_curves_by_hand() -> None:
    rows = [
        candidate(
            f"X{step}-{i}" if i else "Same",
            e_hull=0.05 if step >= 4 else 0.5,
            valid=i < 5,
            stability=0.1 * step,
            novelty_branch="history" if i == 0 and step else "bootstrap",
            known_in="mp" if i == 1 else "",
            step=step,
        )
        for step in range(8)
        for i in range(10)
    ]
    curves = campaign_curves(rows, steps(8, 10, beta=0.01, entropy_fraction=0.5), Tally(), windows=2)
    assert curves["valid"].structures.tolist() == [20.0, 60.0]
    assert curves["valid"].value.tolist() == [0.5, 0.5]
    assert curves["metastable"].value.tolist() == [0.0, 0.5]
    assert curves["metastable"].trials.tolist() == [40, 40]
    assert curves["history"].value.tolist() == [3 / 20, 4 / 20]  # of the valid ones
    assert curves["known_anywhere"].value.tolist() == [0.2, 0.2]
    assert curves["known"].value.tolist() == [0.0, 0.0]
    assert curves["stability"].value == pytest.approx([0.15, 0.55])
    assert curves["stability"].trials.tolist() == [20, 20]
    assert curves["stability"].low[1] < 0.55 < curves["stability"].high[1]
    assert curves["beta"].value == pytest.approx([0.01, 0.01])
    assert curves["beta"].low == pytest.approx(curves["beta"].high)


def test_an_untrained_source_has_no_entropy_curve() -> None:
    curves = campaign_curves([candidate("A")], steps(1, 1, reward_mean=1.0), Tally())
    assert "beta" not in curves
    assert np.isnan(curves["stability"].low).all()  # one step: nothing to resample
    assert campaign_curves([], [], Tally()) == {}


def test_excluded_and_invalid_candidates_stay_out_of_means() -> None:
    rows = [
        candidate("A", reward=2.0),
        candidate("B", reward=None, included=False, valid=False),
        candidate("C", reward=-0.2, valid=False, stability=None),
    ]
    curves = campaign_curves(rows, steps(1, 3), Tally())
    assert curves["reward"].value[0] == pytest.approx(0.9)
    assert curves["stability"].trials.tolist() == [1]


def test_time_is_split_without_overlap() -> None:
    parts = split_time({"policy": 1.0, "relaxation": 10.0, "potential": 9.0, "database": 0.5})
    assert parts == {"policy": 1.0, "potential": 9.0, "relaxation": 1.0, "database": 0.5}
    assert split_time({"relaxation": 2.0}) == {"relaxation": 2.0}  # a ledger of an earlier version
