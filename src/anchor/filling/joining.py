"""What of a run joins the hulls, what is refused, and what that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.filling.guards import ABOVE_HULL, DATABASES, JOINS, verdicts
from anchor.filling.make import Arrays
from anchor.hull.filling import Filling

DECIMALS = 3


def join(
    formulas: Sequence[str], made: Arrays, *, identity: dict[str, str], second: str
) -> tuple[Filling, dict[str, Any]]:
    """The phases that join, and the card's part about them: counts, the deepest, and all that was refused.

    Args:
        formulas: Of the rows.  # n
        made: Columns and crystals of `Run.made`.
        identity: Of the filling.
        second: Name of the second potential.
    """
    found = verdicts(made, second=second)
    kept = made["kept"]
    joins = np.array([verdict == JOINS for verdict in found], dtype=bool)
    stored = np.flatnonzero(joins[kept])
    crystals = Crystals(made["atoms"], made["numbers"], made["frac"], made["lattice"])[stored]
    filling = Filling(
        crystals, made["energy"][kept[stored]], made["spacegroup"][stored].astype(np.int64), identity
    )
    lowest = np.fmin.reduce([made[f"above_{name}"] for name in DATABASES])

    def row(i: int) -> dict[str, Any]:
        keys = [f"{kind}_{name}" for kind in ("above", "second") for name in DATABASES]
        values = {key: round(float(made[key][i]), DECIMALS) for key in keys if np.isfinite(made[key][i])}
        return {"formula": formulas[i], **values}

    refused = [i for i, verdict in enumerate(found) if verdict not in (JOINS, ABOVE_HULL, "no energy")]
    refused.sort(key=lambda i: (lowest[i], formulas[i]))
    deepest = [int(i) for i in np.argsort(lowest, kind="stable") if joins[i]][:50]
    below = {
        name: {
            "on or below": int((made[f"above_{name}"] <= 0)[joins].sum()),
            "below by more than 0.05": int((made[f"above_{name}"] < -0.05)[joins].sum()),
        }
        for name in DATABASES
    }
    return filling, {
        "made": len(formulas),
        "verdicts": dict(Counter(verdict or "joins" for verdict in found).most_common()),
        "joined_ev_per_atom": below,
        "deepest": [row(i) for i in deepest],
        "refused": [{"why": found[i], **row(i)} for i in refused],
    }
