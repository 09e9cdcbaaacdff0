"""`anchor distill`: train a prior by likelihood on what a search found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from anchor.cli.common import JsonFlag, MaxSteps, Potential, Prior, Seed, emit
from anchor.cli.where import NOWHERE, Where, works_somewhere


@works_somewhere
def distill(
    campaign: Annotated[str, typer.Argument(help="Folder of a campaign, its ledger, or a database URL.")],
    prior: Prior,
    out: Annotated[Path, typer.Option(help="Folder of the results.")],
    arms: Annotated[
        str,
        typer.Option(
            help="relaxed, unrelaxed (cells as generated), rendered (by another prior), scratch (from random "
            "weights); each beside its control on the reference alone."
        ),
    ] = "relaxed,unrelaxed",
    corpus: Annotated[
        Literal["all", "low", "verified"],
        typer.Option(
            help="all that passed the gate (the paper), what lies low, or finds that passed anchor verify."
        ),
    ] = "all",
    most: Annotated[
        float, typer.Option(help="At most so far above the hull, eV/atom; of --corpus low.")
    ] = 0.1,
    corpus_size: Annotated[
        int | None, typer.Option(min=1, help="Structures drawn; default: as many as the training split has.")
    ] = None,
    held_out: Annotated[
        int, typer.Option(min=1, help="Compositions of the campaign that no arm is trained on.")
    ] = 300,
    render: Annotated[str, typer.Option(help="Prior of the arm 'rendered'.")] = "kldm",
    steps: Annotated[int, typer.Option(min=1, help="Steps of training, of every arm and control.")] = 2000,
    learning_rate: Annotated[
        float, typer.Option(min=0.0, help="Largest learning rate; scratch: the model's own.")
    ] = 3e-4,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Crystals per step.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Sampling seeds of the exam.")] = 3,
    test: Annotated[int, typer.Option(min=1, help="Crystals of the test split to match.")] = 300,
    judged: Annotated[
        int, typer.Option(min=0, help="Held-out compositions to relax and place on the hull; 0: none.")
    ] = 0,
    potential: Potential = "mattersim-1m",
    cell: Annotated[
        bool,
        typer.Option("--cell/--fixed-cell", help="Relax the cell too, or positions only, of what is judged."),
    ] = True,
    max_steps: MaxSteps = 100,
    precision: Annotated[str, typer.Option(help="Of training: bf16 or fp32.")] = "bf16",
    max_atoms: Annotated[int, typer.Option(min=1, max=20, help="Most atoms per cell.")] = 20,
    turns: Annotated[
        int, typer.Option(min=1, help="More than 1: search again with the new weights, distil again, …")
    ] = 1,
    structures: Annotated[
        int | None,
        typer.Option("-n", min=1, help="How many in each search; default: the campaign's."),
    ] = None,
    where: Where = NOWHERE,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Train a prior by likelihood on what a search found, beside controls, and test it on what it never saw.

    Rewards train the search, likelihood trains the prior. Stopped at any point, the same command goes on.
    Weights and cards are in OUT/arms, the table in OUT/table.md and .json.

    Examples:

      anchor distill runs/first --prior crystalite --out runs/distilled
      anchor distill runs/first --prior kldm --arms relaxed,rendered --render crystalite --out runs/rendered
      anchor distill runs/first --prior crystalite --corpus low --judged 100 --out runs/low
      anchor distill runs/first --prior crystalite --turns 3 -n 960 --out runs/loop
    """
    from anchor.distill.corpus import Rules
    from anchor.distill.run import Settings
    from anchor.distill.run import distill as run
    from anchor.distill.turns import run_turns
    from anchor.executors import Workplace

    settings = Settings(
        prior,
        arms=tuple(part.strip() for part in arms.split(",") if part.strip()),
        rules=Rules(corpus, held_out, most, corpus_size, seed),
        render=render,
        steps=steps,
        learning_rate=learning_rate,
        batch_size=batch_size,
        seeds=seeds,
        test=test,
        judged=judged,
        potential=potential,
        cell=cell,
        relax_steps=max_steps,
        precision=precision,
        max_atoms=max_atoms,
    )
    command, place = ["anchor", *sys.argv[1:]], Workplace(**where)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if turns > 1:
        table = run_turns(
            campaign,
            settings,
            out,
            turns,
            structures=structures,
            where=place,
            command=command,
            report=tell,
        )
        written = out / "turns.json"
    else:
        table = run([campaign], settings, out, where=place, command=command, report=tell)
        written = out / "table.md"
    if json:
        emit(table)
        return
    typer.echo(written.read_text(encoding="utf-8"))
    typer.echo(f"weights and cards: {out / 'arms' if turns == 1 else out}; table: {written}")
