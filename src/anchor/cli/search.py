"""`anchor search`, `anchor resume` and `anchor sample`: the main job."""

from __future__ import annotations

import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import (
    Cardinalities,
    Exclude,
    JsonFlag,
    MustContain,
    Seed,
    Symbols,
    emit,
    print_table,
)
from anchor.cli.program import program
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import AnchorError, InputError
from anchor.reading import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from anchor.config import Config
    from anchor.search.campaign import Campaign, StepReport
    from anchor.search.finds import Finds

Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Override one setting: section.name=value (repeatable).")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings.")]
Preset = Annotated[str, typer.Option(help="Preset of settings: quick (minutes), default, paper, learn.")]
MaxAtoms = Annotated[int | None, typer.Option(min=1, help="Most atoms per cell.")]
Counts = Annotated[
    str | None,
    typer.Option(help="Atoms of an element where it occurs: O=8 (at most), Li=2-4, Fe=2- (at least)."),
]
VerifyCount = Annotated[
    int,
    typer.Option("--verify", min=0, help="Best finds to attack up to other potentials; more: anchor verify."),
]
MANY_FINDS = 50
"""Finds beyond which their relaxation says how far it is."""
MOST = 100_000_000
"""Structures of a campaign, as in the configuration."""
FindsCount = Annotated[
    int, typer.Option("--finds", min=0, help="Best candidates to relax to the end and write.")
]


def _elsewhere(ledger: str | None) -> str | None:
    """A mistyped URL would be taken for a folder."""
    if ledger is None or "://" in ledger or ledger.endswith(".db"):
        return ledger
    from anchor.search.ledger import EXAMPLE_URL

    raise InputError(f"--ledger: '{ledger}' is neither a database URL nor a .db file", EXAMPLE_URL)


