"""`anchor prior`: crystals for a formula, and how good a structure prior is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli import prior_train
from anchor.cli.common import (
    Device,
    JsonFlag,
    Overwrite,
    Potential,
    Prior,
    Seed,
    Workers,
    emit,
    print_table,
    progress,
    relaxed_line,
    say,
)
from anchor.cli.help import App
from anchor.cli.program import program
from anchor.outcomes.columns import ABOVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from anchor.crystals.crystals import Crystals

Options = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one setting, as steps=30 or temperature=0.5 (repeatable)."),
]

app = App(help="Structure priors: crystals for a formula, and how good they are.", no_args_is_help=True)
app.command()(prior_train.train)
app.command()(prior_train.finetune)


@app.command()
def sample(
    formula: Annotated[str, typer.Argument(help="For instance Li2FeSiO4.")],
    n: Annotated[int, typer.Option("-n", min=1, max=100_000, help="How many crystals.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for CIFs, or a file: .extxyz, .cif, .json, .csv, .db, .zip.")
    ] = None,
    z: Annotated[
        int | None, typer.Option("--z", min=1, help="Formula units per cell; chosen when not given.")
    ] = None,
    prior: Prior = "templates-all",
    options: Options = None,
    relax: Annotated[bool, typer.Option("--relax", help="Relax, and give the energy above hull.")] = False,
    potential: Potential = "mattersim-1m",
    max_steps: Annotated[
        int, typer.Option(min=1, help="Most steps of a relaxation, of positions and again of the cell.")
    ] = 200,
    fmax: Annotated[float, typer.Option(min=0.0, help="Force at which a relaxation ends, eV/Å.")] = 0.05,
    device: Device = "cpu",
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Make crystals of a formula and write them, as made or relaxed (positions, then the cell too).

    The default prior may use every reference crystal, one of this very formula included. Relaxed crystals are
    listed from low to high energy, above the union of the DFT hull and the potential's own.

    Example: anchor prior sample Li2FeSiO4 -n 8 --out crystals

    Example: anchor prior sample Li2FeSiO4 -n 8 --relax --out crystals
    """
    from anchor.formats import write
    from anchor.formats.write import check_ending
    from anchor.matching.uniqueness import first_structures
    from anchor.priors import load_prior
    from anchor.writing import check_place

    if out is not None:
        check_ending(out)
        check_place(out, overwrite=overwrite)
    model = load_prior(prior, device=device, **dict(prior_train.as_settings(options)))
    made = model.realise(formula, n, seed=seed, units=z)
    if not len(made.crystals):
        made.complete()  # says why
    for why in dict.fromkeys(made.missing.values()):
        count = list(made.missing.values()).count(why)
        typer.echo(f"{count} of {n} crystals are missing: {why}", err=True)
    crystals = made.crystals
    names = [f"{formula}-{i}" for i, formula in enumerate(crystals.formulas)]
    energies: list[dict[str, Any]] = [{} for _ in names]
    if relax:
        say(f"relaxing {len(crystals)} crystals: positions, then the cell too …", json)
        crystals, energies = _relaxed(
            crystals,
            potential,
            max_steps=max_steps,
            fmax=fmax,
            device=device,
            on_progress=None if json else relaxed_line,
        )
    described = [
        {"id": name, **row, **energy}
        for name, row, energy in zip(names, _described(crystals), energies, strict=True)
    ]
    order = sorted(range(len(names)), key=lambda i: _or_last(energies[i].get(ABOVE)))
    crystals, rows = crystals[order], [described[i] for i in order]
    if out is not None:
        properties = {ABOVE: [_or_nan(row[ABOVE]) for row in rows]} if relax else None
        write(out, crystals, [row["id"] for row in rows], properties, overwrite=overwrite)
    if json:
        emit(
            {
                "formula": formula,
                "prior": prior,
                "seed": seed,
                "relaxed_with": potential if relax else None,
                "crystals": [
                    {**row, "numbers": c.numbers, "frac": c.frac, "lattice_angstrom": c.lattice[0]}
                    for row, c in zip(rows, crystals, strict=True)
                ],
                "out": out,
            }
        )
        return
    columns = ["crystal", "atoms", "space group", "Å³/atom", "shortest distance, Å"]
    if relax:
        columns += ["relaxation", "eV/atom above hull"]
    first = first_structures(crystals).tolist()  # what was guessed several times is shown once
    print_table(
        [*columns, "times"],
        (
            ["" if v is None else v for v in (*row.values(), first.count(i))]
            for i, row in enumerate(rows)
            if first[i] == i
        ),
    )
    if out is not None:
        typer.echo(f"written to {out}")


