"""`anchor prior train` and `finetune`: learned priors on the bundled reference or on own crystals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import Device, Hours, JsonFlag, Seed, emit

if TYPE_CHECKING:
    from anchor.models.run import Plan, Rhythm
    from anchor.priors.training import Matches

Out = Annotated[Path, typer.Option(help="Folder of the run: checkpoints, log, weights, card.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Steps of training, in all.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder, to the bit.")]
Data = Annotated[
    list[str] | None,
    typer.Option(help="'reference' (train split), files or folders; repeat for several.", show_default=False),
]
Rate = Annotated[float | None, typer.Option("--learning-rate", min=0.0, help="Largest learning rate.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Crystals per step.")]
Schedule = Annotated[str | None, typer.Option(help="constant or cosine (needs --steps).")]
Precision = Annotated[str, typer.Option(help="Of training: bf16 or fp32.")]
MaxAtoms = Annotated[
    int, typer.Option(min=1, max=20, help="Most atoms per cell: larger crystals are left out.")
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Override one setting, as pairing=nearest (repeatable).")
]
Test = Annotated[int, typer.Option(min=0, help="Test crystals for the card at the end (match@1).")]
Match = Annotated[int, typer.Option(min=0, help="Validation crystals compared at every look.")]
ValidateMinutes = Annotated[float, typer.Option(min=0.0, help="Minutes between looks at validation.")]


def train(
    name: Annotated[str, typer.Argument(help="wyckoff, omatg, kldm or crystalite.")],
    out: Out,
    hours: Hours = None,
    steps: Steps = None,
    resume: Resume = False,
    size: Annotated[str, typer.Option(help="small (for a CPU) or published (for a GPU).")] = "small",
    data: Data = None,
    learning_rate: Rate = None,
    batch_size: BatchSize = None,
    schedule: Schedule = None,
    precision: Precision = "bf16",
    max_atoms: MaxAtoms = 20,
    changes: Changes = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            help="Start from these weights (.safetensors file): what both networks share (omatg, kldm)."
        ),
    ] = None,
    test: Test = 200,
    match: Match = 100,
    validate_minutes: ValidateMinutes = 20.0,
    device: Device = "cpu",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Train a learned prior, in the background for as long as it pays.

    Crystals with a formula of the bundled validation and test splits are never trained on.

    Example: anchor prior train omatg --out runs/omatg --hours 8

    Example: anchor prior train omatg --out runs/omatg --hours 8 --resume

    Example: anchor prior train kldm --data reference --data mp_20/train.csv --out runs/kldm --steps 60000
    --schedule cosine
    """
    from anchor.models.run import Plan, Rhythm
    from anchor.priors.training import Matches

    plan = Plan(
        name,
        size=size,
        sources=tuple(data or ["reference"]),
        seed=seed,
        steps=steps,
        precision=precision,
        max_atoms=max_atoms,
        start=start_from,
        recipe=_recipe(learning_rate, batch_size, schedule),
        settings=as_settings(changes),
    )
    matches = Matches(match, test=test)
    rhythm = Rhythm(validate=60 * validate_minutes)
    _run(plan, out, rhythm, matches, hours=hours, resume=resume, device=device, json=json)


def finetune(
    weights: Annotated[str, typer.Argument(help="A .safetensors file of `train`, or the name of a prior.")],
    out: Out,
    data: Data = None,
    hours: Hours = None,
    steps: Steps = None,
    resume: Resume = False,
    learning_rate: Rate = 1e-4,
    batch_size: BatchSize = None,
    schedule: Schedule = None,
    precision: Precision = "bf16",
    max_atoms: MaxAtoms = 20,
    test: Test = 200,
    match: Match = 100,
    validate_minutes: ValidateMinutes = 20.0,
    device: Device = "cpu",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Train on from finished weights, on other crystals or with a smaller learning rate.

    Example: anchor prior finetune runs/omatg/omatg.safetensors --data my_cifs --out runs/mine --steps 2000
    """
    from anchor.models.registry import load_model, weights_path
    from anchor.models.run import Plan, Rhythm
    from anchor.priors.training import Matches

    path = weights_path(weights)
    _, card = load_model(path)
    plan = Plan(
        card["name"],
        size=card["card"]["plan"]["size"],
        sources=tuple(data or ["reference"]),
        seed=seed,
        steps=steps,
        precision=precision,
        max_atoms=max_atoms,
        start=str(path),
        recipe=_recipe(learning_rate, batch_size, schedule),
    )
    matches = Matches(match, test=test)
    rhythm = Rhythm(validate=60 * validate_minutes)
    _run(plan, out, rhythm, matches, hours=hours, resume=resume, device=device, json=json)


def _recipe(
    learning_rate: float | None, batch_size: int | None, schedule: str | None
) -> tuple[tuple[str, Any], ...]:
    given = {"learning_rate": learning_rate, "batch_size": batch_size, "schedule": schedule}
    return tuple((name, value) for name, value in given.items() if value is not None)


def as_settings(changes: list[str] | None) -> tuple[tuple[str, Any], ...]:
    """'name=value' with values as YAML reads them."""
    import yaml

    from anchor.errors import InputError

    settings = []
    for change in changes or []:
        name, separator, value = change.partition("=")
        if not separator:
            raise InputError(f"'{change}' is no setting", "write it as name=value")
        settings.append((name, yaml.safe_load(value)))
    return tuple(settings)


def _run(
    plan: Plan,
    out: Path,
    rhythm: Rhythm,
    matches: Matches,
    *,
    hours: float | None,
    resume: bool,
    device: str,
    json: bool,
) -> None:
    from anchor.priors.training import train as train_prior

    card = train_prior(
        plan,
        out,
        hours=hours,
        resume=resume,
        rhythm=rhythm,
        matches=matches,
        device=device,
        report=lambda document: print(line(document), file=sys.stderr, flush=True),
        command=["anchor", *sys.argv[1:]],
    )
    if json:
        emit(card)
        return
    typer.echo(f"weights and card: {out / plan.name}.safetensors, .json, .md")


def line(document: dict[str, Any]) -> str:
    """A line of the log for people."""
    if document["kind"] == "validation":
        match = (
            f", match@1 {document['match_rate']:.1%} of {document['n']}" if "match_rate" in document else ""
        )
        return f"step {document['step']}: validation loss {document['loss']:.4f}{match}"
    minutes = document["seconds_left"] / 60
    return (
        f"step {document['step']} (epoch {document['epoch']:.2f}): loss {document['loss']:.4f}, "
        f"{document['crystals_per_second']:.0f} crystals/s, about {minutes:.0f} min left"
    )