@works_somewhere
def search(
    out: Annotated[Path | None, typer.Option(help="Folder of the campaign; default: runs/DATE-TIME.")] = None,
    config: ConfigFile = None,
    preset: Preset = "quick",
    set_: Sets = None,
    structures: Annotated[
        int | None, typer.Option("-n", min=1, max=MOST, help="How many compositions to try.")
    ] = None,
    elements: Symbols = None,
    exclude: Exclude = None,
    must_contain: MustContain = None,
    k: Cardinalities = None,
    max_atoms: MaxAtoms = None,
    counts: Counts = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Who proposes: adaptive (the ranking of `anchor screen`, learning from what comes of it), "
            "screened (the ranking as it is), policy (it learns), imagined "
            "(it learns from free rollouts), or for comparison the untrained random or "
            "neutral, or generator (it proposes crystals, too)."
        ),
    ] = None,
    prior_train: Annotated[
        str | None,
        typer.Option(
            help="Rewards that train the prior, too, of kldm or crystalite: shared (all of them) or "
            "stability; none, the default, keeps it frozen."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of every random draw: same seed, same result.")
    ] = None,
    finds: FindsCount = 20,
    verify: VerifyCount = 12,
    ledger: Annotated[
        str | None,
        typer.Option(
            callback=_elsewhere, help="Database URL instead of a file in the folder (postgresql://…)."
        ),
    ] = None,
    where: Where = NOWHERE,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show the effective configuration and stop.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Search for new stable crystals. Ctrl-C ends after the current step; `anchor resume` goes on.

    Examples:

      anchor search                                  a real search in a few minutes
      anchor search --elements Li,Fe,Mn,P,S,O -n 500
      anchor search --must-contain Na --exclude Pb,Cd,Hg --k 3 --counts Na=1-4,O=8
      anchor search --preset paper --out runs/paper
      anchor search --source neutral                 the same without a policy, to compare with
    """
    from anchor.config import load_config

    limits = action_space(elements, exclude, must_contain, k, max_atoms, counts)
    values = {
        "run.structures": structures,
        "run.seed": seed,
        "policy.source": source,
        "prior.train": prior_train,
    }
    values |= {f"run.{name}": value for name, value in where.items()}
    values |= {f"action_space.{name}": value for name, value in limits.items()}
    loaded = load_config(config, preset=preset, overrides=set_ or (), values=values)
    if print_config:
        emit(loaded.config.model_dump(mode="json")) if json else typer.echo(loaded.describe())
        return
    start_campaign(loaded.config, out, ledger, finds=finds, verify=verify, json=json)


def start_campaign(
    config: Config, out: Path | None, ledger: str | None, *, finds: int, verify: int, json: bool
) -> None:
    """A new campaign from its first step to its files."""
    from anchor.policy.constraints import Limits
    from anchor.search.campaign import Campaign
    from anchor.search.ledger import Ledger
    from anchor.search.loggers import check_loggers
    from anchor.writing import check_place

    check_loggers(config.run.loggers)
    if out is not None:
        check_place(out, folder=True)
    folder = out or Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
    # What cannot work is refused before anything is loaded.
    Limits.from_config(config.action_space)
    Ledger.check_free(ledger or folder)
    try:
        campaign = Campaign.start(
            config, ledger or folder, on_part=lambda part: _say(f"loading {part} …", json)
        )
    except KeyboardInterrupt:
        raise AnchorError("interrupted while loading: nothing was begun", "start again") from None
    _say(f"campaign in {folder}: {config.run.structures} structures", json)
    with campaign.ledger.alone():
        _run(campaign, folder, ledger, config.run.structures, finds, verify, json)


@works_somewhere
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the campaign.")],
    structures: Annotated[
        int | None,
        typer.Option("-n", min=1, max=MOST, help="How many in all; default: the campaign's own budget."),
    ] = None,
    finds: FindsCount = 20,
    verify: VerifyCount = 12,
    beyond: Annotated[
        str | None,
        typer.Option(
            help="Relax no formula to the end that this catalogue has: 'catalogue', or a .npz file."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(callback=_elsewhere, help="Database URL, if the ledger is not in the folder."),
    ] = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="Go on although code, data or weights are not those it began with."
        ),
    ] = False,
    where: Where = NOWHERE,
    json: JsonFlag = False,
) -> None:
    """Go on with a campaign, exactly as if it had never stopped.

    Examples:

      anchor resume runs/20261115-120000 -n 1000

      anchor resume runs/20261115-120000 --finds 5000 --beyond catalogue     for a catalogue that grows
    """
    from anchor.search.campaign import Campaign

    had = _formulas_of(beyond) if beyond else frozenset()
    campaign = Campaign.resume(ledger or folder, accept_changes=accept_changes, where=where)
    budget = structures or campaign.config.run.structures
    _say(f"going on from {campaign.structures} of {budget} structures", json)
    with campaign.ledger.alone():
        _run(campaign, folder, ledger, budget, finds, verify, json, had)


def _formulas_of(place: str) -> frozenset[str]:
    from anchor.catalogue.catalogue import is_catalogue, open_catalogue

    if not is_catalogue(place):
        raise InputError(f"'{place}' is no catalogue", "name 'catalogue', the one that ships, or a .npz file")
    return frozenset(open_catalogue(place).formulas)


def sample(
    policy: Annotated[str, typer.Argument(help="Campaign folder, policy file, or 'default'.")] = "default",
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many compositions.")] = 20,
    elements: Symbols = None,
    exclude: Exclude = None,
    must_contain: MustContain = None,
    k: Cardinalities = None,
    max_atoms: MaxAtoms = None,
    counts: Counts = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Draw compositions from a trained policy.

    As evaluations do: w at its mean, no sub-group mask. Within the elements and limits of its training,
    unless other ones are given.

    Example: anchor sample runs/first -n 100 --must-contain Li
    """
    from anchor.chemistry.charge import is_neutral
    from anchor.reference.reference import load_reference
    from anchor.search.policies import load_trained

    limits = action_space(elements, exclude, must_contain, k, max_atoms, counts)
    compositions = load_trained(policy).within(limits).draw(n, seed=seed)
    reference, neutral = load_reference(), is_neutral(compositions)
    rows: list[dict[str, Any]] = [
        {
            "cell": str(composition),
            "formula": composition.formula,
            "charge_neutral": bool(ok),
            "known_in": sorted(reference.known(composition.formula)),
        }
        for composition, ok in zip(compositions, neutral, strict=True)
    ]
    if json:
        emit(rows)
        return
    print_table(
        ["cell", "formula", "charge-neutral", "known in"],
        (
            [r["cell"], r["formula"], "yes" if r["charge_neutral"] else "no", ", ".join(r["known_in"])]
            for r in rows
        ),
    )


def _run(
    campaign: Campaign,
    folder: Path,
    ledger: str | None,
    budget: int,
    finds: int,
    verify: int,
    json: bool,
    had: frozenset[str] = frozenset(),
) -> None:
    """Run, refine the finds, attack them, write files, say what came out."""
    from anchor.cli.found import brief, show_found, spoken
    from anchor.cli.live import LiveView
    from anchor.cli.verify import write_files
    from anchor.outcomes.tally import TALLY_COLUMNS, Tally
    from anchor.search.finds import Finds
    from anchor.search.loggers import METRICS, jsonl_logger, make_loggers
    from anchor.writing import OwnFiles

    tally = Tally(campaign.config.evaluation)
    view = LiveView(tally, budget, quiet=json).recall(campaign.ledger.rows(TALLY_COLUMNS))
    interrupted = False

    def on_interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        print(
            "\nfinishing this step; Ctrl-C (or SIGTERM) again stops at once, without it",
            file=sys.stderr,
            flush=True,
        )

    # a cluster's scheduler sends SIGTERM before it kills
    before = {number: signal.signal(number, on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with view:
            watchers: list[Callable[[StepReport], None]] = [
                view,
                jsonl_logger(campaign.ledger, OwnFiles(folder).growing(METRICS)),
                *make_loggers(campaign.config.run.loggers, folder),
            ]
            campaign.run(
                budget, on_step=lambda report: [w(report) for w in watchers], stop=lambda: interrupted
            )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    again = f"{program()} resume {folder}" + (f" --ledger {ledger}" if ledger else "")
    if campaign.structures < budget:
        _say(f"stopped after {campaign.structures} of {budget} structures; go on with: {again}", json)
        if finds:
            _say("its finds so far are relaxed now; Ctrl-C leaves that out, too", json)
    try:
        found = _refined(campaign, folder, finds, verify, json, had)
    except KeyboardInterrupt:
        _say(f"\ninterrupted: what is stored is reported, the rest of the finds comes with: {again}", json)
        found = Finds.read(campaign.ledger)
    files = write_files(campaign.ledger, folder, found)
    words = spoken(campaign.ledger, str(ledger or folder))
    if json:
        groups = {what: brief(rows) for what, rows in found.groups().items() if what != "find"}
        emit(
            {
                "folder": folder,
                "headline": {"title": words.title, "sentences": words.sentences, "advice": words.advice},
                "counts": {"proposed": tally.proposed, **tally.counts},
                "files": files,
                "finds": brief(found.finds),
                "others": groups,
            }
        )
        return
    show_found(words, tally, found)
    typer.echo(f"\nreport {folder / 'report.html'}, CIF files in {folder / 'finds'}")
    goal = budget if campaign.structures < budget else 2 * tally.proposed
    place = ledger or folder
    learned = campaign.config.policy.source in ("policy", "imagined")
    steps = [f"{program()} sample {place} -n 100"] if learned else []
    steps.append(f"{again} -n {goal}")
    if found.finds:
        steps.append(f"{program()} verify {place} --level 5")
        steps.append(f"{program()} export {place} --out {folder / 'finds.extxyz'}")
    typer.echo("\n".join(["", "next:", *(f"  {step}" for step in steps)]))


def _refined(
    campaign: Campaign, folder: Path, finds: int, verify: int, json: bool, had: frozenset[str]
) -> Finds:
    """The best candidates relaxed with the cell free, but for formulas at hand, reported, then attacked."""
    from anchor.cli.verify import write_files
    from anchor.search.finds import Finds, refine

    if not finds:
        return Finds.read(campaign.ledger)
    _say("relaxing the best finds with the cell free …", json)

    def relaxed(done: int, of: int) -> None:
        if of > MANY_FINDS:
            _say(f"relaxed {done} of {of} finds", json)

    found = refine(campaign, finds, without=had, on_progress=relaxed)
    if verify and found.groups():
        write_files(campaign.ledger, folder, found)
        _say(f"attacking the best {min(verify, len(found.new))} …", json)
        found = _attacked(campaign, verify, json)
    return found


def _attacked(campaign: Campaign, most: int, json: bool) -> Finds:
    """All finds through level 1, the best that pass up to level 3; the ledger keeps the verdicts."""
    from anchor.cli.verify import attack
    from anchor.search.finds import VERIFIED, Finds
    from anchor.verify.intake import campaign_context
    from anchor.verify.levels import load_levels
    from anchor.verify.stores import LedgerStore

    judge, ledger = campaign.environment.judge, campaign.ledger
    try:
        context = campaign_context(ledger, judge.relaxer.executor, judge=judge)
        attack(context, LedgerStore(ledger), load_levels(VERIFIED), top=most, json=json)
    except AnchorError as error:  # no hulls of this potential, for instance: the finds stay what they are
        _say(f"the finds could not be attacked: {error}", json)
    return Finds.read(ledger)


def action_space(
    elements: str | None,
    exclude: str | None,
    must_contain: str | None,
    k: str | None,
    max_atoms: int | None,
    counts: str | None,
) -> dict[str, Any]:
    """Wishes of the command line as values of the action space; None: not given."""
    fewest, most = _bounds(counts)
    return {
        "elements": _symbols(elements),
        "exclude": _symbols(exclude),
        "must_contain": _symbols(must_contain),
        "k": _list(k),
        "max_atoms": max_atoms,
        "min_counts": fewest or None,
        "max_counts": most or None,
    }


def _bounds(text: str | None) -> tuple[dict[str, int], dict[str, int]]:
    """'O=8, Li=2-4, Fe=2-' as fewest {Li: 2, Fe: 2} and most {O: 8, Li: 4}."""
    fewest, most = dict[str, int](), dict[str, int]()
    for part in (text or "").split(","):
        if not part.strip():
            continue
        symbol, equals, value = (piece.strip() for piece in part.partition("="))
        low, dash, high = (piece.strip() for piece in value.partition("-"))
        numbers = [whole_number(piece) for piece in (low, high) if piece]
        if not equals or not symbol.isalpha() or not numbers or None in numbers or (not dash and not low):
            raise InputError(
                f"'{part.strip()}' is not a bound of atom counts", "for example O=8, Li=2-4 or Fe=2-"
            )
        if dash and low:
            fewest[symbol] = int(low)
        if high or not dash:
            most[symbol] = int(high or low)
    return fewest, most


def _symbols(text: str | None) -> tuple[str, ...] | None:
    from anchor.chemistry.symbols import read_symbols

    return None if text is None else read_symbols(text)


def _list(text: str | None) -> tuple[str, ...] | None:
    """'Li, Fe' as ('Li', 'Fe')."""
    if text is None:
        return None
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise InputError(f"'{text}' names nothing", "give a comma-separated list, e.g. Li,Fe,O")
    return parts


def _say(text: str, json: bool) -> None:
    if not json:
        print(text, file=sys.stderr, flush=True)
