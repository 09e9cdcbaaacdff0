"""`anchor evaluate`: structures, policies and composition sources under the three protocols."""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anchor.cli.common import POTENTIAL_HELP, JsonFlag, emit, print_table
from anchor.cli.where import NOWHERE, Where, works_somewhere
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.evaluate.outputs import FinishedEvaluation
    from anchor.evaluate.protocol import Protocol
    from anchor.evaluate.sources import Source

SELF_TEST = "self-test"
SHOWN_FAILURES = 12
OF_FORMULAS = ("formulas", "screened")
"""Sources of formulas, not of cells: how many formula units a cell has is left to the prior."""
N, SEEDS = 1000, 3
"""N_eval and sampling seeds of the paper (app:eval_protocol)."""


@works_somewhere
def evaluate(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Campaign folder, policy file or 'default'; screened; random, random:flat, neutral, "
            "neutral:by-k, neutral:flat; generator:NAME, :FILE or :CAMPAIGN; formulas:FILE or formulas:A,B; "
            "compositions-of:FILES (or of a generator); files with structures; FOLDER:finds, :generated, "
            ":relaxed or :proposed of a campaign; another evaluation's folder; self-test."
        ),
    ],
    protocol: Annotated[
        Literal["internal", "mattergen", "lemat"], typer.Option(help="How structures are judged.")
    ] = "internal",
    n: Annotated[
        int | None,
        typer.Option(
            "-n", min=1, max=1_000_000, help="How many structures per seed; default 1000, of files all."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Sampling seeds; default 3, of files 1.")] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of every random draw: same seed, same result. Of several the first."),
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default evaluations/SOURCE-PROTOCOL.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Name of a prior, as in `anchor prior list`; default templates-all, for a policy its own."
        ),
    ] = None,
    query: Annotated[
        Literal["cell", "reduced", "free"] | None,
        typer.Option(
            help="Ask the prior for the cell as proposed, for one formula unit (the paper), or let it choose "
            "the units; default cell, for formulas (typed, screened) free, of policies and campaigns theirs."
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Crystals per composition, of which the one of lowest energy is taken; default 1, for a "
            "policy as it was trained.",
        ),
    ] = None,
    elements: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated symbols: these elements only; or all, or searchable (those with a "
            "well-determined energy reference). Default all, for a policy its own."
        ),
    ] = None,
    each_a_seed: Annotated[
        bool, typer.Option("--each-a-seed", help="Several files with structures are one sampling seed each.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Of the row in comparisons.")] = None,
    potential: Annotated[
        str | None,
        typer.Option(help=f"{POTENTIAL_HELP}, instead of the protocol's own; lemat: several, joined by '+'."),
    ] = None,
    cell: Annotated[
        bool | None,
        typer.Option(
            "--cell/--fixed-cell", help="Relax the cell too (default), or positions only; internal."
        ),
    ] = None,
    gate: Annotated[
        Literal["paper", "lemat"] | None, typer.Option(help="internal: validity gate; default paper.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=0, help="Most steps of a relaxation.")] = None,
    fmax: Annotated[float | None, typer.Option(help="Force at which a relaxation ends, eV/Å.")] = None,
    optimizer: Annotated[
        Literal["quasi-newton", "fire", "ase-bfgs", "ase-fire"] | None,
        typer.Option(help="Optimiser of the relaxation; internal; the paper's is ase-bfgs."),
    ] = None,
    hull: Annotated[
        str | None,
        typer.Option(
            help="Hull that counts: union, strict, unfilled, mp, oqmd, dft or potential, on the bundled "
            "reference; lemat: also lemat-bulk, mp-20."
        ),
    ] = None,
    alex_mp: Annotated[
        Path | None, typer.Option(help="MatterGen's Alex-MP reference file: the paper's hull.")
    ] = None,
    pre_relax: Annotated[
        str | None, typer.Option(help="lemat: relax with this potential before anything else.")
    ] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="mattergen, lemat: keep the known defects of the original.")
    ] = False,
    official: Annotated[
        bool, typer.Option("--official", help="mattergen: also run the installed package, side by side.")
    ] = False,
    where: Where = NOWHERE,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads of each process; they change the last digits. Default: one."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    json: JsonFlag = False,
) -> None:
    """Evaluate a policy, a composition source or anybody's structures; every structure keeps a row.

    Stopped at any point, the same command goes on. Results: table.csv and table.jsonl (a row per structure),
    relaxed.extxyz, generated.extxyz, summary.json. Compare several with `anchor compare`.

    Examples:

      anchor evaluate generated_crystals.extxyz --protocol mattergen
      anchor evaluate neutral -n 200 --seeds 1 --out eval/neutral
      anchor evaluate eval/neutral --gate lemat --out eval/lemat    relaxed once
      anchor evaluate self-test -n 200
    """
    from anchor.config import Config, load_config
    from anchor.evaluate.answer import Lowest
    from anchor.evaluate.registry import load_protocol
    from anchor.evaluate.run import evaluate as run
    from anchor.evaluate.sources import find_source
    from anchor.executors import Workplace
    from anchor.potentials.registry import load_potential
    from anchor.search.environment import load_configured_prior
    from anchor.search.realise import n_candidates

    chosen = find_source(source, elements=_elements(elements, potential), each_a_seed=each_a_seed)
    testing = source == [SELF_TEST]
    if n is None and (chosen.kind == "compositions" or chosen.identity.get("source") == "generator"):
        n = N
    folder = out or Path("evaluations") / _slug(f"{chosen.name}-{protocol}")
    _set_threads(threads, folder)
    if official and protocol != "mattergen":
        raise InputError(f"there is no official package for the {protocol} protocol", "leave --official out")
    if official:
        from anchor.evaluate.mattergen.official import load_official

        load_official()
    judge = load_protocol(
        protocol,
        potential=potential if protocol != "lemat" else None,
        ensemble=potential if protocol == "lemat" else None,
        cell=cell,
        gate=gate,
        max_steps=max_steps,
        fmax=fmax,
        optimizer=optimizer,
        hull=hull,
        alex_mp=alex_mp,
        pre_relax=pre_relax,
        as_published=as_published or None,
        device=device,
    )
    judge.where = Workplace(**where)
    realiser = lowest = None
    own = chosen.config or Config()
    frozen = {**own.prior.model_dump(), "train": "none"}
    if prior is not None:
        frozen["noise"] = None  # of the campaign's own
    elif own.prior.train != "none":
        raise InputError(
            f"rewards trained the prior of {chosen.name}: its weights are in the ledger",
            f"anchor prior save {source[0]} --out FILE.safetensors, then --prior FILE.safetensors",
        )
    asked = load_config(
        base={"prior": frozen},
        values={"prior.name": prior, "prior.query": query, "prior.candidates": candidates},
    ).config.prior
    if chosen.kind == "compositions":
        realiser = load_configured_prior(asked, device=device or "cpu")
        if (several := n_candidates(realiser, asked)) > 1:  # by the potential of the training, whoever judges
            chooser = load_potential(own.relax.potential, device=device or "cpu")
            rounds = asked.rounds or realiser.rounds
            lowest = Lowest(chooser, several, rounds, relaxer=judge.relaxer(chooser))
    done = run(
        chosen,
        judge,
        folder,
        n=200 if testing and n is None else n,
        seeds=_seeds(chosen, 1 if testing and seeds is None else seeds, seed),
        prior=realiser,
        query="free" if query is None and chosen.identity.get("source") in OF_FORMULAS else asked.query,
        lowest=lowest,
        label=name,
        command=shlex.join(["anchor", *sys.argv[1:]]) if sys.argv[1:2] == ["evaluate"] else "",
        on_progress=_Lines(),
    )
    failures = _failures(judge, done) if testing else []
    beside = _official(judge, done) if official else []
    if json:
        emit(
            {
                "folder": folder,
                **done.summary,
                **({"failures": failures} if testing else {}),
                **({"official": {name: theirs for name, _, theirs in beside}} if official else {}),
            }
        )
        return
    show(done)
    if testing:
        _show_failures(failures, done)
    if official:
        print_table(["metric", "anchor", "mattergen"], beside, title="the installed mattergen")


