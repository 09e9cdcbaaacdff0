"""Level 2: does another structure of the same composition lie lower?

Every prior that ships is asked for the formula in cells of several sizes; duplicates count once, the energies
of the crystals as they are choose the best, and these are relaxed with the cell free. The find itself is
relaxed once more from a rattled copy: what was held at a saddle by its symmetry falls down. The lowest
takes the find's place, and has to stand where the find stood. What relaxed into bonds that no crystal has is
a hole of the potential and competes with nothing (a collapsed Li5I2N lay 0.8 eV/atom below the real one).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import parse_formula
from anchor.crystals.crystals import Crystals
from anchor.executors import State
from anchor.matching.uniqueness import first_structures
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.judge import Judge
from anchor.priors.base import Prior
from anchor.random import generator
from anchor.relax.parallel import Relaxer, copy_of, load_again
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.loading import RELAXING, load_priors
from anchor.verify.oracle import bonds_ok, oracle

ASKED = 36
"""Structures asked for, templates apart: enough that 20 are left when duplicates are taken out."""
TEMPLATES = "templates-all"
"""Asked for twice their share: they cost nothing and are lowest most often."""
FEWEST = 20
"""Distinct structures that the level promises; the verdict says so where there are fewer."""
MOST_ATOMS = 20
"""Atoms of a cell, as in the search."""
UNITS = (1, 2, 4)
"""Formula units per cell that are tried, as far as the atoms allow."""
RELAXED = 10
"""Distinct structures that are relaxed, those of lowest energy as they are."""
RATTLE = 0.08
"""Å, standard deviation of each coordinate of the rattled find: enough to leave a symmetric saddle, too
little to leave a valley."""
STRAIN = 0.01
"""Standard deviation of the strain of its cell."""
LOWER = 0.002
"""eV/atom by which another structure has to be lower: below it, two relaxations of one crystal differ."""


@dataclass(frozen=True, eq=False)
class Maker:
    """What a process needs to look for lower structures: the potential and the priors."""

    judge: Judge
    priors: dict[str, Prior]


@dataclass(frozen=True, eq=False)
class Lowest:
    """What was found for one claim.

    Attributes:
        crystals: Relaxed: the rattled find first, then the best of the others.  # m
        energy: Theirs, eV/atom; NaN where the relaxation failed.  # [m]
        made_by: Who made each.  # m
        made: Structures by prior.
        distinct: How many of all are different.
        cpu_seconds: Spent.
    """

    crystals: Crystals
    energy: NDArray[np.float64]
    made_by: list[str]
    made: dict[str, int]
    distinct: int
    cpu_seconds: float


class SameComposition:
    """The lowest of at least 20 distinct structures of the composition."""

    number, name, chunk = 2, "same composition", 4

    def settings(self, context: Context) -> dict[str, Any]:
        """Not the campaign's other finds: a lower crystal is held against those of when it was found."""
        return {
            "priors": {name: prior.hash for name, prior in context.priors.items()},
            "asked": ASKED,
            "units": UNITS,
            "relaxed": RELAXED,
            "rattle": [RATTLE, STRAIN],
            "lower": LOWER,
            "bonds": "as known",
        }

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        potential = context.potential
        names = tuple(context.priors)
        here = Maker(Judge(Relaxer(potential), None, RELAXING), context.priors)
        copy = copy_of(potential, gpu=context.executor.gpus > 0)
        state = State(load_maker, (copy, names), here=here)
        tasks = [(claim.crystal, context.seed, claim.hash) for claim in claims]
        found = context.executor.results(lowest, tasks, state=state)
        return [self._verdict(claim, one, context) for claim, one in zip(claims, found, strict=True)]

    def _verdict(self, claim: Claim, found: Lowest, context: Context) -> Verdict:
        gain = claim.energy - found.energy  # eV/atom, positive: lower than the find
        possible = np.array(bonds_ok(found.crystals, context))
        possible[0] = True  # where a rattle leads, the find itself leads
        best = int(np.argmax(np.where(possible & np.isfinite(gain), gain, -np.inf)))
        evidence: dict[str, Any] = {
            "made": found.made,
            "distinct": found.distinct,
            "relaxed": int(np.isfinite(found.energy).sum()),
            "collapsed": int((~possible).sum()),
            "above_find_ev_per_atom": [
                {"made_by": who, "ev_per_atom": None if np.isnan(g) else round(float(-g), 4)}
                for who, g in zip(found.made_by, gain, strict=True)
            ],
        }
        tried = f"{found.distinct} distinct structures"
        fewer = f" (fewer than {FEWEST})" if found.distinct < FEWEST else ""
        if not gain[best] > LOWER:
            reason = f"the lowest of {tried}{fewer}, and a rattle leads back to it"
            return Verdict(claim.id, self.number, True, reason, evidence, cpu_seconds=found.cpu_seconds)
        lower = context.moved(claim, found.crystals[best], float(found.energy[best]))
        evidence["lower_ev_per_atom"] = round(float(gain[best]), 4)
        evidence["lower_made_by"] = found.made_by[best]
        (checked,) = oracle([lower], context, level=self.number)
        evidence["oracle"] = checked.evidence
        how = f"{1000 * gain[best]:.0f} meV/atom lower ({found.made_by[best]}, of {tried}{fewer})"
        if checked.passed:
            reason = f"replaced by a crystal {how}"
        else:
            reason = f"a crystal {how} takes its place and fails: {checked.reason}"
        return Verdict(
            claim.id, self.number, checked.passed, reason, evidence, lower, cpu_seconds=found.cpu_seconds
        )


