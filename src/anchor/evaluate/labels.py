"""What an evaluation of formulas says about their chances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.store import Store
from anchor.outcomes.columns import ABOVE
from anchor.screening.chances import Labels


def evaluation_origin(folder: Path) -> dict[str, Any]:
    """How an evaluation's labels were made, for their card."""
    settings = Store(folder).settings
    return {key: settings[key] for key in ("command", "seeds", "prior", "measure")}


def evaluation_labels(folder: Path) -> Labels:
    """Labels of all rows of a finished evaluation, a formula once; what is not valid has no energy."""
    rows: dict[str, dict] = {}
    for row in FinishedEvaluation.load(folder).rows():
        if row["formula"] is not None:
            rows.setdefault(row["formula"], row)
    found = list(rows.values())
    energy = [row[ABOVE] if row["valid"] else None for row in found]
    return Labels(
        [row["formula"] for row in found],
        np.array([np.nan if e is None else e for e in energy], dtype=np.float64),
        [row["made_by"] or "" for row in found],
        np.array([row["seed"] for row in found], dtype=np.int64),
        ["evaluation"] * len(found),
    )
