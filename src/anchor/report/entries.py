"""Every crystal that a campaign has to show, told apart by what it is, as plain values for JSON.

One per formula: the refined one where there is one, else the lowest. A crystal on the hull is a find; one
within 0.1 eV/atom is near; what lies higher is far, and of those only the best are shown, as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchor.chemistry.elements import SYMBOLS
from anchor.config import Config, Thresholds
from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.errors import InputError
from anchor.hull.belief import load_depths
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, ENERGY, FORMATION
from anchor.search.finds import EACH, STANDINGS, standing, verified
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.tables import candidates, finds

LEVELS = {
    0: "relaxed with the cell free",
    1: "both hulls, lists of known compounds, the other finds",
    2: "other structures of the same composition",
    3: "other potentials",
    4: "competing compounds made near its decomposition",
    5: "phonons",
    6: "DFT",
}
"""Levels of verification, for people; `anchor.verify.levels` has them."""
OTHER_POTENTIALS = 3
FAR_SHOWN = 20
"""Best of the far that are shown."""
DIGITS = {"lattice": 5, "frac": 6, "energy": 4}
"""Decimals of what is shown: Å, fractions of the cell, eV/atom."""
OF_CANDIDATE = (
    "id", "formula", "n_atoms", "relaxed", "relaxation", "made_by", "known_in", "thin", "holes",
    "phases_known", "novelty_reference", ENERGY, FORMATION, ABOVE, EACH,
)  # fmt: skip


@dataclass(frozen=True)
class Entries:
    """What a campaign has to show.

    Attributes:
        shown: As plain values, by standing, level and energy.
        counts: All new formulas of the campaign by standing, also those that are not shown.
    """

    shown: list[dict[str, Any]]
    counts: dict[str, int]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.shown if entry["standing"] == name]


def campaign_entries(ledger: Ledger, *, crystals: bool = True) -> Entries:
    """Entries of a campaign, which may still be running.

    Args:
        crystals: With crystals, elements and space groups; without them it is quick, for words and counts.
    """
    limits = Config.from_ledger(ledger.config).evaluation
    verdicts = ledger.verdict_rows()
    refined = [{**row, "refined": True} for row in (*ledger.find_rows(), *ledger.find_rows(known=True))]
    taken = {row["formula"] for row in refined}
    quick, left_out = _unrefined(ledger, taken, verdicts, limits, crystals)
    rows = verified([*refined, *quick], verdicts)
    shown = [_entry(row, limits) if crystals else _facts(row, limits) for row in rows]
    order = list(STANDINGS)
    shown.sort(key=lambda entry: order.index(entry["standing"]))  # stable: by level and energy within
    counts = {name: sum(entry["standing"] == name for entry in shown) for name in STANDINGS}
    counts["far"] += left_out
    return Entries(shown, counts)


def candidate_entry(ledger: Ledger, number: int) -> dict[str, Any]:
    """Any candidate as an entry, also one that is not shown; what the gate refused has failed level 0.

    Raises:
        InputError: There is none of this number, or it has no crystal.
    """
    refined = number in ledger.refined()
    rows = [*ledger.find_rows(), *ledger.find_rows(known=True)] if refined else []
    row = next((row for row in rows if row["candidate"] == number), None)
    if row is None:
        found = list(
            ledger.rows([*OF_CANDIDATE, "valid", "status", "reason"], where=candidates.c.id == number)
        )
        if not found:
            raise InputError(f"there is no candidate {number}", "choose one from the list")
        if found[0]["relaxed"] is None:
            raise InputError(f"candidate {number} has no crystal: {found[0]['reason']}", "choose another")
        row = _like_a_find(found[0])
    verdicts = [verdict for verdict in ledger.verdict_rows() if verdict["candidate"] == number]
    (row,) = verified([{**row, "refined": refined}], verdicts)
    entry = _entry(row, Config.from_ledger(ledger.config).evaluation)
    if "space_group" not in entry:
        symbol, group = space_group(decode_crystal(row["crystal"]))
        entry |= {"space_group": symbol, "space_group_number": group}
    if row["valid"] is False:
        refused = {
            "level": 0,
            "passed": False,
            "reason": row.get("reason") or row.get("status") or "not valid",
        }
        entry |= {"standing": "failed", "verdicts": [refused, *entry.get("verdicts", [])]}
    return entry


def _like_a_find(row: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate's row with the columns of finds, which it has not."""
    own = set(candidates.c.keys())
    absent = {name: None for name in finds.c.keys() if name not in own}  # noqa: SIM118
    return {**absent, **row, "candidate": row["id"], "crystal": row["relaxed"], "refined": False}


