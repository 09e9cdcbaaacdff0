"""What one can ask for: names that are short to type, each with its unit and the column it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anchor.chemistry.formula import parse_amounts
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, EACH, ENERGY, FORMATION

Kind = Literal["number", "text", "flag", "elements"]


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes:
        name: As it is typed.
        kind: Of its values; any of them may be missing. A flag over a text column: the text is not empty.
        about: What it says.
        column: Of the ledger's rows.
        unit: Of its numbers; '' where they have none.
        part: Key inside a column that holds several numbers.
        also: Other spellings.
    """

    name: str
    kind: Kind
    about: str
    column: str
    unit: str = ""
    part: str = ""
    also: tuple[str, ...] = ()

    def of(self, row: Mapping[str, Any]) -> Any:
        """Its value in a row: a number, text, truth or set of symbols; None where it is missing."""
        value = row.get(self.column)
        if self.part:
            value = (value or {}).get(self.part)
        if value is None or value != value:
            return None
        if self.kind == "elements":
            return frozenset(parse_amounts(value))
        return bool(value) if self.kind == "flag" else value


_ALL = (
    Field("e_hull", "number", "energy above the hull that counts", ABOVE, "eV/atom", also=("e_above_hull",)),
    Field("e_hull_oqmd", "number", "above OQMD's hull", EACH, "eV/atom", "oqmd"),
    Field("e_hull_mp", "number", "above the Materials Project's hull", EACH, "eV/atom", "mp"),
    Field("e_hull_with_finds", "number", "above it with all other finds", ABOVE_WITH_FINDS, "eV/atom"),
    Field("e_form", "number", "formation energy", FORMATION, "eV/atom", also=("formation_energy",)),
    Field("energy", "number", "potential energy of the cell", ENERGY, "eV"),
    Field("formula", "text", "reduced formula", "formula"),
    Field("elements", "elements", "elements: has Na, has any (Na, K), within (Na, Mn, O)", "formula"),
    Field("nelements", "number", "how many elements", "n_elements", also=("k", "n_elements")),
    Field("natoms", "number", "atoms in the cell", "n_atoms", also=("n_atoms", "nsites")),
    Field("spacegroup", "text", "symbol of the space group", "spacegroup"),
    Field("spacegroup_number", "number", "its international number", "spacegroup_number"),
    Field("what", "text", "find, near, far, deep, failed, known; catalogue", "what"),
    Field("level", "number", "highest level of anchor verify that it passed", "level"),
    Field("novelty", "number", "CAN, 0 to 1: how new it was when it was found", "novelty"),
    Field("novelty_reference", "number", "CAN against the reference alone", "novelty_reference"),
    Field("reward", "number", "what the search earned by it", "reward"),
    Field("valid", "flag", "relaxed, bonds long enough, charge-neutral", "valid"),
    Field("known", "flag", "somebody lists the formula", "known_in"),
    Field("thin", "flag", "no database knows its chemical system well", "thin"),
    Field("suspicious", "flag", "deeper than 99 % of known compounds of its kind", "suspicious"),
    Field("relaxation", "text", "converged, capped, diverged, failed", "relaxation"),
    Field("status", "text", "scored, invalid, failed, not scored, not realised", "status"),
    Field("id", "number", "number of the candidate or entry", "id", also=("candidate", "number")),
    Field("step", "number", "step of the search that proposed it", "step"),
)  # fmt: skip

FIELDS = {field.name: field for field in _ALL}
"""Fields by name."""
SPELLINGS = {name: field for field in _ALL for name in (field.name, *field.also)}
"""Fields by every name that is understood."""
