"""How good the screened ranking is at each depth, from a sample of its places.

It learns nothing, so that what comes of a place does not depend on those before it.

    python benchmarks/places.py [--to 20480] [--window 4096] [--each 256] [--hull strict] [--seed 0]

Of every window of places `--each` are drawn by chance and realised as `anchor search --source screened` does
(preset quick: lower of two guesses of the template prior, MatterSim-1M, positions). No formula of the ranking
is known and none comes twice, so that what is valid and within 0.1 eV/atom is MSUN, and on the hulls SUN.
"""

from __future__ import annotations

import argparse

import numpy as np

from anchor.config import load_config
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW, STABLE_BELOW
from anchor.random import generator
from anchor.screening.order import screened_order
from anchor.search.environment import Environment
from anchor.statistics import wilson_interval


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=int, default=20_480)
    parser.add_argument("--window", type=int, default=4096)
    parser.add_argument("--each", type=int, default=256)
    parser.add_argument("--hull", default="union")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.to % arguments.window or arguments.each > arguments.window:
        parser.error("--to is a multiple of --window, and --each at most --window")
    settings = [f"hull.kind={arguments.hull}", "run.workers=1"]
    environment = Environment.load(load_config(preset="quick", overrides=settings).config)
    order = screened_order(environment.limits, arguments.to)
    print("| places | drawn | valid | MSUN (95 %) | SUN (95 %) |\n| --- | --- | --- | --- | --- |")
    for window, first in enumerate(range(0, arguments.to, arguments.window)):
        drawn = generator(arguments.seed, "places", window)
        places = first + np.sort(drawn.choice(arguments.window, arguments.each, replace=False))
        compositions = order.compositions[places]
        visits = [np.zeros(len(places), dtype=np.int64)]
        (found,) = environment.realiser([compositions], step=window, visits=visits)
        valid = found.outcomes.flags("valid")
        above = np.where(valid, found.outcomes.numbers(ABOVE), np.inf)
        cells = [f"{first + 1:,} – {first + arguments.window:,}", str(len(places)), str(valid.sum())]
        for most in (METASTABLE_BELOW, STABLE_BELOW):
            count = int((above <= most).sum())
            low, high = wilson_interval(count, len(places))
            cells.append(f"{count} ({100 * low:.0f}–{100 * high:.0f} %)")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
