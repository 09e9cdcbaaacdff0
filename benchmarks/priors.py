"""All structure priors side by side, on held-out crystals of the bundled reference, in one run.

    python benchmarks/priors.py [--priors templates omatg] [-n 500] [--many 200] [--relax 200] [--unseen 100]
    python benchmarks/priors.py --priors omatg -n 200 --many 0 --steps 10 25 50

match@1 and RMSE over n test crystals, match@20 over `many` of them (StructureMatcher stol 0.5, angle 10°,
ltol 0.3; learned priors alone, that is with random crystals where they fail); crystals per second of ten-atom
cells; parameters and training time. Then `relax` test compositions, one crystal each: positions and then the
cell relaxed with MatterSim-1M; root mean square displacement of the atoms by the nearest image without drift,
and the share within 0.1 eV/atom of the union hull, of all asked (what failed counts as not). `--neutral` and
`--unseen` do the same with random neutral compositions, of any stoichiometry and of such as no training
crystal has. `--rare` matches all known held-out crystals of such stoichiometries. `--steps` adds the match
rate of learned priors against sampler steps.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from typing import Any

import numpy as np

from anchor.chemistry.composition import Composition
from anchor.chemistry.spaces import sample_neutral
from anchor.crystals.crystals import Crystals
from anchor.errors import MissingDependencyError
from anchor.hull import load_hull
from anchor.matching.displacement import site_rmsd
from anchor.potentials import load_potential
from anchor.priors import Prior, is_learned, load_prior
from anchor.priors.learned import LearnedPrior
from anchor.priors.match_rate import cell_of, held_out, measure, training_stoichiometries
from anchor.priors.units import anonymous, stoichiometry
from anchor.priors.wyckoff import WyckoffPrior
from anchor.random import generator
from anchor.relax.engine import relax

POTENTIAL = "mattersim-1m"
METASTABLE = 0.1
"""eV/atom above the union hull."""
ALL = ["templates", "random", "wyckoff", "omatg", "kldm", "crystalite"]
MANY = 20
"""Samples per crystal of match@20."""
TIMED = 64
"""Different compositions of ten atoms, for the speed."""


def matches(prior: Prior, n: int, many: int) -> dict[str, Any]:
    """Match rates on the test split: one sample for n crystals, twenty for `many`; 0: left out."""
    answer: dict[str, Any] = {}
    if n:
        once = measure(prior, held_out("test", n), 1).summary()
        answer = {
            "match@1": once["match_rate"],
            "n": once["n"],
            "standard_error": once["match_rate_standard_error"],
            "rmse": once["rmse"],
            "valid": once["valid"],
            "volume_error_median": once["volume_error_median"],
            "by_atoms": {key: value["match_rate"] for key, value in once["by_atoms"].items()},
        }
    if many:
        often = measure(prior, held_out("test", many), MANY).summary()
        answer |= {"match@20": often["match_rate"], "n_match@20": often["n"]}
        answer["match@20_standard_error"] = often["match_rate_standard_error"]
    return answer


def rare(prior: Prior) -> dict[str, Any]:
    """Match of the validation and test crystals whose stoichiometry no training crystal has."""
    known = Crystals.concatenate([held_out("val"), held_out("test")])
    seen = training_stoichiometries()
    unseen = [i for i, (_, ratio, _) in enumerate(anonymous(known)) if ratio not in seen]
    found = measure(prior, known[np.array(unseen)], MANY).summary()
    first = round(found["match_rate_first_sample"] * len(unseen))
    return {"crystals": len(unseen), "matched@1": first, f"matched@{MANY}": found["matched"]}


def speed(prior: Prior) -> dict[str, float]:
    """Crystals of ten atoms per second, of wall time and of CPU time."""
    known = held_out("test")
    cells = [cell_of(known[i]) for i in np.flatnonzero(known.counts == 10)[: TIMED + 4]]
    prior.sample(cells[:4], seed=1)
    wall, cpu = time.perf_counter(), time.process_time()
    prior.sample(cells[4:], seed=2)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    n = len(cells) - 4
    return {"crystals_per_second": n / wall, "crystals_per_cpu_second": n / cpu}


def known_cells(n: int) -> list[Composition]:
    """Cells of n test crystals."""
    return [cell_of(crystal) for crystal in held_out("test", n)]


def neutral_cells(n: int, *, unseen: bool) -> list[Composition]:
    """n random charge-neutral compositions; only such as no training crystal has the stoichiometry of?"""
    elements = load_hull(load_potential(POTENTIAL)).searchable_elements
    drawn = sample_neutral(max(10 * n, 300), generator(0, "benchmark", "neutral"), "by-k", elements=elements)
    seen = training_stoichiometries()
    chosen = [c for c in drawn if not (unseen and stoichiometry(c.counts) in seen)]
    return chosen[:n]


def relaxed(prior: Prior, cells: list[Composition], max_steps: int) -> dict[str, Any]:
    """How near its crystals are to a minimum, and how low that is."""
    n = len(cells)
    potential = load_potential(POTENTIAL)
    hull = load_hull(potential)
    made = prior.sample(cells, seed=0, stream=("benchmark", "relax"))
    crystals = made
    for cell in (False, True):
        found = relax(crystals, potential, cell=cell, max_steps=max_steps, fmax=0.05)
        crystals = found.crystals
    ended = np.isin(found.status, ("converged", "capped")) & np.isfinite(found.energy)
    scores = hull.score(
        crystals, np.where(ended, found.energy, np.nan), checkpoint_hash=potential.checkpoint_hash
    )
    above = scores.energy_above_hull
    moved = displacements(crystals, made, ended)
    return {
        "relaxed": n,
        "max_steps": max_steps,
        "failed": int((~ended).sum()),
        "relaxation_rmsd_angstrom_median": float(np.median(moved)),
        "relaxation_rmsd_angstrom_mean": float(moved.mean()),
        "metastable": float((above <= METASTABLE).mean()),
        "metastable_count": int((above <= METASTABLE).sum()),
        "energy_above_hull_median_ev_per_atom": float(np.nanmedian(above)),
    }


def displacements(after: Crystals, before: Crystals, ended: np.ndarray) -> np.ndarray:
    """Of those whose relaxation ended, Å."""
    return np.array([site_rmsd(after[i], before[i]) for i in np.flatnonzero(ended).tolist()])


def report(name: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    options = {"fallback": "random"} if is_learned(name) else {}
    try:
        prior = load_prior(name, **options)
    except MissingDependencyError as error:
        return {"prior": name, "missing": error.message}
    row: dict[str, Any] = {"prior": name}
    if isinstance(prior, LearnedPrior | WyckoffPrior):
        row |= {"parameters": prior.model.n_parameters, **prior.training}
    row |= matches(prior, arguments.n, arguments.many)
    if arguments.n:
        row |= speed(prior)
    if arguments.relax:
        row |= relaxed(prior, known_cells(arguments.relax), arguments.max_steps)
    if arguments.rare:
        row["rare"] = rare(prior)
    for what in ("neutral", "unseen"):
        if n := getattr(arguments, what):
            cells = neutral_cells(n, unseen=what == "unseen")
            row[what] = relaxed(prior, cells, arguments.max_steps)
    if isinstance(prior, LearnedPrior) and arguments.steps:
        row["match@1_by_steps"] = {
            steps: measure(
                load_prior(name, steps=steps, **options), held_out("test", arguments.n), 1
            ).summary()["match_rate"]
            for steps in arguments.steps
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--priors", nargs="+", default=ALL)
    parser.add_argument("-n", type=int, default=500, help="test crystals of match@1; 0: none")
    parser.add_argument("--many", type=int, default=200, help="test crystals of match@20; 0: none")
    parser.add_argument("--relax", type=int, default=0, help="test compositions to relax")
    parser.add_argument("--neutral", type=int, default=0, help="random neutral compositions to relax")
    parser.add_argument("--unseen", type=int, default=0, help="the same, of stoichiometries never seen")
    parser.add_argument("--rare", action="store_true", help="match known crystals of unseen stoichiometry")
    parser.add_argument("--max-steps", type=int, default=100, help="of positions, and again with the cell")
    parser.add_argument("--steps", type=int, nargs="*", default=[], help="sampler steps to compare")
    arguments = parser.parse_args()
    for name in arguments.priors:
        print(json.dumps(report(name, arguments)), flush=True)


if __name__ == "__main__":
    main()
