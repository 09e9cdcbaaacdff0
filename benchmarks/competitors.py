"""Level 4 on holes made on purpose: does it see that a find lives from a compound nobody listed?

    python benchmarks/competitors.py -n 20            # 20 false finds and 20 true ones
    python benchmarks/competitors.py -n 20 --only false --seed 2   # another draw

A false find is a known compound, 10 to 120 meV/atom above the hull, that comes to lie on it when one known
stable compound is taken away: from both hulls of both potentials, and from the templates. A true find is a
known stable compound, taken away itself. Level 4 sees the rest, as it would in a system that is known less.
The free estimate of energies has been trained with the hidden compounds; that is the one thing they are not
hidden from. Lines are printed as they come, nothing is left out.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from anchor.executors import Executor, Inline
from anchor.hull.energies import load_energies
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull
from anchor.outcomes.judge import Judge
from anchor.priors.registry import load_prior
from anchor.priors.templates import TemplatePrior
from anchor.reference.reference import load_reference
from anchor.statistics import wilson_interval
from anchor.verify.claims import Claim, Context
from anchor.verify.competitors import SECOND, Competitors
from anchor.verify.loading import load_judge

LOWEST, HIGHEST = 0.01, 0.12
MOST_ELEMENTS = 3


@dataclass(frozen=True)
class Case:
    """A claim, and what is hidden from the judge of it."""

    row: int
    hidden: tuple[str, ...]
    false: bool


def hidden_hull(hull: PotentialHull, system: list[int], hidden: tuple[str, ...]) -> PotentialHull:
    """The hulls of one system without some compositions."""
    databases = {}
    for name, database in hull.databases.items():
        rest = database.union.within(system).without(hidden)
        databases[name] = replace(database, dft=rest, potential=rest, union=rest)
    identity = replace(hull.identity, reference_hash=f"{hull.identity.reference_hash} without {hidden}")
    return PotentialHull(databases, identity)


def cases(judge: Judge, n: int, seed: int, only: str | None) -> Iterator[Case]:
    """n false ones and n true ones as they come, at random, or only one kind."""
    reference, hull = load_reference(), judge.hull
    crystals, energies = reference.crystals, load_energies(judge.potential.name, reference.crystals).lowest
    k = crystals.compositions.k
    rows = np.flatnonzero((k >= 2) & (k <= MOST_ELEMENTS) & np.isfinite(energies))
    found = {True: n if only == "true" else 0, False: n if only == "false" else 0}
    for row in np.random.default_rng(seed).permutation(rows).tolist():
        system = np.unique(crystals[row].numbers).tolist()
        if not all(database.union.elements.issuperset(system) for database in hull.databases.values()):
            continue
        own = crystals[row].formulas[0]

        def above(*hidden: str, row: int = row, system: list[int] = system) -> float:
            found = hidden_hull(hull, system, hidden).score(
                crystals[row],
                energies[[row]] * crystals.counts[row],
                checkpoint_hash=judge.potential.checkpoint_hash,
            )
            return float(found.energy_above_hull[0])

        height = above(own)
        if found[False] < n and height <= 0:
            found[False] += 1
            yield Case(row, (own,), false=False)
        elif found[True] < n and LOWEST < height < HIGHEST:
            mixture = hidden_hull(hull, system, (own,)).decomposition(own)
            compounds = [f for f in mixture.formulas if np.count_nonzero(composition_matrix([f])) > 1]
            for formula in compounds:
                if above(own, formula) <= 0:
                    found[True] += 1
                    yield Case(row, (own, formula), false=True)
                    break
        if found[True] == found[False] == n:
            return


@contextmanager
def without_templates(prior: TemplatePrior, formulas: tuple[str, ...]) -> Iterator[None]:
    """Crystals of these formulas are no templates."""
    names = prior.reference.formulas
    before = dict(prior.shelves)
    for ratio, shelf in before.items():
        keep = ~np.isin(names[shelf.crystal], formulas)
        if not keep.all():
            prior.shelves[ratio] = replace(
                shelf,
                crystal=shelf.crystal[keep],
                roles=shelf.roles[keep],
                units=shelf.units[keep],
                bonus=shelf.bonus[keep],
                candidate=shelf.candidate[:, keep],
            )
            if not keep.any():
                del prior.shelves[ratio]
    try:
        yield
    finally:
        prior.shelves.clear()
        prior.shelves.update(before)


def attack(case: Case, judge: Judge, second: Judge, prior: TemplatePrior, executor: Executor) -> dict:
    """What level 4 says about one case."""
    reference = load_reference()
    crystal = reference.crystals[case.row]
    energies = load_energies(judge.potential.name, reference.crystals).lowest
    system = np.unique(crystal.numbers).tolist()
    hull = hidden_hull(judge.hull, system, case.hidden)
    others = {SECOND: replace(second, hull=hidden_hull(second.hull, system, case.hidden))}
    context = Context(replace(judge, hull=hull), hull, reference, executor, others=others)
    energy = float(energies[case.row])
    scores = hull.score(
        crystal, np.array([energy * crystal.n_atoms]), checkpoint_hash=judge.potential.checkpoint_hash
    )
    claim = Claim("x", crystal, energy, {name: float(v[0]) for name, v in scores.above.items()})
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, without_templates(prior, case.hidden):
        (verdict,) = Competitors(prior=prior, folder=Path(folder)).attack([claim], context)
    asked = {one["formula"]: one for one in verdict.evidence["asked"]}
    return {
        "formula": claim.formula,
        "hidden": case.hidden[1:],
        "false": case.false,
        "above_before": round(claim.above_hull, 3),
        "passed": verdict.passed,
        "reason": verdict.reason,
        "asked": len(asked),
        "joined": [f for f, one in asked.items() if not one["refused"]],
        "about_hidden": [asked.get(f) for f in case.hidden[1:]],
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-n", type=int, default=20, help="of each kind")
    parser.add_argument("--only", choices=["false", "true"], help="one kind only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--potential", default="mattersim-1m")
    given = parser.parse_args()
    executor = Inline()
    judge, second = (load_judge(name, executor) for name in (given.potential, SECOND))
    prior = load_prior("templates-all")
    assert isinstance(prior, TemplatePrior)
    rows = []
    for case in cases(judge, given.n, given.seed, given.only):
        rows.append(attack(case, judge, second, prior, executor))
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    for false, what in ((True, "false finds caught"), (False, "true finds refused")):
        kind = [row for row in rows if row["false"] == false]
        if not kind:
            continue
        refused = sum(row["passed"] is False for row in kind)
        low, high = wilson_interval(np.array([refused]), np.array([len(kind)]))
        print(f"{what}: {refused} of {len(kind)} ({100 * low[0]:.0f}–{100 * high[0]:.0f} %)")
    print(f"CPU seconds: median {np.median([row['cpu_seconds'] for row in rows]):.1f}")


if __name__ == "__main__":
    main()
