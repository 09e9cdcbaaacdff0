"""Model cards: what a file of weights is, for people (markdown) and programs (JSON)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchor.models.files import read_lines
from anchor.paths import sha256
from anchor.weights import write_json
from anchor.writing import replace_file

_CURVE_POINTS = 40


def write_cards(folder: Path, weights: Path, card: dict[str, Any], metrics: Path) -> None:
    """<name>.json and <name>.md beside the weights, with the curves of the log."""
    lines = read_lines(metrics)
    full = {
        **card,
        "weights": {"file": weights.name, "sha256": sha256(weights), "bytes": weights.stat().st_size},
        "training_curve": _thinned([line for line in lines if line["kind"] == "training"]),
        "validation_curve": [line for line in lines if line["kind"] == "validation"],
    }
    write_json(folder / f"{weights.stem}.json", full)
    replace_file(folder / f"{weights.stem}.md", markdown(full))


def markdown(card: dict[str, Any]) -> str:
    """The card as a page."""
    plan, recipe = card["plan"], card["recipe"]
    rows = [
        ("weights", f"{card['weights']['file']}, {card['weights']['bytes'] / 1e6:.1f} MB"),
        ("sha256", card["weights"]["sha256"]),
        ("parameters", f"{card['parameters']:,}"),
        ("command", f"`{card['command']}`"),
        ("seed", plan["seed"]),
        ("data", f"{', '.join(plan['sources'])}: {card['data_crystals']:,} crystals"),
        ("data hash", card["data_hash"]),
        ("steps", f"{card['steps']:,} of {recipe['batch_size']} crystals ({card['epochs']:.1f} epochs)"),
        ("training time", f"{card['hours']:.2f} h"),
        ("optimiser", ", ".join(f"{name} {value}" for name, value in recipe.items())),
    ]
    rows += [
        (
            "started from",
            f"{past['steps']:,} steps of {past['recipe']['batch_size']} crystals of "
            f"{', '.join(past['plan']['sources'])} ({past['epochs']:.1f} epochs, {past['hours']:.2f} h, "
            f"learning rate {past['recipe']['learning_rate']})",
        )
        for past in _history(card)
    ]
    text = [f"# {plan['name']} ({plan['size']})", "", "| | |", "| --- | --- |"]
    text += [f"| {name} | {value} |" for name, value in rows]
    text += ["", *(f"- {note}" for note in card.get("notes", []))]
    if "test" in card:
        text += ["", "## Test split, one sample per crystal", "", _test_table(card["test"])]
    if "samples" in card:
        made = "\n".join(f"| {name} | {_short(value)} |" for name, value in card["samples"].items())
        text += ["", "## What it makes, not relaxed", "", "| | |", "| --- | --- |", made]
    text += ["", "## Validation during training", "", _validation_table(card["validation_curve"]), ""]
    return "\n".join(text)


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _history(card: dict[str, Any]) -> list[dict[str, Any]]:
    """Trainings that this one started from, the latest first."""
    past = card.get("started_from")
    return [] if past is None else [past, *_history(past)]


def _test_table(test: dict[str, Any]) -> str:
    named = {"all": test, **{f"{key} atoms": value for key, value in test["by_atoms"].items()}}
    rows = ["| crystals | number | match@1 | RMSE | valid |", "| --- | --- | --- | --- | --- |"]
    for name, rates in named.items():
        number = rates.get("crystals", test["n"])
        rmse = "" if rates["rmse"] is None else f"{rates['rmse']:.3f}"
        rows.append(f"| {name} | {number} | {rates['match_rate']:.1%} | {rmse} | {rates['valid']:.1%} |")
    return "\n".join(rows)


def _validation_table(curve: list[dict[str, Any]]) -> str:
    rows = ["| step | loss | match@1 | RMSE |", "| --- | --- | --- | --- |"]
    for line in curve:
        match = "" if "match_rate" not in line else f"{line['match_rate']:.1%} of {line['n']}"
        rmse = "" if line.get("rmse") is None else f"{line['rmse']:.3f}"
        rows.append(f"| {line['step']} | {line['loss']:.4f} | {match} | {rmse} |")
    return "\n".join(rows)


def _thinned(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about 40 lines, evenly over the run, the last among them."""
    every = max(1, len(lines) // _CURVE_POINTS)
    return [line for i, line in enumerate(lines) if i % every == 0 or i == len(lines) - 1]
