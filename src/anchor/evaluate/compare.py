"""Evaluations side by side: ranked only with those judged in the same way, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anchor.errors import InputError
from anchor.evaluate.bootstrap import Difference, paired_difference
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.protocol import Metric


@dataclass(frozen=True)
class Cell:
    """One number of the comparison.

    Attributes:
        mean: Over seeds: a fraction, a count, or a value in the metric's unit; None if there is none.
        std: Sample standard deviation over seeds; None with one seed.
        k: Count over all seeds; None for a mean.
        n: Structures over all seeds (for a mean: values).
        low: Lower end of the 95 % interval of all rows together.
        high: Upper end.
        rank: 1 best, 2 second best, 0 neither or not ranked.
    """

    mean: float | None
    std: float | None
    k: int | None
    n: int
    low: float | None
    high: float | None
    rank: int = 0


@dataclass(frozen=True)
class Group:
    """Evaluations with one footer.

    Attributes:
        footer: Gate, potential, hull, relaxation, novelty reference: what made the numbers.
        metrics: Columns.
        evaluations: Rows.
        cells: Numbers.  # [row][column]
    """

    footer: dict[str, str]
    metrics: list[Metric]
    evaluations: list[FinishedEvaluation]
    cells: list[list[Cell]]


def compare(evaluations: Sequence[FinishedEvaluation], *, every_metric: bool = False) -> list[Group]:
    """Group evaluations by footer, in the order given, and rank each metric within its group.

    Args:
        evaluations: Rows.
        every_metric: Also those that are in the files only.
    """
    footers: list[dict[str, str]] = []
    for evaluation in evaluations:
        if evaluation.footer not in footers:
            footers.append(evaluation.footer)
    groups = []
    for footer in footers:
        members = [e for e in evaluations if e.footer == footer]
        metrics = [m for m in members[0].metrics if m.headline or every_metric]
        columns = [_ranked(metric, [_cell(e, metric) for e in members]) for metric in metrics]
        groups.append(Group(footer, metrics, members, [list(row) for row in zip(*columns, strict=True)]))
    return groups


def _cell(evaluation: FinishedEvaluation, metric: Metric) -> Cell:
    found: dict[str, Any] = evaluation.summary["metrics"].get(metric.name)
    if found is None:  # an older version's file
        return Cell(None, None, None, 0, None, None)
    pooled = found["pooled"]
    return Cell(found["mean"], found["std"], pooled.get("k"), pooled["n"], pooled["low"], pooled["high"])


def _ranked(metric: Metric, cells: list[Cell]) -> list[Cell]:
    """Mark best and, of three or more, second best; equal values share a rank, a missing one has none.

    Counts are compared between evaluations of equal size only.
    """
    fair = metric.show != "count" or len({cell.n for cell in cells}) == 1
    if metric.better is None or len(cells) < 2 or not fair:
        return cells
    values = {cell.mean for cell in cells if cell.mean is not None}
    order = sorted(values, reverse=metric.better == "high")
    marked = order[: 2 if len(cells) > 2 else 1]
    rank = {value: place for place, value in enumerate(marked, start=1)}
    return [
        Cell(**{**vars(cell), "rank": 0 if cell.mean is None else rank.get(cell.mean, 0)}) for cell in cells
    ]


def paired_differences(
    first: FinishedEvaluation, second: FinishedEvaluation, *, seed: int = 0
) -> dict[str, Difference]:
    """First − second of every metric that is a column of the table, over pairs of the same composition.

    Args:
        seed: Of the bootstrap.

    Raises:
        InputError: Footers differ, or the rows are not pairs: other seeds, numbers or compositions.
    """
    if first.footer != second.footer:
        keys = [key for key, value in first.footer.items() if second.footer.get(key) != value]
        raise InputError(
            f"'{first.label}' and '{second.label}' were judged differently: {', '.join(keys)}",
            "evaluate both under the same protocol and options",
        )
    one, other = (_by_place(evaluation.rows()) for evaluation in (first, second))
    if one.keys() != other.keys():
        raise InputError(
            f"'{first.label}' has {len(one)} rows, '{second.label}' {len(other)}, "
            f"{len(one.keys() & other.keys())} of them with the same seed and place",
            "pairs need the same source, -n and seeds: only the prior may differ",
        )
    unlike = [place for place in one if one[place]["cell"] != other[place]["cell"]]
    if unlike:
        sampling, index = unlike[0]
        raise InputError(
            f"{len(unlike)} of {len(one)} rows are of different compositions, first: seed {sampling}, "
            f"{index}: {one[unlike[0]]['cell']} and {other[unlike[0]]['cell']}",
            "pairs need the same composition source: only the prior may differ",
        )
    found = {}
    for metric in first.metrics:
        column = metric.column or metric.name
        pairs = [
            (float(a), float(b))
            for place in one
            if (a := one[place].get(column)) is not None and (b := other[place].get(column)) is not None
        ]
        if pairs and len(pairs) == len(one):  # a mean over some rows only would compare different sets
            found[metric.name] = paired_difference(*zip(*pairs, strict=True), seed=seed)
    return found


def _by_place(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, int], dict[str, Any]]:
    return {(row["seed"], row["index"]): row for row in rows}
