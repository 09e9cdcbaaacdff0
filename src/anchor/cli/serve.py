"""`anchor serve`: a folder of results in the browser, on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.program import as_called
from anchor.errors import InputError

NEEDED = ("fastapi", "uvicorn", "optimade", "mongomock")


def serve(
    folder: Annotated[Path, typer.Argument(help="Folder with campaigns, evaluations and studies.")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = 8321,
    open_: Annotated[bool, typer.Option("--open", help="Also open the page in the browser.")] = False,
) -> None:
    """Show a folder in the browser: campaigns live, crystals, comparisons, the catalogue; start searches.

    Listens on this machine only (127.0.0.1). The printed address holds a token;
    without it the page only reads. Other programs find the crystals at /optimade.
    Ctrl-C ends it and asks its searches to stop.

    Examples:

      anchor serve                      the current folder
      anchor serve runs --open
      ssh -L 8321:127.0.0.1:8321 host   to see it from another machine
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"the page needs {', '.join(missing)}, which is not installed",
            'pip install "anchor-crystals[server]"',
        )
    typer.echo("starting …", err=True)
    from anchor.server.run import serve as run

    run(folder, port=port, open_browser=open_, say=lambda text: typer.echo(as_called(text)))
