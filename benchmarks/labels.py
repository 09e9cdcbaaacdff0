"""Formulas that are worth a relaxation to learn chances from: no list knows them, and all are neutral.

    python benchmarks/labels.py spread.csv                     from the best to the hopeless
    python benchmarks/labels.py best.csv --best 3000 -n 250    of the best 3000 of the whole ranking
    python benchmarks/labels.py within.csv --within -n 16      the best 16 of each of ten known systems

Then: anchor evaluate formulas:spread.csv --query free --candidates 2 --potential mattersim-1m --max-steps 80
--fmax 0.05 --seeds 1 --out eval/spread, and anchor policy labels eval/spread --out labels.csv.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from anchor.chemistry.bounds import primitive_stoichiometries
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.chemistry.spaces import sample_neutral
from anchor.config import Config
from anchor.hull.references import load_hull
from anchor.policy.constraints import Limits
from anchor.random import generator
from anchor.screening.chances import askable
from anchor.screening.estimate import FreeEstimate, load_estimate
from anchor.screening.ranking import rank

POOL = 360_000
"""Random neutral formulas that are ranked, a third of each k."""
AT_RANDOM = 80
"""Of each k, whatever is thought of them."""
BANDS = {
    "top": ((0, 500), {2: 60, 3: 200, 4: 130}),
    "upper": ((500, 3000), {2: 40, 3: 110, 4: 80}),
    "middle": ((3000, 15_000), {2: 30, 3: 60, 4: 50}),
}
"""Ranks in the pool by P_find, and how many of each k are drawn from them."""
MOST_RANKED = 60_000
SYSTEMS = {3: 80, 4: 70}
"""Well-studied systems of each k, drawn from twice as many: those with the most compounds in MP."""
TWICE = ("Li", "Fe", "P", "O")
"""A system that an earlier estimate was far too hopeful about: it gets twelve formulas instead of two."""


SEARCHED = (
    "Li-Fe-P-O", "Na-Mn-O-F", "Li-Co-Ni-O", "Ca-Al-Si-O", "Ba-Ti-Zr-O", "Cu-In-Ga-Se", "Mg-V-P-O",
    "K-Sn-P-S", "Zn-Ge-P-N", "Na-K-Cl-S",
)  # fmt: skip
"""Systems that people search, all well studied."""


def spread(free: FreeEstimate, elements: list[str], *, seed: int) -> dict[str, str]:
    """Formula → part, shuffled: the first n are as good a choice as all."""
    rng = generator(seed, "labels")
    pool = sample_neutral(POOL, rng, "formulas", elements=elements)
    pool = pool[np.sort(np.unique(pool.formulas, return_index=True)[1])]
    chosen: dict[str, str] = {}
    for k in (2, 3, 4):
        own = _new(free, pool[np.flatnonzero(pool.k == k)[: 5 * AT_RANDOM]])[:AT_RANDOM]
        chosen |= dict.fromkeys(own.formulas, "neutral") | chosen
    for k in (2, 3, 4):
        own = pool[pool.k == k]
        shelved = [
            tuple(counts) in free.prior.shelves for counts in np.sort(own.counts.reshape(-1, k)).tolist()
        ]
        own = _new(free, own[np.array(shelved)][:MOST_RANKED])
        order = np.argsort(-_find(free, own), kind="stable")
        for part, ((first, last), wanted) in BANDS.items():
            rows = rng.permutation(order[first:last])[: wanted[k]]
            chosen = dict.fromkeys(own[rows].formulas, part) | chosen
    for system in [*_studied(free, elements, rng), tuple(sorted(NUMBER[s] for s in TWICE))]:
        k, counts = len(system), primitive_stoichiometries(len(system))
        own = Compositions(np.full(len(counts), k), np.tile(system, len(counts)), counts.reshape(-1))
        own = _new(free, own[is_neutral(own)])
        if len(own):
            order = np.argsort(-_find(free, own), kind="stable")
            more = 11 if {SYMBOLS[z] for z in system} == set(TWICE) else 1
            rows = [order[0], *rng.permutation(order[1:20])[:more]]
            chosen = dict.fromkeys(own[np.array(rows)].formulas, "studied") | chosen
    names = list(chosen)
    return {names[i]: chosen[names[i]] for i in rng.permutation(len(names)).tolist()}


def best(free: FreeEstimate, elements: list[str], *, ranks: int, n: int, seed: int) -> dict[str, str]:
    """n of the best `ranks` formulas of the whole ranking."""
    found = rank(free, Limits.from_config(Config().action_space, searchable=elements), ranks)
    rows = generator(seed, "labels", "best").permutation(len(found))[:n]
    return dict.fromkeys(found.compositions[rows].formulas, "best")


def within(free: FreeEstimate, *, n: int) -> dict[str, str]:
    """The best n formulas of each of SEARCHED, as a search with such limits finds them."""
    chosen: dict[str, str] = {}
    for symbols in SEARCHED:
        limits = Limits.from_config(Config().action_space.model_copy(update={"elements": symbols.split("-")}))
        chosen |= dict.fromkeys(rank(free, limits, n).compositions.formulas, symbols)
    return chosen


def _new(free: FreeEstimate, compositions: Compositions) -> Compositions:
    return compositions[askable(compositions, free.reference)]


def _find(free: FreeEstimate, compositions: Compositions) -> np.ndarray:
    return free.plausibility.probability(free.evidence(compositions))


def _studied(free: FreeEstimate, elements: list[str], rng: np.random.Generator) -> list[tuple[int, ...]]:
    allowed = {NUMBER[s] for s in elements}
    listed = free.reference.mp_hull["numbers"].tolist()
    counts = Counter(tuple(z for z in row if z) for row in listed)
    found = []
    for k, n in SYSTEMS.items():
        own = [s for s, _ in counts.most_common() if len(s) == k and allowed.issuperset(s)][: 2 * n]
        found += [own[i] for i in np.sort(rng.permutation(len(own))[:n])]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--best", type=int, help="ranks of the whole ranking to draw from")
    parser.add_argument("--within", action="store_true", help="the best of ten known systems")
    parser.add_argument("-n", type=int, default=250, help="formulas to draw")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    free = load_estimate()
    searchable = load_hull("mattersim-1m").searchable_elements
    elements = [s for s in searchable if NUMBER[s] in free.prior.elements]
    if given.best:
        chosen = best(free, elements, ranks=given.best, n=given.n, seed=given.seed)
    elif given.within:
        chosen = within(free, n=given.n)
    else:
        chosen = spread(free, elements, seed=given.seed)
    lines = ["formula,part", *(f"{formula},{part}" for formula, part in chosen.items())]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(chosen)} formulas: {dict(Counter(chosen.values()))}")


if __name__ == "__main__":
    main()
