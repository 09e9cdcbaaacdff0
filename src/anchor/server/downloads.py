"""Selections to take away: CIF files in an archive, extended XYZ, or the table as CSV."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.exports.chosen import Chosen, of_campaign, refined_rows
from anchor.formats import write
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.tables import candidates
from anchor.selecting import to_sql
from anchor.server.listing import FOUND, Listing, Row

Format = Literal["cif", "extxyz", "csv"]
Of = Literal["candidates", "finds", "refined"]
ENDINGS: dict[Format, str] = {"cif": ".zip", "extxyz": ".extxyz", "csv": ".csv"}
TYPES: dict[Format, str] = {"cif": "application/zip", "extxyz": "text/plain", "csv": "text/csv"}
LARGEST = 20_000
"""Crystals of a download; more: anchor export."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""Begin a formula in a spreadsheet: text that a stranger's ledger holds must not."""


def chosen(ledger: Ledger, listing: Listing, of: Of) -> Chosen:
    """Candidates that have a crystal, finds, or all refined ones, that a filter leaves.

    Raises:
        InputError: There are too many.
    """
    wanted = listing.wanted
    if of != "candidates":
        rows = [row for row in refined_rows(ledger) if of == "refined" or row["what"] == "find"]
        rows = [row for row in rows if wanted.holds(row)]
        return as_chosen(rows, [decode_crystal(row["crystal"]) for row in rows])
    if ledger.count(to_sql(wanted, candidates.c)) > LARGEST:
        raise InputError(f"the selection has over {LARGEST} crystals", "narrow it, or use anchor export")
    return of_campaign(ledger, wanted, "all")


def as_chosen(rows: Sequence[Row], crystals: Sequence[Crystals]) -> Chosen:
    """Rows with a crystal each."""
    ids = [f"anchor-{row['id']}-{row['formula']}" for row in rows]
    return Chosen(Crystals.concatenate(crystals), list(rows), ids, potential="")


def as_file(selection: Chosen, format: Format) -> bytes:
    """A selection as the bytes of one file.

    Raises:
        InputError: It is empty.
    """
    if not len(selection):
        raise InputError("the selection is empty", "choose less narrow limits")
    return table(selection.rows) if format == "csv" else crystals(selection, ENDINGS[format])


def crystals(selection: Chosen, ending: str) -> bytes:
    """The crystals in the format of an ending."""
    with tempfile.TemporaryDirectory(prefix="anchor-") as folder:
        place = Path(folder) / f"selection{ending}"
        return write(place, selection.crystals, selection.ids, selection.numbers()).read_bytes()


def table(rows: Sequence[Row]) -> bytes:
    """What the list shows, as CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, FOUND)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _harmless(row.get(name)) for name in FOUND})
    return text.getvalue().encode()


def _harmless(value: object) -> object:
    """Text that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value
