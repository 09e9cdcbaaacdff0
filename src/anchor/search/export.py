"""A campaign's crystals in the formats other programs read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.formats import write
from anchor.search.ledger import Ledger, candidates, decode_crystal

PROPERTIES = {
    "energy_ev": "energy",
    "energy_above_hull_ev_per_atom": "e_above_hull",
    "formation_energy_ev_per_atom": "formation_energy_per_atom",
    "novelty": "novelty",
    "reward": "reward",
}
"""Ledger columns that go along, under the names of the field."""


def export(ledger: Ledger, path: Path, *, which: str = "finds", most: float | None = None) -> int:
    """Write crystals with their energies; the format follows from the path. Returns how many.

    Args:
        ledger: Of the campaign.
        path: .extxyz, .db (ASE), .json, .parquet, .csv (CDVAE's columns), .zip or a folder of CIFs.
        which: "finds" (relaxed with the cell free) or "valid" (every valid candidate of the ledger).
        most: Leave out what is more than this above the hull, eV/atom.
    """
    if which == "finds":
        rows = [{**row, "relaxed": row["crystal"]} for row in ledger.find_rows()]
    elif which == "valid":
        rows = list(ledger.rows(where=candidates.c.valid.is_(True)))
    else:
        raise InputError(f"'{which}' is not a set of crystals", "choose finds or valid")
    if most is not None:
        energy = "energy_above_hull_ev_per_atom"
        rows = [row for row in rows if row[energy] is not None and row[energy] <= most]
    if not rows:
        raise InputError(f"the campaign has no {which} to export", "run it longer, or export --which valid")
    crystals = Crystals.concatenate(decode_crystal(row["relaxed"]) for row in rows)
    ids = [f"anchor-{row.get('candidate', row.get('id'))}" for row in rows]
    properties = {
        name: np.array([np.nan if row[column] is None else row[column] for row in rows], dtype=np.float64)
        for column, name in PROPERTIES.items()
    }
    write(path, crystals, ids, properties)
    return len(rows)
