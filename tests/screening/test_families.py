"""Families of formulas: every neutral formula within limits, each once; nearest templates all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from every_formula import FEW, by_hand

from anchor.chemistry.composition import Compositions
from anchor.config import ActionSpace
from anchor.policy.constraints import Limits
from anchor.policy.untrained import within
from anchor.priors import templates
from anchor.screening.families import Pool, list_family, stoichiometries
from anchor.screening.nearness import nearness_of, nearness_of_family, within_reach


@pytest.fixture(scope="module")
def prior() -> templates.TemplatePrior:
    return templates.load()


def pool(**wishes: Any) -> tuple[Pool, Limits]:
    limits = Limits.from_config(ActionSpace(**wishes))
    return Pool.of(limits), limits


def test_every_neutral_formula_once() -> None:
    few, _ = pool(elements=FEW)
    ours = [f for k in (2, 3, 4) for r in stoichiometries(k) for f in list_family(r, few).cells.formulas]
    assert sorted(ours) == sorted(by_hand(FEW, (2, 3, 4)).formulas)


def test_as_many_binaries_as_the_paper_counts() -> None:
    every, _ = pool()
    listed = sum(len(list_family(ratio, every)) for ratio in stoichiometries(2))
    assert listed == 43_996  # anchor compositions count


def test_cells_are_the_smallest_within_the_limits() -> None:
    wishes = {"must_contain": ("O",), "min_counts": {"Li": 2}, "max_counts": {"O": 6}, "max_atoms": 14}
    few, limits = pool(elements=FEW, min_atoms=5, **wishes)
    found = [list_family(r, few).cells for k in (2, 3) for r in stoichiometries(k)]
    cells = Compositions.concatenate(found)
    assert within(cells, limits).all()
    every = by_hand(FEW, (2, 3))
    smallest: dict[str, int] = {}
    for units in range(1, 8):
        larger = every.times(units)
        fits = within(larger, limits)
        for formula, atoms in zip(larger[fits].formulas, larger[fits].n_atoms.tolist(), strict=True):
            smallest.setdefault(formula, atoms)
    assert dict(zip(cells.formulas, cells.n_atoms.tolist(), strict=True)) == smallest
    assert (cells.n_atoms > cells.reduced().n_atoms).any()  # some need several formula units


def test_a_whole_family_is_as_near_as_its_members_one_by_one(prior: templates.TemplatePrior) -> None:
    few, _ = pool(elements=(*FEW, "K", "F", "Cu"))
    for ratio in [(1, 1), (2, 3), (1, 1, 1), (1, 1, 3), (1, 2, 4), (1, 1, 2, 6), (5, 7, 8)]:
        formulas = list_family(ratio, few)
        family = nearness_of_family(formulas, few, prior)
        single = nearness_of(formulas.cells, prior, any_units=True)
        assert family.nearest == pytest.approx(single.nearest, abs=1e-4)
        assert (family.templates == single.templates).all()
        assert (family.everyday == single.everyday).all()


def test_within_reach_finds_all_quaternaries_that_are_near(prior: templates.TemplatePrior) -> None:
    few, _ = pool(elements=(*FEW, "K", "F", "Cu", "P"), must_contain=("O",))
    for ratio in [(1, 1, 2, 6), (1, 1, 1, 4), (1, 1, 1, 1), (1, 2, 3, 12)]:
        every = list_family(ratio, few)
        near = nearness_of_family(every, few, prior)
        formulas, nearness = within_reach(ratio, few, prior, -6.0)
        wanted = np.flatnonzero(near.nearest >= -6.0)
        expected = dict(zip(every[wanted].cells.formulas, near.nearest[wanted].tolist(), strict=True))
        found = dict(zip(formulas.cells.formulas, nearness.nearest.tolist(), strict=True))
        assert found == pytest.approx(expected, abs=1e-4)
        assert len(formulas) == len(found)
    assert len(within_reach((1, 3, 5, 8), few, prior, -6.0)[0]) == 0  # no known crystal
