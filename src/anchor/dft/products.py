"""Structures of competing phases: known ones from the reference, others from the filling or a prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.hull.filling import Filling, load_filling
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.judge import MEASURED, Judge, Relaxing
from anchor.potentials.registry import load_potential
from anchor.priors.base import Prior
from anchor.priors.registry import load_prior
from anchor.reference.reference import Reference, load_reference
from anchor.relax.parallel import Relaxer

RELAXING = Relaxing(cell=True, max_steps=400, fmax=0.02)
"""As finds are relaxed."""
TEMPLATES = 8
"""Structures that a prior makes for a formula of which only an energy is listed; the lowest is relaxed."""


def relaxing_judge(potential: str) -> Judge:
    """Relaxes crystals with a potential before DFT sees them."""
    return Judge(Relaxer(load_potential(potential)), None, RELAXING)


@dataclass(frozen=True, eq=False)
class Phase:
    """A competing phase.

    Attributes:
        formula: Reduced.
        crystal: A batch of one; None: nobody could make one.
        origin: Where the structure comes from, for people.
        made_at: Energy under the potential, eV/atom, of a structure that a prior made.
    """

    formula: str
    crystal: Crystals | None
    origin: str
    made_at: float | None = None


@dataclass(frozen=True, eq=False)
class Library:
    """Finds a structure for a formula.

    Reference crystals stay at OQMD's geometry, which is a minimum of the functional that is used here: a
    potential would only move them up, and with them the hull, in favour of the find.

    Attributes:
        potential: Name of the one that relaxes what a prior makes, and whose filling is used.
        checkpoint_hash: Of its weights.
        judge: Relaxes with that potential; None: loaded when it is needed.
    """

    potential: str
    checkpoint_hash: str
    judge: Judge | None = None
    reference: Reference = field(default_factory=load_reference)
    _found: dict[str, Phase] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, formula: str) -> Phase:
        if formula not in self._found:
            self._found[formula] = self._known(formula) or self._filled(formula) or self._made(formula)
        return self._found[formula]

    def _known(self, formula: str) -> Phase | None:
        rows = np.flatnonzero(self.reference.formulas == formula)
        if not len(rows):
            return None
        lowest = rows[np.argmin(self.reference.formation_energy[rows])]
        return Phase(
            formula, self.reference.crystals[[int(lowest)]], f"{self.reference.ids[lowest]}, OQMD's geometry"
        )

    def _filled(self, formula: str) -> Phase | None:
        filling, formulas = self._filling or (None, [])
        rows = [i for i, f in enumerate(formulas) if f == formula]
        if filling is None or not rows:
            return None
        lowest = min(rows, key=filling.energies.__getitem__)
        return Phase(formula, filling.crystals[[lowest]], f"in no list, {self.potential}'s geometry")

    def _made(self, formula: str) -> Phase:
        try:
            made = self._prior.realise([formula], TEMPLATES, seed=0, stream=("dft", formula), cell="free")
        except InputError as error:  # more atoms than the prior places
            return Phase(formula, None, f"only an energy is listed; {error.message}")
        if not len(made.crystals):
            return Phase(formula, None, "only an energy is listed; no prior has a structure for it")
        judge = self._judge
        best = judge.lowest(made.crystals, made.request // TEMPLATES)
        (table,) = judge.relaxed([made.crystals[best]])
        if table["status"][0] != MEASURED:
            return Phase(formula, None, f"only an energy is listed; its template: {table['reason'][0]}")
        origin = f"only an energy is listed: template relaxed by {self.potential}"
        energy = float(table.numbers(ENERGY)[0] / table.crystals.counts[0])
        return Phase(formula, table.crystals, origin, energy)

    @cached_property
    def _prior(self) -> Prior:
        return load_prior("templates-all")

    @cached_property
    def _judge(self) -> Judge:
        return self.judge or relaxing_judge(self.potential)

    @cached_property
    def _filling(self) -> tuple[Filling, list[str]] | None:
        found = load_filling(
            self.potential, checkpoint_hash=self.checkpoint_hash, reference_hash=self.reference.hash
        )
        return None if found is None else (found, found.crystals.formulas)
