"""Charge neutrality against pymatgen: agreement on random actions of the space, and the speed of both.

Usage: python benchmarks/neutrality.py [-n 20000] [--seed 0]; the last line is one JSON document. pymatgen
needs about 10 ms for a composition, so the default takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from pymatgen.core import Composition as PymatgenComposition

from anchor.chemistry.charge import charge_table, is_neutral
from anchor.chemistry.spaces import sample_random
from anchor.cli.common import progress
from anchor.random import generator

REPEATED = 500_000  # compositions for our own speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20_000, help="compositions to compare")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    start = time.process_time()
    charge_table()
    table_s = time.process_time() - start
    rng = generator(arguments.seed, "neutrality")
    large = sample_random(REPEATED, rng)
    start = time.process_time()
    share = is_neutral(large).mean()
    ours_per_s = REPEATED / (time.process_time() - start)

    # Half by steps and half flat, so that both measures of the space are compared
    half = arguments.n // 2
    batches = [sample_random(half, rng), sample_random(arguments.n - half, rng, "flat")]
    agree, pymatgen_s = 0, 0.0
    for batch in batches:
        found = is_neutral(batch)
        for composition, ours in progress(
            zip(batch, found.tolist(), strict=True), total=len(batch), label="pymatgen"
        ):
            theirs = PymatgenComposition(dict(zip(composition.elements, composition.counts, strict=True)))
            start = time.process_time()
            expected = bool(theirs.oxi_state_guesses())
            pymatgen_s += time.process_time() - start
            agree += expected == ours
            if expected != ours:
                print(f"{composition}: pymatgen says {expected}, anchor {ours}", file=sys.stderr)
    pymatgen_per_s = arguments.n / pymatgen_s
    print(
        json.dumps(
            {
                "compared": arguments.n,
                "agree": agree,
                "neutral_share_of_random": round(float(share), 4),
                "anchor_per_s": round(ours_per_s),
                "pymatgen_per_s": round(pymatgen_per_s, 1),
                "ratio": round(ours_per_s / pymatgen_per_s),
                "table_s": round(table_s, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
