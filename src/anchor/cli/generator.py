"""`anchor generator`: models that propose compositions and crystals together, and rewards on them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchor.cli import prior_train as options
from anchor.cli.common import POTENTIAL_HELP, JsonFlag, Overwrite, Seed, emit, print_table
from anchor.cli.help import App

Name = Annotated[
    str, typer.Argument(help="kldm-dng, crystalite-dng, a .safetensors file, or a campaign's folder.")
]

app = App(
    help="Generators of compositions with crystals: training, samples, figures, rewards by DDPO.",
    no_args_is_help=True,
)


@app.command("list")
def list_generators(json: JsonFlag = False) -> None:
    """Generators that ship, and what their cards say.

    Example: anchor generator list
    """
    from anchor.generators.generator import NAMES
    from anchor.models.registry import weights_file
    from anchor.reading import read_json

    rows = []
    for name in NAMES:
        card = weights_file(name).with_suffix(".json")
        found = read_json(card) if card.is_file() else None
        rows.append({"name": name, "ships": found is not None} | (_brief(found) if found else {}))
    if json:
        emit(rows)
        return
    print_table(
        ["name", "ships", "parameters", "MB", "steps", "hours"],
        (
            [row.get(key, "") for key in ("name", "ships", "parameters", "MB", "steps", "hours")]
            for row in rows
        ),
    )


def _brief(card: dict[str, Any]) -> dict[str, Any]:
    return {
        "parameters": card["parameters"],
        "MB": round(card["weights"]["bytes"] / 1e6, 1),
        "steps": card["steps"],
        "hours": round(card["hours"], 2),
        "samples": card.get("samples"),
    }


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="kldm-dng or crystalite-dng.")],
    out: options.Out,
    hours: options.Hours = None,
    steps: options.Steps = None,
    resume: options.Resume = False,
    size: Annotated[str, typer.Option(help="small (for a CPU) or published (for a GPU).")] = "small",
    start_from: Annotated[
        str | None,
        typer.Option(help="Start from these weights: kldm or crystalite, or a .safetensors file."),
    ] = None,
    data: options.Data = None,
    learning_rate: options.Rate = None,
    batch_size: options.BatchSize = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Steps of growing learning rate.")] = None,
    schedule: options.Schedule = None,
    precision: options.Precision = "bf16",
    max_atoms: options.MaxAtoms = 20,
    changes: options.Changes = None,
    watch: Annotated[int, typer.Option(min=0, help="Crystals made at every look.")] = 64,
    test: Annotated[int, typer.Option(min=0, help="Crystals made for the card at the end.")] = 200,
    validate_minutes: options.ValidateMinutes = 20.0,
    device: options.Device = "cpu",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Train a generator by likelihood, in the background for as long as it pays.

    Crystals with a formula of the bundled validation and test splits are never trained on.

    Example: anchor generator train kldm-dng --start-from kldm --out runs/kldm-dng --hours 8
    """
    from anchor.generators.training import train as train_generator
    from anchor.models.run import Plan, Rhythm

    recipe = {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "schedule": schedule,
        "warmup": warmup,
    }
    plan = Plan(
        name,
        size=size,
        sources=tuple(data or ["reference"]),
        seed=seed,
        steps=steps,
        precision=precision,
        max_atoms=max_atoms,
        start=start_from,
        recipe=tuple((key, value) for key, value in recipe.items() if value is not None),
        settings=options.as_settings(changes),
    )
    card = train_generator(
        plan,
        out,
        watched=watch,
        tested=test,
        hours=hours,
        resume=resume,
        rhythm=Rhythm(validate=60 * validate_minutes),
        device=device,
        report=lambda line: print(_line(line), file=sys.stderr, flush=True),
        command=["anchor", *sys.argv[1:]],
    )
    if json:
        emit(card)
        return
    typer.echo(f"weights and card: {out / plan.name}.safetensors, .json, .md")


def _line(document: dict[str, Any]) -> str:
    made = document.get("samples")
    seen = f"; of {made['n']} made, {made['charge_neutral']} charge-neutral" if made else ""
    return options.line(document) + seen


