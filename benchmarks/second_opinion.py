"""What a second potential in the reward is worth: finds judged by a potential that no campaign has seen.

    anchor search --out plain --finds 0 --verify 0
    anchor search --out second --finds 0 --verify 0 --set relax.second=sevennet-0
    python benchmarks/second_opinion.py plain second --potential mattersim-5m --potential chgnet -n 150

Of each campaign's new candidates on the hulls (the first of each formula) n are drawn by chance, relaxed with
the cell free by each potential, and placed on that potential's own calibrated hulls of both databases.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from anchor.api import energy_above_hull
from anchor.crystals.crystals import Crystals
from anchor.outcomes.columns import ABOVE
from anchor.random import generator
from anchor.search.ledger import Ledger, decode_crystal
from anchor.statistics import wilson_interval

TOLERANCE = 0.03
"""eV/atom, that of level 3 of `anchor verify`."""


def stable_new(folder: Path, below: float) -> tuple[Crystals, int]:
    """Relaxed crystals of new formulas at most so far above the hulls, and how many were proposed."""
    found: dict[str, Crystals] = {}
    proposed = 0
    for row in Ledger.open(str(folder)).rows(["formula", "valid", "known_in", ABOVE, "relaxed"]):
        proposed += 1
        above = row[ABOVE]
        if row["valid"] and not row["known_in"] and above is not None and above <= below:
            found.setdefault(row["formula"], decode_crystal(row["relaxed"]))
    return Crystals.concatenate(list(found.values())), proposed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", type=Path, nargs="+")
    parser.add_argument("--potential", action="append", required=True)
    parser.add_argument("-n", type=int, default=150)
    parser.add_argument("--below", type=float, default=0.0, help="eV/atom above the hulls")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| campaign | proposed | claimed | judged by | drawn | on its hulls | within 0.03 | CPU s each |")
    print("| --- " * 8 + "|")
    for folder in given.campaigns:
        crystals, proposed = stable_new(folder, given.below)
        rng = generator(given.seed, "second opinion")
        rows = np.sort(rng.permutation(len(crystals))[: given.n])
        for potential in given.potential:
            began = time.process_time()
            answers = energy_above_hull(crystals[rows].to_structures(), potential=potential, workers=1)
            seconds = (time.process_time() - began) / len(rows)
            above = np.array([np.nan if r[ABOVE] is None else r[ABOVE] for r in answers.rows])
            cells = [counted(above <= limit) for limit in (given.below, given.below + TOLERANCE)]
            print(
                f"| {folder.name} | {proposed} | {len(crystals)} | {potential} | {len(rows)} | "
                f"{' | '.join(cells)} | {seconds:.2f} |",
                flush=True,
            )


def counted(hits: np.ndarray) -> str:
    low, high = wilson_interval(int(hits.sum()), len(hits))
    return f"{int(hits.sum())} ({100 * low:.0f}–{100 * high:.0f} %)"


if __name__ == "__main__":
    main()
