"""Level 3: what do other potentials say?

Each relaxes the crystal with the cell free and places it on its own calibrated hulls of both databases. They
were trained on other data or have another form, so that what the first potential gets wrong is seldom wrong
in the same way in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.outcomes.columns import ABOVE
from anchor.verify.claims import Claim, Context, Verdict

OTHERS = ("mattersim-5m", "sevennet-0", "chgnet")
"""Asked about every claim; the one that made it is left out. sevennet-l3i5 is more accurate than SevenNet-0
and some ten times slower, and can be named instead."""
TOLERANCE = 0.03
"""eV/atom above what is claimed that still counts as agreement: of 300 stable compounds hidden from the hulls
each potential puts 95 to 100 % this low or lower, of 300 unstable ones at most 1 % (docs/results/hull.md)."""
SHARE = 2 / 3
"""Of the potentials that have an answer, so many must agree: one of three may be wrong, as each is at times.
"""
FEWEST = 2
"""Answers without which nothing is said: one other potential is no jury."""


@dataclass(frozen=True)
class Answer:
    """What one potential says.

    Attributes:
        above: Energy above its hulls, eV/atom; NaN where it has no answer.
        same: Whether its relaxed crystal still is the claimed one; None without an answer.
        fault: Why there is no answer.
    """

    above: float = np.nan
    same: bool | None = None
    fault: str = ""


class OtherPotentials:
    """MatterSim-5M, SevenNet-0 and CHGNet, each on its own hulls.

    Args:
        names: Potentials to ask.
    """

    number, name, chunk = 3, "other potentials", 16

    def __init__(self, names: Sequence[str] = OTHERS) -> None:
        self._names = tuple(names)

    def settings(self, context: Context) -> dict[str, Any]:
        """Who is not installed is not asked, and a verdict without it is made again when it is there."""
        weights = {}
        for name in self._asked(context):
            try:
                weights[name] = context.other(name).potential.checkpoint_hash
            except AnchorError as error:
                weights[name] = error.message
        return {"potentials": weights, "tolerance": TOLERANCE, "share": SHARE}

    def _asked(self, context: Context) -> list[str]:
        return [name for name in self._names if name != context.potential.name]

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        answers: list[dict[str, Answer]] = [{} for _ in claims]
        for name in self._asked(context):
            for mine, answer in zip(answers, self._answers(name, claims, context), strict=True):
                mine[name] = answer
        return [judged(claim, mine) for claim, mine in zip(claims, answers, strict=True)]

    def _answers(self, name: str, claims: Sequence[Claim], context: Context) -> list[Answer]:
        try:
            judge = context.other(name)
        except AnchorError as error:
            return [Answer(fault=f"not available: {error.message}")] * len(claims)
        tables = [judge.placed(table) for table in judge.relaxed([claim.crystal for claim in claims])]
        found = []
        for claim, table in zip(claims, tables, strict=True):
            above = float(table.numbers(ABOVE)[0])
            if np.isnan(above):
                found.append(Answer(fault=table.texts("reason")[0] or "no energy above its hulls"))
            else:
                found.append(Answer(above, matching(claim.crystal, table.crystals)))
        return found


def matching(one: Crystals, other: Crystals) -> bool:
    """Whether two crystals are the same to pymatgen's matcher with its default tolerances."""
    return bool(StructureMatcher().fit(one.to_structures()[0], other.to_structures()[0]))


def judged(claim: Claim, answers: Mapping[str, Answer]) -> Verdict:
    """The verdict of several potentials."""
    given = {name: one for name, one in answers.items() if not one.fault}
    above = np.array([one.above for one in given.values()])
    agree = int((above <= claim.limit + TOLERANCE).sum())
    evidence: dict[str, Any] = {
        "above_ev_per_atom": {name: round(one.above, 4) for name, one in given.items()},
        "same_crystal": {name: one.same for name, one in given.items()},
        "no_answer": {name: one.fault for name, one in answers.items() if one.fault},
        "agree": [agree, len(given)],
    }
    silent = "; ".join(f"{name}: {fault}" for name, fault in evidence["no_answer"].items())
    if len(given) < FEWEST:
        return Verdict(claim.id, 3, None, f"fewer than {FEWEST} other potentials answer: {silent}", evidence)
    spread = float(np.ptp([*above, claim.above_hull]))
    evidence["spread_ev_per_atom"] = round(spread, 4)
    passed = agree >= SHARE * len(given) - 1e-9
    values = ", ".join(f"{name} {one.above:+.3f}" for name, one in given.items())
    changed = [name for name, one in given.items() if one.same is False]
    reason = f"{agree} of {len(given)} agree ({values}; spread {spread:.3f} eV/atom)"
    if changed:
        reason += f"; another crystal under {', '.join(changed)}"
    if silent:
        reason += f"; no answer: {silent}"
    return Verdict(claim.id, 3, passed, reason, evidence)
