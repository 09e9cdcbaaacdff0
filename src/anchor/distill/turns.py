"""The loop: search, distil, search with what was learned, and so on, with a held-out check each turn.

A turn trains on the structures of all searches so far. Its weights are taken over unless they match held-out
crystals worse than those before, beyond doubt (the whole 95 % interval of the paired difference is below 0).
All turns are examined on the compositions that the first one kept back, and no corpus ever holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from anchor.config import Config
from anchor.distill.run import Report, Settings, distill, weights_file
from anchor.executors import ANYWHERE, Workplace
from anchor.models.registry import load_model
from anchor.reading import read_json
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger
from anchor.weights import write_json

CHECKED = "match test"
"""The number that decides whether a turn's weights are taken over: nothing of it was ever trained on."""
LEARNED = "relaxed"
"""The arm whose weights go on."""


def run_turns(
    campaign: str | Path,
    settings: Settings,
    out: Path,
    turns: int,
    *,
    structures: int | None = None,
    where: Workplace = ANYWHERE,
    command: Sequence[str] = (),
    report: Report = lambda _text: None,
) -> dict[str, Any]:
    """Turns in folders of `out`; stopped anywhere, the same call goes on.

    Args:
        turns: Distillations; between two of them there is a search.
        structures: Budget of those searches; None: the campaign's own.
        where: Whatever relaxes.
    """
    searches: list[str | Path] = [campaign]
    weights, formulas = weights_file(settings.prior), None
    history: list[dict[str, Any]] = []
    for turn in range(1, turns + 1):
        folder = out / f"turn-{turn}"
        report(f"turn {turn} of {turns}")
        table = distill(
            searches,
            replace(settings, prior=str(weights), arms=tuple(dict.fromkeys((LEARNED, *settings.arms)))),
            folder / "distill",
            held_out_formulas=formulas,
            where=where,
            command=command,
            report=report,
        )
        formulas = formulas or read_json(folder / "distill" / "corpus" / "corpus.json")["held_out"]
        row = next(row for row in table["rows"] if row["name"] == LEARNED)
        accepted = row["to_start"][CHECKED]["high"] >= 0
        if accepted:
            name = load_model(weights)[0].name
            weights = folder / "distill" / "arms" / LEARNED / f"{name}.safetensors"
        history.append(
            {
                "turn": turn,
                "accepted": accepted,
                "weights": str(weights),
                "to_start": row["to_start"],
                "to_control": row["to_control"],
                "numbers": row["numbers"],
            }
        )
        write_json(out / "turns.json", {"turns": history})
        if turn < turns:
            searches.append(_search(campaign, folder / "search", weights, turn, structures, where, report))
    return {"turns": history}


def _search(
    first: str | Path,
    folder: Path,
    weights: Path,
    turn: int,
    structures: int | None,
    where: Workplace,
    report: Report,
) -> Path:
    """The first campaign again with another prior and another seed."""
    if (folder / "ledger.db").is_file():
        ledger = Ledger.open(folder)
        if ledger.n_candidates >= ledger.config["run"]["structures"]:
            return folder
        campaign = Campaign.resume(folder, where=asdict(where))
    else:
        config = Config.from_ledger(Ledger.open(first).config)
        run = config.run.model_copy(update={**asdict(where), "seed": config.run.seed + turn})
        if structures is not None:
            run = run.model_copy(update={"structures": structures})
        prior = config.prior.model_copy(update={"name": str(weights), "train": "none"})
        campaign = Campaign.start(config.model_copy(update={"run": run, "prior": prior}), folder)
    campaign.run(on_step=lambda step: report(f"search: {step.structures} structures"))
    return folder
