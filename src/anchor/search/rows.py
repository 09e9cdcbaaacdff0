"""A candidate as a row of the ledger."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import SYMBOLS
from anchor.reward.score import BUILT_IN, GroupScores
from anchor.search.ledger import encode_crystal
from anchor.search.realise import RealisedGroup

REALISED_COLUMNS = (
    "bonds_ok", "bond_ratio", "bonds_by_floor", "generated", "relaxed", "energy_ev", "relaxation",
    "relaxation_steps",
    "evaluations", "max_force_ev_per_angstrom", "formation_energy_ev_per_atom",
    "energy_above_hull_ev_per_atom", "energy_above_dft_hull_ev_per_atom",
    "energy_above_potential_hull_ev_per_atom",
)  # fmt: skip
"""Columns that only candidates with a crystal have."""


def candidate_row(
    compositions: Compositions,
    member: int,
    group: RealisedGroup,
    scores: GroupScores,
    *,
    bonds_by_floor: NDArray[np.bool_],
    own: tuple[str, ...],
    gate: str,
) -> dict[str, Any]:
    """The columns of one candidate that its group knows.

    Args:
        compositions: The group's.
        member: Which of them.
        group: What became of the group.
        scores: Its scores.
        bonds_by_floor: Realised crystals with a contact that only the constant floor admits.  # [m]
        own: Names of the user's objectives.
        gate: Name of the validity gate.
    """
    composition, status = compositions[member], group.status[member]
    valid, charge_ok = bool(scores.valid[member]), bool(group.realisation.charge_ok[member])
    objectives = scores.objectives[member]
    row: dict[str, Any] = {
        "member": member,
        "formula": scores.formulas[member],
        "cell": str(composition),
        "n_elements": composition.k,
        "n_atoms": composition.n_atoms,
        "charge_ok": charge_ok,
        "valid": valid,
        "included": scores.include[member],
        "status": ("scored" if valid else "invalid") if status == "realised" else status,
        "reason": group.reason[member],
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
    realised = np.flatnonzero(group.realisation.member == member)
    if not len(realised):
        return row | dict.fromkeys(REALISED_COLUMNS)
    i, relaxation, energies = int(realised[0]), group.relaxation, group.energies
    if status == "realised" and not valid:
        row["reason"] = (
            _why_invalid(charge_ok, scores, i) if gate == "paper" else f"refused by the {gate} gate"
        )
    return row | {
        "bonds_ok": scores.bonds.ok[i],
        "bond_ratio": scores.bonds.tightest[i],
        "bonds_by_floor": bonds_by_floor[i],
        "generated": encode_crystal(group.generated[i]),
        "relaxed": encode_crystal(relaxation.crystals[i]),
        "energy_ev": relaxation.energy[i],
        "relaxation": str(relaxation.status[i]),
        "relaxation_steps": relaxation.steps[i],
        "evaluations": relaxation.evaluations[i],
        "max_force_ev_per_angstrom": relaxation.max_force[i],
        "formation_energy_ev_per_atom": energies.formation_energy[i],
        "energy_above_hull_ev_per_atom": energies.energy_above_hull[i],
        "energy_above_dft_hull_ev_per_atom": energies.against("dft")[i],
        "energy_above_potential_hull_ev_per_atom": energies.against("potential")[i],
    }


def plain(value: Any) -> Any:
    """Python scalars for the database; NaN becomes null."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def _why_invalid(charge_ok: bool, scores: GroupScores, i: int) -> str:
    reasons = [] if charge_ok else ["not charge-neutral"]
    if not scores.bonds.ok[i]:
        a, b = (SYMBOLS[z] for z in scores.bonds.pair[i])
        reasons.append(f"{a}-{b} at {scores.bonds.tightest[i]:.2f} of the shortest allowed")
    return "; ".join(reasons)
