"""`anchor hull`: energy above hull and competing phases of anybody's structures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anchor.cli.common import JsonFlag, emit, print_table
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.hull.hull import Decomposition


def hull(
    files: Annotated[
        list[Path], typer.Argument(help="Files, folders or zip archives with structures (CIF, POSCAR, …).")
    ],
    potential: Annotated[str, typer.Option(help="Name, as in `anchor potentials list`.")] = "mattersim-5m",
    relax: Annotated[bool, typer.Option("--relax", help="Relax positions first.")] = False,
    cell: Annotated[bool, typer.Option("--cell", help="Relax positions and cell first.")] = False,
    kind: Annotated[
        Literal["union", "mp", "oqmd", "dft", "potential"],
        typer.Option(
            help="Hull that counts: the higher of both databases', one of them, or (OQMD) its DFT energies "
            "or the potential's own alone."
        ),
    ] = "union",
    alex_mp: Annotated[
        Path | None,
        typer.Option(help="Use MatterGen's Alex-MP reference file with MP2020 corrections instead."),
    ] = None,
    max_steps: Annotated[int, typer.Option(help="Most steps of a relaxation.")] = 400,
    fmax: Annotated[float, typer.Option(help="Force at which a relaxation ends, eV/Å.")] = 0.02,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    json: JsonFlag = False,
) -> None:
    """Energy above hull, competing phases and decomposition of your structures.

    A structure that cannot be read or scored gets a status and does not stop the others. Reference crystals
    near the hull are relaxed with the same potential: relax yours as well (--cell), or they look too high.

    Example: anchor hull candidates/*.cif --cell
    """
    from anchor.formats import load
    from anchor.hull import AlexMPHull, load_hull, phases_from_file, score_crystals
    from anchor.hull.score import Relax
    from anchor.potentials import load_potential

    loaded = load(files, on_error="skip")
    if not len(loaded.crystals):
        first = loaded.skipped[0]
        raise InputError(f"none of {loaded.n_read} entries gave a crystal; {first.source}: {first.reason}")
    model = load_potential(potential, device=device)
    how: Relax = "cell" if cell else "positions" if relax else "no"
    own = None if alex_mp else load_hull(model, kind)
    scored = score_crystals(
        loaded.crystals,
        model,
        load_hull(model, kind) if alex_mp is None else AlexMPHull(phases_from_file(alex_mp), model),
        relax=how,
        max_steps=max_steps,
        fmax=fmax,
    )
    scores = scored.scores
    formulas = loaded.crystals.formulas
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(loaded.ids):
        mixture = scored.decompositions[i]
        rows.append(
            {
                "id": name,
                "source": loaded.source[i],
                "formula": formulas[i],
                "status": scores.status[i],
                "relaxation": scored.relaxation[i],
                "energy_ev": _number(scored.energy[i]),
                "formation_energy_ev_per_atom": _number(scores.formation_energy[i]),
                "energy_above_hull_ev_per_atom": _number(scores.energy_above_hull[i]),
                "energy_above_each_hull_ev_per_atom": {k: _number(v[i]) for k, v in scores.above.items()},
                "decomposition": _phases(mixture),
                "decompositions": {}
                if own is None or mixture is None
                else {name: _phases(each) for name, each in own.decompositions(formulas[i]).items()},
            }
        )
    if json:
        emit(
            {
                "potential": potential,
                "checkpoint_hash": model.checkpoint_hash,
                "hull": scores.kind,
                "relaxed": how,
                "structures": rows,
                "skipped": [{"source": s.source, "reason": s.reason} for s in loaded.skipped],
            }
        )
        return
    print_table(
        [
            "structure",
            "formula",
            "above hull eV/atom",
            "formation eV/atom",
            *([] if own is None else own.databases),
            "competing phases (atoms)",
            "status",
        ],
        (
            [
                row["id"],
                row["formula"],
                _text(row["energy_above_hull_ev_per_atom"], "+.3f"),
                _text(row["formation_energy_ev_per_atom"], ".3f"),
                *(
                    []
                    if own is None
                    else (_text(row["energy_above_each_hull_ev_per_atom"][d], "+.3f") for d in own.databases)
                ),
                "-" if scored.decompositions[i] is None else str(scored.decompositions[i]),
                row["status"] if how == "no" else f"{row['status']}, {row['relaxation']}",
            ]
            for i, row in enumerate(rows)
        ),
        title=f"{potential}, hull: {scores.kind}",
    )
    for skipped in loaded.skipped:
        typer.echo(f"skipped {skipped.source}: {skipped.reason}", err=True)


def _phases(mixture: Decomposition | None) -> list[dict[str, Any]]:
    if mixture is None:
        return []
    parts = zip(mixture.formulas, mixture.amounts, mixture.energies, mixture.sources, strict=True)
    return [
        {"formula": f, "atomic_fraction": a, "energy_ev_per_atom": e, "source": s} for f, a, e, s in parts
    ]


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if value == value else None


def _text(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