@app.command()
def sample(
    name: Name,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many crystals.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for CIFs, or a file: .extxyz, .cif, .json, .csv, .db, .zip.")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Make crystals and write them, as made.

    Example: anchor generator sample crystalite-dng -n 16 --out crystals
    """
    import numpy as np

    from anchor.formats import write
    from anchor.generators.figures import densities
    from anchor.models.finished import usable_cells
    from anchor.search.policies import generator_of
    from anchor.writing import check_place

    if out is not None:
        check_place(out, overwrite=overwrite)
    made = generator_of(name).draw(n, seed=seed).crystals
    usable = np.flatnonzero(usable_cells(made))
    if len(usable) < n:
        typer.echo(f"{n - len(usable)} of {n} crystals have no usable cell and are left out", err=True)
    crystals = made[usable]
    names = [f"{formula}-{i}" for i, formula in enumerate(crystals.formulas)]
    if out is not None:
        write(out, crystals, names, overwrite=overwrite)
    rows = [
        {"crystal": label, "atoms": int(count), "density": round(float(density), 2)}
        for label, count, density in zip(names, crystals.counts, densities(crystals), strict=True)
    ]
    if json:
        emit(rows)
        return
    print_table(["crystal", "atoms", "g/cm³"], (list(row.values()) for row in rows))


@app.command("test")
def judge(
    name: Name,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many crystals.")] = 1000,
    relax: Annotated[
        bool,
        typer.Option(
            "--relax/--no-relax", help="Judge them under the internal protocol, which relaxes them."
        ),
    ] = True,
    potential: Annotated[str | None, typer.Option(help=f"{POTENTIAL_HELP}; default: the protocol's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the evaluation.")] = None,
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")] = None,
    json: JsonFlag = False,
) -> None:
    """The usual figures of de novo generation: valid, unique, novel, known formulas, distances, MSUN, SUN.

    Example: anchor generator test kldm-dng -n 300 --potential mattersim-1m --out eval/kldm-dng
    """
    from anchor.evaluate.registry import load_protocol
    from anchor.evaluate.run import evaluate
    from anchor.evaluate.sources import generated
    from anchor.executors import Workplace
    from anchor.generators.figures import figures
    from anchor.search.policies import generator_of

    maker = generator_of(name)
    found = figures(maker.draw(n, seed=seed, stream=("evaluate",)).crystals)
    rates: dict[str, Any] = {}
    folder = out or Path("evaluations") / f"generator-{Path(name).stem}"
    if relax:
        protocol = load_protocol("internal", potential=potential)
        protocol.where = Workplace(workers=workers)
        done = evaluate(
            generated(name),
            protocol,
            folder,
            n=n,
            seeds=[seed],
            command=shlex.join(["anchor", *sys.argv[1:]]),
        )
        rates = done.summary["metrics"]
    if json:
        emit({"name": name, "figures": found, "metrics": rates})
        return
    print_table(["figure", "value"], ([key, _shown(value)] for key, value in found.items()), title=name)
    if rates:
        from anchor.cli.evaluate import show

        show(done)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


@app.command()
def finetune(
    name: Annotated[str, typer.Argument(help="kldm-dng, crystalite-dng, or a .safetensors file.")],
    out: Annotated[Path, typer.Option(help="Folder of the campaign.")],
    reward: Annotated[
        Literal["mean", "bal"], typer.Option(help="Weights of the reward's terms: w = mean or balanced.")
    ] = "mean",
    episodes: Annotated[int, typer.Option(min=1, help="Of 16 structures and one update each.")] = 4100,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", min=0.0, help="Largest learning rate; default: the paper's.")
    ] = 5e-6,
    kl: Annotated[float, typer.Option(min=0.0, help="Weight of the KL to the pretrained model.")] = 0.0,
    scored: Annotated[
        float,
        typer.Option(help="Share of the scored denoising steps that are replayed, above 0; 1: the paper's."),
    ] = 1.0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one setting, as relax.max_steps=50."),
    ] = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Fine-tune a generator on the reward of a search by DDPO; it is a campaign like any other.

    `anchor resume`, `report` and `export` work on its folder; generator:FOLDER names the fine-tuned generator
    and generator:FOLDER:49 the one kept after step 49. Rewards are those of the strict hulls (hull.kind).

    Example: anchor generator finetune crystalite-dng --reward bal --out runs/ddpo --episodes 1000
    """
    from anchor.cli.search import start_campaign
    from anchor.config import load_config
    from anchor.search.tuning import tuning

    chosen = tuning(name, reward, episodes=episodes, learning_rate=learning_rate, kl=kl, scored=scored)
    values = chosen | {"run.seed": seed}
    # On other hulls rewards find the elements that stand too high: 1,000 episodes ended in sulphur.
    config = load_config(base={"hull": {"kind": "strict"}}, overrides=set_ or (), values=values).config
    start_campaign(config, out, None, finds=0, verify=0, json=json)
