"""`anchor policy`: fit and warm start of policies, and a check by real relaxations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli import estimate
from anchor.cli.common import POTENTIAL_HELP, JsonFlag, Overwrite, Seed, command_line, emit, print_table
from anchor.cli.estimate import PlausibilityFile, SurrogateFile
from anchor.cli.help import App
from anchor.cli.policy_fit import fit
from anchor.cli.program import program

if TYPE_CHECKING:
    from anchor.screening.warm_start import Estimator, FindSettings

app = App(
    help="Fit and warm start of the composition policy, and a check of policies by real relaxations.",
    no_args_is_help=True,
)
for part in (fit, estimate.surrogate, estimate.plausibility, estimate.labels, estimate.chances):
    app.command()(part)

PotentialName = Annotated[
    str, typer.Option(help=f"{POTENTIAL_HELP}; its calibration says which elements can be searched.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Override one setting: section.name=value (repeatable).")
]


@app.command("warm-start")
def warm_start(
    out: Annotated[Path, typer.Option(help="Policy file to write (.safetensors); a card goes beside it.")],
    structures: Annotated[
        int, typer.Option("-n", min=1, max=100_000_000, help="How many free rollouts.")
    ] = 100_000,
    start_from: Annotated[
        str | None,
        typer.Option(help="Start from these weights: policy file or campaign; default: untrained."),
    ] = None,
    caution: Annotated[float, typer.Option(min=0, help="Spreads added to the surrogate's energy.")] = 1.0,
    find_weight: Annotated[
        float, typer.Option(min=0, help="Weight of the probability of a find in the reward.")
    ] = 2.0,
    atom_cost: Annotated[float, typer.Option(min=0, help="Price of every atom of the cell.")] = 0.06,
    surrogate: SurrogateFile = None,
    plausibility: PlausibilityFile = None,
    potential: PotentialName = "mattersim-1m",
    set_: Sets = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Train a policy on rewards that cost nothing: charge, surrogate stability, novelty by formula.

    No crystal is made. The same GRPO as in a search, a few minutes for 100,000 rollouts.

    Example: anchor policy warm-start -n 100000 --out policy.safetensors
    """
    from anchor.policy.constraints import Limits
    from anchor.screening import warm_start as free
    from anchor.search.policies import TrainedPolicy, load_trained, searchable_elements, searched_elements
    from anchor.search.policy_card import check_policy_place, write_policy

    check_policy_place(out, overwrite=overwrite)
    config = free.warm_start_config(
        structures=structures, seed=seed, potential=potential, overrides=set_ or ()
    )
    settings = free.FindSettings(caution=caution, weight=find_weight, atom_cost=atom_cost)
    estimator, origin = _estimator(surrogate, plausibility, settings)
    loose = config.action_space.allow_loose_references
    searchable = None if loose else searchable_elements(config)
    limits = Limits.from_config(config.action_space, searchable=searchable)

    def tell(point: dict[str, Any]) -> None:
        neutral, finds, known = (point[key] / point["n"] for key in ("neutral", "plausible", "known"))
        print(
            f"{point['rollouts']} rollouts: {neutral:.1%} neutral, {finds:.1%} plausible and unknown, "
            f"{known:.1%} known, H/H_max {point['entropy_fraction']:.2f}",
            file=sys.stderr,
            flush=True,
        )

    policy, run = free.warm_start(
        config,
        limits,
        estimator,
        policy=None if start_from is None else load_trained(start_from).network,
        on_window=tell,
    )
    trained = TrainedPolicy(str(out), policy, config, searched_elements(config))
    card = {"command": command_line(), "seed": seed, **free.card_of(settings), **origin, "run": run}
    card = write_policy(trained, out, card)
    if json:
        emit(card)
        return
    _show_descriptions({"before": run["start"], "after": run["end"]})
    typer.echo(f"written to {out}; check it by relaxations: {program()} policy check {out}")


