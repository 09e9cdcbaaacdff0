"""Judges and priors that attacks use, by name."""

from __future__ import annotations

from collections.abc import Sequence

from anchor.config import load_config
from anchor.errors import AnchorError
from anchor.executors import Executor
from anchor.hull.references import load_hull
from anchor.outcomes.checks import Checks
from anchor.outcomes.judge import Judge, Relaxing
from anchor.potentials.registry import load_potential
from anchor.priors.base import Prior
from anchor.priors.registry import is_learned, load_prior
from anchor.reference.reference import load_reference
from anchor.relax.parallel import Relaxer

RELAXING = Relaxing(cell=True, max_steps=400, fmax=0.02)
"""As finds are refined: cell free, no symmetry imposed, the reward's force limit."""


def load_judge(potential: str, executor: Executor) -> Judge:
    """A judge with a potential's own calibrated hulls: both databases, its filling, the larger counts.

    Raises:
        AnchorError: It is not installed, or there are no energies of the reference crystals under it.
    """
    relaxer = Relaxer(load_potential(potential), executor=executor)
    checks = Checks.from_config(load_config().config, load_reference())
    return Judge(relaxer, load_hull(relaxer.potential), RELAXING, checks)


def load_priors(names: Sequence[str]) -> dict[str, Prior]:
    """Priors by name, in order; one whose weights are not here is left out.

    Learned ones have no fallback: templates answer under their own name.
    """
    found = {}
    for name in names:
        options = {"fallback": "none"} if is_learned(name) else {}
        try:
            found[name] = load_prior(name, **options)
        except AnchorError:
            continue
    return found
