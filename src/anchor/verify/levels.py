"""All levels by number. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anchor.errors import InputError
from anchor.verify.claims import Level
from anchor.verify.competitors import Competitors
from anchor.verify.dft_level import RealDft
from anchor.verify.dynamics import Dynamics
from anchor.verify.oracle import Oracle
from anchor.verify.other_potentials import OtherPotentials
from anchor.verify.refined import Refined
from anchor.verify.same_composition import SameComposition

LEVELS: dict[int, Callable[[], Level]] = {
    0: Refined,
    1: Oracle,
    2: SameComposition,
    3: OtherPotentials,
    4: Competitors,
    5: Dynamics,
    6: RealDft,
}


def load_levels(up_to: int, *, md: bool = False) -> list[Level]:
    """Levels in order, cheapest first, up to this one; `md`: the last of `Dynamics` too."""
    if up_to not in LEVELS or up_to < 1:
        raise InputError(f"there is no level {up_to}", f"levels are 1 to {max(LEVELS)}")
    levels: dict[int, Callable[[], Level]] = {**LEVELS, Dynamics.number: partial(Dynamics, md=md)}
    return [make() for number, make in sorted(levels.items()) if number <= up_to]
