"""Formulas ranked per second of one core: all binaries and ternaries of the searchable elements, exactly.

Usage: python benchmarks/screening.py [-n 2000]; the last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import time

from anchor.config import ActionSpace
from anchor.hull.references import load_hull
from anchor.policy.constraints import Limits
from anchor.screening.estimate import load_estimate
from anchor.screening.ranking import rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="best formulas to find")
    n = parser.parse_args().n
    estimate = load_estimate()
    templates = len(estimate.prior.shelves)  # read before the clock starts, like the networks
    searchable = load_hull("mattersim-1m").searchable_elements
    limits = Limits.from_config(ActionSpace(k=(2, 3)), searchable=searchable)
    began = time.process_time()
    found = rank(estimate, limits, n)
    seconds = time.process_time() - began
    listed = sum(found.listed.values())
    print(
        json.dumps(
            {
                "n": n,
                "elements": len(searchable),
                "stoichiometries_with_templates": templates,
                "formulas": listed,
                "estimated": found.estimated,
                "cpu_seconds": round(seconds, 1),
                "formulas_per_second": round(listed / seconds),
                "last_chance": float(found.metastable[-1]),
            }
        )
    )


if __name__ == "__main__":
    main()
