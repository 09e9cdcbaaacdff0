"""The finds of a campaign: its best new candidates, relaxed to the end, cell included.

The reward relaxes positions only and stops early: this ranks candidates, but leaves them strained. What a
user takes away is therefore relaxed once more under the same potential and judged on the same hull.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.rows import each_hull
from anchor.reward.novelty import reference_novelty
from anchor.search.campaign import Campaign
from anchor.search.ledger import candidates, decode_crystal, encode_crystal

FROM_JUDGE = (
    "relaxation", "energy_ev", "formation_energy_ev_per_atom", ABOVE, "bonds_ok", "valid",
)  # fmt: skip
"""Columns of a find that the judge fills."""


def choose(campaign: Campaign, most: int) -> list[dict[str, Any]]:
    """The candidates worth refining: valid, formula known nowhere, lowest E_hull, one per formula."""
    where = candidates.c.valid.is_(True) & (candidates.c.known_in == "")
    where &= candidates.c[ABOVE].is_not(None)
    rows = sorted(
        campaign.ledger.rows(["id", "formula", "relaxed", ABOVE], where=where),
        key=lambda r: (r[ABOVE], r["id"]),
    )
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        best.setdefault(row["formula"], row)
    return list(best.values())[:most]


def refine(campaign: Campaign, most: int = 20, *, max_steps: int = 400) -> list[dict[str, Any]]:
    """Relax the best candidates with the cell free, judge them again, store and return the finds.

    Returns:
        Rows of the finds joined with their candidates, lowest energy above the hull first.
    """
    chosen = choose(campaign, most)
    judge = campaign.environment.judge
    assert judge.relaxing is not None, "a campaign relaxes"
    # Free to leave the symmetry that the search may have kept.
    relaxing = replace(judge.relaxing, cell=True, max_steps=max_steps, symmetry=False)
    judge = replace(judge, relaxing=relaxing)
    (relaxed,) = judge.relaxed([Crystals.concatenate(decode_crystal(row["relaxed"]) for row in chosen)])
    table, embeddings = campaign.environment.checks(judge.placed(relaxed))
    scorer = campaign.environment.scorer
    novelty = reference_novelty(
        [row["formula"] for row in chosen], embeddings, scorer.index, k_nn=scorer.novelty.k_nn
    )
    rows = []
    for row, found, hulls, crystal, score in zip(
        chosen, table.rows(FROM_JUDGE), each_hull(table), table.crystals, novelty, strict=True
    ):
        symbol, number = space_group(crystal)
        rows.append(
            {
                "candidate": row["id"],
                "crystal": encode_crystal(crystal),
                "spacegroup": symbol,
                "spacegroup_number": number,
                **found,
                "energy_above_each_hull_ev_per_atom": hulls,
                "novelty_reference": score.value,
            }
        )
    campaign.ledger.store_finds(rows)
    return campaign.ledger.find_rows()
