"""What a gate makes of a search (fig:element_sampling): elements, metals, size of formulas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pymatgen.core import Element

from anchor.chemistry.formula import parse_amounts
from anchor.search.ledger import Ledger
from anchor.studies.search_figure import finished_ledgers, late, windows

if TYPE_CHECKING:
    from anchor.studies.cells import Results
    from anchor.studies.declaration import Study

SHOWN = 24
"""Elements in the panel."""


def formulas(ledger: Ledger) -> list[dict[str, int]]:
    """Amounts of every proposal."""
    return [parse_amounts(row["formula"]) for row in ledger.rows(("formula",))]


def all_metal(amounts: dict[str, int]) -> bool:
    return all(Element(symbol).is_metal for symbol in amounts)


def element_shares(proposals: list[dict[str, int]]) -> dict[str, float]:
    """Share of the formulas of the last tenth that have each element: 400 steps of the paper's searches."""
    last = late(proposals)
    counts = Counter(symbol for amounts in last for symbol in amounts)
    return {symbol: count / len(last) for symbol, count in counts.most_common()}


def curves(proposals: list[dict[str, int]]) -> list[tuple[int, float, float]]:
    """Structures so far, all-metal share and mean atoms per formula, window by window."""
    points = []
    for part in windows(len(proposals)):
        window = [proposals[i] for i in part]
        metals = float(np.mean([all_metal(amounts) for amounts in window]))
        atoms = float(np.mean([sum(amounts.values()) for amounts in window]))
        points.append((int(part[-1]) + 1, metals, atoms))
    return points


def draw_gates(study: Study, results: Results, folder: Path) -> list[Path]:
    """The figure of all finished searches of a study as a PNG."""
    ledgers = finished_ledgers(study, results)
    if not ledgers:
        return []
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = {label: formulas(ledger) for label, ledger in ledgers.items()}
    shares = {label: element_shares(proposals) for label, proposals in found.items()}
    most = Counter(
        {s: max(part.get(s, 0) for part in shares.values()) for part in shares.values() for s in part}
    )
    symbols = [symbol for symbol, _ in most.most_common(SHOWN)]
    figure, (elements, metals, atoms) = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    width = 0.8 / len(shares)
    for i, (label, part) in enumerate(shares.items()):
        heights = [100 * part.get(symbol, 0) for symbol in symbols]
        elements.bar(np.arange(len(symbols)) + i * width, heights, width, label=label)
        x, metal, size = zip(*curves(found[label]), strict=True)
        metals.plot(x, [100 * m for m in metal], label=label)
        atoms.plot(x, size, label=label)
    elements.set_xticks(np.arange(len(symbols)), symbols, fontsize=6)
    elements.set(ylabel="formulas with the element, %", title="last tenth of the search")
    metals.set(xlabel="structures", ylabel="all-metal formulas, %", ylim=(0, 100))
    atoms.set(xlabel="structures", ylabel="atoms per formula", ylim=(0, None))
    elements.legend(fontsize="small")
    figure.suptitle(f"{results.scale.name}: {results.scale.budget}", fontsize=8)
    path = folder / "gates.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
