"""What a filling run says about the chances of formulas: it has relaxed thousands of unknown ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anchor.chemistry.composition import Compositions
from anchor.errors import InputError
from anchor.filling.guards import DATABASES
from anchor.filling.make import PLAN, Run
from anchor.hull.references import load_hull
from anchor.reading import read_json
from anchor.screening.chances import Labels


def filling_origin(folder: Path) -> dict[str, Any]:
    """How a filling's labels were made, for their card: the plan of the run, and today's hull.

    Raises:
        InputError: The folder holds no filling run.
    """
    if not (folder / PLAN).is_file():
        raise InputError(f"{folder} is not the folder of a filling run", "make one: anchor energies fill")
    plan = read_json(folder / PLAN, hint="make it again: anchor energies fill")
    return {"plan": plan, "hull": load_hull(plan["potential"]).identity.hash}


def filling_labels(folder: Path) -> Labels:
    """Labels of all that a run has made so far, placed on the hulls of today.

    A formula whose relaxation failed, or whose crystal has a bond too short, has no energy.

    Raises:
        InputError: The folder holds no filling run.
    """
    plan = filling_origin(folder)["plan"]
    formulas, made = Run(folder).made()
    amounts = Compositions.from_list(formulas).amounts
    hull = load_hull(plan["potential"])
    distances = []
    for name in DATABASES:
        database = hull.databases[name]
        formation = database.calibration.formation_energy(amounts, made["energy"])
        distances.append(database.union.energy_above_hull(amounts, formation))
    valid = made["ended"] & (made["bond_ratio"] >= 1)
    n = len(formulas)
    return Labels(
        formulas,
        np.where(valid, np.fmax(*distances), np.nan),
        [plan["prior"]["name"]] * n,
        np.full(n, plan["seed"], dtype=np.int64),
        ["filling"] * n,
    )
