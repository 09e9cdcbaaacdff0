"""`anchor compositions`: draw, check and count compositions without any learned part."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Annotated, Any

import typer

from anchor.cli.common import JsonFlag, Seed, emit, print_table
from anchor.cli.help import App
from anchor.errors import InputError, nearest

app = App(help="Draw, check and count compositions.", no_args_is_help=True)

PAPER_COUNTS = {2: 4.4e4, 3: 1.1e7, 4: 1.1e9}


@app.command()
def sample(
    source: Annotated[str, typer.Option(help="Who proposes: random, or neutral.")] = "neutral",
    measure: Annotated[
        str | None,
        typer.Option(
            help="random: hierarchical (default: k, elements, T, rho in turn) or flat (all actions alike); "
            "neutral: formulas (default: k first, then all reduced formulas alike), by-k (k first, then all "
            "cells alike) or flat (all cells alike)."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many compositions.")] = 10,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Draw compositions from one of the two untrained sources.

    Example: anchor compositions sample --source neutral -n 5 --seed 1
    """
    from anchor.chemistry import spaces
    from anchor.chemistry.charge import is_neutral
    from anchor.random import generator

    if source not in spaces.MEASURES:
        raise InputError(f"unknown source '{source}'", nearest(source, spaces.MEASURES))
    measure = measure or spaces.MEASURES[source][0]
    draw: Any = spaces.sample_random if source == "random" else spaces.sample_neutral
    batch = draw(n, generator(seed, "compositions", source, measure), measure)
    neutral = is_neutral(batch)
    rows = [
        {
            "formula": formula,
            "cell": str(composition),
            "elements": composition.elements,
            "counts": composition.counts,
            "n_atoms": composition.n_atoms,
            "neutral": bool(passes),
        }
        for formula, composition, passes in zip(batch.formulas, batch, neutral, strict=True)
    ]
    if json:
        passed = int(neutral.sum())
        emit({"source": source, "measure": measure, "seed": seed, "neutral": passed, "compositions": rows})
        return
    print_table(
        ["formula", "cell", "atoms", "neutral", "source", "measure"],
        ([r["formula"], r["cell"], r["n_atoms"], _yes(r["neutral"]), source, measure] for r in rows),
    )


@app.command()
def check(
    formulas: Annotated[list[str], typer.Argument(help="Formulas; the cell is what you type.")],
    json: JsonFlag = False,
) -> None:
    """Reduced formula, place in the action space, charge neutrality and one assignment of oxidation states.

    Charge is tested on the cell as typed: MnO and Mn2O2 are different questions. Exit code 2 when a formula
    cannot be read.

    Example: anchor compositions check Li2FeSiO4 'Ca(OH)2' Fe6O8
    """
    reports = [_check(text) for text in formulas]
    bad = [report for report in reports if "error" in report]
    if json:
        emit(reports)
    else:
        good = [report for report in reports if "error" not in report]
        if good:
            print_table(
                ["typed", "formula", "action", "neutral", "oxidation states"],
                (
                    [
                        r["typed"],
                        r["formula"],
                        r["outside"] or "yes",
                        _yes(r["neutral"]),
                        _states(r["states"]),
                    ]
                    for r in good
                ),
            )
        for report in bad:
            typer.echo(f"error: {report['error']}\n  {report['hint']}", err=True)
    if bad:
        raise typer.Exit(2)


@app.command()
def count(json: JsonFlag = False) -> None:
    """Exact sizes of the action space and of its charge-neutral part, by number of elements k.

    Example: anchor compositions count
    """
    from anchor.chemistry.counting import count_neutral

    sizes = count_neutral()
    if json:
        emit({"by_k": {k: dataclasses.asdict(size) for k, size in sizes.items()}, "paper": PAPER_COUNTS})
        return
    print_table(
        ["k", "actions", "neutral actions", "neutral formulas", "neutral formula units", "paper"],
        (
            [
                k,
                s.actions,
                s.neutral_actions,
                s.neutral_formulas,
                s.neutral_formula_units,
                f"{PAPER_COUNTS[k]:.1e}",
            ]
            for k, s in sizes.items()
        ),
    )
    typer.echo(
        "\nAn action is a set of (element, atoms in the cell). A formula is neutral when any cell is.\n"
        "The paper's numbers are formulas of which one formula unit is neutral."
    )


def _check(text: str) -> dict[str, Any]:
    """Everything about one typed formula, or why it cannot be read."""
    from anchor.chemistry.bounds import why_outside
    from anchor.chemistry.charge import ASSIGNED_ATOMS, neutral_assignment
    from anchor.chemistry.composition import parse_formula

    try:
        composition = parse_formula(text)
    except InputError as error:
        return {"typed": text, "error": error.message, "hint": error.hint}
    searched = composition.n_atoms <= ASSIGNED_ATOMS
    states = neutral_assignment(composition.elements, composition.counts) if searched else None
    return {
        "typed": text,
        "formula": composition.formula,
        "elements": composition.elements,
        "counts": composition.counts,
        "n_atoms": composition.n_atoms,
        "action": why_outside(composition) is None,
        "outside": why_outside(composition),
        "neutral": states is not None if searched else None,
        "states": states,
    }


def _states(states: dict[str, list[int]] | None) -> str:
    """'Fe 2×+3 1×+2, O 4×-2'"""
    if states is None:
        return "-"
    return ", ".join(
        f"{symbol} {' '.join(f'{n}×{state:+d}' for state, n in Counter(atoms).items())}"
        for symbol, atoms in states.items()
    )


def _yes(value: bool | None) -> str:
    return "not searched" if value is None else "yes" if value else "no"
