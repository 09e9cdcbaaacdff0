"""From the finds of campaigns to a catalogue: one crystal per formula, all competing with one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import anchor
from anchor.catalogue.catalogue import Catalogue, as_stored, is_catalogue, open_catalogue
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.belief import load_depths
from anchor.hull.competition import above_with_all
from anchor.hull.references import PotentialHull
from anchor.hull.ytterbium import misplaced_ytterbium
from anchor.outcomes.columns import ABOVE, EACH, FORMATION, METASTABLE_BELOW
from anchor.outcomes.judge import ScoringHull
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.search.environment import load_campaign_hull
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal

Row = dict[str, Any]
SAME = 3
"""Digits of eV/atom to which crystals of one formula are the same."""


def build_catalogue(
    locations: Sequence[str], *, most: float = METASTABLE_BELOW, command: str = ""
) -> Catalogue:
    """The finds of campaigns that are new, valid, believable and near the hull.

    Finds are what `anchor search --finds N` has relaxed with the cell free, with the lower crystals that
    verification found. They are placed on the hull of today, which may know more phases than the one that a
    campaign was searched on. Of a formula that several campaigns found, the lowest crystal stays.

    Args:
        locations: Campaigns and catalogues ('catalogue': the one that ships) under one potential.
        most: At most this far above the hull, eV/atom.
        command: For the card.
    """
    older = [open_catalogue(name) for name in locations if is_catalogue(name)]
    ledgers = [Ledger.open(location) for location in locations if not is_catalogue(location)]
    if not ledgers:
        raise InputError("no campaign is given", "see: anchor catalogue build --help")
    names = {ledger.identity["potential"]["name"] for ledger in ledgers}
    names |= {catalogue.card["potential"]["name"] for catalogue in older}
    if len(names) > 1:
        raise InputError(
            f"the campaigns were searched under {' and '.join(sorted(names))}", "build a catalogue of each"
        )
    potential = load_potential(names.pop())
    hull = load_campaign_hull(Config.from_ledger(ledgers[0].config), potential)
    assert isinstance(hull, PotentialHull | AlexMPHull), "there are no other hulls to search on"
    found = [Finds.read(ledger) for ledger in ledgers]
    rows = [row for one in found for row in (*one.new, *one.by_standing["deep"]) if row["valid"]]
    rows += [row for catalogue in older for row in entries_of(catalogue, hull, potential)]
    rows = lowest_of_each(placed(rows, hull, potential), most)
    if not rows:
        raise InputError(
            f"the campaigns have no new finds within {most} eV/atom", "search longer, with --finds 1000"
        )
    each = [row[EACH] for row in rows]
    formulas = [row["formula"] for row in rows]
    rows = _in_order(rows, above_with_all(hull, formulas, each, formulas, each))
    each = [row[EACH] for row in rows]
    card = {
        "what": "new crystals found by anchor's searches, positions and cell relaxed, lowest of each formula",
        "command": command,
        "anchor": anchor.__version__,
        "potential": {"name": potential.name, "hash": potential.checkpoint_hash},
        "hull": hull.identity.hash,
        "prior": ledgers[0].identity["prior"],
        "campaigns": [
            {
                "candidates": ledger.n_candidates,
                "refined": len(ledger.refined()),
                "seed": ledger.config["run"]["seed"],
                "source": ledger.config["policy"]["source"],
                "hull": ledger.identity["hull"],
            }
            for ledger in ledgers
        ],
        "catalogues": [
            {
                "entries": len(catalogue),
                **{k: catalogue.card[k] for k in ("content_hash", "campaigns", "hull")},
            }
            for catalogue in older
        ],
        "most_ev_per_atom": most,
    }
    made = Catalogue(
        crystals=Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows),
        number=np.arange(1, len(rows) + 1),
        formulas=[row["formula"] for row in rows],
        spacegroups=[row["spacegroup"] for row in rows],
        why=[row["why"] or "" for row in rows],
        thin=[row["thin"] or "" for row in rows],
        above_hull=np.array([row[ABOVE] for row in rows]),
        above_oqmd=np.array([_or_nan(above.get("oqmd")) for above in each]),
        above_mp=np.array([_or_nan(above.get("mp")) for above in each]),
        above_with_finds=np.array([_or_nan(row["with_all"]) for row in rows]),
        formation_energy=np.array([_or_nan(row[FORMATION]) for row in rows]),
        level=np.array([row["level"] or 0 for row in rows], dtype=np.int64),
        card=card,
    )
    return as_stored(made)


def entries_of(catalogue: Catalogue, hull: ScoringHull, potential: Potential) -> list[Row]:
    """Entries of a catalogue as the finds of a campaign, to be placed anew. Formation energies lead back."""
    if catalogue.card["potential"]["hash"] != potential.checkpoint_hash or not isinstance(
        hull, PotentialHull
    ):
        raise InputError(
            f"the catalogue was not made with this {potential.name} on both DFT hulls",
            "build from campaigns alone",
        )
    amounts = catalogue.crystals.compositions.amounts
    zero = hull.databases["oqmd"].calibration.formation_energy(amounts, np.zeros(len(catalogue)))
    energies = (catalogue.formation_energy - zero) * catalogue.crystals.counts
    return [
        {
            "formula": entry.formula,
            "crystal": encode_crystal(entry.crystal),
            "energy_ev": float(energy),
            "spacegroup": entry.spacegroup,
            "level": entry.level,
            "why": entry.why,
            "thin": entry.thin,
        }
        for entry, energy in zip(catalogue, energies, strict=True)
    ]


def placed(rows: Sequence[Row], hull: ScoringHull, potential: Potential) -> list[Row]:
    """Rows with their distances to a hull, from the energies that they have, and whether to believe them."""
    if not rows:
        return []
    crystals = Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows)
    energies = np.array([_or_nan(row["energy_ev"]) for row in rows])
    scores = hull.score(crystals, energies, checkpoint_hash=potential.checkpoint_hash)
    found = []
    for i, row in enumerate(rows):
        above = float(scores.energy_above_hull[i])
        each = {name: float(v[i]) for name, v in scores.above.items() if np.isfinite(v[i])}
        if np.isfinite(above):
            suspicious = load_depths().of(row["formula"], above).suspicious or bool(
                misplaced_ytterbium(row["formula"])
            )
            energy = float(scores.formation_energy[i])
            found.append({**row, ABOVE: above, EACH: each, FORMATION: energy, "suspicious": suspicious})
    return found


def lowest_of_each(rows: Sequence[Row], most: float) -> list[Row]:
    """Believable rows near the hull, the lowest of each formula; of equals, the one that survived more."""

    def rank(row: Row) -> tuple[float, int]:
        return round(row[ABOVE], SAME), -(row["level"] or 0)

    best: dict[str, Row] = {}
    for row in rows:
        if row["suspicious"] or row[ABOVE] > most:
            continue
        if row["formula"] not in best or rank(row) < rank(best[row["formula"]]):
            best[row["formula"]] = row
    return list(best.values())


def _in_order(rows: Sequence[Row], with_all: Sequence[float | None]) -> list[Row]:
    """What survived most first, then the lowest."""
    joined = [{**row, "with_all": above} for row, above in zip(rows, with_all, strict=True)]
    return sorted(joined, key=lambda row: (-(row["level"] or 0), row["with_all"], row["formula"]))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
