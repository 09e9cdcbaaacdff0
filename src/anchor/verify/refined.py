"""Before all attacks: a crystal is relaxed with the cell free and placed on the hulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anchor.outcomes.columns import ENERGY
from anchor.verify.claims import Claim, Context, Verdict, claimed_limit


class Refined:
    """Level 0: candidates and files that were not relaxed with the cell free under this potential yet."""

    number, name, chunk = 0, "relaxed", 16

    def settings(self, context: Context) -> dict[str, Any]:
        return {"relaxing": repr(context.judge.relaxing)}

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        tables = context.judge.relaxed([claim.crystal for claim in claims])
        found = []
        for claim, table in zip(claims, tables, strict=True):
            energy = float(table.numbers(ENERGY)[0]) / claim.crystal.n_atoms
            moved = context.moved(claim, table.crystals, energy) if np.isfinite(energy) else None
            if moved is None or not np.isfinite(moved.above_hull):
                why = table.texts("reason")[0] or "no reference for one of its elements"
                found.append(Verdict(claim.id, 0, None, f"no energy above the hull: {why}"))
                continue
            limit = claim.limit if np.isfinite(claim.above_hull) else claimed_limit(moved.above_hull)
            state = table.texts("relaxation")[0]
            place = f"{moved.above_hull:+.3f} eV/atom from the hull with the cell free ({state})"
            found.append(Verdict(claim.id, 0, True, place, {}, replace(moved, limit=limit)))
        return found
