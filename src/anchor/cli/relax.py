"""`anchor relax`: relax anybody's structures with any potential."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchor.cli.common import (
    Cell,
    Device,
    Fmax,
    InputFormat,
    JsonFlag,
    MaxSteps,
    Overwrite,
    Potential,
    emit,
    print_table,
    relaxed_line,
)
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import InputError


@works_somewhere
def relax(
    files: Annotated[
        list[Path], typer.Argument(help="Files, folders or zip archives with structures (CIF, POSCAR, …).")
    ],
    potential: Potential = "mattersim-1m",
    cell: Cell = True,
    fmax: Fmax = 0.02,
    max_steps: MaxSteps = 400,
    format: InputFormat = None,
    optimizer: Annotated[
        Literal["quasi-newton", "fire", "ase-bfgs", "ase-fire"],
        typer.Option(
            help="Optimiser of the relaxation; the ase-… ones go one by one, exactly as ASE does "
            "(the paper's way: ase-bfgs)."
        ),
    ] = "quasi-newton",
    symmetry: Annotated[
        bool,
        typer.Option(
            "--symmetry", help="Keep the space group (within 0.001 Å); half the work for MatterSim."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write relaxed structures: a folder (one CIF each), or FILE.extxyz, .json, .db, …"),
    ] = None,
    overwrite: Overwrite = False,
    chunk_atoms: Annotated[int, typer.Option(min=1, help="Atoms per call of the potential.")] = 256,
    where: Where = NOWHERE,
    device: Device = "cpu",
    json: JsonFlag = False,
) -> None:
    """Relax structures with any potential.

    Each gets an outcome, and none stops the others.

    Outcomes: converged, capped (budget used up), diverged (no crystal any more), failed (with the reason).
    Written are all but the failed ones, with energy (eV), steps and the largest force that is left (eV/Å).

    Example: anchor relax candidates/*.cif --out relaxed
    """
    import numpy as np

    from anchor.executors import Workplace
    from anchor.formats import load, write
    from anchor.formats.write import check_ending
    from anchor.potentials import load_potential
    from anchor.relax.parallel import Relaxer
    from anchor.writing import check_place

    if symmetry and optimizer.startswith("ase-"):
        raise InputError(
            f"--symmetry and --optimizer {optimizer} exclude each other", "leave one of them out"
        )
    if out is not None:
        check_ending(out)
        check_place(out, overwrite=overwrite)
    loaded = load(files, format=format, on_error="skip")
    if not len(loaded.crystals):
        first = loaded.skipped[0] if loaded.skipped else None
        cause = f"; {first.source}: {first.reason}" if first else ""
        raise InputError(f"none of {loaded.n_read} entries gave a crystal{cause}")
    relaxer = Relaxer(load_potential(potential, device=device), executor=Workplace(**where).open())
    found = relaxer(
        loaded.crystals,
        cell=cell,
        max_steps=max_steps,
        fmax=fmax,
        optimizer=optimizer,
        symmetry=symmetry,
        chunk_atoms=chunk_atoms,
        on_progress=relaxed_line,
    ).relaxation
    written = np.flatnonzero(found.status != "failed")
    if out is not None and len(written):
        write(
            out,
            found.crystals[written],
            [loaded.ids[i] for i in written],
            {
                "energy": found.energy[written],
                "steps": found.steps[written],
                "max_force": found.max_force[written],
            },
            overwrite=overwrite,
        )
    formulas = loaded.crystals.formulas
    rows: list[dict[str, Any]] = [
        {
            "id": loaded.ids[i],
            "source": loaded.source[i],
            "formula": formulas[i],
            "status": str(found.status[i]),
            "reason": found.reason[i],
            "energy_ev": _number(found.energy[i]),
            "energy_ev_per_atom": _number(found.energy_per_atom[i]),
            "steps": int(found.steps[i]),
            "evaluations": int(found.evaluations[i]),
            "first_converged_step": int(found.first_converged_step[i]),
            "max_force_ev_per_angstrom": _number(found.max_force[i]),
            "volume_change_percent": _number(
                100 * (found.crystals.volume[i] / loaded.crystals.volume[i] - 1)
            ),
        }
        for i in range(len(found))
    ]
    if json:
        emit(
            {
                "potential": potential,
                "cell": cell,
                "fmax": fmax,
                "max_steps": max_steps,
                "optimizer": optimizer,
                "symmetry": symmetry,
                "out": None if out is None or not len(written) else str(out),
                "written": 0 if out is None else len(written),
                "structures": rows,
                "skipped": [{"source": s.source, "reason": s.reason} for s in loaded.skipped],
            }
        )
        return
    print_table(
        ["id", "formula", "status", "eV/atom", "steps", "eV/Å left", "volume %", "reason"],
        [
            [
                row["id"],
                row["formula"],
                row["status"],
                _text(row["energy_ev_per_atom"], "{:.4f}"),
                row["steps"],
                _text(row["max_force_ev_per_angstrom"], "{:.3f}"),
                _text(row["volume_change_percent"], "{:+.1f}"),
                row["reason"],
            ]
            for row in rows
        ],
    )
    for skip in loaded.skipped:
        typer.echo(f"skipped {skip.source}: {skip.reason}", err=True)
    if out is not None:
        typer.echo(f"{len(written)} of {len(rows)} structures written to {out}", err=True)


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return float(value) if value == value else None


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
