"""What a study is: cells that are made, how each is judged, and which table of the paper stands beside them.

    Study("invalid-penalty", …, rows=(Row("r_inv = -0.1", Searched(("reward.invalid=-0.1",))), …))

Cells (`anchor.studies.kinds`) are identified by their settings, so a study that was killed goes on where it
was (`anchor.studies.cells`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchor.errors import InputError, nearest
from anchor.studies.kinds import Cell, Distilled, identity
from anchor.studies.scales import Scale

if TYPE_CHECKING:
    from anchor.studies.cells import Results

OTHERS = "structures of others: anchor evaluate FILES --protocol mattergen"


@dataclass(frozen=True)
class Judging:
    """How the proposals of a cell become crystals and are judged.

    Attributes:
        prior: Makes the crystals; None: the cell does, or has trained the prior that does.
        protocol: Of `anchor evaluate`.
        options: Of the protocol; the crystals are those of the internal protocol, whatever judges them.
    """

    prior: str | None = "templates-all"
    protocol: str = "internal"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def base(self) -> Judging:
        """The evaluation that makes the crystals."""
        return Judging(self.prior)


FREE, FIXED = Judging(), Judging(options=(("cell", False),))
POSITIONS, CELL_FREE = "positions", "cell free"
"""How labels of rows end whose crystals are relaxed both ways."""
LEMAT_GATE = Judging(options=(("gate", "lemat"),))
MATTERGEN, LEMAT = Judging(protocol="mattergen"), Judging(protocol="lemat")
LEMAT_MP = Judging(protocol="lemat", options=(("hull", "mp"),))


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        label: Ours.
        cell: None where the paper has a row of somebody else; `needs` says how to get one.
        judging: How it is judged.
        paper: Name of the paper's row; None: the paper has none.
        needs: What would be needed.
    """

    label: str
    cell: Cell | None
    judging: Judging = FREE
    paper: str | None = None
    needs: str = OTHERS


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper.

    Attributes:
        name: For the command line.
        title: What it asks.
        paper: Label of the paper's table in `paper.json`; None: the paper has a figure or a sentence.
        rows: In the order of the table.
        columns: Metrics shown, by the label that protocols give them.
        table: Makes the table of finished rows; None: `anchor.studies.tables.rates`.
        claim: What the paper says, in one sentence.
        evaluated: Whether rows are judged; else their ledgers tell all.
        draw: Writes figures of what is finished into a folder; None: there are none.
    """

    name: str
    title: str
    paper: str | None
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ("Valid", "Unique", "Novel", "Meta", "Stable", "MSUN", "SUN")
    table: Callable[[Study, Results], Table] | None = None
    claim: str = ""
    evaluated: bool = True
    draw: Callable[[Study, Results, Path], list[Path]] | None = None

    def only(self, text: str) -> Study:
        """With the rows whose label has a text.

        Raises:
            InputError: There is none.
        """
        rows = tuple(row for row in self.rows if text in row.label)
        if self.rows and not rows:
            raise InputError(
                f"no row of {self.name} has '{text}'", nearest(text, [r.label for r in self.rows])
            )
        return replace(self, rows=rows)

    @property
    def made(self) -> tuple[Row, ...]:
        """Rows that can be made here."""
        return tuple(row for row in self.rows if row.cell is not None)


@dataclass(frozen=True)
class Table:
    """What a study shows.

    Attributes:
        head: Column titles.
        rows: Texts.
        notes: Sentences below it.
        budgets: Sentences above it: how large ours and the paper's were.
        values: Rows as numbers, of tables of rates: {row, ours, paper}.
    """

    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    budgets: list[str] = field(default_factory=list)
    values: list[dict[str, Any]] = field(default_factory=list)


def evaluation_identity(cell: Cell, judging: Judging, scale: Scale) -> dict[str, Any]:
    """Settings of an evaluation."""
    arm = (
        {"arm": cell.arm} if isinstance(cell, Distilled) else {}
    )  # arms share the folder of their distillation
    return {"cell": identity(cell, scale), **arm, "judging": asdict(judging), **scale.evaluation}


@cache
def paper_tables() -> dict[str, dict[str, Any]]:
    """The paper's own numbers: table label → {what, budget, rows: {row: {column: value or [mean, std]}}}."""
    tables: dict[str, dict[str, Any]] = json.loads(
        (Path(__file__).parent / "paper.json").read_text(encoding="utf-8")
    )
    return tables
