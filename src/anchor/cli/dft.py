"""`anchor dft`: PBE energies and distances to the hulls with GPAW, and inputs for other codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anchor.cli.common import POTENTIAL_HELP, AsIs, JsonFlag, emit, print_table
from anchor.cli.help import App
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.crystals.crystals import Crystals
    from anchor.dft.engine import Calculator
    from anchor.dft.stability import Distance, Stability
    from anchor.formats import LoadedCrystals

app = App(
    help="Real DFT (PBE) of finds and of what they compete with. GPAW is optional: see docs/dft.md.",
    no_args_is_help=True,
)

Files = Annotated[
    list[Path], typer.Argument(help="Files, folders or zip archives with structures (CIF, POSCAR, …).")
]
Potential = Annotated[
    str,
    typer.Option(help=f"{POTENTIAL_HELP}; relaxes before DFT, and its hulls name the competing phases."),
]
Relax = Annotated[bool, typer.Option("--relax-dft", help="Follow the DFT forces as well, cell included.")]
Memory = Annotated[float, typer.Option(min=0.0, help="Most memory of a calculation, GiB; 0: no limit.")]
Minutes = Annotated[float, typer.Option(min=0.0, help="Most wall time of one calculation.")]
Known = Annotated[bool, typer.Option("--known", help="Calculate nothing: only energies that are known.")]


@app.command()
def energy(
    files: Files,
    potential: Potential = "mattersim-1m",
    as_is: AsIs = False,
    relax: Relax = False,
    memory: Memory = 4.0,
    minutes: Minutes = 60.0,
    known: Known = False,
    json: JsonFlag = False,
) -> None:
    """PBE energies of structures; all of them share cut-off and k-point density, so that differences count.

    Energies are kept by structure and settings: a command that was interrupted goes on when it is run again.

    Example: anchor dft energy a.cif b.cif
    """
    from anchor.dft.jobs import Job
    from anchor.dft.rules import settings_for

    loaded, crystals = _load(files, potential, as_is=as_is)
    settings = settings_for(crystals.formulas)
    jobs = [Job.of(crystal, settings, relax=relax) for crystal in crystals]
    found = _calculator(memory, minutes, known)(jobs)
    if json:
        rows = [
            {
                "id": name,
                "formula": job.formula,
                "status": e.text,
                "energy_ev_per_atom": e.per_atom,
                "energy_ev": e.energy,
                "calculation": job.text,
                "hash": job.hash,
                "source": e.source,
                "about": e.about,
            }
            for name, job, e in zip(loaded.ids, jobs, found, strict=True)
        ]
        emit({"settings": settings.to_dict(), "structures": rows, **_skipped(loaded)})
        return
    print_table(
        ["structure", "eV/atom", "calculation", "status"],
        (
            [name, _text(e.per_atom, ".4f"), job.text, e.text]
            for name, job, e in zip(loaded.ids, jobs, found, strict=True)
        ),
    )
    _say_skipped(loaded)


@app.command()
def hull(
    files: Files,
    potential: Potential = "mattersim-1m",
    as_is: AsIs = False,
    relax: Relax = False,
    most_seconds: Annotated[
        float,
        typer.Option(help="Competing phases of larger estimated CPU time go by the databases' differences."),
    ] = 900.0,
    memory: Memory = 4.0,
    minutes: Minutes = 60.0,
    known: Known = False,
    json: JsonFlag = False,
) -> None:
    """Distance of structures to both hulls by DFT: they and their competing phases, with the same settings.

    A competing phase without a structure, too large to calculate, or an element whose energy the databases
    correct stands at the database's energy difference, and the result is marked as mixed.

    Example: anchor dft hull find.cif
    """
    loaded, crystals = _load(files, potential, as_is=as_is)
    stability = _stability(potential, _calculator(memory, minutes, known), relax, most_seconds)
    found = [stability(crystal) for crystal in crystals]
    if json:
        rows = [{"id": name, **one.to_dict()} for name, one in zip(loaded.ids, found, strict=True)]
        emit({"potential": potential, "structures": rows, **_skipped(loaded)})
        return
    print_table(
        ["structure", "hull", "above meV/atom", "competing phases (atoms)", "verdict", "notes"],
        (
            [name, d.database, _milli(d.above), d.text, one.verdict(), _notes(d) or one.energy.text]
            for name, one in zip(loaded.ids, found, strict=True)
            for d in one.distances
        ),
    )
    _say_skipped(loaded)


@app.command()
def inputs(
    files: Files,
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    code: Annotated[Literal["vasp", "qe", "gpaw"], typer.Option(help="For which code.")] = "vasp",
    products: Annotated[
        bool, typer.Option("--products", help="Inputs of the competing phases of both hulls as well.")
    ] = False,
    potential: Potential = "mattersim-1m",
    as_is: AsIs = False,
    relax: Relax = False,
    json: JsonFlag = False,
) -> None:
    """Write inputs of the same calculations for another code; README.txt says what you must add.

    Example: anchor dft inputs find.cif --code qe --products --out calculations
    """
    from anchor.dft.inputs import WHAT_TO_ADD, write_inputs
    from anchor.dft.jobs import Job
    from anchor.dft.rules import settings_for

    loaded, crystals = _load(files, potential, as_is=as_is)
    jobs = []
    for name, crystal in zip(loaded.ids, crystals, strict=True):
        phases = []
        if products:
            phases = _stability(potential, _calculator(0, 0, True), relax, float("inf")).phases(crystal)
        settings = settings_for([crystal.formulas[0], *(phase.formula for phase in phases)])
        jobs.append((name, Job.of(crystal, settings, relax=relax)))
        for phase in phases:
            if phase.crystal is None:
                typer.echo(f"{phase.formula}: {phase.origin}", err=True)
            else:
                jobs.append((f"{name}-{phase.formula}", Job.of(phase.crystal, settings, relax=relax)))
    folders = write_inputs(jobs, code, out)
    if json:
        emit({"folders": folders, "to_be_added": WHAT_TO_ADD[code], **_skipped(loaded)})
        return
    typer.echo(f"{len(folders)} inputs in {out}; to be added: {WHAT_TO_ADD[code]}")
    _say_skipped(loaded)


def _load(files: list[Path], potential: str, *, as_is: bool) -> tuple[LoadedCrystals, Crystals]:
    """The crystals, relaxed with the potential unless they are."""
    from anchor.formats import load

    loaded = load(files, on_error="skip")
    if not len(loaded.crystals):
        first = loaded.skipped[0]
        raise InputError(f"none of {loaded.n_read} entries gave a crystal; {first.source}: {first.reason}")
    if as_is:
        return loaded, loaded.crystals
    from anchor.dft.products import relaxing_judge

    (table,) = relaxing_judge(potential).relaxed([loaded.crystals])
    for name, status, reason in zip(loaded.ids, table.texts("status"), table.texts("reason"), strict=True):
        if reason:
            typer.echo(f"{name}: {potential} could not relax it ({status}: {reason})", err=True)
    return loaded, table.crystals


def _calculator(memory: float, minutes: float, known: bool) -> Calculator:
    from anchor.dft.engine import Calculator

    return Calculator(
        memory_gb=memory,
        time_limit_s=60 * minutes,
        known_only=known,
        on_progress=lambda text: typer.echo(text, err=True),
    )


def _stability(potential: str, calculator: Calculator, relax: bool, most_seconds: float) -> Stability:
    from anchor.dft.products import Library
    from anchor.dft.stability import Stability
    from anchor.hull.references import load_hull

    found = load_hull(potential)
    library = Library(potential, found.identity.checkpoint_hash)
    return Stability(found, library, calculator, relax, most_seconds)


def _notes(distance: Distance) -> str:
    return "; ".join([*(["mixed"] if distance.mixed else []), *distance.notes])


def _skipped(loaded: LoadedCrystals) -> dict[str, Any]:
    return {"skipped": [{"source": s.source, "reason": s.reason} for s in loaded.skipped]}


def _say_skipped(loaded: LoadedCrystals) -> None:
    for skipped in loaded.skipped:
        typer.echo(f"skipped {skipped.source}: {skipped.reason}", err=True)


def _milli(value: float | None) -> str:
    return "-" if value is None else f"{1000 * value:+.1f}"


def _text(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
