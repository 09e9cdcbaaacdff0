"""What a study is: cells that are made, how each is judged, and which table of the paper stands beside them.

    Study("invalid-penalty", …, rows=(Row("r_inv = -0.1", Searched(("reward.invalid=-0.1",))), …))

A cell is identified by its settings alone, so studies that need the same one share it, and a study that was
killed goes on where it was (`anchor.studies.cells`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchor.config import Config, load_config

if TYPE_CHECKING:
    from anchor.studies.cells import Results

NOT_HERE = "not built in this version"


@dataclass(frozen=True)
class Scale:
    """How large a study is made.

    Attributes:
        name: As people ask for it.
        structures: Compositions that each search proposes, at least one step.
        n: Structures per evaluation and seed.
        seeds: Sampling seeds of evaluations.
        potential: That judges in evaluations.
        exact: The paper to the letter (`--preset paper`); else our faster order, optimiser and elements.
    """

    name: str
    structures: int
    n: int
    seeds: int
    potential: str
    exact: bool = False

    def config(self, settings: tuple[str, ...]) -> Config:
        """Of a search at this scale."""
        ours = () if self.exact else ("prior.query=reduced",)
        size = (f"run.structures={self.structures}", f"entropy.horizon={max(self.structures, 1)}")
        preset = "paper" if self.exact else "default"
        return load_config(preset=preset, overrides=[*ours, *size, *settings]).config

    @property
    def budget(self) -> str:
        """In words, for the head of a table."""
        how = "the paper's settings" if self.exact else "the paper's settings, faster order and optimiser"
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        return f"{self.structures:,} structures per policy, N = {self.n}, {seeds}, {self.potential}; {how}"


SCALES = {
    scale.name: scale
    for scale in (
        Scale("smoke", 1, 4, 1, "mattersim-1m"),
        Scale("laptop", 10_000, 200, 1, "mattersim-1m"),
        Scale("paper", 100_000, 1000, 3, "mattersim-5m", exact=True),
    )
}
"""Smoke proves that everything runs, and says nothing else. A laptop's two cores need an hour or two."""


@dataclass(frozen=True)
class Searched:
    """A policy trained from nothing around a frozen prior.

    Attributes:
        settings: What differs from the paper's selected configuration, as for `--set`.
    """

    settings: tuple[str, ...] = ()

    def identity(self, scale: Scale) -> dict[str, Any]:
        return {"search": scale.config(self.settings).model_dump(mode="json")}


@dataclass(frozen=True)
class Given:
    """A source of compositions that needs no training: random, neutral, screened, default."""

    source: str

    def identity(self, _scale: Scale) -> dict[str, Any]:
        return {"source": self.source}


Cell = Searched | Given


@dataclass(frozen=True)
class Judging:
    """How the proposals of a cell become crystals and are judged.

    Attributes:
        prior: Makes the crystals.
        protocol: Of `anchor evaluate`.
        options: Of the protocol; the crystals are those of the internal protocol, whatever judges them.
    """

    prior: str = "templates-all"
    protocol: str = "internal"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def base(self) -> Judging:
        """The evaluation that makes the crystals."""
        return Judging(self.prior)


FREE, FIXED = Judging(), Judging(options=(("cell", False),))
LEMAT_GATE = Judging(options=(("gate", "lemat"),))
MATTERGEN, LEMAT = Judging(protocol="mattergen"), Judging(protocol="lemat")


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        label: Ours.
        cell: None where the paper has a row that cannot be made here yet; `needs` says what is missing.
        judging: How it is judged.
        paper: Name of the paper's row; None: the paper has none.
        needs: What would be needed.
    """

    label: str
    cell: Cell | None
    judging: Judging = FREE
    paper: str | None = None
    needs: str = NOT_HERE


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
    """

    name: str
    title: str
    paper: str | None
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ("Valid", "Unique", "Novel", "Meta", "Stable", "MSUN", "SUN")
    table: Callable[[Study, Results], Table] | None = None
    claim: str = ""
    evaluated: bool = True

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
    """

    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


def digest(identity: dict[str, Any]) -> str:
    """Name of a cell or an evaluation: the first 12 digits of the hash of its settings."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def evaluation_identity(cell: Cell, judging: Judging, scale: Scale) -> dict[str, Any]:
    """Settings of an evaluation."""
    size = {"n": scale.n, "seeds": scale.seeds, "potential": scale.potential}
    return {"cell": cell.identity(scale), "judging": asdict(judging), **size}


@cache
def paper_tables() -> dict[str, dict[str, Any]]:
    """The paper's own numbers: table label → {what, budget, rows: {row: {column: value or [mean, std]}}}."""
    tables: dict[str, dict[str, Any]] = json.loads(
        (Path(__file__).parent / "paper.json").read_text(encoding="utf-8")
    )
    return tables
