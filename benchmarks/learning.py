"""How well what outcomes teach ranks the formulas that a search tries next: a campaign played back.

    python benchmarks/learning.py CAMPAIGN [--window 512]

After every window the trees of `anchor.screening.learning` hear all outcomes so far, and say how likely each
formula of the next window is on the hulls; beside them the free estimate, which hears nothing. The next
window was chosen by the campaign, mostly of formulas that it thought good, so that areas under the curve are
low for whoever chose; expected and real counts tell whether chances are chances.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from anchor.chemistry.composition import Compositions
from anchor.outcomes.columns import ABOVE
from anchor.screening.estimate import load_estimate
from anchor.screening.learning import learn, portraits
from anchor.search.ledger import Ledger


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", type=Path)
    parser.add_argument("--window", type=int, default=512)
    given = parser.parse_args()
    rows = list(Ledger.open(str(given.campaign)).rows(["formula", "valid", ABOVE]))
    formulas = Compositions.from_list([row["formula"] for row in rows])
    above = np.array([row[ABOVE] if row["valid"] and row[ABOVE] is not None else np.nan for row in rows])
    estimates = load_estimate()(formulas)
    seen = portraits(formulas, estimates)
    print("| outcomes heard | next | on the hulls | expected: trees, estimate | area under the curve: same |")
    print("| --- " * 5 + "|")
    for heard in range(0, len(rows) - given.window + 1, given.window):
        part = slice(heard, heard + given.window)
        on = above[part] <= 0
        chances = learn(seen[:heard], above[:heard]).chances(seen[part])[1], estimates.stable[part]
        sums = ", ".join(f"{chance.sum():.0f}" for chance in chances)
        areas = ", ".join(f"{roc_auc_score(on, chance):.2f}" for chance in chances)
        print(f"| {heard} | {given.window} | {on.sum()} | {sums} | {areas} |", flush=True)


if __name__ == "__main__":
    main()
