"""What the Python interface hands out: crystals with a row each, and what a search found.

They print themselves, are tables in notebooks, and turn into pandas, pymatgen and ASE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.formats import write
from anchor.outcomes.columns import ABOVE
from anchor.report.data import campaign_headline
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger, decode_crystal

if TYPE_CHECKING:
    from ase import Atoms
    from pandas import DataFrame
    from pymatgen.core import Structure

    from anchor.report.headline import Headline
    from anchor.report.notebook import Frame
    from anchor.search.campaign import Campaign

SHOWN = 20
"""Rows that a table prints."""


class Find(dict[str, Any]):
    """One crystal with what is known of it, a dictionary."""

    def __init__(self, row: Mapping[str, Any], crystal: Crystals) -> None:
        super().__init__(row)
        self.crystal = crystal

    def view(self, *, height: int = 420) -> Any:
        """The crystal, to turn with the mouse in a notebook; `height` in px."""
        from anchor.report.notebook import view_crystal

        return view_crystal(self.crystal, height=height)

    def to_structure(self) -> Structure:
        return self.crystal.to_structures()[0]

    def to_atoms(self) -> Atoms:
        return self.crystal.to_atoms()[0]

    def _repr_html_(self) -> str:
        return _html_table([self], list(self))


@dataclass(frozen=True, eq=False)
class Results:
    """Crystals with a row of plain values each.

    Attributes:
        crystals: One per row.
        rows: What is known of each.
    """

    crystals: Crystals
    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Find]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Find:
        return Find(self.rows[i], self.crystals[i % len(self.rows)])

    def to_pandas(self) -> DataFrame:
        from pandas import DataFrame

        return DataFrame(self.rows)

    def to_structures(self) -> list[Structure]:
        return self.crystals.to_structures()

    def to_atoms(self) -> list[Atoms]:
        return self.crystals.to_atoms()

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the crystals with their numbers, in the format of the ending; no ending: a folder of CIFs."""
        numbers = {
            name: np.array([_number(row.get(name)) for row in self.rows])
            for name in dict.fromkeys(name for row in self.rows for name in row)
            if any(isinstance(row.get(name), float) for row in self.rows)
        }
        return write(path, self.crystals, [str(row["id"]) for row in self.rows], numbers, overwrite=overwrite)

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>no crystals</p>"
        names = [name for name in self.rows[0] if any(_text(row.get(name)) for row in self.rows[:SHOWN])]
        more = len(self.rows) - SHOWN
        return _html_table(self.rows[:SHOWN], names) + (f"<p>… and {more} more</p>" if more > 0 else "")

    def __repr__(self) -> str:
        if not self.rows:
            return "no crystals"
        shown = [{name: _text(value) for name, value in row.items()} for row in self.rows[:SHOWN]]
        names = [name for name in shown[0] if any(row[name] for row in shown)]
        width = {name: max(len(name), *(len(row[name]) for row in shown)) for name in names}
        lines = ["  ".join(name.ljust(width[name]) for name in names)]
        lines += ["  ".join(row[name].ljust(width[name]) for name in names) for row in shown]
        more = len(self.rows) - len(shown)
        return "\n".join([line.rstrip() for line in lines] + ([f"… and {more} more"] if more else []))


REFINED = (
    "formula", "what", "spacegroup", ABOVE, "energy_above_hull_with_finds_ev_per_atom", "novelty_reference",
    "thin", "level", "why",
)  # fmt: skip
"""Columns of a crystal that a search relaxed to the end, beside its id."""


@dataclass(frozen=True, eq=False, repr=False)
class Refined(Results):
    """Crystals that a search relaxed to the end; the table of none has its columns all the same."""

    def to_pandas(self) -> DataFrame:
        from pandas import DataFrame

        return DataFrame(self.rows, columns=["id", *REFINED])


@dataclass(frozen=True, eq=False, repr=False)
class Found(Refined):
    """Finds of a search: new crystals on the hull, believable and not broken by a check; often none.

    Attributes:
        near: New ones within 0.1 eV/atom of the hull.
        others: What else was relaxed to the end; `what` says why it is no find: far, deep, failed, known.
        ledger: Where every candidate is.
        campaign: The search itself, to go on with; None of one that was only read.
    """

    near: Refined
    others: Refined
    ledger: Ledger
    campaign: Campaign | None = None

    @property
    def headline(self) -> Headline:
        """What was found in plain words; after nothing, what to try."""
        return campaign_headline(self.ledger)

    def plot(self) -> Frame:
        """Curves, energies, elements and time of the campaign, in a notebook."""
        from anchor.report.notebook import plot_campaign

        return plot_campaign(self.ledger)

    def _apart(self) -> str:
        """What else there is, in a line."""
        kinds = Counter(row["what"] for row in self.others.rows)
        said = [f"{len(self.near)} near the hull in .near"] if len(self.near) else []
        if kinds:
            said.append(f"{', '.join(f'{n} {what}' for what, n in kinds.items())} in .others")
        return "no finds: " + "; ".join(said) if said else ""

    def __repr__(self) -> str:
        words = self.headline
        lines = [words.title, *([super().__repr__()] if self.rows else []), self._apart()]
        lines += ["what to try:", *(f"  - {text}" for text in words.advice)] if words.advice else []
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        words = self.headline
        advice = "".join(f"<li>{escape(text)}</li>" for text in words.advice)
        return "".join(
            [
                f"<p><b>{escape(words.title)}</b></p>",
                super()._repr_html_() if self.rows else "",
                f"<p>{escape(self._apart())}</p>",
                f"<p>What to try:</p><ul>{advice}</ul>" if advice else "",
            ]
        )


def read_found(ledger: Ledger, campaign: Campaign | None) -> Found:
    """What a ledger holds, told apart."""
    groups = Finds.read(ledger).by_standing
    others = [row for what, rows in groups.items() if what not in ("find", "near") for row in rows]
    parts = (_refined(groups["find"]), _refined(groups["near"]), _refined(others))
    return Found(parts[0].crystals, parts[0].rows, parts[1], parts[2], ledger, campaign)


def _refined(rows: Sequence[Mapping[str, Any]]) -> Refined:
    """Rows of a ledger's finds as results."""
    crystals = Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows)
    return Refined(crystals, [{"id": row["candidate"], **{n: row.get(n) for n in REFINED}} for row in rows])


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _html_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows for a notebook; text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_text(row.get(name)))}</td>' for name in names)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
