"""Making the cells of studies and judging them, one after the other or side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.protocol import Protocol
from anchor.evaluate.registry import load_protocol
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import find_source
from anchor.executors import ANYWHERE, Workplace
from anchor.search.ledger import Ledger
from anchor.studies.declaration import Judging, Row, Study, evaluation_identity
from anchor.studies.kinds import Cell, Distilled, Generated, Given, Searched, depth, digest, needs
from anchor.studies.making import Place, make, proposals, same_threads
from anchor.studies.scales import Scale
from anchor.writing import replace_file

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

    @property
    def place(self) -> Place:
        return Place(self.folder, self.scale)

    def evaluation_folder(self, cell: Cell, judging: Judging) -> Path:
        return self.folder / "evaluations" / digest(evaluation_identity(cell, judging, self.scale))

    def ledger(self, row: Row) -> Ledger | None:
        """Of a row's campaign, None if there is none or it is not finished."""
        tuned = isinstance(row.cell, Generated) and row.cell.reward is not None
        if row.cell is None or not (isinstance(row.cell, Searched) or tuned):
            return None
        return Ledger.open(self.place.of(row.cell)) if self.place.finished(row.cell) else None

    def evaluation(self, row: Row) -> FinishedEvaluation | None:
        """Of a row, None if it is not finished."""
        if row.cell is None:
            return None
        folder = self.evaluation_folder(row.cell, row.judging)
        return FinishedEvaluation.load(folder) if (folder / "summary.json").is_file() else None


@dataclass(frozen=True)
class Unit:
    """One piece of work: a cell to make, or one to judge.

    Attributes:
        cell: It.
        judging: None: the cell is made.
    """

    cell: Cell
    judging: Judging | None = None

    def finished(self, results: Results) -> bool:
        if self.judging is None:
            return results.place.finished(self.cell)
        return (self.folder(results) / "summary.json").is_file()

    def folder(self, results: Results) -> Path:
        """Where it is made, named by a digest; beside it DIGEST.txt says in words what it is."""
        if self.judging is None:
            return results.place.of(self.cell)
        return results.evaluation_folder(self.cell, self.judging)

    def __str__(self) -> str:
        if self.judging is None:
            return str(self.cell)
        by = "" if self.judging.prior is None else f" by {self.judging.prior}"
        options = "".join(f", {name} {value}" for name, value in self.judging.options)
        return f"{self.cell}, crystals{by}, judged: {self.judging.protocol}{options}"


def waves(study: Study) -> Iterator[list[Unit]]:
    """Pieces of work, those of a wave independent of each other and in need of earlier waves only."""
    wanted: dict[Cell, None] = {}
    for row in study.made:
        assert row.cell is not None
        pending: list[Cell] = [row.cell]
        while pending:
            cell = pending.pop()
            pending += needs(cell)
            wanted[cell] = None
    for level in range(1 + max(map(depth, wanted), default=0)):
        chosen = [cell for cell in wanted if depth(cell) == level and not isinstance(cell, Given)]
        if level_units := [Unit(cell) for cell in _one_of_each_distillation(chosen)]:
            yield level_units
    if not study.evaluated:
        return
    judged = [(row.cell, row.judging) for row in study.made if row.cell is not None]
    for wave in ([(cell, judging.base) for cell, judging in judged], judged):
        yield [Unit(cell, judging) for cell, judging in dict.fromkeys(wave)]


def _one_of_each_distillation(cells: Sequence[Cell]) -> list[Cell]:
    """Arms that are trained together are one piece of work."""
    kept: dict[object, Cell] = {}
    for cell in cells:
        kept.setdefault((cell.prior, cell.arms) if isinstance(cell, Distilled) else cell, cell)
    return list(kept.values())


def run_study(
    study: Study,
    results: Results,
    *,
    where: Workplace = ANYWHERE,
    at_a_time: int = 1,
    say: Say = print,
) -> None:
    """Make what is missing of a study; killed, the next call goes on.

    Args:
        where: Who works. One cell after the other relaxes on all of it.
        at_a_time: So many cells side by side, each a task of the executor that relaxes in its own process.
        say: Told about every piece of work that is finished.
    """
    results.folder.mkdir(parents=True, exist_ok=True)
    judges = Judges(results.scale, where)
    began = time.monotonic()
    for wave in waves(study):
        left = [unit for unit in wave if not unit.finished(results)]
        if at_a_time == 1:
            for number, unit in enumerate(left, start=1):
                work(unit, results, judges)
                say(f"{study.name} {number}/{len(left)}: {unit}, {time.monotonic() - began:.0f} s")
        elif left:
            _side_by_side(study, left, results, where, at_a_time, say)


def draw_figures(study: Study, results: Results) -> list[Path]:
    """Write the figures of a study as far as it is made."""
    if study.draw is None:
        return []
    folder = results.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    return study.draw(study, results, folder)


def _side_by_side(
    study: Study, units: list[Unit], results: Results, where: Workplace, at_a_time: int, say: Say
) -> None:
    shop = Workplace(where.executor or "processes", at_a_time, where.address, where.gpus, where.labels)
    began = time.monotonic()
    done = 0

    def hear(i: int, _outcome: object) -> None:
        nonlocal done
        done += 1
        say(f"{study.name} {done}/{len(units)}: {units[i]}, {time.monotonic() - began:.0f} s")

    with shop.open() as executor:
        executor.results(work_alone, [(unit, results) for unit in units], on_result=hear)


def work_alone(task: tuple[Unit, Results]) -> None:
    """A piece of work in one process: others have the other cores."""
    unit, results = task
    work(unit, results, Judges(results.scale, Workplace("inline")))


def work(unit: Unit, results: Results, judges: Judges) -> None:
    """Make or judge a cell."""
    folder = unit.folder(results)
    folder.parent.mkdir(parents=True, exist_ok=True)
    replace_file(folder.with_suffix(".txt"), f"{results.scale.name}: {unit}\n")
    if unit.judging is None:
        make(unit.cell, results.place, where=judges.where)
    else:
        judge(unit.cell, unit.judging, results, judges)


class Judges:
    """Protocols of a scale, each made once with its potentials and processes."""

    def __init__(self, scale: Scale, where: Workplace = ANYWHERE) -> None:
        self.scale, self.where = scale, where
        self._made: dict[tuple[str, tuple[tuple[str, Any], ...]], Protocol] = {}

    def __call__(self, judging: Judging) -> Protocol:
        key = (judging.protocol, judging.options)
        if key not in self._made:
            own = self.scale.internal if judging.protocol == "internal" else {}
            tiny = self.scale.tiny
            steps = {} if tiny is None else {"max_steps": tiny.relax_steps}
            self._made[key] = load_protocol(judging.protocol, **own, **steps, **dict(judging.options))
            self._made[key].where = self.where
        return self._made[key]


def judge(cell: Cell, judging: Judging, results: Results, judges: Judges) -> FinishedEvaluation:
    """The finished evaluation of a cell."""
    folder = results.evaluation_folder(cell, judging)
    if (folder / "summary.json").is_file():
        return FinishedEvaluation.load(folder)
    scale = results.scale
    n: int | None
    if judging == judging.base:
        (source, prior), n = proposals(cell, judging.prior, results.place), scale.n
    else:  # the same crystals, judged in another way
        earlier = judge(cell, judging.base, results, judges)
        source, prior, n = find_source([str(earlier.folder)]), None, None
    with same_threads():
        return evaluate(
            source, judges(judging), folder, n=n, seeds=list(range(scale.seeds)), prior=prior, query="reduced"
        )
