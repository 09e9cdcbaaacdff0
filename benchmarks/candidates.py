"""Several crystals per composition: what it brings to relax the one of lowest energy only, in one run.

    python benchmarks/candidates.py [--source default] [--n 150] [--seed 1 2]

Eight crystals of the template prior for each composition of the shipped policy (`default`) or of random
neutral ones, positions relaxed with MatterSim-1M and symmetry kept. Of the first k the one of lowest energy
after some steps is gone on with (0: as the prior made it; 100: all are relaxed to the end): how many are
within 0.1 eV/atom of the union hull and on it, and how many evaluations that takes.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch

from anchor.chemistry.composition import parse_formula
from anchor.crystals.crystals import Crystals
from anchor.evaluate.sources import find_source
from anchor.hull import load_hull
from anchor.potentials import load_potential
from anchor.priors import load_prior
from anchor.relax.parallel import Relaxer

MOST = 8
METASTABLE = 0.1
"""eV/atom above the hull."""


def candidates(source: str, n: int, seed: int, elements: tuple[str, ...]) -> Crystals:
    """All crystals of the first composition, then all of the second, …"""
    drawn = find_source([source], elements=elements).draw(seed, n)
    cells = [parse_formula(cell) for cell in drawn.texts("cell")]
    return load_prior("templates-all").sample(cells, MOST, seed=seed, cell="free")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", nargs="+", default=["default"])
    parser.add_argument("--n", type=int, default=150)
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--potential", default="mattersim-1m")
    options = parser.parse_args()
    torch.set_num_threads(1)
    potential = load_potential(options.potential)
    hull = load_hull(potential)
    relaxer = Relaxer(potential, workers=None)
    rows: list[dict[str, Any]] = []
    for source in options.source:
        crystals = Crystals.concatenate(
            candidates(source, options.n, seed, hull.searchable_elements) for seed in options.seed
        )
        found = relaxer(crystals, cell=False, max_steps=100, fmax=0.02, symmetry=True).relaxation
        energy = np.where(found.ended, found.energy, np.nan)
        scores = hull.score(found.crystals, energy, checkpoint_hash=potential.checkpoint_hash)
        above = np.nan_to_num(scores.energy_above_hull, nan=np.inf).reshape(-1, MOST)
        evaluations = found.evaluations.reshape(-1, MOST)
        each = np.arange(len(above))
        for k in (1, 2, 4, MOST):
            for steps in (0, 2, 100) if k > 1 else (0,):
                early = (found.energy_after(steps) / crystals.counts).reshape(-1, MOST)
                pick = np.nan_to_num(early, nan=np.inf)[:, :k].argmin(axis=1)
                tried = np.minimum(evaluations[:, :k], steps + 1).sum() if k > 1 else 0
                # What was tried is not kept: the chosen one starts again unless it has ended.
                again = evaluations[each, pick].sum() if steps < 100 else 0
                rows.append(
                    {
                        "source": source,
                        "compositions": len(above),
                        "candidates": k,
                        "chosen_after_steps": steps,
                        "metastable": int((above[each, pick] <= METASTABLE).sum()),
                        "on_hull": int((above[each, pick] <= 0).sum()),
                        "median_above_hull_ev_per_atom": round(float(np.median(above[each, pick])), 4),
                        "evaluations": int(tried + again),
                    }
                )
                print(rows[-1], flush=True)
    print(json.dumps({"benchmark": "candidates", **vars(options), "rows": rows}))


if __name__ == "__main__":
    main()
