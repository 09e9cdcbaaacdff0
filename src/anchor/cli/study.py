"""`anchor study`: the paper's tables, ours beside theirs, at a scale of your choosing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anchor.cli.common import JsonFlag, emit, print_table
from anchor.cli.help import App
from anchor.cli.program import program
from anchor.cli.study_theory import covariance, decomposition, tilt
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.studies.cells import Results

app = App(help="Tables and figures of the paper as commands.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of a study, see `anchor study list`.")]
ScaleName = Annotated[
    Literal["smoke", "laptop", "paper"],
    typer.Option(
        "--scale", help="smoke: minutes, proves that it runs; laptop: hours; paper: the full budget."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder of all studies; cells in it are shared.")]
Size = Annotated[
    int | None,
    typer.Option("-n", min=1, help="How many structures per evaluation and seed; default: the scale's."),
]
Only = Annotated[
    str, typer.Option("--only", help="Rows whose label has this text; default: all.", show_default=False)
]


@app.command("list")
def list_studies(json: JsonFlag = False) -> None:
    """All studies, the table of the paper each belongs to, and what the paper claims.

    Example: anchor study list
    """
    from anchor.studies.declared import STUDIES

    rows = [
        {
            "name": study.name,
            "title": study.title,
            "paper": study.paper,
            "rows": len(study.rows),
            "rows_made_here": len(study.made),
            "claim": study.claim,
        }
        for study in STUDIES.values()
    ]
    if json:
        emit(rows)
        return
    print_table(
        ["study", "what it asks", "rows", "the paper says"],
        ([r["name"], r["title"], f"{r['rows_made_here']}/{r['rows']}", r["claim"]] for r in rows),
    )


@app.command()
@works_somewhere
def run(
    name: Name,
    scale: ScaleName = "smoke",
    out: Out = Path("studies"),
    n: Size = None,
    only: Only = "",
    at_a_time: Annotated[
        int,
        typer.Option(
            min=1, max=1024, help="Cells side by side; 1: one after the other, each on all workers."
        ),
    ] = 1,
    where: Where = NOWHERE,
    json: JsonFlag = False,
) -> None:
    """Make what is missing of a study and print its table. Stopped at any point, the same command goes on.

    Figures go to OUT/figures.

    Examples:

      anchor study run exploration --scale laptop
      anchor study run exploration --scale laptop --at-a-time 2
    """
    from anchor.executors import Workplace
    from anchor.studies.cells import draw_figures, run_study
    from anchor.studies.declared import find_study
    from anchor.studies.watch import Watch

    study, results = find_study(name).only(only), _results(scale, out, n)
    terminal = sys.stderr.isatty()

    def tell(text: str, end: str = "\n") -> None:
        print(f"\r\033[K{text}" if terminal else text, end=end, file=sys.stderr, flush=True)

    def tell_structures(done: int, of: int, left: float) -> None:
        text = f"searches: {done:,} of {of:,} structures, about {max(1, round(left / 60))} min left"
        tell(text, end="" if terminal else "\n")

    with Watch(study, results, tell_structures, every=5 if terminal else 60):
        run_study(study, results, where=Workplace(**where), at_a_time=at_a_time, say=tell)
    for path in draw_figures(study, results):
        tell(f"written: {path}")
    table(name, scale, out, n, only, json=json)


@app.command()
def plan(
    name: Annotated[
        str, typer.Argument(help="Name of a study; default: all, a line each.", show_default=False)
    ] = "",
    scale: ScaleName = "paper",
    out: Out = Path("studies"),
    n: Size = None,
    only: Only = "",
    json: JsonFlag = False,
) -> None:
    """What a study would take: campaigns, structures, relaxations, CPU hours at the speed of this machine.

    The speed is that of the searches in OUT; without any, a few crystals are relaxed to know it.

    Examples:

      anchor study plan exploration --scale paper
      anchor study plan --scale laptop
    """
    from anchor.studies.budget import plan_studies, plan_study
    from anchor.studies.declared import STUDIES, find_study

    results = _results(scale, out, n)
    if name:
        found = plan_study(find_study(name).only(only), results, measure=True)
        if json:
            emit(found)
            return
        print_table(["what", "value"], ([key.replace("_", " "), value] for key, value in found.items()))
        return
    if only:
        raise InputError("--only is about the rows of one study", "name a study, see: anchor study list")
    plans = plan_studies(STUDIES.values(), results, measure=True)
    if json:
        emit(plans)
        return
    columns = {
        "structures_left": "structures of searches",
        "structures_to_evaluate": "to evaluate",
        "training_steps_left": "steps of training",
        "cpu_hours_of_campaigns_here": "CPU hours of searches here",
        "gpu_hours_in_the_paper": "GPU hours in the paper",
    }
    print_table(
        ["study", *columns.values()],
        ([study, *(one[key] for key in columns)] for study, one in plans.items()),
        title=f"{scale}: {results.scale.budget}. What is left to make; studies share what they both need",
    )


@app.command()
def table(
    name: Name,
    scale: ScaleName = "smoke",
    out: Out = Path("studies"),
    n: Size = None,
    only: Only = "",
    format: Annotated[
        Literal["table", "md", "latex", "csv"], typer.Option("--as", help="What to print.")
    ] = "table",
    json: JsonFlag = False,
) -> None:
    """The table of a study as far as it is made, with the paper's numbers and both budgets.

    Example: anchor study table exploration --scale laptop --as md
    """
    from anchor.studies import tables
    from anchor.studies.declared import find_study

    study, results = find_study(name).only(only), _results(scale, out, n)
    made = tables.make_table(study, results)
    if json:
        emit({"study": name, "scale": scale, **vars(made)})
        return
    if format != "table":
        form = {"md": tables.as_markdown, "latex": tables.as_latex, "csv": tables.as_csv}[format]
        typer.echo(form(made), nl=False)
        return
    print_table(made.head, made.rows, title=f"{study.title}. The paper: {study.claim}")
    for note in (*made.budgets, *made.notes):
        typer.echo(note)
    if left := tables.unfinished(study, results):
        typer.echo(
            f"{len(left)} of {len(study.made)} rows are not made yet: "
            f"{program()} study run {name} --scale {scale}"
        )


app.command()(tilt)
app.command()(decomposition)
app.command()(covariance)


def _results(scale: str, out: Path, n: int | None) -> Results:
    from dataclasses import replace

    from anchor.studies.cells import Results
    from anchor.studies.scales import SCALES

    chosen = SCALES[scale]
    return Results(out, chosen if n is None else replace(chosen, n=n))
