"""What the data card says about crystals, hulls and bonds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.reference.bonds import BondTable, passes_by_floor_only, radius_floor
from anchor.reference.clean import Removal
from anchor.reference.quarantine import Suspect
from anchor.reference.raw import RawCrystals, RawEnergies
from anchor.reference.splits import SPLITS, splits_of

LISTED_FORMULAS = 60  # the card names the rows of a removal one by one up to this many


def crystals_card(
    raw: RawCrystals, rows: NDArray[np.int64], removals: list[Removal], formulas: list[str]
) -> dict[str, Any]:
    names = [formulas[i] for i in rows]
    kept = raw.crystals[rows]
    splits = splits_of(names)
    unique = np.unique(names)
    return {
        "rows_in_source": len(raw.crystals),
        "removed": [
            {
                "rule": r.rule,
                "count": len(r.rows),
                **(
                    {"which": [f"oqmd-{raw.oqmd_id[i]} {formulas[i]}" for i in r.rows]}
                    if len(r.rows) <= LISTED_FORMULAS
                    else {}
                ),
            }
            for r in removals
        ],
        "kept": len(rows),
        "atoms": kept.n_atoms,
        "formulas": len(unique),
        "elements": len(np.unique(kept.numbers)),
        "prototypes": len(np.unique(raw.prototype[rows])),
        "within_0.1_ev_of_hull": int((raw.stability[rows] <= 0.1).sum()),
        "splits": {
            s: {"crystals": int((splits == s).sum()), "formulas": int((splits_of(unique) == s).sum())}
            for s in SPLITS
        },
    }


def hull_card(
    energies: RawEnergies,
    formulas: NDArray[np.str_],
    suspects: list[Suspect],
    added: dict[str, tuple[dict[int, int], float]],
) -> dict[str, Any]:
    def row(s: Suspect) -> dict[str, Any]:
        return {
            "formula": str(formulas[s.entry]),
            "formation_energy_ev_per_atom": round(float(energies.formation_energy[s.entry]), 4),
            "below_hull_of_others_ev_per_atom": round(s.depth, 4) if np.isfinite(s.depth) else None,
        }

    quarantined = [row(s) for s in suspects if s.quarantined]
    return {
        "compositions_in_source": len(formulas),
        "quarantined": quarantined,
        "added_from_crystals": {formula: round(energy, 4) for formula, (_, energy) in sorted(added.items())},
        "kept": len(formulas) - len(quarantined) + len(added),
        "elements": len(np.unique(energies.numbers)) - 1,  # 0 is padding
        "deep_but_supported": [row(s) for s in suspects if not s.quarantined],
    }


def bonds_card(crystals: Crystals, formulas: list[str]) -> dict[str, Any]:
    table = BondTable.from_crystals(crystals)
    train = splits_of(formulas) == "train"
    train_table = BondTable.from_crystals(crystals[train])
    held_out = crystals[~train]
    contacts = minimum_image_distances(held_out, self_images=True)
    a, b = held_out.numbers[contacts.first], held_out.numbers[contacts.second]
    unseen = ~train_table.seen[a, b]
    has_unseen = np.bincount(contacts.crystal[unseen], minlength=len(held_out)) > 0
    too_close_for_radii = unseen & (contacts.distance < radius_floor()[a, b])

    def shortest(x: int, y: int) -> float | None:
        return round(float(table.minimum[x, y]), 4) if table.seen[x, y] else None

    return {
        "pairs": len(table),
        "H-O_angstrom": shortest(1, 8),
        "Si-O_angstrom": shortest(14, 8),
        "most_suspicious": [
            {
                "pair": f"{x}-{y}",
                "shortest_angstrom": round(distance, 4),
                "of_sum_of_covalent_radii": round(ratio, 3),
                "in": formulas[i],
                "crystals_with_pair": int(table.crystals[SYMBOLS.index(x), SYMBOLS.index(y)]),
            }
            for x, y, distance, ratio, i in table.most_suspicious(10)
        ],
        "held_out_against_train_table": {
            "crystals": len(held_out),
            "with_a_pair_never_seen": int(has_unseen.sum()),
            "pass_by_constant_floor_only": int(passes_by_floor_only(held_out, train_table).sum()),
            "refused_by_radius_floor": len(np.unique(contacts.crystal[too_close_for_radii])),
        },
    }
