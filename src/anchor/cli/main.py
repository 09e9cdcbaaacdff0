"""The `anchor` command: thin commands over the Python API.

Modules under `anchor.cli` import torch, pymatgen and other heavy packages inside their commands, so that
`anchor --help` answers at once.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
from typing import Annotated, Any, ClassVar

import typer

try:
    from anchor import __version__
    from anchor.cli import (
        catalogue,
        compare,
        compositions,
        data,
        dft,
        distill,
        doctor,
        energies,
        evaluate,
        export,
        faults,
        generator,
        hull,
        import_dft,
        policy,
        potentials,
        prior,
        relax,
        report,
        screen,
        search,
        serve,
        study,
        verify,
    )
    from anchor.cli.help import MAINTAINERS, App, Front
    from anchor.cli.program import as_called
    from anchor.errors import AnchorError, InputError, Notice
except KeyboardInterrupt:  # Ctrl-C in the first moment
    sys.exit("interrupted")


class _Anchor(Front):
    first: ClassVar = {
        "search": ("anchor search --elements Na,Mn,P,O", "find new stable crystals"),
        "verify": ("anchor verify runs/20261115-120000", "try to break what was found"),
        "export": ("anchor export catalogue --as cif", "take crystals to other tools"),
        "hull": ("anchor hull mine.cif", "energy above hull, competing phases"),
        "evaluate": ("anchor evaluate theirs.extxyz", "judge structures that others made"),
    }


app = App(
    name="anchor",
    cls=_Anchor,
    help="Discover stable crystals.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(search.search)
app.command()(search.resume)
app.command()(search.sample)
app.command()(screen.screen)
app.command()(verify.verify)
app.command()(distill.distill)
app.command()(report.report)
app.command()(serve.serve)
app.command()(export.export)
app.add_typer(catalogue.app, name="catalogue")
app.command()(hull.hull)
app.command()(relax.relax)
app.command()(evaluate.evaluate)
app.command()(compare.compare)
app.add_typer(prior.app, name="prior")
app.add_typer(generator.app, name="generator")
app.add_typer(potentials.app, name="potentials")
app.add_typer(dft.app, name="dft")
app.command("import-dft")(import_dft.import_dft)
app.add_typer(compositions.app, name="compositions")
app.command()(doctor.doctor)
app.add_typer(policy.app, name="policy", rich_help_panel=MAINTAINERS)
app.add_typer(energies.app, name="energies", rich_help_panel=MAINTAINERS)
app.add_typer(data.app, name="data", rich_help_panel=MAINTAINERS)
app.add_typer(study.app, name="study", rich_help_panel=MAINTAINERS)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anchor {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop."),
]


@app.callback()
def _front(version: Version = False) -> None:
    """Discover stable crystals."""


_usual = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    if issubclass(category, Notice):
        print(as_called(f"note: {message}"), file=sys.stderr)
    else:
        _usual(message, category, *place, **more)


def run() -> None:
    """Entry point: exit code 0 = done, 1 = it failed, 2 = the input is wrong, 3 = a bug of ours."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):  # a terminal without Å shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where it can be explained if it fails
    except BrokenPipeError:  # `anchor … | head`
        faults.silence_output()
        sys.exit(faults.CLOSED_PIPE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(1)
    except Exception as error:  # the border of the program: everything is answered here
        explained = faults.explain(error)
        if explained is None:
            faults.report_bug()
            sys.exit(3)
        _tell(explained)
        sys.exit(2 if isinstance(explained, InputError) else 1)


def _tell(error: AnchorError) -> None:
    """An error to whoever asked: a person, or with --json a program."""
    as_json = "--json" in sys.argv
    try:
        if as_json:
            print(
                json.dumps({"error": as_called(error.message), "hint": error.hint and as_called(error.hint)})
            )
        sys.stdout.flush()
    except OSError:  # it may be the very cause
        faults.silence_output()
        as_json = False
    if not as_json:
        print(as_called(f"error: {error}"), file=sys.stderr)


if __name__ == "__main__":
    run()
