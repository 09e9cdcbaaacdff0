"""Uniqueness of 10,000 structures on one core, and the ratio to comparing all pairs.

    python benchmarks/uniqueness.py [N]

The set is harder than what generators write: a quarter are reference crystals, drawn formula by formula so
that polymorphs stay together; the other three quarters are shifted and rattled copies of them. All pairs are
timed on a part of the set, checked to give the same answer there, and extrapolated by the number of pairs.
The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.matching.uniqueness import first_structures
from anchor.random import generator
from anchor.reference.reference import load_reference

RATTLE = 0.03  # Å
PART = 400


def many(n: int) -> Crystals:
    """n structures of about n/8 formulas, in random order."""
    reference, rng = load_reference(), generator(0, "benchmark", "uniqueness")
    names, size = np.unique(reference.formulas, return_counts=True)
    names = rng.permutation(names[size >= 2])[: n // 8]
    originals = reference.crystals[np.flatnonzero(np.isin(reference.formulas, names))[: n // 4]]
    chosen = originals[rng.integers(len(originals), size=n)]
    shift = rng.random((len(chosen), 3))[chosen.owner]
    cart = chosen.cart + RATTLE * rng.normal(size=(chosen.n_atoms, 3))
    frac = np.einsum("ai,aij->aj", cart, np.linalg.inv(chosen.lattice)[chosen.owner])
    return chosen.replace(frac=frac + shift)


def all_pairs(crystals: Crystals) -> tuple[list[bool], int]:
    """Compare every structure with every earlier first; also the number of comparisons."""
    matcher, firsts, unique, pairs = StructureMatcher(), [], [], 0
    for structure in crystals.to_structures():
        match = False
        for first in firsts:
            pairs += 1
            if match := matcher.fit(first, structure):
                break
        unique.append(not match)
        if not match:
            firsts.append(structure)
    return unique, pairs


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    crystals = many(n)
    start = time.perf_counter()
    unique = (first_structures(crystals) == np.arange(len(crystals))).tolist()
    seconds = time.perf_counter() - start

    part = crystals[np.argsort(crystals.formulas, kind="stable")[: min(PART, n)]]
    start = time.perf_counter()
    grouped = (first_structures(part) == np.arange(len(part))).tolist()
    part_seconds = time.perf_counter() - start
    start = time.perf_counter()
    brute, _ = all_pairs(part)
    brute_seconds = time.perf_counter() - start
    assert grouped == brute, "grouping by formula changed the answer"
    # every structure is compared with the firsts before it: the number of pairs grows with the square
    estimate = brute_seconds * (n / len(part)) ** 2
    print(
        f"{n} structures, {len(set(crystals.formulas))} formulas: {sum(unique)} unique in {seconds:.1f} s\n"
        f"{len(part)} of them: {part_seconds:.2f} s grouped, {brute_seconds:.2f} s all pairs (same answer); "
        f"all pairs of {n}: about {estimate / 60:.0f} min"
    )
    print(
        json.dumps(
            {
                "structures": n,
                "unique": sum(unique),
                "seconds": round(seconds, 2),
                "all_pairs_seconds_estimated": round(estimate, 1),
                "ratio": round(estimate / seconds, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
