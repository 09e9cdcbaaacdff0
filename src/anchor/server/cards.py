"""One crystal with all that is known of it, as the report's card takes it."""

from __future__ import annotations

from typing import Any

from anchor.catalogue.catalogue import Catalogue, Entry
from anchor.chemistry.elements import SYMBOLS
from anchor.exports.chosen import catalogue_rows
from anchor.hull.databases import LABELS
from anchor.outcomes.columns import METASTABLE_BELOW, STABLE_BELOW
from anchor.report.entries import LEVELS, candidate_entry, plain_crystal
from anchor.report.systems import add_hulls
from anchor.search.finds import STANDINGS
from anchor.search.ledger import Ledger
from anchor.search.tables import candidates
from anchor.server.folder import NotHere
from anchor.server.listing import Row

NO_DIAGRAM = {"systems": {}, "labels": LABELS, "note": ""}


def candidate_card(ledger: Ledger, number: int) -> dict[str, Any]:
    """A candidate of a campaign.

    Raises:
        NotHere: There is none of this number.
        InputError: It has no crystal.
    """
    if not ledger.count(candidates.c.id == number):
        raise NotHere(f"there is no candidate {number}", "choose one from the list")
    entry = candidate_entry(ledger, number)
    return _card(entry, add_hulls([entry], ledger), ledger.identity["potential"]["name"])


def entry_card(entry: Entry, card: dict[str, Any]) -> dict[str, Any]:
    """An entry of a catalogue.

    Args:
        entry: The entry.
        card: Of the catalogue.
    """
    tried = [{"level": n, "passed": True, "reason": ""} for n in range(1, entry.level + 1)]
    failed = [{"level": entry.level + 1, "passed": False, "reason": entry.why}] if entry.why else []
    near = "find" if entry.above_hull <= STABLE_BELOW else "near"
    found = {
        "id": entry.number,
        "formula": entry.formula,
        "elements": [SYMBOLS[z] for z in sorted(set(entry.crystal.numbers.tolist()))],
        "standing": "far" if entry.above_hull > METASTABLE_BELOW else "failed" if entry.why else near,
        "level": entry.level,
        "refined": True,
        "space_group": entry.spacegroup,
        "atoms": entry.crystal.n_atoms,
        "above": entry.above_hull,
        "above_with_finds": entry.above_with_finds,
        "above_each": entry.above,
        "formation": entry.formation_energy,
        "thin": entry.thin,
        "verdicts": [*tried, *failed],
        "crystal": plain_crystal(entry.crystal),
    }
    potential = card.get("potential", "")
    return _card(found, NO_DIAGRAM, potential if isinstance(potential, str) else str(potential.get("name")))


def _card(entry: dict[str, Any], hulls: dict[str, Any], potential: str) -> dict[str, Any]:
    return {
        "entry": entry,
        "entries": [entry],
        "hulls": hulls,
        "about": {"potential": potential},
        "standings": {name: {"about": about} for name, about in STANDINGS.items()},
        "levels": {str(level): about for level, about in LEVELS.items()},
    }


def listed_entries(catalogue: Catalogue) -> list[Row]:
    """Entries as rows of a list, with the names of a ledger's columns."""
    return [{**row, "level": row["level"] or None} for row in catalogue_rows(catalogue)]
