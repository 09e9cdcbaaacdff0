"""Claims at any distance from the hull, without a relaxation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.executors import Inline
from anchor.hull.references import load_hull
from anchor.priors.registry import load_prior
from anchor.reference.reference import load_reference
from anchor.verify.claims import Claim, Context
from anchor.verify.loading import load_judge


@pytest.fixture(scope="session")
def mattersim() -> Context:
    """MatterSim-1M on its hulls, in this process, with templates as the only prior."""
    executor = Inline()
    judge = load_judge("mattersim-1m", executor)
    hull = load_hull(judge.potential)
    return Context(judge, hull, load_reference(), executor, prior_names=("templates-all",))


@pytest.fixture(scope="session")
def claim_at(mattersim: Context) -> Callable[..., Claim]:
    """`claim_at("KYSe2", -0.05)`: a template of the formula with the energy that puts it there."""

    @cache
    def crystal_of(formula: str) -> Crystals:
        return load_prior("templates-all").sample(formula)

    def claim(formula: str, above: float, *, crystal: Crystals | None = None, **other: Any) -> Claim:
        crystal = crystal_of(formula) if crystal is None else crystal
        empty = Claim(formula, crystal, np.nan, {}, **other)
        at_zero = mattersim.moved(empty, crystal, 0.0).above_hull
        return mattersim.moved(empty, crystal, above - at_zero)

    return claim
