"""Pages of a list: filtered, sorted and cut in the database where it is long, in Python where it is not.

The filter is the language of `anchor export --where`; its values, as all others, are bound parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, FORMATION
from anchor.search.ledger import Ledger
from anchor.search.tables import candidates
from anchor.selecting import Selection, everything, parse, to_sql

LISTED = (
    "id", "step", "formula", "n_elements", "n_atoms", "status", "reason", "valid", ABOVE, FORMATION,
    "novelty", "reward", "known_in", "thin",
)  # fmt: skip
"""Columns of a candidate in a list."""
FOUND = (*LISTED, "what", "level", "why", "spacegroup", ABOVE_WITH_FINDS, "suspicious")
"""Columns of a refined one, or of an entry of the catalogue."""
Sort = Literal[
    "id", "formula", "n_elements", "n_atoms", "status", "energy_above_hull_ev_per_atom",
    "energy_above_hull_with_finds_ev_per_atom", "formation_energy_ev_per_atom", "novelty", "reward", "level",
]  # fmt: skip
LARGEST_PAGE = 500
LAST_PAGE = 1_000_000
"""Beyond any ledger, and still within what SQLite counts to."""

Row = dict[str, Any]


class Listing(BaseModel):
    """What part of a list is asked for."""

    model_config = ConfigDict(extra="forbid")

    where: str = Field("", max_length=4000, description="filter, e.g. e_hull < 0.03 and elements has Na")
    sort: Sort | None = Field(None, description="column; none: as they came, finds by level and energy")
    descending: bool = False
    page: int = Field(0, ge=0, le=LAST_PAGE, description="from 0")
    size: int = Field(50, ge=1, le=LARGEST_PAGE, description="rows of a page")

    @property
    def wanted(self) -> Selection:
        """The filter, read.

        Raises:
            InputError: It says nothing that can be understood.
        """
        return parse(self.where) if self.where.strip() else everything()


def page_of_candidates(ledger: Ledger, listing: Listing) -> tuple[int, list[Row]]:
    """How many candidates there are, and the rows of one page."""
    if not ledger.is_current:  # columns of older ones have other names
        return page_of_rows(list(ledger.rows(LISTED)), listing)
    wanted = to_sql(listing.wanted, candidates.c)
    rows = ledger.rows(
        LISTED,
        where=wanted,
        order=_order(listing),
        limit=listing.size,
        offset=listing.page * listing.size,
    )
    return ledger.count(wanted), list(rows)


def _order(listing: Listing) -> list[Any]:
    """What to sort by; missing values come last either way."""
    if listing.sort is None or listing.sort not in candidates.c:
        return []
    column = candidates.c[listing.sort]
    return [(column.desc() if listing.descending else column).nulls_last()]


def page_of_rows(rows: Sequence[Mapping[str, Any]], listing: Listing) -> tuple[int, list[Row]]:
    """The same of rows that are here already."""
    chosen = sorted_rows([dict(row) for row in rows if listing.wanted.holds(row)], listing)
    start = listing.page * listing.size
    return len(chosen), [
        {name: row.get(name) for name in FOUND} for row in chosen[start : start + listing.size]
    ]


def sorted_rows(rows: list[Row], listing: Listing) -> list[Row]:
    """Rows in the order that was asked for, missing values last."""
    name = listing.sort
    if name is None:
        return rows
    there = [row for row in rows if row.get(name) is not None]
    there.sort(key=lambda row: row[name], reverse=listing.descending)
    return [*there, *(row for row in rows if row.get(name) is None)]
