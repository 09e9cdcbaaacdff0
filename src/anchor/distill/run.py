"""A distillation in a folder: corpus, arms and controls, exam, table; stopped, the same call goes on.

corpus/           relaxed.extxyz, unrelaxed.extxyz, rendered.extxyz, held-out.extxyz, compositions.txt
arms/NAME/        training run, weights, card
exam/NAME/        matches by seed, evaluation
table.json, .md   every arm beside its control, with paired differences
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.distill.arms import CELLS, START, Arm, check_arms, make_arms
from anchor.distill.corpus import USUAL, Rules, build_corpus
from anchor.distill.exam import Answers, Exam, answers, differences, summarise
from anchor.distill.table import markdown
from anchor.errors import InputError
from anchor.evaluate.internal import InternalProtocol
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import composition_of, find_source
from anchor.executors import ANYWHERE, Workplace
from anchor.formats import load, write
from anchor.models.data import MAX_ATOMS
from anchor.models.registry import MODELS, load_model, weights_path
from anchor.models.run import Plan
from anchor.models.training import STATE_FILE
from anchor.paths import alone
from anchor.priors import load_prior
from anchor.priors.match_rate import held_out
from anchor.priors.training import Matches, train
from anchor.reading import read_json
from anchor.search.ledger import Ledger
from anchor.weights import write_json
from anchor.writing import check_place, replace_file

SETTINGS = "distill.json"
TABLE = "table.json"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Everything that decides a distillation, with the ledgers.

    Attributes:
        prior: Name or file of the weights to train on.
        arms: Of `anchor.distill.arms.ARMS`.
        rules: Of the corpus.
        render: Prior of the arm 'rendered'.
        steps: Optimiser steps of every arm and every control.
        learning_rate, batch_size: Peak, then half a cosine; None: the model's recipe.
        seeds: Sampling seeds of the exam.
        test: Crystals of the reference's test split to match.
        judged: Held-out compositions to relax and place on the hull; 0: none.
        potential, cell, relax_steps: Of that evaluation, and of the rendered cells.
        precision: Of training.
        max_atoms: Larger crystals are left out of training.
    """

    prior: str
    arms: tuple[str, ...] = ("relaxed", "unrelaxed")
    rules: Rules = USUAL
    render: str = "kldm"
    steps: int = 2000
    learning_rate: float | None = 3e-4
    batch_size: int | None = None
    seeds: int = 3
    test: int = 300
    judged: int = 0
    potential: str = "mattersim-1m"
    cell: bool = True
    relax_steps: int = 100
    precision: str = "bf16"
    max_atoms: int = MAX_ATOMS

    def protocol(self, where: Workplace = ANYWHERE) -> InternalProtocol:
        """How samples are judged."""
        made = InternalProtocol(potential=self.potential, cell=self.cell, max_steps=self.relax_steps)
        made.where = where
        return made


def distill(
    campaigns: Sequence[str | Path],
    settings: Settings,
    out: Path,
    *,
    held_out_formulas: Sequence[str] | None = None,
    where: Workplace = ANYWHERE,
    command: Sequence[str] = (),
    report: Report = lambda _text: None,
) -> dict[str, Any]:
    """Train and examine all arms in `out`; returns the table.

    Args:
        campaigns: Folders, ledgers or database URLs.
        held_out_formulas: Compositions of the exam, of an earlier turn; None: new ones are drawn.
        where: Whatever relaxes.
        command: As typed, for the cards.
        report: Told what is being done.
    """
    weights = weights_file(settings.prior)
    check_arms(settings.arms)
    ledgers = [Ledger.open(place) for place in campaigns]
    check_place(out, folder=True)
    given = {
        "settings": asdict(settings),
        "candidates": [ledger.n_candidates for ledger in ledgers],
        "identities": [ledger.identity["code"] for ledger in ledgers],
        "start": load_prior(str(weights)).hash,
        "held_out": None if held_out_formulas is None else list(held_out_formulas),
    }
    _begin(out, given)
    with alone(out / "lock", f"distilling into {out}"):
        made = _corpus(ledgers, settings, out / "corpus", held_out_formulas, where, report)
        arms = make_arms(settings.arms, {kind: out / "corpus" / f"{kind}.extxyz" for kind in CELLS})
        files = {START: weights}
        cards: dict[str, dict[str, Any]] = {}
        for arm in arms:
            files[arm.name] = _trained(arm, settings, weights, out / "arms" / arm.name, command, report)
            cards[arm.name] = load_model(files[arm.name])[1]["card"]
        exam = _exam(settings, out / "corpus", where)
        found: dict[str, Answers] = {}
        for name, path in files.items():
            report(f"examining {name}")
            found[name] = answers(path, out / "exam" / name, exam)
        table = _table(settings, made, arms, cards, found)
        write_json(out / TABLE, table)
        replace_file(out / "table.md", markdown(table))
    return table


def weights_file(prior: str) -> Path:
    """The file of a prior that can be trained by likelihood.

    Raises:
        InputError: It has no weights.
    """
    if prior not in MODELS and not prior.endswith(".safetensors"):
        raise InputError(
            f"the prior '{prior}' is not trained by likelihood",
            f"choose one of {', '.join(MODELS)}, or a .safetensors file",
        )
    return weights_path(prior)


def _begin(out: Path, given: dict[str, Any]) -> None:
    """Start here, or go on if everything that decides the numbers is as it was."""
    path = out / SETTINGS
    new = json.loads(json.dumps(given))
    if path.is_file():
        changed = sorted(key for key in new if read_json(path).get(key) != new[key])
        if changed:
            raise InputError(
                f"{out} holds a distillation with another {', '.join(changed)}",
                "give another --out, or the options it began with",
            )
    elif out.exists() and any(out.iterdir()):
        raise InputError(f"{out} holds something else than a distillation", "give another --out")
    out.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(new, indent=1) + "\n")


