"""The finds of a campaign: its best new candidates, relaxed to the end, cell included.

The reward relaxes positions only and stops early: this ranks candidates, but leaves them strained. What a
user takes away is therefore relaxed once more under the same potential and scored on the same hull.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import spglib

from anchor.crystals.crystals import Crystals
from anchor.gates.paper import check_bonds
from anchor.reward.novelty import adaptive_novelty
from anchor.search.campaign import Campaign
from anchor.search.ledger import candidates, decode_crystal, encode_crystal
from anchor.search.rows import plain

SYMPREC = 0.05
"""Å, tolerance of the space group: relaxed crystals are symmetric to about f_max / stiffness."""


def choose(campaign: Campaign, most: int) -> list[dict[str, Any]]:
    """The candidates worth refining: valid, formula known nowhere, lowest E_hull, one per formula."""
    where = candidates.c.valid.is_(True) & (candidates.c.known_in == "")
    where &= candidates.c.energy_above_hull_ev_per_atom.is_not(None)
    columns = ["id", "formula", "relaxed", "energy_above_hull_ev_per_atom"]
    rows = sorted(
        campaign.ledger.rows(columns, where=where),
        key=lambda r: (r["energy_above_hull_ev_per_atom"], r["id"]),
    )
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        best.setdefault(row["formula"], row)
    return list(best.values())[:most]


def refine(campaign: Campaign, most: int = 20, *, max_steps: int = 400) -> list[dict[str, Any]]:
    """Relax the best candidates with the cell free, score them again, store and return the finds.

    Returns:
        Rows of the finds joined with their candidates, lowest energy above the hull first.
    """
    chosen = choose(campaign, most)
    environment, config = campaign.environment, campaign.config
    crystals = Crystals.concatenate(decode_crystal(row["relaxed"]) for row in chosen)
    # Free to leave the symmetry that the search may have kept.
    relaxation = environment.realiser.relaxer(
        crystals,
        cell=True,
        max_steps=max_steps,
        fmax=config.relax.fmax,
        optimizer=config.relax.optimizer,
        chunk_atoms=config.relax.chunk_atoms,
    ).relaxation
    ended = np.isin(relaxation.status, ("converged", "capped"))
    energies = np.where(ended, relaxation.energy, np.nan)
    scores = environment.realiser.hull.score(
        relaxation.crystals, energies, checkpoint_hash=environment.potential.checkpoint_hash
    )
    scorer = environment.scorer
    bonds = check_bonds(relaxation.crystals, scorer.thresholds)
    embeddings = scorer.embed(relaxation.crystals)
    rows = []
    for i, row in enumerate(chosen):
        symbol, number = space_group(relaxation.crystals[i])
        novelty = adaptive_novelty(
            row["formula"], embeddings[i], scorer.index, None, k_nn=config.novelty.k_nn
        )
        rows.append(
            {
                "candidate": row["id"],
                "crystal": encode_crystal(relaxation.crystals[i]),
                "spacegroup": symbol,
                "spacegroup_number": number,
                "relaxation": str(relaxation.status[i]),
                "energy_ev": energies[i],
                "formation_energy_ev_per_atom": scores.formation_energy[i],
                "energy_above_hull_ev_per_atom": scores.energy_above_hull[i],
                "energy_above_dft_hull_ev_per_atom": scores.against("dft")[i],
                "energy_above_potential_hull_ev_per_atom": scores.against("potential")[i],
                "bonds_ok": bonds.ok[i],
                "novelty_reference": novelty.value,
            }
        )
    campaign.ledger.store_finds([{name: plain(value) for name, value in row.items()} for row in rows])
    return campaign.ledger.find_rows()


def space_group(crystal: Crystals) -> tuple[str, int]:
    """Symbol and number of one crystal's space group; ('unknown', 0) where spglib finds none."""
    cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
    found = spglib.get_spacegroup(cell, symprec=SYMPREC)
    if found is None:
        return "unknown", 0
    symbol, number = found.rsplit(" (", 1)
    return symbol, int(number.rstrip(")"))
