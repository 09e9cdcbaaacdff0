"""What campaigns found in each stretch of their way, as tables.

    python benchmarks/windows.py CAMPAIGN [CAMPAIGN …] [--window 1024]

Of each window: valid, of these known formulas and the median energy above the hull, unique (among all so
far), MSUN and SUN with 95 % intervals, SUN in systems of which the databases list a compound, structures by
number of elements, the elements that most of them hold, and who made the crystals: made, valid, and valid
within 0.1 eV/atom of the hull. Energies are those of the search.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from anchor.chemistry.formula import parse_amounts
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.search.ledger import Ledger
from anchor.statistics import wilson_interval

COUNTED = ("valid", "unique", "msun", "sun")
HEAD = (
    "structures", "valid", "known", "eV/atom", "unique", "MSUN (95 %)", "SUN (95 %)", "… known systems",
    "k = 2, 3, 4", "held by most", "made by",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", type=Path, nargs="+")
    parser.add_argument("--window", type=int, default=1024)
    arguments = parser.parse_args()
    for campaign in arguments.campaigns:
        print(f"\n{campaign}\n")
        print(f"| {' | '.join(HEAD)} |")
        print("| --- " * len(HEAD) + "|")
        tally, window, elements, n = Tally(), Counter[str](), Counter[str](), 0
        above: list[float] = []
        makers: dict[str, list[int]] = {}
        rows = Ledger.open(str(campaign)).rows((*TALLY_COLUMNS, "n_elements", "thin", "made_by"))
        for row in rows:
            flags = tally.add(row)
            window.update(name for name in COUNTED if flags[name])
            window.update([f"k{row['n_elements']}", *["studied"] * (flags["sun"] and not row["thin"])])
            elements.update(list(parse_amounts(row["formula"])))
            if row["made_by"]:
                near = bool(flags["valid"] and row[ABOVE] <= METASTABLE_BELOW)
                counts = makers.setdefault(row["made_by"], [0, 0, 0])
                makers[row["made_by"]] = [
                    a + b for a, b in zip(counts, (1, bool(flags["valid"]), near), strict=True)
                ]
            if flags["valid"]:
                window.update(["known"] * bool(row["known_in"]))
                above.append(row[ABOVE])
            n += 1
            if n == arguments.window:
                print(line(window, above, elements, makers, tally.proposed, n))
                window, above, elements, makers, n = Counter(), [], Counter(), {}, 0
        if n:
            print(line(window, above, elements, makers, tally.proposed, n))
        print(f"\nin all {tally.proposed}: MSUN {tally.counts['msun']}, SUN {tally.counts['sun']}")


def line(
    window: Counter[str],
    above: list[float],
    elements: Counter[str],
    makers: dict[str, list[int]],
    end: int,
    n: int,
) -> str:
    """Counts of n structures, of which `end` is the last."""
    middle = f"{np.median(above):.3f}" if above else ""
    cells = [f"{end - n + 1:,} – {end:,}", str(window["valid"]), str(window["known"]), middle]
    cells.append(str(window["unique"]))
    for name in ("msun", "sun"):
        low, high = wilson_interval(window[name], n)
        cells.append(f"{window[name]} ({100 * low:.0f}–{100 * high:.0f} %)")
    cells += [str(window["studied"]), ", ".join(str(window[f"k{k}"]) for k in (2, 3, 4))]
    cells.append(", ".join(f"{symbol} {100 * held / n:.0f} %" for symbol, held in elements.most_common(3)))
    cells.append("; ".join(f"{name} {a}, {b}, {c}" for name, (a, b, c) in sorted(makers.items())))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
