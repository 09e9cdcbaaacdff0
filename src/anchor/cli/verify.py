"""`anchor verify`: finds are claims, and this tries to break them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import POTENTIAL_HELP, Condition, JsonFlag, Seed, emit, print_table, selection
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.executors import Executor
    from anchor.search.finds import Finds
    from anchor.search.ledger import Ledger
    from anchor.verify.claims import Context, Level
    from anchor.verify.run import Record
    from anchor.verify.stores import Store

LEVEL_HELP = (
    "1 hulls and lists, 2 other structures of the composition, 3 other potentials, 4 competitors, "
    "5 dynamics, 6 DFT."
)


@works_somewhere
def verify(
    what: Annotated[
        list[str],
        typer.Argument(help="Campaign (folder, ledger file, URL), files, 'catalogue', or its .npz file."),
    ],
    level: Annotated[int, typer.Option(min=1, help=f"Attack up to this level: {LEVEL_HELP}")] = 3,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many, the lowest above the hull, beyond level 1.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many, chosen by chance, beyond level 1.")
    ] = None,
    condition: Condition = None,
    which: Annotated[
        str,
        typer.Option(help="Of a campaign: finds (refined ones), or all new candidates that are sun or msun."),
    ] = "finds",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the verdicts on files, as JSON; default: verdicts.")
    ] = None,
    potential: Annotated[
        str, typer.Option(help=f"{POTENTIAL_HELP}; of files: whose energies are claimed.")
    ] = "mattersim-1m",
    where: Where = NOWHERE,
    md: Annotated[
        bool, typer.Option("--md", help="At level 5 also two picoseconds of molecular dynamics at 300 K.")
    ] = False,
    cards: Annotated[
        int, typer.Option(min=0, help="Print the evidence of so many, the best first, as cards.")
    ] = 0,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Attack finds, cheapest attack first: what each survived, and why it failed the next.

    Verdicts are kept in the campaign's ledger (of files: in --out) and are not made again: a run that was
    stopped goes on where it was.

    Examples:

      anchor verify runs/first                       refined finds, up to other potentials
      anchor verify runs/first --level 5 --top 10
      anchor verify runs/first --level 3 --which sun   how many of all stable candidates survive
      anchor verify runs/first --level 5 --which sun --sample 100      the same, estimated
      anchor verify mine.cif --out verdicts
      anchor verify catalogue --where "elements has Na and level = 3" --level 4
    """
    from anchor.executors import Workplace
    from anchor.search.finds import Finds
    from anchor.verify.cards import card
    from anchor.verify.levels import load_levels
    from anchor.verify.retention import as_plain, in_words, retention

    if top is not None and sample is not None:
        raise InputError("--top takes the lowest and --sample any", "give one of them")
    levels = load_levels(level, md=md)
    with Workplace(**where).open() as executor:
        context, store, ledger = _claims(what, which, condition, out, potential, seed, executor)
        records = attack(context, store, levels, top=top, sample=sample, json=json)
    if ledger is not None and which == "finds" and Path(what[0]).is_dir():
        write_files(ledger, Path(what[0]), Finds.read(ledger))
    new = [record for record in records if not record.claim.known_in]
    rows = retention(new, levels)
    records = sorted(records, key=lambda r: (-r.level, r.now.above_hull, r.claim.id))
    if json:
        emit({"claims": [_plain(record) for record in records], "levels": as_plain(rows)})
        return
    if cards:
        typer.echo("\n\n".join(card(record) for record in records[:cards]) + "\n")
    show(records)
    show_competitors(records, context)
    print_table(
        ["level", "attack", "tried on", "passed", "failed", "not possible", "replaced", "CPU s each"],
        (
            [r.level, r.name, r.attacked, r.passed, r.failed, r.untried, r.replaced, f"{r.cpu_seconds:.1f}"]
            for r in rows
        ),
        title="retention of new formulas",
    )
    if len(new) < len(records):
        typer.echo(f"\n{len(records) - len(new)} rediscoveries are not counted")
    typer.echo("\n".join(in_words(new, rows)))


