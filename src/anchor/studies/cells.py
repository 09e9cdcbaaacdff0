"""Making the cells of studies: searches and evaluations in folders named by their settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from anchor.chemistry.elements import VOCABULARY
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.registry import load_protocol
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import find_source
from anchor.executors import ANYWHERE, Workplace
from anchor.hull.references import load_hull
from anchor.paths import alone
from anchor.priors import load_prior
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger
from anchor.studies.declaration import (
    Cell,
    Given,
    Judging,
    Row,
    Scale,
    Searched,
    Study,
    digest,
    evaluation_identity,
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Results:
    """What a folder holds of a study at one scale.

    Attributes:
        folder: Shared by all studies.
        scale: Of the study.
    """

    folder: Path
    scale: Scale

    def search_folder(self, cell: Searched) -> Path:
        return self.folder / "searches" / digest(cell.identity(self.scale))

    def evaluation_folder(self, cell: Cell, judging: Judging) -> Path:
        return self.folder / "evaluations" / digest(evaluation_identity(cell, judging, self.scale))

    def ledger(self, row: Row) -> Ledger | None:
        """Of a row's search, None if there is none or it is not finished."""
        if not isinstance(row.cell, Searched) or not self.searched(row.cell):
            return None
        return Ledger.open(self.search_folder(row.cell))

    def searched(self, cell: Searched) -> bool:
        """Whether a search has used its budget."""
        folder = self.search_folder(cell)
        if not (folder / "ledger.db").is_file():
            return False
        ledger = Ledger.open(folder)
        config = self.scale.config(cell.settings)
        per_step = config.grpo.group_size * config.grpo.groups_per_step
        return ledger.n_steps * per_step >= self.scale.structures

    def evaluation(self, row: Row) -> FinishedEvaluation | None:
        """Of a row, None if it is not finished."""
        if row.cell is None:
            return None
        folder = self.evaluation_folder(row.cell, row.judging)
        return FinishedEvaluation.load(folder) if (folder / "summary.json").is_file() else None


def run_study(study: Study, results: Results, *, where: Workplace = ANYWHERE, say: Say = print) -> None:
    """Make what is missing of a study, one cell after the other; killed, the next call goes on."""
    results.folder.mkdir(parents=True, exist_ok=True)
    rows = study.made
    for number, row in enumerate(rows, start=1):
        assert row.cell is not None
        began = time.monotonic()
        if isinstance(row.cell, Searched):
            search(row.cell, results, where=where)
        if study.evaluated:
            judge(row.cell, row.judging, results, where=where)
        say(f"{study.name} {number}/{len(rows)}: {row.label}, {time.monotonic() - began:.0f} s")


def search(cell: Searched, results: Results, *, where: Workplace = ANYWHERE) -> Path:
    """The finished campaign of a cell."""
    folder = results.search_folder(cell)
    if results.searched(cell):
        return folder
    config = results.scale.config(cell.settings)
    config = config.model_copy(update={"run": config.run.model_copy(update=asdict(where))})
    with _same_threads(), alone(folder / "lock", f"searching in {folder}"):
        if (folder / "ledger.db").is_file():
            campaign = Campaign.resume(folder, where=asdict(where))
        else:
            campaign = Campaign.start(config, folder)
        campaign.run(results.scale.structures)
    return folder


def judge(
    cell: Cell, judging: Judging, results: Results, *, where: Workplace = ANYWHERE
) -> FinishedEvaluation:
    """The finished evaluation of a cell."""
    folder = results.evaluation_folder(cell, judging)
    if (folder / "summary.json").is_file():
        return FinishedEvaluation.load(folder)
    scale = results.scale
    # a relaxation belongs to the potential that the scale names; other protocols bring their own
    own = {"potential": scale.potential} if judging.protocol == "internal" else {}
    protocol = load_protocol(judging.protocol, **own, **dict(judging.options))
    protocol.where = where
    n: int | None
    if judging == judging.base:
        given = str(results.search_folder(cell)) if isinstance(cell, Searched) else cell.source
        elements = VOCABULARY if scale.exact else load_hull(scale.potential).searchable_elements
        chosen = [given]
        source = find_source(chosen, elements=elements if isinstance(cell, Given) else None)
        prior, n = load_prior(judging.prior), scale.n
    else:  # the same crystals, judged in another way
        earlier = judge(cell, judging.base, results, where=where)
        source, prior, n = find_source([str(earlier.folder)]), None, None
    with _same_threads():
        return evaluate(
            source, protocol, folder, n=n, seeds=list(range(scale.seeds)), prior=prior, query="reduced"
        )


@contextmanager
def _same_threads() -> Iterator[None]:
    """One thread, as searches and evaluations have by default: threads change the last digits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
