"""LeMat-GenBench's own reference hulls, LeMat-Bulk and MP-20, where somebody has put them.

The benchmark compares each potential with a hull of energies that the same potential gave. Its files are not
redistributed here. To use one, write for every potential of the ensemble

    <cache folder>/lemat-hulls/<lemat-bulk | mp-20>/<potential>.csv

with the columns formula, energy_ev_per_atom and checkpoint: the potential's own energies, uncorrected, and
the SHA-256 of the weights that gave them. A table of other weights is refused: LeMat-GenBench's MACE hull and
its MACE model did not belong together, and nothing said so.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, MissingDependencyError
from anchor.hull.hull import SCORED, Decomposition, Hull, HullIdentity
from anchor.hull.phases import N_NUMBERS, Phases, composition_matrix
from anchor.hull.references import HullScores
from anchor.paths import cache_dir
from anchor.potentials.base import Potential

NAMES = ("lemat-bulk", "mp-20")
COLUMNS = ("formula", "energy_ev_per_atom", "checkpoint")


class TableHull:
    """The hull of one potential's energies of known compounds, without any correction.

    Args:
        name: Which reference, for people.
        phases: Energies of the potential, eV/atom, elements among them.
        checkpoint_hash: SHA-256 of the potential's weights.
    """

    def __init__(self, name: str, phases: Phases, checkpoint_hash: str) -> None:
        digest = hashlib.sha256(phases.numbers.tobytes() + phases.fractions.tobytes())
        digest.update(phases.energies.tobytes())
        self.name = name
        self.identity = HullIdentity(digest.hexdigest(), checkpoint_hash)
        self.hull = Hull(phases, self.identity)
        self.elements = self.hull.elements

    def score(self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str) -> HullScores:
        """Energies above the hull; formation energies are against its elements. See `PotentialHull.score`."""
        self.identity.require(checkpoint_hash)
        amounts = crystals.compositions.amounts
        per_atom = np.asarray(energies, dtype=np.float64) / crystals.counts
        level = np.full(N_NUMBERS, np.nan)
        numbers = sorted(self.elements)
        level[numbers] = self.hull.hull_energy(np.eye(N_NUMBERS)[numbers])
        scale = np.where(amounts > 0, amounts * level, 0.0).sum(axis=1) / crystals.counts
        status = self.hull.status(amounts)
        for i in np.flatnonzero(~np.isfinite(per_atom)):
            status[i] = "not scored: no energy" if status[i] == SCORED else status[i]
        above = self.hull.energy_above_hull(amounts, per_atom)
        return HullScores(per_atom - scale, {self.name: above}, self.name, status)

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None:
        """Competing phases; None where an element has no reference."""
        return self.hull.decomposition(composition)


def hull_file(name: str, potential: str) -> Path:
    """Where the table of a potential on a reference belongs."""
    return cache_dir() / "lemat-hulls" / name / f"{potential}.csv"


def hull_status(name: str, potentials: list[str]) -> str:
    """'here', or which files are missing."""
    missing = [str(path) for p in potentials if not (path := hull_file(name, p)).is_file()]
    return f"not here: {', '.join(missing)}" if missing else "here"


def load_table_hull(name: str, potential: Potential) -> TableHull:
    """LeMat-Bulk's or MP-20's hull for a potential."""
    path = hull_file(name, potential.name)
    if not path.is_file():
        raise MissingDependencyError(
            f"the {name} hull of {potential.name} is not here: {path} is missing",
            f"write it with the columns {', '.join(COLUMNS)} (docs/protocols/lemat.md), or use --hull union",
        )
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        if lacking := [column for column in COLUMNS if column not in (table.fieldnames or ())]:
            raise InputError(f"{path} has no column {', '.join(lacking)}", f"it needs: {', '.join(COLUMNS)}")
        rows = list(table)
    given = {row["checkpoint"] for row in rows}
    if given != {potential.checkpoint_hash}:
        raise AnchorError(
            f"{path} holds energies of weights {', '.join(sorted(w[:12] for w in given))}…, "
            f"{potential.name} here has {potential.checkpoint_hash[:12]}…",
            "energies of different weights are on different scales: make the table with these weights",
        )
    amounts = composition_matrix([row["formula"] for row in rows])
    mappings = [{int(z): float(row[z]) for z in np.flatnonzero(row)} for row in amounts]
    try:
        energies = np.array([float(row["energy_ev_per_atom"]) for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} has an energy that is no number: {error}") from None
    return TableHull(name, Phases.from_amounts(mappings, energies, name), potential.checkpoint_hash)
