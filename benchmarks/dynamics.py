"""Level 5 on known compounds: how deep imaginary modes of stable crystals go, and what following them gains.

    python benchmarks/dynamics.py -n 30           # lowest modes, depth and gain, CPU seconds
    python benchmarks/dynamics.py -n 30 --seed 1  # another draw

Drawn at random: compounds of two and three elements that are on the DFT hull of both databases, with at most
12 atoms in the cell of their lowest crystal in the reference. The level says what it says; beside that, each
mode below zero, however little, is followed down. Lines are printed as they come; nothing is left out.
"""

import argparse
import json
import sys
import time

import numpy as np

from anchor.executors import Inline
from anchor.hull.energies import load_energies
from anchor.reference.reference import load_reference
from anchor.verify import dynamics
from anchor.verify.claims import Claim, Context
from anchor.verify.dynamics import Dynamics, Fall, Stand
from anchor.verify.loading import load_judge

MOST_ATOMS = 12


def choose(n: int, seed: int) -> list[tuple[str, int]]:
    """Formulas and rows of reference crystals."""
    from blind import dft_distances  # the same kind of draw

    reference = load_reference()
    lowest: dict[str, int] = {}
    for row, formula in enumerate(reference.formulas.tolist()):
        if formula not in lowest or reference.stability[row] < reference.stability[lowest[formula]]:
            lowest[formula] = row
    sizes = reference.crystals.compositions.k
    formulas = [
        f
        for f, row in sorted(lowest.items())
        if sizes[row] in (2, 3)
        and reference.stability[row] <= 0
        and reference.crystals.counts[row] <= MOST_ATOMS
    ]
    distances = dft_distances(formulas)
    stable = [f for i, f in enumerate(formulas) if all(abs(d[i]) < 1e-6 for d in distances.values())]
    print(f"drawn from {len(stable)} stable compounds of two and three elements", file=sys.stderr)
    chosen = np.random.default_rng(seed).choice(stable, min(n, len(stable)), replace=False)
    return [(str(f), lowest[str(f)]) for f in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-n", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--potential", default="mattersim-1m")
    given = parser.parse_args()
    judge = load_judge(given.potential, Inline())
    reference = load_reference()
    energies = load_energies(given.potential, reference.crystals).lowest
    context = Context(judge, judge.hull, reference, Inline())
    level, tolerance = Dynamics(), dynamics.IMAGINARY
    rows = []
    for formula, row in choose(given.n, given.seed):
        began = time.process_time()
        claim = Claim(formula, reference.crystals[row], float(energies[row]), {"union": 0.0})
        (verdict,) = level.attack([claim], context)
        seconds = round(time.process_time() - began, 2)
        dynamics.IMAGINARY = 0.0  # see all of them
        stand = Stand.of(claim, judge)
        if isinstance(stand, str):
            print(json.dumps({"formula": formula, "why": stand}), flush=True)
            continue
        found = {"formula": formula, "passed": verdict.passed, "says": verdict.reason, **stand.evidence()}
        if stand.phonons.lowest < 0:
            fall = Fall.of(stand, context, (formula,))
            found |= {"gain_mev": round(1000 * fall.gain, 2), **fall.evidence()}
        dynamics.IMAGINARY = tolerance
        found["cpu_seconds"] = seconds
        rows.append(found)
        print(json.dumps(found), flush=True)
    lowest = np.array([row["lowest_thz"] for row in rows])
    print(f"{len(rows)} of {given.n}; imaginary at all: {(lowest < 0).sum()}")
    for depth in (0.05, 0.1, 0.2, 0.3, 0.5, 1.0):
        deep = [row for row in rows if row["lowest_thz"] < -depth]
        gaining = sum(row["gain_mev"] > 2 for row in deep)
        print(f"  deeper than {depth} THz: {len(deep)}, of which gain more than 2 meV/atom: {gaining}")
    print(
        f"passed: {sum(row['passed'] is True for row in rows)}, "
        f"as something lower: {sum('replaced' in row['says'] for row in rows)}"
    )
    print(f"CPU seconds: median {np.median([row['cpu_seconds'] for row in rows]):.1f}")


if __name__ == "__main__":
    main()
