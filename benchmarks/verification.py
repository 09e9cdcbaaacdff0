"""Honest control of `anchor verify`: what the levels do to compounds whose fate is known.

    python benchmarks/verification.py --stored -n 1000        # levels 1 and 3 from stored energies, minutes
    python benchmarks/verification.py --stored -n 1000 --thin # all else with the same elements hidden, too
    python benchmarks/verification.py FOLDER -n 8 --level 5   # everything relaxed, about a minute per claim

Compounds of three elements with a crystal in the reference, drawn at random, are hidden from both databases,
from the potentials' own phases and from all lists, all at once; then each claims to be stable. Stable ones
(on both DFT hulls) that a level refuses are truths lost; unstable ones (more than 0.1 eV/atom above the DFT
hull of each database that has them) and tempting ones (0.03 to 0.1) that it keeps are falsehoods kept.
Nothing is fitted or chosen by the outcome. With a FOLDER, verdicts are kept there and not made again.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from blind import pools, rate, without

from anchor.chemistry.composition import Compositions
from anchor.executors import make_executor
from anchor.hull.energies import load_energies
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull, load_hull
from anchor.reference.reference import load_reference
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.intake import PRIORS
from anchor.verify.levels import load_levels
from anchor.verify.loading import load_judge
from anchor.verify.oracle import oracle
from anchor.verify.other_potentials import OTHERS, Answer, judged
from anchor.verify.retention import kinds
from anchor.verify.run import Record, verify
from anchor.verify.stores import FolderStore

POTENTIAL = "mattersim-1m"


def hidden_hull(potential: str, formulas: Sequence[str], *, thin: bool) -> PotentialHull:
    """A potential's hulls, filled, without these formulas (thin: without anything of their elements)."""
    hull = load_hull(potential)
    amounts = composition_matrix(formulas)
    hidden = amounts / amounts.sum(axis=1, keepdims=True)
    databases = {
        name: replace(
            database,
            **{
                part: without(getattr(database, part), hidden, filling=True, thin=thin)
                for part in ("dft", "potential", "union")
            },
        )
        for name, database in hull.databases.items()
    }
    return PotentialHull(databases, hull.identity)


