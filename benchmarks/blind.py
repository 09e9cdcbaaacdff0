"""Blind test of hull and potential together: stable and unstable compounds that the hulls do not know.

    python benchmarks/blind.py                     # all bundled potentials, both databases
    python benchmarks/blind.py --without-filling   # without phases that were made to fill holes
    python benchmarks/blind.py --thin              # also hide all else with the same three elements

300 stable compounds of three elements are drawn: on the DFT hull of both databases, and with that crystal in
the bundled reference. 300 more are more than 0.1 eV/atom above the DFT hull in each database that has them.
All 600 are taken out of both databases and out of the potential's own phases at once; then the potential's
stored energies of their crystals are placed on what is left. A perfect oracle puts all of the first at or
below zero and none of the second below 0.1. Nothing is fitted or chosen by the outcome; the seed fixes it.
The calibration has seen the crystals (about 1 in 30 of those it was fitted on).
"""

import argparse
import json
from pathlib import Path

import numpy as np

from anchor.chemistry.formula import parse_amounts
from anchor.hull.belief import amounts_of
from anchor.hull.competition import FILLED
from anchor.hull.databases import dft_hull
from anchor.hull.energies import load_energies
from anchor.hull.hull import Hull
from anchor.hull.phases import Phases, composition_matrix
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference
from anchor.statistics import wilson_interval

POTENTIALS = ("mattersim-1m", "mattersim-5m", "sevennet-0", "chgnet")
LIMITS = (0.0, 0.03, 0.1)
UNSTABLE = 0.1
TEMPTING = 0.03
"""eV/atom above the hull that no error of a potential explains in most cases, and that looks like a find."""


def dft_distances(formulas: list[str]) -> dict[str, np.ndarray]:
    """Distance of each formula's DFT energy to its database's hull, eV/atom; NaN where not listed."""
    found = {}
    for name in ("oqmd", "mp"):
        hull = dft_hull(name)
        reference = load_reference()
        listed = (
            reference.mp_hull_energy
            if name == "mp"
            else dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True))
        )
        energies = np.array([listed.get(formula, np.nan) for formula in formulas])
        found[name] = hull.energy_above_hull(formulas, energies)
    return found


def pools() -> dict[str, list[str]]:
    """Compounds of three elements with a crystal in the reference, by what DFT says of them.

    "stable": on both hulls. "unstable": more than UNSTABLE above the hull of each database that has them.
    "tempting": between TEMPTING and UNSTABLE above it.
    """
    reference = load_reference()
    searchable = set(load_hull("mattersim-1m").searchable_elements)
    lowest: dict[str, float] = {}
    for formula, stability in zip(reference.formulas.tolist(), reference.stability.tolist(), strict=True):
        lowest[formula] = min(stability, lowest.get(formula, np.inf))
    ternary = [f for f in sorted(lowest) if len(_elements(f)) == 3 and _elements(f) <= searchable]
    distances = dft_distances(ternary)
    oqmd, mp = distances["oqmd"], distances["mp"]
    on_both = (np.abs(oqmd) < 1e-6) & (np.abs(mp) < 1e-6)
    stable = [f for f, ok in zip(ternary, on_both, strict=True) if ok and lowest[f] <= 0]
    low, high = np.fmin(oqmd, mp), np.fmax(oqmd, mp)  # of those that list it
    unstable = [f for f, ok in zip(ternary, low > UNSTABLE, strict=True) if ok]
    between = (low > TEMPTING) & (high <= UNSTABLE)
    tempting = [f for f, ok in zip(ternary, between, strict=True) if ok]
    return {"stable": stable, "unstable": unstable, "tempting": tempting}


def choose(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Stable and unstable ternaries, drawn at random."""
    found = pools()
    stable, unstable = found["stable"], found["unstable"]
    rng = np.random.default_rng(seed)
    print(f"drawn from {len(stable)} stable and {len(unstable)} unstable compounds of three elements")
    return (
        sorted(rng.choice(stable, min(n, len(stable)), replace=False).tolist()),
        sorted(rng.choice(unstable, min(n, len(unstable)), replace=False).tolist()),
    )


def _elements(formula: str) -> set[str]:
    return set(parse_amounts(formula))


def without(hull: Hull, hidden: np.ndarray, *, filling: bool, thin: bool) -> Hull:
    """The hull of all phases but those of the hidden compositions (atomic fractions, [n, 119]).

    Args:
        filling: Keep phases that were made to fill holes.
        thin: Hide whatever has the same elements as a hidden composition, too.
    """

    def keys(amounts: np.ndarray) -> list[bytes]:
        return [row.tobytes() for row in (amounts > 0 if thin else np.round(amounts, 6))]

    phases = hull.index.phases
    gone = set(keys(hidden))
    rows = np.arange(len(phases))
    blocks = (keys(amounts_of(phases, rows[a : a + 20000])) for a in range(0, len(rows), 20000))
    keep = np.array([key not in gone for block in blocks for key in block])
    if not filling:
        keep &= phases.sources != FILLED
    rest = Phases(phases.numbers[keep], phases.fractions[keep], phases.energies[keep], phases.sources[keep])
    return Hull(rest, hull.identity)


def score(potential: str, formulas: list[str], *, filling: bool, thin: bool) -> dict[str, np.ndarray]:
    """Energy of the lowest crystal of each formula above the hulls without any of them, eV/atom."""
    reference = load_reference()
    energies = load_energies(potential, reference.crystals).lowest
    where: dict[str, list[int]] = {}
    for i, formula in enumerate(reference.formulas.tolist()):
        where.setdefault(formula, []).append(i)
    energy = np.array([np.nanmin(energies[where[f]]) for f in formulas])
    amounts = composition_matrix(formulas)
    hidden = amounts / amounts.sum(axis=1, keepdims=True)
    found = {}
    for name, database in load_hull(potential).databases.items():
        formation = database.calibration.formation_energy(amounts, energy)
        hull = without(database.union, hidden, filling=filling, thin=thin)
        found[name] = hull.energy_above_hull(amounts, formation)
    found["both"] = np.fmax.reduce(list(found.values()))
    return found


def rate(below: np.ndarray) -> str:
    low, high = wilson_interval(np.array([below.sum()]), np.array([len(below)]))
    return f"{int(below.sum())} ({100 * low[0]:.0f}–{100 * high[0]:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-n", type=int, default=300, help="compounds of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--potentials", nargs="+", default=POTENTIALS)
    parser.add_argument("--without-filling", action="store_true", help="leave out phases that fill holes")
    parser.add_argument("--thin", action="store_true", help="hide all else with the same three elements")
    parser.add_argument("--json", help="write the distances here")
    options = parser.parse_args()
    stable, unstable = choose(options.n, options.seed)
    heads = [f"{kind} ≤ {limit:g}" for kind in ("stable", "unstable") for limit in LIMITS]
    print("| potential | hull | " + " | ".join(heads) + " |")
    print("| --- | --- |" + " --- |" * len(heads))
    everything = {}
    for potential in options.potentials:
        hiding = {"filling": not options.without_filling, "thin": options.thin}
        found = score(potential, stable + unstable, **hiding)
        for hull, above in found.items():
            parts = above[: len(stable)], above[len(stable) :]
            cells = [rate(part <= limit) for part in parts for limit in LIMITS]
            print(f"| {potential} | {hull} | " + " | ".join(cells) + " |", flush=True)
        everything[potential] = {
            hull: dict(zip(stable + unstable, np.round(above, 4).tolist(), strict=True))
            for hull, above in found.items()
        }
    if options.json:
        Path(options.json).write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