def load_maker(potential: tuple[str, str, str, str], priors: tuple[str, ...]) -> Maker:
    """A worker's own copy of what it needs."""
    judge = Judge(Relaxer(load_again(*potential)), None, RELAXING)
    return Maker(judge, load_priors(priors))


def lowest(maker: Maker, task: tuple[Crystals, int, str]) -> Lowest:
    """The rattled find and the best other structures of its composition, relaxed.

    Args:
        maker: Potential and priors.
        task: The find, the seed, and the name of its random streams.
    """
    began = time.process_time()
    crystal, seed, stream = task
    others, made_by = structures(crystal.formulas[0], maker.priors, seed=seed, stream=("verify", stream))
    made = {name: made_by.count(name) for name in maker.priors}
    judge = maker.judge
    energy = np.zeros(0)
    if len(others):
        single = replace(judge, relaxing=None).relaxed([others])[0]
        energy = single.numbers(ENERGY) / others.counts
    order = np.argsort(energy, kind="stable")[: np.isfinite(energy).sum()]
    ranked = others[order]
    firsts = np.flatnonzero(first_structures(ranked) == np.arange(len(ranked)))
    chosen = order[firsts[:RELAXED]]
    batch = Crystals.concatenate([rattled(crystal, seed, stream), *(others[int(i)] for i in chosen)])
    table = judge.relaxed([batch])[0]
    return Lowest(
        table.crystals,
        table.numbers(ENERGY) / batch.counts,
        ["rattled find", *(made_by[i] for i in chosen)],
        made,
        len(firsts),
        time.process_time() - began,
    )


def structures(
    formula: str, priors: Mapping[str, Prior], *, seed: int, stream: tuple[str | int, ...]
) -> tuple[Crystals, list[str]]:
    """Crystals of a formula from all priors that know its elements, and who made each."""
    composition = parse_formula(formula)
    atoms = composition.n_atoms
    able = {
        name: prior
        for name, prior in priors.items()
        if prior.elements.issuperset(composition.numbers.tolist()) and atoms <= prior.max_atoms
    }
    sizes = [u for u in UNITS if u * atoms <= MOST_ATOMS] or [1]
    share = math.ceil(ASKED / max(len(able), 1) / len(sizes))
    found, made_by = [], []
    for name, prior in able.items():
        n = 2 * share if name == TEMPLATES else share
        for units in sizes:
            if units * atoms <= prior.max_atoms:
                made = prior.realise(formula, n, seed=seed, stream=(*stream, name, units), units=units)
                usable = np.flatnonzero(made.crystals.finite)
                found.append(made.crystals[usable])
                made_by += [name] * len(usable)
    return Crystals.concatenate(found), made_by


def rattled(crystal: Crystals, seed: int, stream: str) -> Crystals:
    """The find with every atom moved and its cell strained a little."""
    rng = generator(seed, "verify", stream, "rattle")
    strain = np.eye(3) + rng.normal(0.0, STRAIN, (3, 3))
    lattice = crystal.lattice[0] @ ((strain + strain.T) / 2)
    moved = rng.normal(0.0, RATTLE, (crystal.n_atoms, 3)) @ np.linalg.inv(lattice)
    return crystal.replace(frac=crystal.frac + moved, lattice=lattice[None])
