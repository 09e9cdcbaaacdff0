"""Commands of `anchor policy` that make the free estimate: surrogate, plausibility, labels, chances."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from anchor.cli.common import Hours, JsonFlag, Overwrite, Seed, command_line, emit, print_table
from anchor.errors import InputError

SurrogateFile = Annotated[
    Path | None, typer.Option("--surrogate", help="Surrogate weights; default: those that ship.")
]
PlausibilityFile = Annotated[
    Path | None, typer.Option("--plausibility", help="Plausibility of compounds; default: that which ships.")
]


def surrogate(
    out: Annotated[
        Path | None, typer.Option(help="File to train and write; without it the shipped one is shown.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training formulas.")] = 12,
    members: Annotated[int, typer.Option(min=2, help="Networks in the ensemble.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="Width of the networks.")] = 160,
    learning_rate: Annotated[float, typer.Option(help="Largest learning rate.")] = 3e-3,
    hours: Hours = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Train the composition surrogate on OQMD's and MP's energies, or show how good the shipped one is.

    Trained on the train split only; errors are those of the test split's formulas, which it never saw.

    Example: anchor policy surrogate --out surrogate.safetensors --hours 0.2
    """
    if out is None:
        from anchor.screening.surrogate import load_surrogate

        _show_surrogate(dict(load_surrogate().card), json)
        return
    from anchor.reference.reference import load_reference
    from anchor.screening.surrogate import Sizes
    from anchor.screening.surrogate_training import Settings, train_surrogate
    from anchor.search.policy_card import check_policy_place

    check_policy_place(out, overwrite=overwrite)

    def tell(done: int, total: int, loss: float) -> None:
        print(f"epoch {done}/{total}, loss {loss:.4f}", file=sys.stderr, flush=True)

    card = train_surrogate(
        load_reference(),
        out,
        settings=Settings(members=members, epochs=epochs, learning_rate=learning_rate, seed=seed),
        sizes=Sizes(width=width),
        time_limit=None if hours is None else 3600 * hours,
        on_epoch=tell,
        command=command_line(),
    )
    if card is None:
        if json:
            emit({"finished": False, "state": out.with_suffix(".training")})
        else:
            typer.echo(f"time is up; the same command goes on ({out.with_suffix('.training')})")
        return
    _show_surrogate(card, json)