def _corpus(
    ledgers: Sequence[Ledger],
    settings: Settings,
    folder: Path,
    formulas: Sequence[str] | None,
    where: Workplace,
    report: Report,
) -> dict[str, Any]:
    """Write the corpora; returns what they hold."""
    done = folder / "corpus.json"
    if not done.is_file():
        report("choosing the corpus")
        corpus = build_corpus(ledgers, settings.rules, held_out=formulas)
        if "unrelaxed" in settings.arms and not len(corpus.generated):
            raise InputError(
                "verified finds have no cells as generated", "leave the arm 'unrelaxed' out (--arms relaxed)"
            )
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "relaxed.extxyz", corpus.relaxed)
        _write(folder / "unrelaxed.extxyz", corpus.generated)
        _write(folder / "held-out.extxyz", corpus.held_out)
        cells = [str(composition_of(crystal)) for crystal in corpus.held_out]
        replace_file(folder / "compositions.txt", "".join(f"{cell}\n" for cell in cells[: settings.judged]))
        told = {"counts": corpus.counts, "note": corpus.note}
        write_json(done, {**told, "held_out": sorted(set(corpus.held_out.formulas))})
    if "rendered" in settings.arms and not (folder / "rendered.extxyz").is_file():
        _render(settings, folder, where, report)
    return read_json(done)


def _write(path: Path, crystals: Crystals) -> None:
    if len(crystals):
        write(path, crystals, [str(i) for i in range(len(crystals))], overwrite=True)


def _render(settings: Settings, folder: Path, where: Workplace, report: Report) -> None:
    """The corpus' compositions made by another prior and relaxed; what is not valid then is left out."""
    report(f"making the corpus' compositions with {settings.render}")
    cells = [str(composition_of(crystal)) for crystal in load(folder / "relaxed.extxyz").crystals]
    listed = folder / "rendered.txt"
    replace_file(listed, "".join(f"{cell}\n" for cell in cells))
    source, place = find_source([f"formulas:{listed}"]), folder / "rendered"
    protocol, prior = settings.protocol(where), load_prior(settings.render)
    rows = evaluate(source, protocol, place, n=None, seeds=[0], prior=prior).rows()
    relaxed = load(place / "relaxed.extxyz").crystals  # of rows that were relaxed, in order
    valid = [bool(row["valid"]) for row in rows if row["relaxation"] not in (None, "failed")]
    if len(valid) != len(relaxed):
        raise InputError(f"{place} holds {len(relaxed)} structures for {len(valid)} rows", "remove it")
    _write(folder / "rendered.extxyz", relaxed[np.flatnonzero(valid)])


def _trained(
    arm: Arm, settings: Settings, weights: Path, folder: Path, command: Sequence[str], report: Report
) -> Path:
    """Weights of an arm, trained unless they are there."""
    _, card = load_model(weights)
    path = folder / f"{card['name']}.safetensors"
    if path.is_file() and load_model(path)[1]["card"]["steps"] >= settings.steps:
        return path
    given = {"learning_rate": settings.learning_rate, "batch_size": settings.batch_size}
    recipe = [(name, value) for name, value in given.items() if value is not None and not arm.fresh]
    if arm.fresh and settings.batch_size is not None:
        recipe.append(("batch_size", settings.batch_size))
    plan = Plan(
        card["name"],
        size=card["card"]["plan"]["size"],
        sources=("reference",) if arm.corpus is None else ("reference", str(arm.corpus)),
        seed=settings.rules.seed,
        steps=settings.steps,
        precision=settings.precision,
        max_atoms=settings.max_atoms,
        start=None if arm.fresh else str(weights),
        recipe=(*recipe, ("schedule", "cosine")),
    )
    report(f"training {arm.name}: {arm.about}")
    train(
        plan,
        folder,
        resume=(folder / STATE_FILE).is_file(),
        matches=Matches(watch=0, test=0),
        report=lambda line: report(f"{arm.name}: step {line['step']}, loss {line['loss']:.4f}"),
        command=command,
    )
    return path


def _exam(settings: Settings, folder: Path, where: Workplace) -> Exam:
    truths = {"campaign": load(folder / "held-out.extxyz").crystals}
    if settings.test:
        truths = {"test": held_out("test", settings.test, seed=settings.rules.seed), **truths}
    seeds = range(settings.seeds)
    if not settings.judged:
        return Exam(truths, seeds)
    return Exam(truths, seeds, folder / "compositions.txt", settings.protocol(where))


def _table(
    settings: Settings,
    corpus: dict[str, Any],
    arms: Sequence[Arm],
    cards: dict[str, dict[str, Any]],
    found: dict[str, Answers],
) -> dict[str, Any]:
    """Every arm: what it was trained on, its numbers, and the differences to its control and to the start."""
    rows: list[dict[str, Any]] = [
        {"name": START, "about": "the weights that all began with", "numbers": summarise(found[START])}
    ]
    for arm in arms:
        card = cards[arm.name]
        row = {
            "name": arm.name,
            "about": arm.about,
            "crystals": card["data_crystals"],
            "steps": card["steps"],
            "hours": card["hours"],
            "numbers": summarise(found[arm.name]),
            "to_start": differences(found[arm.name], found[START]),
        }
        if arm.control is not None:
            row["control"] = arm.control
            row["to_control"] = differences(found[arm.name], found[arm.control])
        rows.append(row)
    about = {"counts": corpus["counts"], "note": corpus["note"], "held_out": len(corpus["held_out"])}
    judged = settings.protocol().footer() if settings.judged else {}
    return {"settings": asdict(settings), "corpus": about, "judged": judged, "rows": rows}