def _described(crystals: Crystals) -> list[dict[str, Any]]:
    """Size, symmetry, volume and shortest distance of each crystal."""
    from anchor.crystals.distances import shortest_distances
    from anchor.crystals.symmetry import space_group

    shortest = shortest_distances(crystals)
    per_atom = crystals.volume / crystals.counts
    groups = [space_group(crystal) for crystal in crystals]
    return [
        {
            "atoms": int(crystals.counts[i]),
            "space_group": f"{symbol} ({number})" if number else symbol,
            "volume_per_atom_angstrom3": round(float(per_atom[i]), 3),
            "shortest_distance_angstrom": round(float(shortest[i]), 3),
        }
        for i, (symbol, number) in enumerate(groups)
    ]


def _relaxed(
    crystals: Crystals,
    potential: str,
    *,
    max_steps: int,
    fmax: float,
    device: str,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Crystals, list[dict[str, Any]]]:
    """Crystals with positions relaxed, then also the cell; what became of each, and its energy."""
    from dataclasses import replace

    from anchor.hull import load_hull
    from anchor.outcomes.judge import Judge, Relaxing
    from anchor.potentials import load_potential
    from anchor.relax.parallel import Relaxer

    relaxer = Relaxer(load_potential(potential, device=device), workers=None)
    relaxing = Relaxing(cell=False, max_steps=max_steps, fmax=fmax)
    judge = Judge(relaxer, load_hull(relaxer.potential), relaxing, on_progress=on_progress)
    (positions,) = judge.relaxed([crystals])
    found = replace(judge, relaxing=replace(relaxing, cell=True))(positions.crystals)
    rows = [
        {
            "relaxation": row["reason"].removeprefix("relaxation ") or row["relaxation"],
            ABOVE: None if row[ABOVE] is None else round(row[ABOVE], 4),
        }
        for row in found.rows(["relaxation", "reason", ABOVE])
    ]
    return found.crystals, rows


def _or_last(energy: float | None) -> float:
    return float("inf") if energy is None else energy


def _or_nan(energy: float | None) -> float:
    return float("nan") if energy is None else energy


