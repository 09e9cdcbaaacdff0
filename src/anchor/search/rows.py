"""Candidates as rows of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anchor.chemistry.composition import Compositions
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.judge import MEASURED
from anchor.outcomes.rows import each_hull
from anchor.reward.score import BUILT_IN, GroupScores
from anchor.search.ledger import encode_crystal
from anchor.search.realise import Realised

FROM_JUDGE = (
    "formula", "cell", "n_atoms", "charge_ok", "bonds_ok", "bond_ratio", "bonds_by_floor", "status", "reason",
    "made_by", "relaxation", "relaxation_steps", "evaluations", "max_force_ev_per_angstrom", "energy_ev",
    "formation_energy_ev_per_atom", ABOVE,
)  # fmt: skip
"""Columns of a candidate that the judge fills."""


def candidate_rows(
    compositions: Compositions, group: Realised, scores: GroupScores, *, own: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """The columns of a group's candidates that the group knows, one row each, nothing left out.

    Args:
        compositions: The group's.
        group: What became of it.
        scores: Its scores.
        own: Names of the user's objectives.
    """
    table = group.outcomes
    position = np.full(table.n, -1)
    position[table.at] = np.arange(len(table.at))
    why = table.texts("gate_reason")
    for member, (row, hulls, i, k) in enumerate(
        zip(table.rows(FROM_JUDGE), each_hull(table), position.tolist(), compositions.k.tolist(), strict=True)
    ):
        valid, objectives = bool(scores.valid[member]), scores.objectives[member]
        if row["status"] == MEASURED:
            row |= {"status": "scored" if valid else "invalid", "reason": "" if valid else why[member]}
        row |= {
            "member": member,
            "n_elements": k,
            "generated": None if i < 0 else encode_crystal(group.generated[i]),
            "relaxed": None if i < 0 else encode_crystal(table.crystals[i]),
            "energy_above_each_hull_ev_per_atom": hulls,
            "valid": valid,
            "included": scores.include[member],
            "stability": objectives[0],
            "novelty": objectives[1],
            "novelty_reference": scores.novelty_reference[member],
            "novelty_history": scores.novelty_history[member],
            "novelty_branch": scores.branch[member] or None,
            "d_struct": objectives[2],
            "d_comp": objectives[3],
            "own_objectives": {n: plain(v) for n, v in zip(own, objectives[len(BUILT_IN) :], strict=True)},
            "n_f": scores.n_f[member],
            "count_bonus": scores.bonus[member],
            "reward": scores.reward[member],
        }
        yield {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> Any:
    """Python scalars for the database; NaN becomes null."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
