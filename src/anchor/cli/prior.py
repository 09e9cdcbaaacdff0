"""`anchor prior`: crystals for a formula, and how good a structure prior is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anchor.cli import prior_train
from anchor.cli.common import JsonFlag, Seed, emit, print_table, progress

app = typer.Typer(
    help="Structure priors: crystals for a formula, and how good they are.", no_args_is_help=True
)
app.command()(prior_train.train)
app.command()(prior_train.finetune)


@app.command()
def sample(
    formula: Annotated[str, typer.Argument(help="For instance Li2FeSiO4.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many crystals.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for CIFs, or a file: .extxyz, .cif, .json, .csv, .db, .zip.")
    ] = None,
    z: Annotated[
        int | None, typer.Option("--z", min=1, help="Formula units per cell; chosen when not given.")
    ] = None,
    prior: Annotated[str, typer.Option(help="Name, as in `anchor prior list`.")] = "templates-all",
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Make crystals of a formula and write them, not relaxed.

    The default prior may use every reference crystal, one of this very formula included.

    Example: anchor prior sample Li2FeSiO4 -n 8 --out crystals
    """
    import spglib

    from anchor.data.distances import shortest_distances
    from anchor.data.loaders import write
    from anchor.priors import load_prior

    crystals = load_prior(prior, device=device).sample(formula, n, seed=seed, units=z)
    shortest = shortest_distances(crystals)
    per_atom = crystals.volume / crystals.counts
    rows: list[dict[str, Any]] = []
    for i, crystal in enumerate(crystals):
        cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
        rows.append(
            {
                "id": f"{crystal.formulas[0]}-{i}",
                "atoms": int(crystal.counts[0]),
                "space_group": spglib.get_spacegroup(cell, symprec=0.05) or "unknown",
                "volume_per_atom_angstrom3": round(float(per_atom[i]), 3),
                "shortest_distance_angstrom": round(float(shortest[i]), 3),
            }
        )
    if out is not None:
        write(out, crystals, [row["id"] for row in rows])
    if json:
        emit(
            {
                "formula": formula,
                "prior": prior,
                "seed": seed,
                "crystals": [
                    {**row, "numbers": c.numbers, "frac": c.frac, "lattice_angstrom": c.lattice[0]}
                    for row, c in zip(rows, crystals, strict=True)
                ],
                "out": out,
            }
        )
        return
    print_table(
        ["crystal", "atoms", "space group", "Å³/atom", "shortest distance, Å"], (row.values() for row in rows)
    )
    if out is not None:
        typer.echo(f"written to {out}")


@app.command("test")
def measure_prior(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Own test crystals: MP-20 CSV, CIF, extxyz, … or folders.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the bundled reference: val or test.")] = "test",
    n: Annotated[int | None, typer.Option("-n", min=1, help="So many at random; default: all.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Samples per crystal; the best counts.")] = 1,
    prior: Annotated[str, typer.Option(help="Name, as in `anchor prior list`.")] = "templates",
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Processes that compare structures.")] = 1,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Match rate and RMSE against held-out crystals (StructureMatcher stol 0.5, angle_tol 10, ltol 0.3).

    Own crystals beyond the prior's elements or size are left out, and counted.

    Example: anchor prior test --split test -n 1000 -k 20

    Example: anchor prior test mp_20/test.csv -n 500
    """
    import numpy as np

    from anchor.data.loaders import load
    from anchor.errors import InputError
    from anchor.priors import load_prior
    from anchor.priors.testing import held_out, measure, some

    model = load_prior(prior, device=device)
    unreadable = beyond = 0
    if files:
        loaded = load(files, on_error="skip")
        unreadable = len(loaded.skipped)
        known = np.array([model.knows(crystal) for crystal in loaded.crystals], dtype=bool)
        beyond = int((~known).sum())
        if not known.any():
            raise InputError(
                f"none of the {loaded.n_read} entries can be asked of the prior '{prior}': "
                f"{unreadable} unreadable, {beyond} with other elements or more than {model.max_atoms} atoms"
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
        f"{rates['volume_error_median']:.1%}",
    ]


@app.command("list")
def list_priors(json: JsonFlag = False) -> None:
    """The priors by name, and whether they can run here.

    Example: anchor prior list
    """
    from anchor.priors import ENTRIES, prior_availability

    states = prior_availability()
    if json:
        emit(
            [
                {"name": name, "summary": ENTRIES[name].summary, "ready": state.ok, "reason": state.reason}
                for name, state in states.items()
            ]
        )
        return
    print_table(
        ["prior", "ready", "what it is"],
        (
            [name, "yes" if state.ok else f"no: {state.reason}", ENTRIES[name].summary]
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
    from anchor.data.reference import load_reference
    from anchor.paths import sha256
    from anchor.priors.templates import FITTED_FILE, fit_templates, save_fitted

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
