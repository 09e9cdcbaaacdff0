"""How the searches of a study went: what is valid, new and near the hulls, window by window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from anchor.search.ledger import Ledger

if TYPE_CHECKING:
    from anchor.studies.cells import Results
    from anchor.studies.declaration import Study

T = TypeVar("T")
LATE = 10
"""The late window is a tenth of a search, 10,000 structures in the paper."""
WINDOWS = 20
"""Points of the curves."""
PANELS = (
    "valid, %",
    "first of their formula, %",
    "known formulas of valid, %",
    "median E_hull of valid, eV/atom",
)
ABOVE = "energy_above_hull_ev_per_atom"


def finished_ledgers(study: Study, results: Results) -> dict[str, Ledger]:
    """Ledgers of a study's finished searches by the label of their row."""
    found: dict[str, Ledger] = {}
    for row in study.made:
        if row.label not in found and (ledger := results.ledger(row)) is not None:
            found[row.label] = ledger
    return found


def late(rows: list[T]) -> list[T]:
    """The last tenth of a search."""
    return rows[-max(1, len(rows) // LATE) :]


def windows(n: int) -> list[np.ndarray]:
    """n structures in up to 20 parts, in order."""
    return np.array_split(np.arange(n), min(WINDOWS, n))


def progress(ledger: Ledger) -> np.ndarray:
    """Structures so far and the values of PANELS, window by window.  # [window, 5]"""
    rows = list(ledger.rows(("formula", "valid", "known_in", ABOVE)))
    seen: set[str] = set()
    points = []
    for part in windows(len(rows)):
        window = [rows[i] for i in part]
        first = 0
        for row in window:
            first += row["formula"] not in seen
            seen.add(row["formula"])
        valid = [row for row in window if row["valid"]]
        known = sum(row["known_in"] != "" for row in valid) / len(valid) if valid else np.nan
        above = [row[ABOVE] for row in valid if row[ABOVE] is not None]
        shares = (len(valid) / len(window), first / len(window), known)
        median = np.median(above) if above else np.nan
        points.append([part[-1] + 1, *(100 * share for share in shares), median])
    return np.array(points, float)


def draw_searches(study: Study, results: Results, folder: Path) -> list[Path]:
    """The curves of all finished searches of a study as a PNG."""
    ledgers = finished_ledgers(study, results)
    if not ledgers:
        return []
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(PANELS), figsize=(14, 3.6), layout="constrained")
    for label, ledger in ledgers.items():
        structures, *curves = progress(ledger).T
        for panel, curve in zip(panels, curves, strict=True):
            panel.plot(structures, curve, label=label)
    for panel, title in zip(panels, PANELS, strict=True):
        panel.set(xlabel="structures", title=title, ylim=(0, None))
    panels[0].legend(fontsize="small")
    figure.suptitle(f"{results.scale.name}: {results.scale.budget}", fontsize=8)
    path = folder / f"{study.name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