def lowest_crystals(potential: str, formulas: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Row and energy (eV/atom) of the lowest stored crystal of each formula under a potential."""
    reference = load_reference()
    energies = load_energies(potential, reference.crystals).lowest
    where: dict[str, list[int]] = {}
    for i, formula in enumerate(reference.formulas.tolist()):
        where.setdefault(formula, []).append(i)
    rows = [min(where[f], key=lambda i: np.nan_to_num(energies[i], nan=np.inf)) for f in formulas]
    return np.array(rows), energies[rows]


def distances(hull: PotentialHull, formulas: Sequence[str], energy: np.ndarray) -> dict[str, np.ndarray]:
    """Energy above each hull by its name, eV/atom."""
    amounts = Compositions.from_list(formulas).amounts
    found = {}
    for name, database in hull.databases.items():
        formation = database.calibration.formation_energy(amounts, energy)
        found[name] = database.union.energy_above_hull(amounts, formation)
    return {**found, "union": np.fmax.reduce(list(found.values()))}


def make_claims(formulas: Sequence[str], hull: PotentialHull, *, refined: bool) -> list[Claim]:
    """Each claims to be stable with the stored energy of its lowest crystal."""
    rows, energy = lowest_crystals(POTENTIAL, formulas)
    above = distances(hull, formulas, energy)
    crystals = load_reference().crystals
    return [
        Claim(
            formula,
            crystals[int(row)],
            float(e),
            {name: float(values[i]) for name, values in above.items()},
            refined=refined,
        )
        for i, (formula, row, e) in enumerate(zip(formulas, rows, energy, strict=True))
    ]


def stored(
    context: Context, claims: list[Claim], groups: list[str], *, thin: bool
) -> dict[int, list[bool | None]]:
    """Whether each claim passes levels 1 and 3, both asked of every claim."""
    formulas = [claim.formula for claim in claims]
    verdicts = oracle(claims, context)
    first: list[bool | None] = [bool(verdict.passed) for verdict in verdicts]
    for group in dict.fromkeys(groups):
        mine = [v for v, one in zip(verdicts, groups, strict=True) if one == group and not v.passed]
        print(f"level 1 refuses of {group}:", "; ".join(f"{n} {reason}" for reason, n in kinds(mine)))
    answers: list[dict[str, Answer]] = [{} for _ in claims]
    for name in OTHERS:
        _, energy = lowest_crystals(name, formulas)
        above = distances(hidden_hull(name, formulas, thin=thin), formulas, energy)["union"]
        for mine, value in zip(answers, above, strict=True):
            mine[name] = Answer(float(value), True) if np.isfinite(value) else Answer(fault="no energy")
    third: list[bool | None] = [
        bool(judged(claim, mine).passed) for claim, mine in zip(claims, answers, strict=True)
    ]
    return {1: first, 3: third}


def relaxed(
    context: Context, claims: list[Claim], folder: Path, level: int, *, thin: bool
) -> dict[int, list[bool | None]]:
    """Whether each claim passes each level up to this one; None: it did not come so far."""
    formulas = [claim.formula for claim in claims]
    for name in OTHERS:
        judge = load_judge(name, context.executor)
        context.others[name] = replace(judge, hull=hidden_hull(name, formulas, thin=thin))
    levels = load_levels(level)
    records = verify(claims, context, levels, FolderStore(folder), on_verdict=say)
    return {one.number: [passed_level(record, one.number) for record in records] for one in levels}


def say(record: Record, verdict: Verdict) -> None:
    print(f"{record.claim.id} level {verdict.level}: {verdict.passed}, {verdict.reason}", flush=True)


def passed_level(record: Record, level: int) -> bool | None:
    return next((bool(v.passed) for v in record.verdicts if v.level == level), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where verdicts are kept (not with --stored)")
    parser.add_argument("-n", type=int, default=8, help="compounds of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stored", action="store_true", help="levels 1 and 3 from stored energies")
    parser.add_argument("--level", type=int, default=5, help="relaxed: up to this level")
    parser.add_argument("--thin", action="store_true", help="hide all else with the same three elements")
    parser.add_argument("--kinds", nargs="+", default=["stable", "unstable", "tempting"])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if not options.stored and options.folder is None:
        parser.error("give a FOLDER for the verdicts, or --stored")
    began = time.process_time()
    found = pools()
    rng = np.random.default_rng(options.seed)
    drawn = {
        kind: sorted(rng.choice(found[kind], min(options.n, len(found[kind])), replace=False).tolist())
        for kind in options.kinds
    }
    print("; ".join(f"{kind}: {len(drawn[kind])} of {len(found[kind])}" for kind in drawn))
    formulas = [formula for kind in drawn for formula in drawn[kind]]
    kinds_of = [kind for kind in drawn for _ in drawn[kind]]
    is_of = {kind: np.array([one == kind for one in kinds_of]) for kind in drawn}
    hull = hidden_hull(POTENTIAL, formulas, thin=options.thin)
    with make_executor(workers=options.workers) as executor:
        judge = replace(load_judge(POTENTIAL, executor), hull=hull)
        context = Context(judge, hull, load_reference(), executor, prior_names=PRIORS, seed=options.seed)
        claims = make_claims(formulas, hull, refined=options.stored)
        if options.stored:
            passed = stored(context, claims, kinds_of, thin=options.thin)
        else:
            passed = relaxed(context, claims, options.folder, options.level, thin=options.thin)
    print("| level | " + " | ".join(f"{kind} passed, of those before" for kind in drawn) + " |")
    print("| --- |" + " --- |" * len(drawn))
    before = np.ones(len(claims), dtype=bool)
    for level, values in passed.items():
        ok = np.array([bool(value) for value in values])
        cells = []
        for kind in drawn:
            mine = before & is_of[kind]
            cells.append(f"{rate(ok[mine])} of {mine.sum()}" if mine.any() else "none left")
        print(f"| {level} | " + " | ".join(cells) + " |")
        before &= ok
    ends = [f"{rate(before[is_of[kind]])} of {is_of[kind].sum()}" for kind in drawn]
    print("| all | " + " | ".join(ends) + " |")
    if options.stored:  # a level on its own, whatever the others say
        alone = np.array(passed[3])
        ends = [f"{rate(alone[is_of[kind]])} of {is_of[kind].sum()}" for kind in drawn]
        print("| 3 alone | " + " | ".join(ends) + " |")
    print(f"{time.process_time() - began:.0f} CPU s in this process")


if __name__ == "__main__":
    main()
