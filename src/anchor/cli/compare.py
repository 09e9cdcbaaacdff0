"""`anchor compare`: evaluations side by side, as in the paper's tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anchor.cli.common import JsonFlag, Seed, emit, print_table
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.evaluate.outputs import FinishedEvaluation


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of evaluations.")],
    format: Annotated[
        Literal["table", "md", "latex", "csv"], typer.Option("--as", help="What to print.")
    ] = "table",
    paired: Annotated[
        bool,
        typer.Option("--paired", help="Differences to the first with bootstrap intervals, over equal rows."),
    ] = False,
    every_metric: Annotated[bool, typer.Option("--all", help="Every metric of the files.")] = False,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Show evaluations side by side.

    Mean ± std over seeds, counts, best and second best marked.

    Only rows made in the same way (gate, potential, hull, relaxation, novelty reference) are ranked together;
    what made them stands below. --paired needs evaluations of the same compositions and seeds.

    Example: anchor compare eval/random eval/neutral eval/policy --as md
    """
    from anchor.evaluate import render
    from anchor.evaluate.compare import compare as group_and_rank
    from anchor.evaluate.outputs import FinishedEvaluation

    evaluations = [FinishedEvaluation.load(folder) for folder in folders]
    if paired:
        _paired(evaluations, seed, json)
        return
    groups = group_and_rank(evaluations, every_metric=every_metric)
    if json:
        emit(render.document(groups))
    elif format == "md":
        typer.echo(render.markdown(groups), nl=False)
    elif format == "latex":
        typer.echo(render.latex(groups), nl=False)
    elif format == "csv":
        typer.echo(render.table_csv(groups), nl=False)
    else:
        for group in groups:
            head = ["", "N", *(render.heading(metric) for metric in group.metrics)]
            wide = not sys.stdout.isatty()  # files and pipes have room
            print_table(head, render.cells(group, "table") if wide else render.stacked_cells(group))
            typer.echo(f"{render.footer_text(group.footer)}\n")
        typer.echo(f"{render.LEGEND['table']}; ± is the standard deviation over seeds, then the count of N")


def _paired(evaluations: list[FinishedEvaluation], seed: int, json: bool) -> None:
    from dataclasses import asdict

    from anchor.evaluate.compare import paired_differences
    from anchor.evaluate.render import difference_rows, footer_text

    if len(evaluations) < 2:
        raise InputError("a pair needs two evaluations", "name at least two folders")
    first, *others = evaluations
    found = {other.label: paired_differences(first, other, seed=seed) for other in others}
    if json:
        pairs = [
            {"first": first.label, "second": label, "differences": {m: asdict(d) for m, d in one.items()}}
            for label, one in found.items()
        ]
        emit({"footer": first.footer, "pairs": pairs})
        return
    for label, one in found.items():
        print_table(
            ["metric", "difference", "95 % interval", "first only", "second only", "apart"],
            difference_rows(first.metrics, one),
            title=f"{first.label} − {label}, points",
        )
    typer.echo(f"{footer_text(first.footer)}\npercentage points; bootstrap over pairs of equal composition")