def plausibility(
    out: Annotated[
        Path | None, typer.Option(help="File to fit and write; without it the shipped one is shown.")
    ] = None,
    n: Annotated[
        int, typer.Option("-n", min=100, max=1_000_000, help="How many random compositions of each measure.")
    ] = 4000,
    surrogate: SurrogateFile = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Fit what tells compounds from random neutral compositions, or show how well the shipped fit does.

    Example: anchor policy plausibility --out plausibility.json
    """
    from anchor.screening import plausibility as plausible

    if out is None:
        _refuse_unused({"--surrogate": surrogate})
        found = plausible.load_plausibility()
    else:
        from anchor.priors import templates
        from anchor.reference.reference import load_reference
        from anchor.screening.evidence import dft_hulls
        from anchor.screening.surrogate import SHIPPED, load_surrogate
        from anchor.writing import check_place

        check_place(out, overwrite=overwrite)
        found = plausible.fit_plausibility(
            load_surrogate(surrogate or SHIPPED),
            dft_hulls(),
            load_reference(),
            templates.load(),
            n=n,
            seed=seed,
        )
        found.save(out)
    if json:
        emit({"coefficients": found.coefficients, **found.card})
        return
    print_table(["", "value"], found.card.items())


def labels(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of `anchor evaluate formulas:…` and of `anchor energies fill`."),
    ],
    out: Annotated[Path, typer.Option(help="CSV to write: formula, energy above the hulls, origin.")],
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Collect what became of relaxed formulas: neutral ones that no list knows, each once, and write a card.

    `anchor policy chances --labels FILE` learns from them.

    Example: anchor policy labels eval/chosen fillings/mattersim-1m --out labels.csv
    """
    from anchor.evaluate.labels import evaluation_labels, evaluation_origin
    from anchor.evaluate.store import Store
    from anchor.filling.labels import filling_labels, filling_origin
    from anchor.reference.reference import load_reference
    from anchor.screening.chances import Labels, askable
    from anchor.weights import write_json
    from anchor.writing import check_place

    for path in (out, out.with_suffix(".json")):
        check_place(path, overwrite=overwrite)
    parts = [evaluation_labels(f) if Store.is_one(f) else filling_labels(f) for f in folders]
    found = Labels.concatenate(parts)
    found = found[askable(found.compositions, load_reference())]
    found.save(out)
    made = [evaluation_origin(f) if Store.is_one(f) else filling_origin(f) for f in folders]
    card = {"command": command_line(), "hash": found.hash, **found.counts(), "made": made}
    write_json(out.with_suffix(".json"), card)
    if json:
        emit({"out": out, **found.counts()})
        return
    print_table(["", "value"], found.counts().items())


def chances(
    out: Annotated[
        Path | None, typer.Option(help="File to fit and write; without it the shipped one is shown.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Relaxed formulas, of `anchor policy labels`; default: those that ship."),
    ] = None,
    surrogate: SurrogateFile = None,
    plausibility: PlausibilityFile = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Learn calibrated chances from relaxed formulas, or show how reliable the shipped ones are.

    40 % of the labels, by formula, are held out: the tables are theirs.

    Example: anchor policy chances --out chances.json
    """
    from anchor.screening import chances as likely
    from anchor.screening import estimate, reliability
    from anchor.screening import plausibility as plausible
    from anchor.screening import surrogate as energies
    from anchor.writing import check_place

    if out is None:
        _refuse_unused({"--labels": labels, "--surrogate": surrogate, "--plausibility": plausibility})
        found = likely.load_chances()
    else:
        check_place(out, overwrite=overwrite)
        free = estimate.load_estimate(
            surrogate or energies.SHIPPED, plausibility or plausible.SHIPPED, chances=None
        )
        found = reliability.learn_chances(
            free, likely.load_labels(labels or likely.LABELS), command=command_line()
        )
        found.save(out)
    if json:
        emit({"metastable": found.metastable, "stable": found.stable, **found.card})
        return
    _show_reliability(found.card)


def _refuse_unused(files: Mapping[str, Path | None]) -> None:
    """Files that only a fit reads are for nothing where the shipped one is shown."""
    if given := [name for name, path in files.items() if path is not None]:
        raise InputError(f"{given[0]} is for a fit, and nothing is fitted", "name its result: --out FILE")


def _show_surrogate(card: dict[str, Any], json: bool) -> None:
    from anchor.hull.databases import LABELS

    if json:
        emit(card)
        return
    columns = ("n", "median", "mean", "p90", "within_1_spread", "within_2_spread")
    for database, subsets in card["errors"].items():
        print_table(
            ["held-out formulas", *(name.replace("_", " ") for name in columns)],
            ([name, *(row[column] for column in columns)] for name, row in subsets.items()),
            title=f"errors to {LABELS[database]}, eV/atom",
        )


def _show_reliability(card: Mapping[str, Any]) -> None:
    """Predicted against observed, for people."""
    columns = ("n", "expected", "observed", "rate", "interval")
    for name, one in card["held_out"].items():
        print_table(
            ["predicted", *columns],
            (
                [
                    f"{r['from']:g} to {r['to']:g}",
                    r["n"],
                    r["expected"],
                    r["observed"],
                    r["rate"],
                    r["interval"],
                ]
                for r in one["reliability"]
            ),
            title=f"{name}: {one['observed']} of {one['n']} held-out formulas, {one['expected']} expected; "
            f"AUC {one['auc']} (plausibility {one['auc_find']}), Brier {one['brier']} (rate alone "
            f"{one['brier_rate']})",
        )
