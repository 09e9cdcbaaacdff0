"""`anchor energies`: energies of the reference crystals under a potential, and their calibration."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchor.cli.common import (
    POTENTIAL_HELP,
    Device,
    Hours,
    JsonFlag,
    Potential,
    Seed,
    emit,
    print_table,
)
from anchor.cli.help import App
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import InputError

app = App(
    help="Energies of the reference crystals under a potential: what a potential's hull is made of.",
    no_args_is_help=True,
)

FIT_COLUMNS = ["family", "crystals", "median meV/atom", "mean", "90th percentile"]


@app.command()
@works_somewhere
def build(
    potential: Potential,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Relax the crystals near the hull (cell free) instead.")
    ] = False,
    threads: Annotated[
        int, typer.Option(min=1, help="CPU threads; part of what makes the result repeatable.")
    ] = 2,
    where: Where = NOWHERE,
    device: Device = "cpu",
    hours: Hours = None,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Write into the package instead of the cache folder.")
    ] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Forget an interrupted run.")] = False,
    json: JsonFlag = False,
) -> None:
    """Compute energies of all reference crystals. Can be interrupted at any time: run it again to go on.

    Complete single points are calibrated to the DFT scales at once.

    Example: anchor energies build --potential mattersim-1m --threads 2
    """
    import torch

    from anchor.executors import Workplace
    from anchor.hull import databases
    from anchor.hull import energies as store
    from anchor.paths import BUNDLED, cache_dir
    from anchor.potentials import load_potential
    from anchor.reference.reference import load_reference

    torch.set_num_threads(threads)
    reference = load_reference()
    crystals = reference.crystals
    model = load_potential(potential, device=device)
    pass_name = "relaxed" if relaxed else "single-points"
    if relaxed:
        chunks = store.relaxation_chunks(crystals, reference.e_above_hull)
        compute = store.relaxed_columns
        settings: dict[str, Any] = {
            "chunk_atoms": store.RELAX_CHUNK_ATOMS,
            "within_ev_per_atom": store.RELAX_WITHIN,
            "fmax_ev_per_angstrom": store.RELAX_FMAX,
            "max_steps": store.RELAX_STEPS,
        }
    else:
        chunks = store.single_point_chunks(crystals)
        compute = store.single_point_columns
        settings = {"chunk_atoms": store.CHUNK_ATOMS}
    settings |= {"threads": threads, "device": device}
    checkpoint = store.energies_path(potential, pass_name, cache_dir() / "energies-in-progress")
    if restart:
        checkpoint.unlink(missing_ok=True)
    executor = Workplace(**(where or {"executor": "inline"})).open(threads=threads)
    run = store.build_energies(
        crystals,
        model,
        chunks,
        compute,
        checkpoint=checkpoint,
        settings=settings,
        executor=executor,
        time_limit_s=float("inf") if hours is None else 3600 * hours,
    )
    start = last = time.monotonic()
    first, columns = next(run)  # the same arrays from beginning to end
    done = first
    for done, _ in run:
        now = time.monotonic()
        if now - last > 30 or done == len(chunks):
            last = now
            left = (now - start) / (done - first) * (len(chunks) - done)
            typer.echo(
                f"{potential} {pass_name}: chunk {done}/{len(chunks)}, {left / 60:.1f} min left", err=True
            )
    complete = done == len(chunks)
    target = None
    if complete or relaxed:
        folder = BUNDLED if bundle else cache_dir()
        target = store.energies_path(potential, pass_name, folder / "energies")
        identity = store.read_columns(checkpoint)[1]
        store.write_columns(target, columns, identity)
        if potential in store.available():
            own = store.load_energies(potential, crystals)
            for scheme in databases.SCHEMES:
                fitted = databases.calibrate(reference, own, scheme)
                fitted.save(databases.calibration_path(potential, folder, scheme))
    report = {
        "potential": potential,
        "pass": pass_name,
        "chunks_done": done,
        "chunks": len(chunks),
        "complete": complete,
        "file": None if target is None else str(target),
    }
    if json:
        emit(report)
    elif complete:
        typer.echo(f"complete: {target}")
    else:
        kept = f"; what is done is in {target}" if target else ""
        typer.echo(f"{done} of {len(chunks)} chunks done{kept}; the same command goes on")


@app.command()
def calibrate(
    potential: Potential,
    to: Annotated[
        Literal["oqmd", "mp", "oqmd-by-presence"],
        typer.Option(help="Database; oqmd-by-presence: as before the shifts of metals were bounded."),
    ] = "oqmd",
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Write into the package instead of the cache folder.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Fit the potential's energies to a database's DFT scale, and show the errors on held-out crystals.

    Example: anchor energies calibrate --potential mattersim-1m --to mp
    """
    from anchor.hull import databases
    from anchor.hull.energies import load_energies
    from anchor.paths import BUNDLED, cache_dir
    from anchor.reference.reference import load_reference

    reference = load_reference()
    fitted = databases.calibrate(reference, load_energies(potential, reference.crystals), to)
    path = databases.calibration_path(potential, BUNDLED if bundle else cache_dir(), to)
    fitted.save(path)
    if json:
        emit({"file": path, "loose_elements": fitted.loose_elements, **fitted.to_dict()})
        return
    errors = fitted.errors
    rows = {"all": errors["all"], **errors["families"]}
    print_table(
        FIT_COLUMNS,
        (
            [name, e["n"], *(f"{1000 * e[key]:.2f}" for key in ("median", "mean", "p90"))]
            for name, e in rows.items()
        ),
        title=f"{potential} to {to}: held-out errors of formation energies",
    )
    print_table(["loose element", "why it is left out of searches"], fitted.loose_elements.items())
    typer.echo(f"written to {path}")


