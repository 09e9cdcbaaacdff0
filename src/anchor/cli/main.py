"""The `anchor` command: thin commands over the Python API.

Modules under `anchor.cli` import torch, pymatgen and other heavy packages inside their commands, so that
`anchor --help` answers at once.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import typer

from anchor.cli import (
    compare,
    compositions,
    data,
    dft,
    doctor,
    energies,
    evaluate,
    export,
    hull,
    policy,
    potentials,
    prior,
    relax,
    report,
    search,
    verify,
)
from anchor.errors import AnchorError, InputError, Notice

app = typer.Typer(
    name="anchor",
    help="Discover stable crystals: a learned composition policy around a frozen structure prior.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(compositions.app, name="compositions")
app.add_typer(data.app, name="data")
app.add_typer(dft.app, name="dft")
app.add_typer(energies.app, name="energies")
app.command("hull")(hull.hull)
app.add_typer(policy.app, name="policy")
app.add_typer(prior.app, name="prior")
app.add_typer(potentials.app, name="potentials")
app.command()(relax.relax)
app.command()(search.search)
app.command()(search.resume)
app.command()(search.sample)
app.command()(verify.verify)
app.command()(report.report)
app.command()(export.export)
app.command()(evaluate.evaluate)
app.command()(compare.compare)
app.command()(doctor.doctor)


_usual = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    if issubclass(category, Notice):
        print(f"note: {message}", file=sys.stderr)
    else:
        _usual(message, category, *place, **more)


def run() -> None:
    """Entry point: exit code 0 = done, 1 = it failed, 2 = the input is wrong."""
    warnings.showwarning = _show_warning
    try:
        app()
    except AnchorError as error:
        if "--json" in sys.argv:
            print(json.dumps({"error": error.message, "hint": error.hint}))
        else:
            print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run()
