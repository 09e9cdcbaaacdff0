"""`anchor hull`: energy above hull and competing phases of anybody's structures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anchor.cli.common import (
    AsIs,
    Cell,
    Device,
    Fmax,
    InputFormat,
    JsonFlag,
    MaxSteps,
    Potential,
    Workers,
    emit,
    print_table,
    relaxed_line,
    say,
)
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.hull.belief import Belief
    from anchor.hull.holes import Knowledge
    from anchor.hull.hull import Decomposition


def hull(
    files: Annotated[
        list[Path], typer.Argument(help="Files, folders or zip archives with structures (CIF, POSCAR, …).")
    ],
    potential: Potential = "mattersim-1m",
    as_is: AsIs = False,
    cell: Cell = True,
    kind: Annotated[
        Literal["union", "strict", "unfilled", "mp", "oqmd", "dft", "potential"],
        typer.Option(
            "--hull",
            help="Hull that counts: the higher of both databases', the same with the elements where the "
            "potential has them if that is lower, without the phases filled in, one of "
            "them, or (OQMD) its DFT energies or the potential's own alone.",
        ),
    ] = "union",
    alex_mp: Annotated[
        Path | None,
        typer.Option(help="MatterGen's Alex-MP reference file, with MP2020 corrections, instead."),
    ] = None,
    max_steps: MaxSteps = 400,
    fmax: Fmax = 0.02,
    format: InputFormat = None,
    workers: Workers = None,
    device: Device = "cpu",
    json: JsonFlag = False,
) -> None:
    """Energy above hull, competing phases and decomposition of your structures, and what to believe of it.

    A structure that cannot be read or scored gets a status and does not stop the others. Structures are
    relaxed first, cell included, as the reference crystals were: as they are (--as-is) they look too high.

    Example: anchor hull candidates/*.cif
    """
    from anchor.chemistry.formula import parse_amounts
    from anchor.formats import load
    from anchor.hull import AlexMPHull, load_hull, phases_from_file
    from anchor.hull.belief import load_depths
    from anchor.hull.holes import load_knowledge
    from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION
    from anchor.outcomes.judge import Judge, Relaxing
    from anchor.outcomes.rows import each_hull
    from anchor.potentials import load_potential
    from anchor.relax.parallel import Relaxer

    loaded = load(files, format=format, on_error="skip")
    if not len(loaded.crystals):
        first = loaded.skipped[0]
        raise InputError(f"none of {loaded.n_read} entries gave a crystal; {first.source}: {first.reason}")
    say("loading potential and hulls …", json)
    model = load_potential(potential, device=device)
    how = "no" if as_is else "cell" if cell else "positions"
    own = None if alex_mp else load_hull(model, kind)
    judge = Judge(
        Relaxer(model, workers=workers),
        load_hull(model, kind) if alex_mp is None else AlexMPHull(phases_from_file(alex_mp), model),
        None if how == "no" else Relaxing(cell=cell, max_steps=max_steps, fmax=fmax),
        on_progress=None if json or how == "no" else relaxed_line,
    )
    if how != "no":
        say(f"relaxing {len(loaded.crystals)} structures …", json)
    outcomes = judge(loaded.crystals)
    mixtures = judge.decompositions(outcomes)
    rows: list[dict[str, Any]] = [
        {
            "id": name,
            "source": source,
            "formula": formula,
            "status": "scored" if row[ABOVE] is not None else f"not scored: {row['reason'] or 'no energy'}",
            "relaxation": row["relaxation"],
            ENERGY: row[ENERGY],
            FORMATION: row[FORMATION],
            ABOVE: row[ABOVE],
            "energy_above_each_hull_ev_per_atom": hulls,
            "decomposition": _phases(mixture),
            "decompositions": {}
            if own is None or mixture is None
            else {name: _phases(each) for name, each in own.decompositions(formula).items()},
            "belief": None if row[ABOVE] is None else _belief(load_depths().of(formula, row[ABOVE])),
            "system": None if own is None else _system(load_knowledge(), list(parse_amounts(formula))),
        }
        for name, source, formula, row, hulls, mixture in zip(
            loaded.ids,
            loaded.source,
            loaded.crystals.formulas,
            outcomes.rows(["relaxation", "reason", ENERGY, FORMATION, ABOVE]),
            each_hull(outcomes),
            mixtures,
            strict=True,
        )
    ]
    if json:
        emit(
            {
                "potential": potential,
                "checkpoint_hash": model.checkpoint_hash,
                "hull": "alex-mp" if alex_mp else kind,
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
            *([] if own is None else ["known compounds"]),
            "note",
            "status",
        ],
        (
            [
                row["id"],
                row["formula"],
                _text(row[ABOVE], "+.3f"),
                _text(row[FORMATION], ".3f"),
                *(
                    []
                    if own is None
                    else (_text(row["energy_above_each_hull_ev_per_atom"][d], "+.3f") for d in own.databases)
                ),
                "-" if mixtures[i] is None else str(mixtures[i]),
                *([] if own is None else [row["system"]["known"]]),
                _note(row),
                row["status"] if how == "no" else f"{row['status']}, {row['relaxation']}",
            ]
            for i, row in enumerate(rows)
        ),
        title=f"{potential}, hull: {'alex-mp' if alex_mp else kind}",
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


def _belief(belief: Belief) -> dict[str, Any]:
    return {
        "kind": belief.kind,
        "depth_percentile": belief.percentile,
        "believable_depth_ev_per_atom": belief.limit,
        "suspicious": belief.suspicious,
    }


def _system(knowledge: Knowledge, elements: list[str]) -> dict[str, Any]:
    """What the databases know about a chemical system."""
    known = knowledge.of(elements)
    return {
        "elements": list(known.elements),
        "known": known.known,
        "phases": known.phases,
        "thin": known.thin,
        "holes": [
            {"formula": hole.formula, "stable_in": hole.stable_in, "depth_ev_per_atom": hole.depth}
            for hole in knowledge.deep_holes(elements)
        ],
    }


def _note(row: dict[str, Any]) -> str:
    """What speaks against a number, for people."""
    from anchor.hull.databases import LABELS

    belief, system, notes = row["belief"], row["system"], []
    if belief and belief["suspicious"]:
        limit = belief["believable_depth_ev_per_atom"]
        notes.append(f"suspicious: 99 % of known compounds ({belief['kind']}) are less than {limit:.2f} deep")
    if system and system["thin"]:
        notes.append(f"thin: {system['thin']}")
    if system and system["holes"]:
        named = (
            f"{h['formula']} ({LABELS[h['stable_in']]} only, {h['depth_ev_per_atom']:.2f})"
            for h in system["holes"]
        )
        notes.append(f"holes: {', '.join(named)}")
    return "; ".join(notes) or "-"


def _text(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
