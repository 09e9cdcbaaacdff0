"""`anchor report`: the report of a campaign as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import JsonFlag, emit


def report(
    folder: Annotated[str, typer.Argument(help="Folder of the campaign, ledger file or database URL.")],
    out: Annotated[Path | None, typer.Option(help="HTML file; default: report.html in the folder.")] = None,
    json: JsonFlag = False,
) -> None:
    """Write the report of a campaign: counts, curves, finds, crystals in three dimensions.

    Example: anchor report runs/20261115-120000
    """
    from anchor.report.html import write_report
    from anchor.search.ledger import Ledger

    ledger = Ledger.open(folder)
    place = out or (Path(folder) if Path(folder).is_dir() else Path.cwd()) / "report.html"
    path = write_report(ledger, place)
    emit({"report": path}) if json else typer.echo(f"wrote {path}")