@app.command()
@works_somewhere
def fill(
    potential: Annotated[str, typer.Option(help=f"{POTENTIAL_HELP}; its hulls are filled.")] = "mattersim-1m",
    elements: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated symbols: these elements only; default: binaries of all "
            "searchable elements, and ternaries of what the policy proposes."
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option(
            "--listed",
            help="Instead: stable compounds that a database lists and of which no crystal is here.",
        ),
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="Whose proposals say which ternaries matter; default: what ships.")
    ] = None,
    draws: Annotated[int | None, typer.Option(min=1, help="Proposals of the policy; default: 2000.")] = None,
    second: Annotated[
        str,
        typer.Option(help="Potential that has to agree where a hull falls by more than 0.05 eV/atom."),
    ] = "sevennet-0",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; default: runs/fill-POTENTIAL[-ELEMENTS].")
    ] = None,
    where: Where = NOWHERE,
    hours: Hours = None,
    seed: Seed = 0,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Write into the package instead of the cache folder.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make common compounds that no database lists, relax them, and let those near a hull compete on it.

    Can be interrupted at any time: run it again to go on. What is done joins the hulls when it ends.

    Example: anchor energies fill --elements K,Y,Se
    """
    from anchor.executors import Workplace
    from anchor.filling.run import fill as run_fill
    from anchor.paths import BUNDLED, cache_dir

    if (elements is not None or listed) and (policy is not None or draws is not None):
        raise InputError(
            "--policy and --draws choose ternaries, which --elements or --listed have chosen already",
            "leave out one or the other",
        )
    symbols = None if elements is None else tuple(s.strip() for s in elements.split(",") if s.strip())
    name = "-".join(["fill", potential, *(["listed"] if listed else []), *(symbols or ())])
    card = run_fill(
        potential,
        folder=out or Path("runs") / name,
        target=BUNDLED if bundle else cache_dir(),
        elements=symbols,
        listed=listed,
        policy=policy or "default",
        draws=draws or 2000,
        second=second,
        where=Workplace(**where),
        seed=seed,
        time_limit_s=float("inf") if hours is None else 3600 * hours,
        on_progress=lambda text: typer.echo(text, err=True),
    )
    if json:
        emit(card)
        return
    typer.echo(f"{card['made']} of {card['wanted']} formulas made: {card['file']}")
    print_table(["verdict", "formulas"], card["verdicts"].items())


@app.command("list")
def list_energies(json: JsonFlag = False) -> None:
    """Potentials whose reference energies are here: how many crystals, how many relaxed, calibration error.

    Example: anchor energies list
    """
    from anchor.hull.databases import load_calibration
    from anchor.hull.energies import available, load_energies
    from anchor.reference.reference import load_reference

    reference = load_reference()
    found = []
    for name in available():
        own = load_energies(name, reference.crystals)
        errors = {to: load_calibration(name, reference, own, to).errors["all"] for to in ("oqmd", "mp")}
        counts = own.status_counts
        found.append(
            {
                "potential": name,
                "checkpoint_hash": own.checkpoint_hash,
                "single_points": own.n_single_points,
                "relaxed": counts["converged"] + counts["capped"],
                "relaxation_status": counts,
                "held_out_median_ev_per_atom": errors["oqmd"]["median"],
                "held_out_mean_ev_per_atom": errors["oqmd"]["mean"],
                "held_out_median_mp_ev_per_atom": errors["mp"]["median"],
                "held_out_mean_mp_ev_per_atom": errors["mp"]["mean"],
            }
        )
    if json:
        emit({"reference": reference.hash, "crystals": len(reference.crystals), "energies": found})
        return
    print_table(
        [
            "potential",
            "single points",
            "relaxed",
            "OQMD: median error meV/atom",
            "mean",
            "MP: median",
            "mean",
        ],
        (
            [
                row["potential"],
                row["single_points"],
                row["relaxed"],
                f"{1000 * row['held_out_median_ev_per_atom']:.1f}",
                f"{1000 * row['held_out_mean_ev_per_atom']:.1f}",
                f"{1000 * row['held_out_median_mp_ev_per_atom']:.1f}",
                f"{1000 * row['held_out_mean_mp_ev_per_atom']:.1f}",
            ]
            for row in found
        ),
    )
