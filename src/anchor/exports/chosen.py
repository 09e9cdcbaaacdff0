"""Crystals of a campaign or of a catalogue within a selection, as rows of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from anchor.catalogue.catalogue import Catalogue, is_catalogue, open_catalogue
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.hull.databases import load_calibration
from anchor.hull.energies import load_energies
from anchor.outcomes.columns import (
    ABOVE,
    ABOVE_WITH_FINDS,
    EACH,
    ENERGY,
    FIELD_NAMES,
    FORMATION,
)
from anchor.reference.reference import load_reference
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.tables import candidates
from anchor.selecting import Selection, to_sql

Which = Literal["finds", "refined", "valid", "all"]
OF_CANDIDATES = (
    "id", "step", "formula", "n_elements", "n_atoms", "valid", "status", "relaxation", "relaxed", ENERGY,
    FORMATION, ABOVE, EACH, "novelty", "novelty_reference", "reward", "known_in", "thin",
)  # fmt: skip
"""Columns of a candidate that go out or can be asked for."""
NUMBERS = (ENERGY, ABOVE, ABOVE_WITH_FINDS, FORMATION, "novelty", "novelty_reference", "reward", "level")
"""Columns that go into files as numbers."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Crystals with what is known of each.

    Attributes:
        crystals: One per row.
        rows: Columns of the ledger by name; what a place does not keep is missing.
        ids: Names of the crystals in files.
        potential: Name of the one whose energies these are.
    """

    crystals: Crystals
    rows: list[dict[str, Any]]
    ids: list[str]
    potential: str

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Columns of numbers under the names that the field uses; NaN where one is missing."""
        found = {FIELD_NAMES.get(n, n): _numbers([row.get(n) for row in self.rows]) for n in NUMBERS}
        hulls = dict.fromkeys(name for row in self.rows for name in row.get(EACH) or {})
        for hull in hulls:
            found[f"e_above_{hull}_hull"] = _numbers([(row.get(EACH) or {}).get(hull) for row in self.rows])
        return {name: values for name, values in found.items() if np.isfinite(values).any()}

    def energies(self) -> NDArray[np.float64]:
        """Potential energies of the cells, eV; a catalogue keeps formation energies, which lead back."""
        kept = _numbers([row.get(ENERGY) for row in self.rows])
        if np.isfinite(kept).all():
            return kept
        per_atom = _numbers([row.get(FORMATION) for row in self.rows])
        zero = np.zeros(len(self.rows))
        amounts = self.crystals.compositions.amounts
        reference = load_reference()
        energies = load_energies(self.potential, reference.crystals)
        scale = load_calibration(self.potential, reference, energies).formation_energy(amounts, zero)
        return np.where(np.isfinite(kept), kept, (per_atom - scale) * self.crystals.counts)


def choose(place: str, wanted: Selection, *, which: Which | None = None) -> Chosen:
    """Crystals within a selection, in the place's own order.

    Args:
        place: "catalogue" (the one that ships) or a .npz file of one; or folder, ledger file or URL of a
            campaign.
        wanted: Which of them.
        which: Of a campaign: "finds" (the default), "refined" (everything relaxed with the cell free, with
            `what` each came to), "valid" (every valid candidate) or "all" that have a crystal.

    Raises:
        InputError: Nothing is within it.
    """
    if is_catalogue(place):
        if which is not None:
            raise InputError(f"a catalogue has no {which}: it is all finds", "leave --which out")
        found = of_catalogue(open_catalogue(place), wanted)
    else:
        found = of_campaign(Ledger.open(place), wanted, which or "finds")
    if not len(found):
        within = f" within: {wanted.text}" if wanted.text else ""
        others = "take --which refined (near and far ones, too) or valid"
        way_out = f"widen it, or {others}" if wanted.text else f"run it longer, or {others}"
        raise InputError(f"'{place}' has no {which or 'finds'} to export{within}", way_out)
    return found


def of_campaign(ledger: Ledger, wanted: Selection, which: Which = "finds") -> Chosen:
    """Of a ledger."""
    if which not in get_args(Which):
        raise InputError(f"'{which}' is not a set of crystals", nearest(which, get_args(Which)))
    if which in ("finds", "refined"):
        rows = [row for row in refined_rows(ledger) if which == "refined" or row["what"] == "find"]
        rows = [row for row in rows if wanted.holds(row)]
        crystals = [row.pop("crystal") for row in rows]
    else:
        rows = list(_candidates(ledger, wanted, which))
        crystals = [row.pop("relaxed") for row in rows]
    return Chosen(
        Crystals.concatenate(decode_crystal(content) for content in crystals),
        rows,
        [f"anchor-{row['id']}" for row in rows],
        ledger.identity["potential"]["name"],
    )


def refined_rows(ledger: Ledger) -> list[dict[str, Any]]:
    """What was relaxed with the cell free, and `what` each came to: finds first."""
    groups = Finds.read(ledger).groups()
    return [{**row, "id": row["candidate"]} for rows in groups.values() for row in rows]


def _candidates(ledger: Ledger, wanted: Selection, which: Which) -> Iterator[dict[str, Any]]:
    where = sa.and_(
        candidates.c.relaxed.is_not(None), candidates.c.valid.is_(True) if which == "valid" else sa.true()
    )
    if ledger.is_current:  # the database chooses; columns of older ones have other names
        yield from ledger.rows(OF_CANDIDATES, where=where & to_sql(wanted, candidates.c))
    else:
        yield from (row for row in ledger.rows(OF_CANDIDATES, where=where) if wanted.holds(row))


def of_catalogue(catalogue: Catalogue, wanted: Selection) -> Chosen:
    """Of a catalogue."""
    rows = catalogue_rows(catalogue)
    keep = [i for i, row in enumerate(rows) if wanted.holds(row)]
    return Chosen(
        catalogue.crystals[np.array(keep, dtype=np.int64)],
        [rows[i] for i in keep],
        [f"{rows[i]['id']}-{rows[i]['formula']}" for i in keep],
        catalogue.card["potential"]["name"],
    )


def catalogue_rows(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Entries by the names of the ledger's columns."""
    return [
        {
            "id": entry.number,
            "formula": entry.formula,
            "n_elements": len(entry.crystal.compositions[0].elements),
            "n_atoms": entry.crystal.n_atoms,
            "spacegroup": entry.spacegroup,
            ABOVE: entry.above_hull,
            EACH: entry.above,
            ABOVE_WITH_FINDS: entry.above_with_finds,
            FORMATION: entry.formation_energy,
            "level": entry.level,
            "why": entry.why,
            "thin": entry.thin,
            "known_in": "",
            "what": "catalogue",
            "valid": True,
            "suspicious": False,
        }
        for entry in catalogue
    ]


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