@app.command()
def describe(
    policy: Annotated[str, typer.Argument(help="Policy file, campaign folder, or 'default'.")] = "default",
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many compositions.")] = 2000,
    surrogate: SurrogateFile = None,
    plausibility: PlausibilityFile = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """What a policy proposes, judged without crystals: neutral, known, unique, plausible, elements.

    The compositions are those of `anchor sample` with the same seed.

    Example: anchor policy describe default -n 500
    """
    from anchor.policy.constraints import Limits
    from anchor.screening import warm_start as free
    from anchor.search.policies import load_trained

    trained = load_trained(policy)
    estimator, _ = _estimator(surrogate, plausibility, free.FindSettings())
    limits = Limits.from_config(trained.space)
    found = free.describe_policy(trained.network, limits, estimator, trained.weights, seed=seed, n=n)
    if json:
        emit({"policy": policy, "seed": seed, **found})
        return
    _show_descriptions({policy: found})


@app.command()
def check(
    policies: Annotated[list[str], typer.Argument(help="Policy files, campaign folders, or 'default'.")],
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many of every source.")] = 64,
    sources: Annotated[
        bool, typer.Option(help="Check the untrained sources on the same terms as well.")
    ] = True,
    surrogate: SurrogateFile = None,
    plausibility: PlausibilityFile = None,
    set_: Sets = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Judge policies by real relaxations, beside the two untrained sources and an untrained policy.

    All are realised and judged with the settings the first policy was trained with (prior, potential, hull,
    gate) and `--set`; every policy proposes within its own limits.

    Example: anchor policy check default -n 64
    """
    from anchor.config import load_config
    from anchor.evaluate import policy_check
    from anchor.screening.warm_start import FindSettings
    from anchor.search.environment import Environment
    from anchor.search.policies import load_trained

    trained = {name: load_trained(name) for name in policies}
    base = {**trained[policies[0]].judging(), "run": {"seed": seed}}
    environment = Environment.load(load_config(base=base, overrides=set_ or ()).config)
    drawn = {name: policy.draw(n, seed=seed) for name, policy in trained.items()}
    if sources:
        elements = environment.hull.searchable_elements
        drawn |= policy_check.untrained_sources(n, elements, seed=seed)
    estimator, _ = _estimator(surrogate, plausibility, FindSettings())

    def tell(name: str, found: policy_check.Checked) -> None:
        summary = found.summary()
        print(
            f"{name}: {summary['relaxed']} relaxed, {summary['metastable']} metastable, "
            f"{summary['finds']} finds",
            file=sys.stderr,
            flush=True,
        )

    found = policy_check.check_sources(drawn, environment, estimator, on_source=tell)
    summaries = {name: checked.summary() for name, checked in found.items()}
    if json:
        emit(
            {
                "command": command_line(),
                "n": n,
                "seed": seed,
                "identity": environment.identity(),
                "sources": summaries,
                "relaxed": {name: checked.rows() for name, checked in found.items()},
            }
        )
        return
    columns = ["relaxed", "valid", "unique", "known", "metastable", "stable", "finds", "stable_finds"]
    print_table(
        ["source", "n", *columns, "finds per relaxation"],
        (
            [name, s["n"], *(s[c] for c in columns), _rate(s["per_relaxation"]["finds"])]
            for name, s in summaries.items()
        ),
    )


@app.command()
def save(
    campaign: Annotated[str, typer.Argument(help="Folder of a campaign, ledger file or database URL.")],
    out: Annotated[Path, typer.Option(help="Policy file to write (.safetensors); a card goes beside it.")],
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write the policy a campaign has learned to a file, with a card: settings, counts, what it started from.

    Example: anchor policy save runs/mine --out mine.safetensors
    """
    from anchor.search.ledger import Ledger
    from anchor.search.policy_card import check_policy_place, save_policy

    check_policy_place(out, overwrite=overwrite)
    card = save_policy(Ledger.open(campaign), out, command=command_line())
    if json:
        emit(card)
        return
    print(f"written to {out}; start a search from it: {program()} search --set policy.start_from={out}")


def _estimator(
    surrogate: Path | None, plausibility: Path | None, settings: FindSettings
) -> tuple[Estimator, dict[str, Any]]:
    """The estimator on the bundled reference, and where its parts come from."""
    from anchor.priors import templates
    from anchor.reference.reference import load_reference
    from anchor.screening import plausibility as plausible
    from anchor.screening import surrogate as energies
    from anchor.screening.evidence import dft_hulls
    from anchor.screening.warm_start import Estimator

    model = energies.load_surrogate(surrogate or energies.SHIPPED)
    judge = plausible.load_plausibility(plausibility or plausible.SHIPPED)
    hulls, reference, prior = dft_hulls(), load_reference(), templates.load()
    origin = {
        "surrogate": energies.surrogate_hash(model),
        "plausibility": judge.coefficients,
        "hulls": [hull.identity.hash for hull in hulls],
        "reference": reference.hash,
        "templates": prior.hash,
    }
    return Estimator(model, hulls, reference, prior, judge, settings), origin


def _show_descriptions(descriptions: dict[str, dict[str, Any]]) -> None:
    names = list(next(iter(descriptions.values())))
    print_table(["", *descriptions], ([name, *(d[name] for d in descriptions.values())] for name in names))


def _rate(value: tuple[float, float, float] | None) -> str:
    return "no relaxation" if value is None else f"{value[0]:.1%} ({value[1]:.1%} to {value[2]:.1%})"
