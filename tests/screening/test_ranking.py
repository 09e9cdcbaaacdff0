"""The ranking is exact: the best of all, as by brute force, whatever the coefficients of the estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from every_formula import FEW, by_hand

from anchor.chemistry.spaces import sample_neutral
from anchor.config import ActionSpace
from anchor.policy.constraints import Limits
from anchor.random import generator
from anchor.screening import ranking
from anchor.screening.ceiling import Ceiling
from anchor.screening.estimate import Estimates, FreeEstimate, load_estimate
from anchor.screening.nearness import nearness_of
from anchor.screening.ranking import rank


@pytest.fixture(scope="module")
def estimate() -> FreeEstimate:
    return load_estimate()


def other(estimate: FreeEstimate, seed: int) -> FreeEstimate:
    """The same with other coefficients, of either sign."""
    rng = np.random.default_rng(seed)
    chances, find = estimate.chances, estimate.plausibility
    drawn = tuple(rng.normal(scale=0.5, size=len(chances.metastable)).tolist())
    plausible = tuple((np.array(find.coefficients) * rng.uniform(0.5, 1.5, len(find.coefficients))).tolist())
    return replace(
        estimate,
        chances=replace(chances, metastable=drawn),
        plausibility=replace(find, coefficients=plausible),
    )


@pytest.fixture(scope="module")
def everything(estimate: FreeEstimate) -> Estimates:
    return estimate(by_hand(FEW, (2, 3)))


@pytest.mark.parametrize("n", [25, 400])
@pytest.mark.parametrize("include_known", [False, True])
def test_the_best_are_those_of_brute_force(
    estimate: FreeEstimate, everything: Estimates, n: int, include_known: bool
) -> None:
    limits = Limits.from_config(ActionSpace(elements=FEW, k=(2, 3)))
    found = rank(estimate, limits, n, include_known=include_known)
    formulas = np.array(by_hand(FEW, (2, 3)).formulas)
    kept = np.ones(len(formulas), dtype=bool) if include_known else ~everything.known
    order = np.argsort(-everything.metastable[kept], kind="stable")[:n]
    assert found.metastable == pytest.approx(everything.metastable[kept][order], abs=1e-4)
    sure = found.metastable > found.metastable[-1] + 1e-4  # the last may be one of several alike
    assert set(np.array(found.compositions.formulas)[sure]) <= set(formulas[kept][order])
    assert found.listed == {2: int((by_hand(FEW, (2, 3)).k == 2).sum()), 3: len(formulas) - found.listed[2]}
    assert found.complete
    assert not found.exhausted


@pytest.mark.parametrize("seed", range(4))
def test_no_chance_is_above_its_ceiling(estimate: FreeEstimate, seed: int) -> None:
    changed = other(estimate, seed)
    drawn = sample_neutral(300, generator(seed, "ceiling"))
    near = nearness_of(drawn, changed.prior, any_units=True)
    most, found = Ceiling.of(changed)(drawn, near), changed(drawn, near=near)
    assert (found.metastable <= most).all()


def test_ceilings_leave_formulas_out(estimate: FreeEstimate) -> None:
    """With many elements and few places most need no energy, and the best are still the best."""
    elements = (*FEW, "K", "Ca", "Y", "Zr", "Al", "F")
    limits = Limits.from_config(ActionSpace(elements=elements, k=(2, 3), max_atoms=6))
    few, all_of_them = rank(estimate, limits, 20), rank(estimate, limits, 100_000)
    assert few.estimated < 0.75 * all_of_them.estimated
    assert few.metastable.tolist() == all_of_them.metastable[:20].tolist()
    assert all_of_them.exhausted
    assert len(all_of_them) + all_of_them.known == sum(all_of_them.listed.values())


def test_quaternaries_within_reach_are_the_best_of_all(
    estimate: FreeEstimate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those near a known crystal come in the order they have among all; that others are missing is said."""
    limits = Limits.from_config(ActionSpace(elements=("Li", "Na", "Ca", "Fe", "P", "O"), k=(4,)))
    listed = rank(estimate, limits, 60)
    monkeypatch.setattr(ranking, "FEW_ELEMENTS", 0)
    reached = rank(estimate, limits, 60)
    near = nearness_of(listed.compositions, estimate.prior, any_units=True).nearest >= ranking.FARTHEST_REACH
    among_all = np.array(listed.compositions.formulas)[near].tolist()
    assert reached.compositions.formulas[: len(among_all)] == among_all
    assert len(among_all) > 0
    assert reached.listed[4] < listed.listed[4]
    assert reached.complete <= bool(near.all())
    assert listed.complete
