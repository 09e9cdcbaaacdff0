"""The table of a distillation for people."""

from __future__ import annotations

from typing import Any

HEADINGS = {
    "match test": "match@1, test split %",
    "match campaign": "match@1, held out of the search %",
    "rmse test": "RMSE, test",
    "rmse campaign": "RMSE, held out",
    "valid": "Valid %",
    "metastable": "Meta %",
    "stable": "Stable %",
    "msun": "MSUN %",
    "sun": "SUN %",
    "e_hull": "E_hull eV/atom",
}
"""Columns by the name of their number; those with % are shares."""


def markdown(table: dict[str, Any]) -> str:
    """Numbers of every arm (mean ± spread over seeds), then its differences to its control."""
    rows = table["rows"]
    names = [name for name in HEADINGS if name in rows[0]["numbers"]]
    head = ["", "crystals", "steps", *(HEADINGS[name] for name in names)]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        numbers = [_number(name, row["numbers"][name]) for name in names]
        lines.append([row["name"], str(row.get("crystals", "")), str(row.get("steps", "")), *numbers])
    text = ["\n".join("| " + " | ".join(line) + " |" for line in lines)]
    compared = [row for row in rows if "to_control" in row]
    if compared:
        head = ["minus its control", *(HEADINGS[name] for name in names)]
        lines = [head, ["---"] * len(head)]
        for row in compared:
            cells = [_difference(name, row["to_control"].get(name)) for name in names]
            lines.append([f"{row['name']} − {row['control']}", *cells])
        text.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    corpus = table["corpus"]
    counts = ", ".join(f"{number} {name}" for name, number in corpus["counts"].items())
    text.append(f"Corpus: {counts}{'; ' + corpus['note'] if corpus['note'] else ''}. ")
    first = rows[0]["numbers"][names[0]]
    text.append(
        f"{first['seeds']} sampling seeds; ± is the standard deviation over seeds, brackets are 95 % "
        "intervals of paired differences over compositions, points of per cent where the column has %."
    )
    if table["judged"]:
        text.append("; ".join(f"{key}: {value}" for key, value in table["judged"].items() if value) + ".")
    return "\n\n".join(text) + "\n"


def _scale(name: str) -> tuple[float, int]:
    """Factor and digits."""
    return (100.0, 1) if HEADINGS[name].endswith("%") else (1.0, 3)


def _number(name: str, found: dict[str, Any]) -> str:
    if found["mean"] is None:
        return "–"
    factor, digits = _scale(name)
    spread = "" if found["std"] is None else f" ± {factor * found['std']:.{digits}f}"
    return f"{factor * found['mean']:.{digits}f}{spread}"


def _difference(name: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    factor, digits = _scale(name)
    value, low, high = (factor * found[key] for key in ("value", "low", "high"))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
