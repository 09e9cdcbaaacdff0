"""Where competitors are made: templates, relaxed, judged by the guards of the filling, and kept.

A competitor depends on its formula, the potential, the hulls and the seed, on nothing else that is made with
it. So what was made is kept in a folder, one file per formula, for all finds of the system and later runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.filling.guards import AGREES_WITHIN, DEEP, NEAR, VOLUME_TAIL, Guards, verdicts
from anchor.filling.make import RELAXING, Maker
from anchor.hull.energies import load_energies
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.judge import Judge
from anchor.outcomes.rows import each_hull
from anchor.outcomes.table import Outcomes
from anchor.paths import cache_dir
from anchor.priors.base import Prior
from anchor.reading import read_json
from anchor.search.identity import code_hash
from anchor.verify.claims import Context
from anchor.writing import replace_file

CANDIDATES = 3
"""Templates per formula; all are relaxed."""
FOLDER = "competitors"
DECIDE = ("filling/guards.py", "filling/make.py", "verify/workshop.py")
"""Code that a competitor depends on, beside a campaign's."""
NOT_MADE = "not made"


@dataclass(frozen=True, eq=False)
class Competitor:
    """A compound that was made to break finds.

    Attributes:
        formula: Reduced.
        table: The lowest crystal that was made of it, judged; one row.
        refused: Why it does not join the hulls; '' if it does.
    """

    formula: str
    table: Outcomes
    refused: str

    @property
    def crystal(self) -> Crystals:
        """Relaxed; none where nothing could be made.  # 1"""
        return self.table.crystals

    @property
    def energy(self) -> float:
        """Of the potential, eV/atom."""
        return float(self.table.numbers(ENERGY)[0]) / max(self.crystal.n_atoms, 1)

    @property
    def above(self) -> dict[str, float]:
        """Energy above each hull by its name, eV/atom."""
        return {name: value for name, value in each_hull(self.table)[0].items() if value is not None}

    def evidence(self) -> dict[str, Any]:
        """What another person could check it by."""
        found: dict[str, Any] = {"formula": self.formula, "refused": self.refused}
        if len(self.crystal):
            found["above_ev_per_atom"] = {name: round(value, 4) for name, value in self.above.items()}
            found["spacegroup"] = space_group(self.crystal)[0]
        return found


class Workshop:
    """Makes competitors for one context.

    Args:
        context: Its potential relaxes, its hulls place.
        prior: Who proposes crystals.
        second: Judge of the potential that has to agree with what lowers a hull by much.
        folder: Where competitors are kept; a folder of its own inside, for everything they depend on.
    """

    def __init__(self, context: Context, prior: Prior, second: Judge, folder: Path | None = None) -> None:
        self._seed, self._prior = context.seed, prior
        energies = load_energies(context.potential.name, context.reference.crystals)
        guards = Guards(context.reference, energies, context.hull)
        judge = replace(context.judge, hull=context.hull, relaxing=RELAXING)
        self._maker = Maker(prior, judge, replace(second, relaxing=RELAXING), guards, context.seed)
        depends = {
            **context.identity(),
            "prior": prior.hash,
            "second": second.potential.checkpoint_hash,
            "relaxing": asdict(RELAXING),
            "guards": [NEAR, DEEP, AGREES_WITHIN, VOLUME_TAIL],
            "candidates": CANDIDATES,
            "code": code_hash(also=DECIDE),
        }
        name = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:16]
        self._folder = (cache_dir() / FOLDER if folder is None else folder) / name
        self._made: dict[str, Competitor] = {}

    def __call__(self, formulas: Sequence[str]) -> dict[str, Competitor]:
        """Competitors by formula; what is not there yet is made, all relaxations at once."""
        for formula in formulas:
            path = self._path(formula)
            if formula not in self._made and path.is_file():
                stored = read_json(path, hint="delete it: the competitor is made again")
                table = Outcomes.from_json(stored["table"])
                self._made[formula] = Competitor(formula, table, stored["refused"])
        missing = [formula for formula in dict.fromkeys(formulas) if formula not in self._made]
        drawn = [
            self._prior.realise(
                [formula], CANDIDATES, seed=self._seed, stream=("competitors", formula), cell="free"
            ).crystals
            for formula in missing
        ]
        relaxed = self._maker.judge.relaxed(drawn)
        for formula, table in zip(missing, relaxed, strict=True):
            self._made[formula] = self._judged(formula, table)
            self._keep(self._made[formula])
        return {formula: self._made[formula] for formula in formulas}

    def _judged(self, formula: str, relaxed: Outcomes) -> Competitor:
        energies = relaxed.numbers(ENERGY) / np.maximum(relaxed.crystals.counts, 1)
        if not np.isfinite(energies).any():
            return Competitor(formula, Outcomes.blank(1), NOT_MADE)
        judge = self._maker.judge
        table = judge.placed(relaxed.take(np.array([np.nanargmin(energies)])))
        assert judge.checks is not None, "a context's judge checks bonds"
        table, _ = judge.checks(table)
        second = self._maker.second.potential.name
        return Competitor(formula, table, verdicts(self._maker.columns(table), second=second)[0])

    def _path(self, formula: str) -> Path:
        return self._folder / f"{formula}.json"

    def _keep(self, competitor: Competitor) -> None:
        stored = {"refused": competitor.refused, "table": competitor.table.to_json()}
        replace_file(self._path(competitor.formula), json.dumps(stored))