def _claims(
    what: list[str],
    which: str,
    condition: str | None,
    out: Path | None,
    potential: str,
    seed: int,
    executor: Executor,
) -> tuple[Context, Store, Ledger | None]:
    """Claims of a campaign, if the first name is one's, of a catalogue, else of files."""
    from anchor.catalogue.catalogue import is_catalogue
    from anchor.exports.chosen import choose
    from anchor.search.ledger import Ledger
    from anchor.verify.intake import campaign_context, crystals_context, files_context
    from anchor.verify.stores import FolderStore, LedgerStore
    from anchor.writing import check_place

    if condition is not None and not is_catalogue(what[0]):
        raise InputError("--where chooses among the entries of a catalogue", "leave it out")
    if is_campaign(what[0]):
        if len(what) > 1:
            raise InputError("one campaign at a time", f"first: anchor verify {what[0]}")
        ledger = Ledger.open(what[0])
        ledger.prepare()
        context = campaign_context(ledger, executor, which=which)
        if not context.claims:
            raise InputError(
                f"the campaign '{what[0]}' has no {which} to attack",
                "run it longer; finds are refined at the end of anchor search and anchor resume",
            )
        return context, LedgerStore(ledger), ledger
    place = check_place(out or Path("verdicts"), folder=True)
    if is_catalogue(what[0]):
        chosen = choose(what[0], selection(condition, None))
        context = crystals_context(
            chosen.crystals, chosen.ids, executor, potential=chosen.potential, seed=seed
        )
        return context, FolderStore(place), None
    context = files_context([Path(name) for name in what], executor, potential=potential, seed=seed)
    return context, FolderStore(place), None


def is_campaign(place: str) -> bool:
    """Whether a name stands for a ledger: a URL, a .db file of ours, or a folder with one."""
    path = Path(place)
    return "://" in place or path.suffix == ".db" or (path / "ledger.db").is_file()


def attack(
    context: Context,
    store: Store,
    levels: list[Level],
    *,
    top: int | None,
    sample: int | None = None,
    json: bool,
) -> list[Record]:
    """`anchor.verify.run.verify`, with a line on standard error for every verdict beyond level 1."""
    from anchor.verify.run import verify as run

    def hear(record: Record, verdict: Any) -> None:
        if verdict.level > 1 and not json:
            word = {True: "passed", False: "failed", None: "could not be tried at"}[verdict.passed]
            print(
                f"{record.claim.formula} {word} level {verdict.level}: {verdict.reason}",
                file=sys.stderr,
                flush=True,
            )

    most, by_chance = (top, False) if sample is None else (sample, True)
    return run(context.claims, context, levels, store, most=most, sample=by_chance, on_verdict=hear)


def show(records: list[Record]) -> None:
    """A line per claim."""
    print_table(
        ["level", "formula", "E_hull eV/atom", "atoms", "why it failed the next, or what it survived"],
        (
            [r.level, r.now.formula, f"{r.now.above_hull:+.3f}", r.now.crystal.n_atoms, _words(r)]
            for r in records
        ),
        title="claims, by the level that they passed",
    )


def show_competitors(records: list[Record], context: Context) -> None:
    """What level 4 found on the hull while it looked for competitors, and nobody knows."""
    from anchor.verify.competitors import new_claims

    found = new_claims([verdict for record in records for verdict in record.verdicts], context)
    if found:
        print_table(
            ["formula", "E_hull eV/atom", "atoms"],
            ([claim.formula, f"{claim.above_hull:+.3f}", claim.crystal.n_atoms] for claim in found),
            title="competitors that are on the hull themselves and in no list",
        )


def _words(record: Record) -> str:
    return record.why or (record.verdicts[-1].reason if record.verdicts else "")


def _plain(record: Record) -> dict[str, Any]:
    return {
        "id": record.claim.id,
        "formula": record.now.formula,
        "level": record.level,
        "why": record.why,
        "energy_above_hull_ev_per_atom": record.now.above_hull,
        "claimed_at_most_ev_per_atom": record.now.limit,
        "verdicts": [
            {
                "level": verdict.level,
                "passed": verdict.passed,
                "reason": verdict.reason,
                "evidence": verdict.evidence,
                "replaced": verdict.replacement is not None,
                "cpu_seconds": round(verdict.cpu_seconds or 0.0, 2),
            }
            for verdict in record.verdicts
        ],
    }


def write_files(ledger: Ledger, folder: Path, found: Finds) -> dict[str, Path]:
    """Finds, their table, metrics and report of a campaign in its folder; returns the places."""
    from anchor.report.html import write_report
    from anchor.search.outputs import write_outputs

    files = write_outputs(ledger, folder, found)
    files["report"] = write_report(ledger, folder / "report.html", own=True)
    return files
