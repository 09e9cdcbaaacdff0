"""Ledgers of schema 1 (until 0.1): read, never written.

It knew the policy's heads and two hulls by name, and nothing of what has no old column here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from anchor.outcomes.columns import ABOVE_WITH_FINDS

_OLD_HEADS = ("k", "elements", "atoms", "stoichiometry")
_OLD_HULLS = ("dft", "potential")
_OLD_COLUMNS = {
    "log_probs": [f"logp_{head}" for head in _OLD_HEADS],
    "energy_above_each_hull_ev_per_atom": [f"energy_above_{hull}_hull_ev_per_atom" for hull in _OLD_HULLS],
    "made_by": [],
    "thin": [],
    "valid": [],  # of finds
    ABOVE_WITH_FINDS: [],
    "depth_percentile": [],
    "suspicious": [],
    "phases_known": [],
    "holes": [],
    "space_group_known": [],
}


def select(table: sa.Table, names: Sequence[str]) -> list[sa.ColumnElement[Any]]:
    """Columns to ask a table for."""
    chosen: list[sa.ColumnElement[Any]] = []
    for name in names:
        if name in _OLD_COLUMNS and not (table.name == "candidates" and name == "valid"):
            chosen += [sa.literal_column(f"{table.name}.{old}").label(old) for old in _OLD_COLUMNS[name]]
        else:
            chosen.append(table.c[name])
    return chosen


def renewed(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A row as it would be today."""
    if "log_probs" in names:
        values = {head: row.pop(f"logp_{head}") for head in _OLD_HEADS}
        row["log_probs"] = {} if None in values.values() else values
    if "energy_above_each_hull_ev_per_atom" in names:
        values = {hull: row.pop(f"energy_above_{hull}_hull_ev_per_atom") for hull in _OLD_HULLS}
        row["energy_above_each_hull_ev_per_atom"] = {k: v for k, v in values.items() if v is not None}
    return {name: row.get(name) for name in names}
