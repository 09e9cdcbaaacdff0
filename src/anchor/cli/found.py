"""What a search found, on a terminal: finds as such, what is none apart, and after nothing what to try."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import typer

from anchor.cli.common import print_table
from anchor.cli.program import as_called

if TYPE_CHECKING:
    from anchor.outcomes.tally import Tally
    from anchor.report.headline import Headline
    from anchor.search.finds import Finds
    from anchor.search.ledger import Ledger

WIDEST = 100
"""Columns of running text."""
OTHERS_SHOWN = 5
"""Of each kind that is no find; others.csv has all of them."""
COLUMNS = {
    "what": "what", "level": "level", "formula": "formula", "spacegroup": "space group",
    "e_hull": "E_hull eV/atom", "e_hull_with_finds": "with finds", "e_dft_hull": "DFT hull",
    "novelty": "novelty", "atoms": "atoms", "relaxation": "relaxed", "note": "note",
}  # fmt: skip
"""Of the table for programs; on a terminal it has fewer."""


def spoken(ledger: Ledger, place: str) -> Headline:
    """The report's words over a campaign, its place named in the advice."""
    from anchor.report.data import campaign_headline

    words = campaign_headline(ledger)
    return replace(
        words,
        sentences=[text.replace("FOLDER", place) for text in words.sentences],
        advice=[text.replace("FOLDER", place) for text in words.advice],
    )


def show_found(words: Headline, tally: Tally, found: Finds) -> None:
    """Head, counts, and tables of what was refined."""
    from anchor.outcomes.columns import NEAR_HULL

    counts = tally.counts
    known = counts["msun"] - counts["new_msun"]
    typer.echo(f"\n{words.title}")
    typer.echo(_wrapped(" ".join(words.sentences)))
    typer.echo(
        _wrapped(
            f"{tally.proposed:,} proposed, {counts['valid']:,} valid. New formulas, as the search relaxes: "
            f"{counts['new_msun']:,} {NEAR_HULL} (MSUN: metastable, unique, novel), {counts['new_sun']:,} on "
            "it (SUN)" + (f"; {known:,} more near it are known formulas." if known else ".")
        )
    )
    if words.advice:
        typer.echo("\nwhat to try:")
        for text in words.advice:
            typer.echo(_wrapped(text, first="  - ", rest="    "))
    if sys.stdout.isatty():
        _drawn(found)
    else:
        rows = [row for group in found.groups().values() for row in brief(group)]
        print_table(list(COLUMNS.values()), ([_cell(name, row[name]) for name in COLUMNS] for row in rows))


def _drawn(found: Finds) -> None:
    """Tables for people: finds, then a few of each other kind."""
    from anchor.search.finds import STANDINGS

    groups = found.groups()
    finds = groups.pop("find", [])
    if finds:
        print_table(
            ["formula", "space group", "E_hull", "with finds", "level", "note"],
            ([row["formula"], row["spacegroup"], *_energies(row), _level(row), _flags(row)] for row in finds),
            title="finds: relaxed with the cell free; eV/atom above the hull of known phases",
        )
    if groups:
        shown = [(what, row) for what, rows in groups.items() for row in rows[:OTHERS_SHOWN]]
        print_table(
            ["what", "formula", "space group", "E_hull", "with finds", "note"],
            ([what, row["formula"], row["spacegroup"], *_energies(row), _flags(row)] for what, row in shown),
            title="relaxed as well, and no finds",
        )
        hidden = sum(map(len, groups.values())) - len(shown)
        for what in groups:
            typer.echo(_wrapped(f"{what}: {STANDINGS[what]}", first="  ", rest="    "))
        if hidden:
            typer.echo(f"  {hidden} more of these are in others.csv and in the report")


def brief(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of finds with the columns that people and programs ask for first."""
    from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
    from anchor.search.finds import about

    return [
        {
            "what": row["what"],
            "level": row["level"],
            "formula": row["formula"],
            "spacegroup": row["spacegroup"],
            "e_hull": row[ABOVE],
            "e_hull_with_finds": row[ABOVE_WITH_FINDS],
            "e_dft_hull": row["energy_above_each_hull_ev_per_atom"].get("dft"),
            "novelty": row["novelty_reference"],
            "atoms": row["n_atoms"],
            "relaxation": row["relaxation"],
            "why": row["why"],
            "note": about(row),
        }
        for row in rows
    ]


def _energies(row: dict[str, Any]) -> list[str]:
    from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS

    return [_cell(name, row[name]) for name in (ABOVE, ABOVE_WITH_FINDS)]


def _level(row: dict[str, Any]) -> str:
    """The level of attacks that it passed."""
    return "–" if row["level"] is None else str(row["level"])


def _flags(row: dict[str, Any]) -> str:
    """What must be known about a crystal, in a few words; `about` says all of it."""
    said = []
    if row["what"] == "failed":
        said.append(f"failed level {row['level'] + 1}")
    if row["known_in"]:
        said.append(f"known in {row['known_in']}")
    if row["thin"]:
        said.append("little known system")
    if row["holes"]:
        said.append("doubtful phases near")
    if row["relaxation"] != "converged":
        said.append(str(row["relaxation"]))
    return ", ".join(said)


def _cell(name: str, value: Any) -> str:
    """A value for people."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}" if name == "novelty" else f"{value:+.3f}"
    return str(value)


def _wrapped(text: str, *, first: str = "", rest: str = "") -> str:
    width = min(WIDEST, get_terminal_size().columns)
    text = as_called(text)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
