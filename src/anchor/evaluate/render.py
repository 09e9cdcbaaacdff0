"""Comparisons as text: for the terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anchor.evaluate.bootstrap import Difference
from anchor.evaluate.compare import Cell, Group
from anchor.evaluate.protocol import Metric

MISSING = "–"
MARKS = {
    "table": {1: "{}*", 2: "{}'"},
    "md": {1: "**{}**", 2: "<u>{}</u>"},
    "latex": {1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"},
}
"""How best and second best are marked."""
LEGEND = {"table": "* best, ' second best", "md": "**best**, <u>second best</u>"}


def number(metric: Metric, cell: Cell, *, plus_minus: str = " ± ", counts: bool = True) -> str:
    """'47.6 ± 2.1 (1428/3000)', '17.5 ± 3.5' or '0.123 ± 0.004'; the spread is that over seeds."""
    if cell.mean is None:
        return MISSING
    scale, digits = {"percent": (100, 1), "count": (1, 1 if cell.std is not None else 0), "value": (1, 3)}[
        metric.show
    ]
    text = f"{scale * cell.mean:.{digits}f}"
    if cell.std is not None:
        text += f"{plus_minus}{scale * cell.std:.{digits}f}"
    if counts and metric.show == "percent" and cell.k is not None:
        text += f" ({cell.k}/{cell.n})"
    return text


def stacked(metric: Metric, cell: Cell) -> str:
    """The same in lines, for a terminal: the number, its spread over seeds, its count."""
    first, _, spread = number(metric, cell, plus_minus="\n±", counts=False).partition("\n")
    mark = MARKS["table"].get(cell.rank, "{}")
    count = f"{cell.k}" if metric.show == "percent" and cell.k is not None else ""
    return "\n".join(line for line in (mark.format(first), spread, count) if line)


def heading(metric: Metric) -> str:
    """'Valid %', 'Known', 'E_hull eV/atom'."""
    return f"{metric.label} {'%' if metric.show == 'percent' else metric.unit}".strip()


def cells(group: Group, form: str, **options: Any) -> list[list[str]]:
    """Rows of marked numbers, the label first."""
    marks = MARKS[form]
    return [
        [
            evaluation.label,
            str(evaluation.summary["read"]["rows"]),
            *(
                marks.get(cell.rank, "{}").format(number(metric, cell, **options))
                for metric, cell in zip(group.metrics, row, strict=True)
            ),
        ]
        for evaluation, row in zip(group.evaluations, group.cells, strict=True)
    ]


def stacked_cells(group: Group) -> list[list[str]]:
    """Rows of numbers in lines, narrow enough for a terminal."""
    return [
        [label, n, *(stacked(metric, cell) for metric, cell in zip(group.metrics, row, strict=True))]
        for (label, n, *_), row in zip(cells(group, "table"), group.cells, strict=True)
    ]


def footer_text(footer: Mapping[str, str]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in footer.items() if value)


def markdown(groups: Sequence[Group]) -> str:
    """One table per footer."""
    parts = []
    for group in groups:
        head = ["", "N", *(heading(metric) for metric in group.metrics)]
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *cells(group, "md")]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        parts.append(f"{footer_text(group.footer)}. {_spread(group)} {LEGEND['md']}.")
    return "\n\n".join(parts) + "\n"


def latex(groups: Sequence[Group]) -> str:
    """One tabular per footer, in the style of the paper (booktabs)."""
    parts = []
    for group in groups:
        rows = cells(group, "latex", plus_minus=r"$\pm$", counts=False)
        head = ["Configuration", "$N$", *(tex(heading(metric)) for metric in group.metrics)]
        body = [" & ".join([tex(label), *values]) + r" \\" for label, *values in rows]
        parts.append(
            "\n".join(
                [
                    f"% {footer_text(group.footer)}",
                    rf"\begin{{tabular}}{{@{{}}l{'r' * (len(head) - 1)}@{{}}}}",
                    r"\toprule",
                    " & ".join(head) + r" \\",
                    r"\midrule",
                    *body,
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\\[2pt]{\footnotesize " + tex(f"{footer_text(group.footer)}. {_spread(group)}") + "}",
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def table_csv(groups: Sequence[Group]) -> str:
    """One line per evaluation and metric, with the footer's parts as columns."""
    keys = list(dict.fromkeys(key for group in groups for key in group.footer))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", "group", "metric", "show", *vars(_EMPTY), *keys])
    for place, group in enumerate(groups):
        for evaluation, row in zip(group.evaluations, group.cells, strict=True):
            for metric, cell in zip(group.metrics, row, strict=True):
                values = ["" if v is None else v for v in vars(cell).values()]
                line = [evaluation.label, place, metric.name, metric.show, *values]
                writer.writerow([*line, *(group.footer.get(key, "") for key in keys)])
    return stream.getvalue()


def document(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """For JSON: one object per footer."""
    return [
        {
            "footer": group.footer,
            "rows": [
                {
                    "label": evaluation.label,
                    "folder": str(evaluation.folder),
                    "seeds": evaluation.summary["seeds"],
                    "n": evaluation.summary["read"]["rows"],
                    "metrics": {m.name: asdict(cell) for m, cell in zip(group.metrics, row, strict=True)},
                }
                for evaluation, row in zip(group.evaluations, group.cells, strict=True)
            ],
        }
        for group in groups
    ]


def difference_rows(metrics: Sequence[Metric], found: Mapping[str, Difference]) -> list[list[str]]:
    """Metric, difference with interval in points, and in how many pairs only one of the two has the flag."""
    rows = []
    for metric in metrics:
        if (d := found.get(metric.name)) is None:
            continue
        if metric.show == "value":
            numbers = [f"{v:+.3f}" for v in (d.value, d.low, d.high)]
        else:
            numbers = [f"{100 * v:+.1f}" for v in (d.value, d.low, d.high)]
        apart = "" if d.low <= 0 <= d.high else "yes"
        rows.append(
            [
                metric.label,
                numbers[0],
                f"{numbers[1]} … {numbers[2]}",
                str(d.first_only),
                str(d.second_only),
                apart,
            ]
        )
    return rows


def _spread(group: Group) -> str:
    seeds = max(len(evaluation.summary["seeds"]) for evaluation in group.evaluations)
    return "Mean ± std over seeds." if seeds > 1 else "One seed."


def tex(text: str) -> str:
    """Plain text for LaTeX."""
    special = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "→": r"$\to$", "≤": r"$\le$", "ν": r"$\nu$",
               "Å": r"\AA{}", "−": "--", "…": r"\dots{}", ">": "$>$", "<": "$<$"}  # fmt: skip
    return "".join(special.get(character, character) for character in text)


_EMPTY = Cell(None, None, None, 0, None, None)