def _unrefined(
    ledger: Ledger,
    taken: set[str],
    verdicts: Sequence[Mapping[str, Any]],
    limits: Thresholds,
    crystals: bool,
) -> tuple[list[dict[str, Any]], int]:
    """New formulas that were not refined, as rows like those of finds, and how many far ones are left out."""
    judged = {verdict["candidate"] for verdict in verdicts}
    new = candidates.c.valid.is_(True) & candidates.c[ABOVE].is_not(None) & (candidates.c.known_in == "")
    best: dict[str, tuple[bool, float, int]] = {}
    for row in ledger.rows(["id", "formula", ABOVE], where=new):
        if row["formula"] not in taken:
            rank = (row["id"] not in judged, row[ABOVE], row["id"])
            best[row["formula"]] = min(rank, best.get(row["formula"], rank))
    near = {number for _, above, number in best.values() if above <= limits.metastable_below}
    far = sorted((above, number) for _, above, number in best.values() if number not in near)
    near |= {number for _, number in far[:FAR_SHOWN]}
    columns = OF_CANDIDATE if crystals or judged else [name for name in OF_CANDIDATE if name != "relaxed"]
    rows = [
        _like_a_find({"relaxed": None, **row})
        for row in ledger.rows(columns, where=new & candidates.c.relaxed.is_not(None))
        if row["id"] in near
    ]
    return rows, max(0, len(far) - FAR_SHOWN)


def _entry(row: Mapping[str, Any], limits: Thresholds) -> dict[str, Any]:
    """One row as plain values for JSON; what is not known is left out."""
    crystal = decode_crystal(row["crystal"])
    facts = _facts(row, limits)
    symbol, number = row["spacegroup"], row["spacegroup_number"]
    if symbol is None and facts["standing"] == "find":  # of thousands that are near, it would take a minute
        symbol, number = space_group(crystal)
    found = {
        **facts,
        "elements": [SYMBOLS[z] for z in np.unique(crystal.numbers).tolist()],
        "space_group": symbol,
        "space_group_number": number,
        "atoms": crystal.n_atoms,
        "crystal": plain_crystal(crystal),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _facts(row: Mapping[str, Any], limits: Thresholds) -> dict[str, Any]:
    """What is known of one row without looking at its crystal."""
    percentile, suspicious = row["depth_percentile"], row["suspicious"]
    if suspicious is None and row[ABOVE] is not None and row[ABOVE] < 0:
        belief = load_depths().of(row["formula"], row[ABOVE])
        percentile, suspicious = belief.percentile, belief.suspicious
    refined = row["refined"] or any(v["crystal"] is not None for v in row["verdicts"])
    found = {
        "id": row["candidate"],
        "formula": row["formula"],
        "standing": standing({**row, "suspicious": suspicious}, limits),
        "level": row["level"] if row["level"] is not None else (0 if refined else None),
        "refined": refined,
        "above": _energy(row[ABOVE]),
        "above_with_finds": _energy(row[ABOVE_WITH_FINDS]),
        "above_each": {name: _energy(value) for name, value in (row[EACH] or {}).items()},
        "formation": _energy(row[FORMATION]),
        "energy_ev": _energy(row[ENERGY]),
        "percentile": percentile,
        "thin": row["thin"],
        "holes": row["holes"],
        "phases_known": row["phases_known"],
        "known_in": row["known_in"],
        "space_group_known": row["space_group_known"],
        "novelty": _energy(row["novelty_reference"]),
        "made_by": row["made_by"],
        "relaxation": row["relaxation"],
        "verdicts": [
            {"level": v["level"], "passed": v["passed"], "reason": v["reason"]} for v in row["verdicts"]
        ],
        **_evidence(row["verdicts"]),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _evidence(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What verdicts hold beside words: the other potentials, and what the crystal decomposes into."""
    found: dict[str, Any] = {}
    for verdict in verdicts:
        evidence = verdict["evidence"] or {}
        oracle = evidence.get("oracle", evidence)
        if isinstance(oracle.get("decomposition"), Mapping):
            found["decomposition"] = dict(oracle["decomposition"])
        if verdict["level"] == OTHER_POTENTIALS:
            found["potentials"] = dict(evidence.get("above_ev_per_atom", {}))
            found["agree"] = list(evidence.get("agree", ()))
            found["silent"] = dict(evidence.get("no_answer", {}))
    return found


def plain_crystal(crystal: Crystals) -> dict[str, Any]:
    """One crystal for JSON: cell vectors as rows (Å), atomic numbers, fractional coordinates, flat."""
    return {
        "lattice": np.round(crystal.lattice[0], DIGITS["lattice"]).ravel().tolist(),
        "numbers": crystal.numbers.tolist(),
        "frac": np.round(crystal.frac % 1.0, DIGITS["frac"]).ravel().tolist(),
    }


def _energy(value: Any) -> float | None:
    """Rounded; None of what is no finite number."""
    if not isinstance(value, int | float) or not np.isfinite(value):
        return None
    return round(value, DIGITS["energy"])
