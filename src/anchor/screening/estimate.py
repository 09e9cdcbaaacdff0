"""The free estimate of a composition: what can be said of it before any crystal is made.

    estimate = load_estimate()
    found = estimate(Compositions.from_list(["KYSe2", "LiFe11P7O"]))
    found.above_hull, found.metastable   # eV/atom, and P(within 0.1 eV/atom of both hulls)

Nothing loops over compositions but what may be handed over ready: nearest templates, everyday charges, hull
energies and known formulas of a whole family are cheaper together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.hull.hull import Hull
from anchor.priors.registry import load_prior
from anchor.priors.templates import TemplatePrior
from anchor.reference.reference import Reference, load_reference
from anchor.screening import chances as likely
from anchor.screening import plausibility as plausible
from anchor.screening import surrogate as energies
from anchor.screening.evidence import Evidence, dft_hulls, hull_energies
from anchor.screening.nearness import Nearness, nearness_of
from anchor.screening.systems import KnownSystems, load_systems

PRIOR = "templates-all"
"""Whose templates count: those of the prior that the chances were measured with."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """What is believed of n compositions.

    Attributes:
        above_hull: Energy above the hulls, the larger distance, eV/atom, signed.  # [n]
        spread: Of it, eV/atom.  # [n]
        metastable: P(within 0.1 eV/atom of both hulls), made and relaxed as a search does.  # [n]
        stable: P(on both hulls), never more than `metastable`.  # [n]
        find: Plausibility of a compound.  # [n]
        known: The formula is in a list.  # [n]
        evidence: What all that rests on.
    """

    above_hull: NDArray[np.float64]
    spread: NDArray[np.float64]
    metastable: NDArray[np.float64]
    stable: NDArray[np.float64]
    find: NDArray[np.float64]
    known: NDArray[np.bool_]
    evidence: Evidence

    def __len__(self) -> int:
        return len(self.above_hull)


@dataclass(frozen=True, eq=False)
class FreeEstimate:
    """Estimates compositions.

    Attributes:
        surrogate: Formation energies in both databases.
        hulls: Of both, in its order.
        reference: Known formulas.
        prior: Whose templates count as known crystals of a stoichiometry.
        plausibility: Tells compounds from random compositions.
        systems: Known compounds by chemical system.
        chances: Turns all of it into probabilities.
    """

    surrogate: energies.Surrogate
    hulls: Sequence[Hull]
    reference: Reference
    prior: TemplatePrior
    plausibility: plausible.Plausibility
    systems: KnownSystems
    chances: likely.Chances

    def __call__(
        self,
        compositions: Compositions,
        *,
        near: Nearness | None = None,
        hull_energy: NDArray[np.float64] | None = None,
        known: NDArray[np.bool_] | None = None,
    ) -> Estimates:
        """Estimates; the size of the cells does not matter.

        Args:
            near: Of `nearness_of` with any units.  # n
            hull_energy: Of `hull_energies`, eV/atom.  # [n, databases]
            known: Whether a list has the formula.  # [n]
        """
        if known is None:
            known = np.array([bool(self.reference.known(f)) for f in compositions.formulas], dtype=bool)
        evidence = self.evidence(compositions, near=near, hull_energy=hull_energy)
        find = self.plausibility.probability(evidence)
        metastable, stable = self.chances.probabilities(self.columns(compositions, evidence, find))
        return Estimates(evidence.above_hull, evidence.spread, metastable, stable, find, known, evidence)

    def evidence(
        self,
        compositions: Compositions,
        *,
        near: Nearness | None = None,
        hull_energy: NDArray[np.float64] | None = None,
    ) -> Evidence:
        """What the estimates rest on; arguments as there."""
        if near is None:
            near = nearness_of(compositions, self.prior, any_units=True)
        if hull_energy is None:
            hull_energy = hull_energies(compositions, self.hulls)
        energy, spreads = self.surrogate.predict(compositions)
        return Evidence(energy - hull_energy, spreads, near.nearest, near.templates, near.everyday)

    def columns(
        self, compositions: Compositions, evidence: Evidence, find: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Features of the chances.  # [n, p]"""
        return likely.features(compositions, evidence, find, self.systems.counts(compositions))


@cache
def load_estimate(
    surrogate: Path = energies.SHIPPED,
    plausibility: Path = plausible.SHIPPED,
    chances: Path | None = likely.SHIPPED,
) -> FreeEstimate:
    """The estimate of these files; by default that which ships. Without chances it only gathers evidence."""
    prior = load_prior(PRIOR)
    assert isinstance(prior, TemplatePrior)
    return FreeEstimate(
        energies.load_surrogate(surrogate),
        dft_hulls(),
        load_reference(),
        prior,
        plausible.load_plausibility(plausibility),
        load_systems(),
        likely.UNKNOWN if chances is None else likely.load_chances(chances),
    )