def _seeds(source: Source, count: int | None, first: int) -> list[int]:
    if source.seeds is not None:
        return list(source.seeds if count is None else source.seeds[:count])
    return list(range(first, first + (SEEDS if count is None else count)))


def _elements(text: str | None, potential: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if text == "all":
        from anchor.chemistry.elements import VOCABULARY

        return VOCABULARY
    if text == "searchable":
        from anchor.evaluate.internal import POTENTIAL
        from anchor.hull.references import load_hull

        return load_hull(potential or POTENTIAL).searchable_elements
    from anchor.chemistry.symbols import read_symbols

    return read_symbols(text)


def _set_threads(threads: int | None, folder: Path) -> None:
    """As asked, as the evaluation began, or one."""
    import os

    import torch

    from anchor.evaluate.store import Store

    if threads is None and Store.is_one(folder):
        threads = Store(folder).settings["threads"]
    torch.set_num_threads(threads or int(os.environ.get("OMP_NUM_THREADS", 0)) or 1)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


class _Lines:
    """Progress with an estimate of the time left: one line on a terminal, a line a minute otherwise."""

    def __init__(self) -> None:
        self._stage, self._start, self._first, self._said = "", 0.0, 0, 0.0

    def __call__(self, what: str, seed: int, done: int, of: int) -> None:
        now, stage = time.monotonic(), f"seed {seed}: {what}"
        if stage != self._stage:  # the first block of a stage: nothing to estimate from yet
            self._stage, self._start, self._first, self._said = stage, now, done, 0.0
        left = (now - self._start) / max(done - self._first, 1) * (of - done)
        estimate = f", about {left:.0f} s left" if done > self._first and done < of else ""
        text = f"{stage} {done}/{of}{estimate}"
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="\n" if done == of else "", file=sys.stderr, flush=True)
        elif done == of or now - self._said > 60:
            self._said = now
            print(text, file=sys.stderr, flush=True)


