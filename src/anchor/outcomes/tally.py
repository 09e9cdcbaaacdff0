"""Running counts of a campaign, by the paper's definitions (app:eval_protocol)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anchor.config import Thresholds
from anchor.outcomes.columns import ABOVE, DEFINITIONS, NEAR_HULL, ON_HULL

LABELS = {
    "valid": "valid",
    "unique": "unique formulas",
    "novel": "valid and novel",
    "metastable": f"valid, {NEAR_HULL}",
    "stable": f"valid, {ON_HULL}",
    "msun": "MSUN: metastable, unique, novel",
    "sun": "SUN: stable, unique, novel",
    "new_msun": "MSUN with a formula known nowhere",
    "new_sun": "SUN with a formula known nowhere",
    "known": "valid, formula in the reference",
    "known_anywhere": "valid, formula known already",
}
"""What is counted, and what people read beside the count."""
NAMES = tuple(LABELS)


@dataclass
class Tally:
    """Counts over candidates in sampling order.

    valid: passed the gate. unique: first of its reduced formula, valid or not. novel: valid and ν > 0.5.
    metastable, stable: valid and E_hull <= 0.1, <= 0 eV/atom. msun, sun: those and unique and novel. known:
    valid and the formula is in the reference; known_anywhere: there, in the Materials Project or in OQMD.
    new_msun, new_sun: with a formula that is known nowhere, of which finds are taken.
    Energies and novelty are those of the training reward.
    """

    definitions: Thresholds = DEFINITIONS
    proposed: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    status: dict[str, int] = field(default_factory=dict)
    _formulas: set[str] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> dict[str, bool]:
        """Count one candidate; returns its flags."""
        e_hull, novelty = row[ABOVE], row["novelty"]
        unique = row["formula"] not in self._formulas
        self._formulas.add(row["formula"])
        valid = bool(row["valid"])
        novel = valid and novelty is not None and novelty > self.definitions.novel_above
        metastable = valid and e_hull is not None and e_hull <= self.definitions.metastable_below
        stable = valid and e_hull is not None and e_hull <= self.definitions.stable_below
        known = row["known_in"].split(",")
        flags = {
            "valid": valid,
            "unique": unique,
            "novel": novel,
            "metastable": metastable,
            "stable": stable,
            "msun": metastable and unique and novel,
            "sun": stable and unique and novel,
            "known": valid and "reference" in known,
            "known_anywhere": valid and known != [""],
        }
        flags |= {f"new_{name}": flags[name] and known == [""] for name in ("msun", "sun")}
        self.proposed += 1
        self.status[row["status"]] = self.status.get(row["status"], 0) + 1
        for name, flag in flags.items():
            self.counts[name] += flag
        return flags

    def add_all(self, rows: Iterable[Mapping[str, Any]]) -> Tally:
        for row in rows:
            self.add(row)
        return self

    def rate(self, name: str) -> float:
        """Fraction of all proposed candidates, NaN before the first."""
        return self.counts[name] / self.proposed if self.proposed else float("nan")


TALLY_COLUMNS = ("formula", "valid", "status", "novelty", ABOVE, "known_in")
"""Ledger columns a tally reads."""


PARTS = ("policy", "prior", "potential", "relaxation", "hull", "scoring", "database")
"""Parts of a step's time that do not overlap, in the order they happen."""


def split_time(seconds: Mapping[str, float]) -> dict[str, float]:
    """A step's or a campaign's time by part, s, without overlap: "relaxation" loses the potential's share."""
    parts = dict(seconds)
    if "potential" in parts:
        parts["relaxation"] -= parts["potential"]
    return {name: parts[name] for name in (*PARTS, *(set(parts) - set(PARTS))) if name in parts}
