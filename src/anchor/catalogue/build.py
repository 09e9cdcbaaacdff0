"""From the finds of campaigns to a catalogue: one crystal per formula, all competing with one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import anchor
from anchor.catalogue.catalogue import Catalogue
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.competition import above_with_others, counting_hulls
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull
from anchor.outcomes.columns import ABOVE, FORMATION, METASTABLE_BELOW
from anchor.potentials.registry import load_potential
from anchor.search.environment import load_campaign_hull
from anchor.search.finds import EACH
from anchor.search.ledger import Ledger, decode_crystal

Row = dict[str, Any]


def build_catalogue(
    locations: Sequence[str], *, most: float = METASTABLE_BELOW, command: str = ""
) -> Catalogue:
    """The finds of campaigns that are new, valid, believable and near the hull.

    Finds are what `anchor search --finds N` has relaxed with the cell free. Of a formula that several
    campaigns found, the lowest crystal stays.

    Args:
        locations: Campaigns, all on the same hull.
        most: At most this far above the hull, eV/atom.
        command: For the card.
    """
    ledgers = [Ledger.open(location) for location in locations]
    if not ledgers:
        raise InputError(
            "no campaign is given", "for example: anchor catalogue build runs/first --out mine.npz"
        )
    hulls = {ledger.identity["hull"] for ledger in ledgers}
    if len(hulls) > 1:
        raise InputError(
            f"the {len(ledgers)} campaigns were judged on {len(hulls)} different hulls",
            "build a catalogue of each, or search again with one version",
        )
    rows = lowest_of_each([row for ledger in ledgers for row in ledger.find_rows()], most)
    if not rows:
        raise InputError(
            f"the campaigns have no new finds within {most} eV/atom",
            "search longer, with --finds 1000 or more",
        )
    potential = ledgers[0].identity["potential"]
    rows = _in_order(rows, competing(rows, potential["name"], Config.from_ledger(ledgers[0].config)))
    card = {
        "what": "new crystals found by anchor's searches, positions and cell relaxed, lowest of each formula",
        "command": command,
        "anchor": anchor.__version__,
        "potential": potential,
        "hull": hulls.pop(),
        "prior": ledgers[0].identity["prior"],
        "campaigns": [
            {
                "candidates": ledger.n_candidates,
                "seed": ledger.config["run"]["seed"],
                "source": ledger.config["policy"]["source"],
            }
            for ledger in ledgers
        ],
        "most_ev_per_atom": most,
    }
    each = [row[EACH] for row in rows]
    return Catalogue(
        crystals=Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows),
        number=np.arange(1, len(rows) + 1),
        formulas=[row["formula"] for row in rows],
        spacegroups=[row["spacegroup"] for row in rows],
        why=[row.get("why") or "" for row in rows],
        thin=[row["thin"] or "" for row in rows],
        above_hull=np.array([row[ABOVE] for row in rows]),
        above_oqmd=np.array([_or_nan(above.get("oqmd")) for above in each]),
        above_mp=np.array([_or_nan(above.get("mp")) for above in each]),
        above_with_finds=np.array([row["with_all"] for row in rows]),
        formation_energy=np.array([_or_nan(row[FORMATION]) for row in rows]),
        level=np.array([row.get("level") or 0 for row in rows], dtype=np.int64),
        card=card,
    )


def lowest_of_each(rows: Sequence[Row], most: float) -> list[Row]:
    """Valid, believable rows near the hull, the lowest of each formula."""
    best: dict[str, Row] = {}
    for row in rows:
        if row["suspicious"] or not row["valid"] or row[ABOVE] is None or row[ABOVE] > most:
            continue
        if row["formula"] not in best or row[ABOVE] < best[row["formula"]][ABOVE]:
            best[row["formula"]] = row
    return list(best.values())


def competing(rows: Sequence[Row], potential: str, config: Config) -> list[float]:
    """Energy above the hull with all rows on it, the larger of the databases, eV/atom."""
    matrix = composition_matrix([row["formula"] for row in rows])
    found = []
    whole = load_campaign_hull(config, load_potential(potential))
    assert isinstance(whole, PotentialHull | AlexMPHull), "there are no other hulls to search on"
    for name, hull in counting_hulls(whole).items():
        above = np.array([_or_nan(row[EACH].get(name)) for row in rows])
        found.append(above_with_others(hull, matrix, above, matrix, above))
    return np.fmax.reduce(found).tolist()


def _in_order(rows: Sequence[Row], with_all: Sequence[float]) -> list[Row]:
    """What survived most first, then the lowest."""
    joined = [{**row, "with_all": above} for row, above in zip(rows, with_all, strict=True)]
    return sorted(joined, key=lambda row: (-(row.get("level") or 0), row["with_all"], row["formula"]))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