def show(done: FinishedEvaluation) -> None:
    from anchor.evaluate.compare import compare
    from anchor.evaluate.render import heading, number

    summary = done.summary
    read = summary["read"]
    typer.echo(
        f"{read['structures']} structures read = {read['rows']} rows, {read['with_crystal']} with a crystal; "
        + ", ".join(f"{count} {status}" for status, count in read["status"].items())
    )
    (group,) = compare([done], every_metric=True)
    print_table(
        ["metric", "value", "95 % interval"],
        (
            [heading(metric), number(metric, cell), _interval(metric.show, cell.low, cell.high)]
            for metric, cell in zip(group.metrics, group.cells[0], strict=True)
        ),
        title=f"{done.label}, seeds {', '.join(map(str, summary['seeds']))}",
    )
    for key, value in done.footer.items():
        typer.echo(f"{key}: {value}")
    typer.echo(f"\n{done.folder / 'table.csv'}, relaxed.extxyz, summary.json")


def _interval(show: str, low: float | None, high: float | None) -> str:
    """Of all rows together; of a count it would say nothing that the rate does not."""
    if low is None or high is None or show == "count":
        return ""
    return f"{100 * low:.1f} – {100 * high:.1f}" if show == "percent" else f"{low:.3f} – {high:.3f}"


def _official(judge: Protocol, done: FinishedEvaluation) -> list[tuple[str, float | None, float | None]]:
    """Every metric by us and by the installed package, on the same structures of all seeds."""
    from anchor.evaluate.mattergen.official import side_by_side
    from anchor.evaluate.mattergen.protocol import MatterGenProtocol
    from anchor.evaluate.store import Store
    from anchor.outcomes.table import Outcomes

    assert isinstance(judge, MatterGenProtocol)
    store = Store(done.folder)
    drawn = Outcomes.concatenate(store.table("drawn", seed) for seed in done.summary["seeds"])
    return side_by_side(judge.metrics(Outcomes.from_rows(done.rows())), judge.official(drawn.crystals))


def _failures(judge: Protocol, done: FinishedEvaluation) -> list[dict[str, Any]]:
    """Known crystals that a protocol does not find valid, and why."""
    return [
        {"file": row["file"], "formula": row["formula"], "why": why}
        for row in done.rows()
        if (why := judge.fault(row))
    ]


def _show_failures(failures: list[dict[str, Any]], done: FinishedEvaluation) -> None:
    from collections import Counter

    total = done.summary["read"]["rows"]
    typer.echo(f"\n{len(failures)} of {total} known crystals do not pass")
    if not failures:
        return
    kinds = Counter(re.sub(r"\S*\d\S*", "…", failure["why"]) for failure in failures)
    print_table(["why", "crystals"], kinds.most_common())
    print_table(
        ["crystal", "formula", "why"],
        ([f["file"], f["formula"], f["why"]] for f in failures[:SHOWN_FAILURES]),
        title=f"the first {min(SHOWN_FAILURES, len(failures))}; all are in table.csv",
    )
