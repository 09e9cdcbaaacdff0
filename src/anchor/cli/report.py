"""`anchor report`: the report of a campaign as one HTML file, one picture, one small JSON file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import JsonFlag, Overwrite, emit
from anchor.errors import InputError


def report(
    folder: Annotated[str, typer.Argument(help="Folder of the campaign, ledger file or database URL.")],
    out: Annotated[Path | None, typer.Option(help="HTML file; default: report.html in the folder.")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="Another campaign to lay over the first (repeatable).")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw all curves with 95 % bands: PNG, PDF or SVG.")
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Also write counts, rates, curves and time as JSON.")
    ] = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write the report of a campaign as one HTML file.

    Counts, curves, finds, crystals in three dimensions.

    Examples:

      anchor report runs/20261115-120000
      anchor report runs/policy --compare runs/random --compare runs/neutral --picture campaign.png
    """
    if compare and picture is None and summary is None:
        raise InputError(
            "--compare lays curves over one another, and nothing draws them",
            "add --picture FILE.png, or --summary FILE.json",
        )

    import json as json_module

    from anchor.report.html import write_report
    from anchor.report.picture import write_picture
    from anchor.report.summary import read_runs
    from anchor.search.ledger import Ledger
    from anchor.writing import check_place, replace_file

    own = out is None and Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)
    place = out or (Path(folder) if own else Path.cwd()) / "report.html"
    for path in (picture, summary, None if own else place):
        if path is not None:
            check_place(path, overwrite=overwrite)
    written = {"report": write_report(Ledger.open(folder), place, own=own and not overwrite)}
    if picture is not None or summary is not None:
        runs = read_runs([folder, *(compare or [])])
        if picture is not None:
            written["picture"] = write_picture(runs, picture)
        if summary is not None:
            content = {"command": "anchor report --summary", "runs": [run.summary() for run in runs]}
            written["summary"] = replace_file(summary, json_module.dumps(content, ensure_ascii=False) + "\n")
    emit(written) if json else typer.echo("\n".join(f"wrote {path}" for path in written.values()))
