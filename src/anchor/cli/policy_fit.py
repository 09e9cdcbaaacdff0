"""`anchor policy fit`: a policy fitted by likelihood to a ranking of formulas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from anchor.cli.common import JsonFlag, Overwrite, Seed, command_line, emit, print_table
from anchor.cli.program import program


def fit(
    ranking: Annotated[Path, typer.Option(help="CSV file as anchor screen writes it.")],
    out: Annotated[Path, typer.Option(help="Policy file to write (.safetensors); a card goes beside it.")],
    top: Annotated[int | None, typer.Option(min=2, help="Only so many, the best ones; default: all.")] = None,
    effective: Annotated[
        float, typer.Option(min=1, help="Formulas to spread over: of n draws n²/(2·this) repeat another.")
    ] = 15_000,
    element_cap: Annotated[
        float, typer.Option(min=0.01, max=1, help="Largest share of formulas with one element.")
    ] = 0.2,
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = 1500,
    start_from: Annotated[
        str | None,
        typer.Option(help="Start from these weights: policy file or campaign; default: untrained."),
    ] = None,
    hidden: Annotated[int, typer.Option(min=1, help="Width of the policy's heads.")] = 256,
    embedding: Annotated[int, typer.Option(min=1, help="Size of the element embedding.")] = 32,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one setting of the searches to come: section.name=value."),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of settings, of the searches to come.")] = "learn",
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Fit a policy to a ranking of formulas by maximum likelihood: a broad start for a search.

    No crystal is made. Sub-groups and objective weights are drawn as a search draws them.

    Example: anchor policy fit --ranking ranking.csv --out policy.safetensors
    """
    from anchor.config import load_config
    from anchor.policy.constraints import Limits
    from anchor.policy.fitting import FitSettings
    from anchor.screening import policy_fit
    from anchor.screening.estimate import load_estimate
    from anchor.search.policies import TrainedPolicy, load_trained, searchable_elements, searched_elements
    from anchor.search.policy_card import check_policy_place, write_policy

    check_policy_place(out, overwrite=overwrite)
    base: dict[str, dict[str, Any]] = {
        "policy": {"heads": "informed", "hidden_dim": hidden, "element_embedding": embedding},
        "run": {"seed": seed},
    }
    config = load_config(base=base, preset=preset, overrides=set_ or ()).config
    loose = config.action_space.allow_loose_references
    limits = Limits.from_config(
        config.action_space, searchable=None if loose else searchable_elements(config)
    )
    settings = FitSettings(effective=effective, element_cap=element_cap, steps=steps, seed=seed)

    def tell(point: dict[str, Any]) -> None:
        text = f"step {point['step']}/{steps}: {point['log_likelihood']:.3f} nats"
        if "held_out" in point:
            text += f", held out {point['held_out']:.3f}"
        print(text, file=sys.stderr, flush=True)

    listed = policy_fit.read_ranking(ranking, most=top)
    policy, run = policy_fit.fit_to_ranking(
        listed,
        config,
        limits,
        settings,
        policy=None if start_from is None else load_trained(start_from).network,
        on_point=tell,
    )
    trained = TrainedPolicy(str(out), policy, config, searched_elements(config))
    card = {
        "command": command_line(),
        "seed": seed,
        "ranking_sha256": policy_fit.file_hash(ranking),
        **run,
        "draws": policy_fit.describe_draws(policy, limits, trained.weights, load_estimate(), seed=seed),
    }
    card = write_policy(trained, out, card)
    if json:
        emit(card)
        return
    print_table(["ranking", "value"], run["ranking"].items())
    print_table(["draws, no crystals", "value"], card["draws"].items())
    typer.echo(f"written to {out}; look at it: {program()} policy describe {out}")