@app.command("test")
def measure_prior(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Own test crystals: MP-20 CSV, CIF, extxyz, … or folders.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the bundled reference: val or test.")] = "test",
    n: Annotated[int | None, typer.Option("-n", min=1, help="How many, at random; default: all.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Samples per crystal; the best counts.")] = 1,
    prior: Prior = "templates",
    options: Options = None,
    device: Device = "cpu",
    workers: Workers = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Match rate and RMSE against held-out crystals (StructureMatcher stol 0.5, angle_tol 10, ltol 0.3).

    Own crystals beyond the prior's elements or size are left out, and counted. A learned prior is tested
    alone: what it cannot make is answered with random crystals (`--set fallback=templates` to change that).

    Example: anchor prior test --split test -n 1000 -k 20

    Example: anchor prior test mp_20/test.csv -n 500
    """
    import numpy as np

    from anchor.errors import InputError
    from anchor.formats import load
    from anchor.priors import is_learned, load_prior
    from anchor.priors.match_rate import held_out, measure, some

    settings = dict(prior_train.as_settings(options))
    if is_learned(prior):
        settings.setdefault("fallback", "random")
    model = load_prior(prior, device=device, **settings)
    unreadable = beyond = 0
    if files:
        loaded = load(files, on_error="skip")
        unreadable = len(loaded.skipped)
        known = np.array([model.knows(crystal) for crystal in loaded.crystals], dtype=bool)
        beyond = int((~known).sum())
        if not known.any():
            first = f"; {loaded.skipped[0].source}: {loaded.skipped[0].reason}" if unreadable else ""
            raise InputError(
                f"none of the {loaded.n_read} entries can be asked of the prior '{prior}': "
                f"{unreadable} unreadable, {beyond} with other elements or more than {model.max_atoms} atoms"
                + first
            )
        truth = some(loaded.crystals[np.flatnonzero(known)], n, seed=seed)
    else:
        truth = held_out(split, n, seed=seed)
    result = measure(
        model,
        truth,
        k,
        seed=seed,
        workers=workers,
        progress=lambda chunks, total: progress(chunks, total=total, label="match"),
    )
    summary = {
        "prior": prior,
        "prior_hash": model.hash,
        "test_set": [str(path) for path in files] if files else split,
        "seed": seed,
        "settings": settings,
        "left_out": {"unreadable": unreadable, "beyond_the_prior": beyond},
        **result.summary(),
    }
    if json:
        emit(summary)
        return
    named = {
        "all": summary,
        **{f"{atoms} atoms": rates for atoms, rates in summary["by_atoms"].items()},
        **{f"{elements} elements": rates for elements, rates in summary["by_elements"].items()},
        "unseen stoichiometry": summary["unseen_stoichiometry"],
    }
    print_table(
        ["crystals", "number", f"match@{k}", "match@1", "RMSE", "valid", "volume error"],
        ([name, *_cells(rates)] for name, rates in named.items()),
        title=f"{prior} on {summary['test_set']}",
    )
    typer.echo(f"{summary['crystals_per_second']:.0f} crystals per second; left out: {unreadable + beyond}")


def _cells(rates: dict[str, Any]) -> list[str]:
    if not rates["crystals"]:
        return ["0", "", "", "", "", ""]
    return [
        str(rates["crystals"]),
        f"{rates['match_rate']:.1%} ± {rates['match_rate_standard_error']:.1%}",
        f"{rates['match_rate_first_sample']:.1%}",
        "" if rates["rmse"] is None else f"{rates['rmse']:.3f}",
        f"{rates['valid']:.1%}",
        "" if rates["volume_error_median"] is None else f"{rates['volume_error_median']:.1%}",
    ]


@app.command()
def save(
    campaign: Annotated[str, typer.Argument(help="Campaign whose prior rewards trained (--prior-train).")],
    out: Annotated[Path, typer.Option(help="File of weights to write (.safetensors).")],
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write the weights that a campaign's rewards gave its prior.

    Example: anchor prior save runs/shared --out shared.safetensors
    """
    from anchor.errors import InputError
    from anchor.search.ledger import Ledger
    from anchor.search.prior_learner import save_trained
    from anchor.writing import check_place

    if out.suffix != ".safetensors":
        raise InputError(f"{out} does not end with .safetensors", "weights are known by that ending")
    save_trained(Ledger.open(campaign), check_place(out, overwrite=overwrite))
    if json:
        emit({"weights": str(out)})
        return
    typer.echo(f"written to {out}; judge it: {program()} prior test --prior {out}")


@app.command("list")
def list_priors(json: JsonFlag = False) -> None:
    """The priors by name, and whether they can run here.

    Example: anchor prior list
    """
    from anchor.priors import PRIORS, prior_availability

    states = prior_availability()
    if json:
        emit(
            [
                {"name": name, "summary": PRIORS[name].summary, "ready": state.ok, "reason": state.reason}
                for name, state in states.items()
            ]
        )
        return
    print_table(
        ["prior", "ready", "what it is"],
        (
            [name, "yes" if state.ok else f"no: {state.reason}", PRIORS[name].summary]
            for name, state in states.items()
        ),
    )


@app.command()
def index(
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the train split.")] = 3,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Fit the template prior to the bundled reference again: prototypes, element similarity, volumes.

    Needed after `anchor data build` made another reference; takes a few minutes on one core.

    Example: anchor prior index
    """
    from anchor.models.volumes import FITTED_FILE
    from anchor.paths import sha256
    from anchor.priors.fitted import fit_templates, save_fitted
    from anchor.reference.reference import load_reference

    fitted, losses = fit_templates(load_reference(), epochs=epochs, seed=seed)
    save_fitted(fitted)
    report = {
        "file": str(FITTED_FILE),
        "sha256": sha256(FITTED_FILE),
        "prototypes": len(fitted.prototypes.symmetries),
        "loss_by_epoch": losses,
    }
    if json:
        emit(report)
        return
    for name, value in report.items():
        typer.echo(f"{name}: {value}")
