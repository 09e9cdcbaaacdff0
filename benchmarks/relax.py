"""The relaxation engine against ASE one crystal at a time: time, evaluations, energies, in one run.

    python benchmarks/relax.py [--n 32] [--potential mattersim-1m] [--modes positions cell]
    python benchmarks/relax.py --n 200 --energies-only
    python benchmarks/relax.py --stock                 # also ASE with the package's own calculator
    python benchmarks/relax.py --crystals default      # what a search relaxes, with symmetry kept and not

Bundled reference crystals of 8 to 20 atoms, strained (up to 2, 5 or 10 %) and rattled (0.1 to 0.4 Å), are
relaxed by the engine, by the engine with one crystal per batch, by ASE's BFGS (the paper's way) and by ASE's
FIRE: positions only (100 steps) and with the cell (400 steps), fmax 0.02 eV/Å, the same potential for all.
All methods take turns on groups of 16 crystals. Times are CPU times of this process on a CPU (other people's
work stretches wall times; both are printed). The gain over ASE BFGS is the product of three ratios:
evaluations (optimiser), time per evaluation of ASE against the engine with one crystal at a time (overhead),
and that against the whole batch (batching). ASE drives anchor's own evaluation of the potential, which is
faster than the packages' calculators; `--stock` adds ASE's BFGS with the package's calculator, as a user
without anchor would run it.

`--crystals default` (compositions of the shipped policy) or `neutral` (random neutral ones) takes the
template prior's crystals instead, of any size, as a search gets them. They have symmetry, and the engine is
run once more with it kept; `metastable` counts those within 0.1 eV/atom of the union hull.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from numpy.typing import NDArray

from anchor.chemistry.composition import parse_formula
from anchor.crystals.crystals import Crystals
from anchor.evaluate.sources import find_source
from anchor.hull import load_hull
from anchor.potentials import Potential, load_potential
from anchor.priors import load_prior
from anchor.random import generator
from anchor.reference.reference import load_reference
from anchor.relax import relax
from anchor.relax.result import STATUSES
from potentials import stock

FMAX = 0.02
STEPS = {"positions": 100, "cell": 400}
GROUP = 16
"""Crystals that all methods relax before the next ones: changing load on the machine then hits all alike."""
TOO_HIGH = 0.005  # eV/atom above the best of all
METASTABLE = 0.1  # eV/atom above the hull


def distorted(n: int, potential: Potential, seed: int = 0) -> Crystals:
    """n reference crystals of 8 to 20 atoms, strained and rattled."""
    reference = load_reference().crystals
    rng = generator(seed, "benchmark", "relax")
    usable = (reference.counts >= 8) & (reference.counts <= 20) & potential.supports(reference)
    chosen = reference[rng.choice(np.flatnonzero(usable), size=n, replace=False)]
    strain = np.array([0.02, 0.05, 0.10])[np.arange(n) % 3, None, None] * rng.uniform(-1, 1, (n, 3, 3))
    lattice = chosen.lattice @ (np.eye(3) + (strain + strain.transpose(0, 2, 1)) / 2)
    amplitude = np.array([0.1, 0.2, 0.3, 0.4])[np.arange(n) % 4]  # Å, root mean square
    shift = rng.normal(size=(chosen.n_atoms, 3)) * (amplitude / np.sqrt(3))[chosen.owner, None]
    frac = chosen.frac + np.einsum("ai,aij->aj", shift, np.linalg.inv(lattice)[chosen.owner])
    return chosen.replace(frac=frac, lattice=lattice)


def proposed(source: str, n: int, potential: Potential, seed: int = 0) -> Crystals:
    """The template prior's crystals for n compositions of a source, as a search asks for them."""
    elements = load_hull(potential).searchable_elements
    drawn = find_source([source], elements=elements).draw(seed, n)
    cells = [parse_formula(cell) for cell in drawn.texts("cell")]
    return load_prior("templates-all").sample(cells, seed=seed, cell="free")


class Clock:
    """Time spent, in all and inside the potential."""

    def __init__(self, potential: Potential) -> None:
        self.inside = 0.0
        self._forward = potential.forward
        potential.forward = self._timed  # type: ignore[method-assign]
        self.now: Callable[[], float] = (
            time.process_time if potential.device.type == "cpu" else time.perf_counter
        )

    def _timed(self, state: Any, **options: Any) -> dict[str, torch.Tensor]:
        began = self.now()
        found = self._forward(state, **options)
        self.inside += self.now() - began
        return found


@dataclass
class Row:
    """One method on all crystals: outcomes in order, and the time it took."""

    status: list[str] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)  # eV/atom, NaN unless converged or capped
    evaluations: int = 0
    seconds: float = 0.0
    wall_seconds: float = 0.0
    inside: float = 0.0

    def add(self, clock: Clock, crystals: Crystals, potential: Potential, **settings: Any) -> None:
        wall, began, inside = time.perf_counter(), clock.now(), clock.inside
        found = relax(crystals, potential, fmax=FMAX, **settings)
        self.seconds += clock.now() - began
        self.wall_seconds += time.perf_counter() - wall
        self.inside += clock.inside - inside
        self.evaluations += int(found.evaluations.sum())
        self.status += found.status.tolist()
        self.energy += np.where(found.ended, found.energy_per_atom, np.nan).tolist()

    def add_stock(
        self, clock: Clock, crystals: Crystals, calculator: Calculator, *, cell: bool, max_steps: int
    ) -> None:
        wall, began = time.perf_counter(), clock.now()
        for atoms in crystals.to_atoms():
            atoms.calc = calculator
            optimizer = BFGS(FrechetCellFilter(atoms) if cell else atoms, logfile=None)
            self.status.append("converged" if optimizer.run(fmax=FMAX, steps=max_steps) else "capped")
            self.energy.append(float(atoms.get_potential_energy()) / len(atoms))
            self.evaluations += optimizer.nsteps + 1
        self.seconds += clock.now() - began
        self.wall_seconds += time.perf_counter() - wall

    def metastable(self, crystals: Crystals, potential: Potential) -> int:
        """How many are within 0.1 eV/atom of the hull."""
        hull = load_hull(potential)
        energy = np.array(self.energy) * crystals.counts
        scores = hull.score(crystals, energy, checkpoint_hash=potential.checkpoint_hash)
        return int((scores.energy_above_hull <= METASTABLE).sum())

    def summary(self, best: NDArray[np.float64]) -> dict[str, float]:
        above = np.array(self.energy) - best
        return {
            "seconds": round(self.seconds, 2),
            "wall_seconds": round(self.wall_seconds, 2),
            "inside_potential": round(self.inside / self.seconds, 3),
            "evaluations": self.evaluations,
            **{name: self.status.count(name) for name in STATUSES},
            "more_than_5_mev_above_best": int((~(above <= TOO_HIGH)).sum()),  # one that failed counts
            "median_mev_above_best": round(float(np.nanmedian(above)) * 1000, 3),
            "largest_mev_above_best": round(float(np.nanmax(above)) * 1000, 1),
        }


def compare(
    crystals: Crystals,
    potential: Potential,
    clock: Clock,
    mode: str,
    *,
    chunk_atoms: int,
    energies_only: bool,
    symmetric: bool,
    calculator: Calculator | None,
) -> dict[str, Any]:
    settings = {"cell": mode == "cell", "max_steps": STEPS[mode]}
    # The engine's FIRE takes ASE's path step by step (tests/relax/test_fire.py) in half the time.
    fire = ("fire", chunk_atoms) if energies_only else ("ase-fire", 1)
    runs = {
        "engine": ("quasi-newton", chunk_atoms),
        "engine, symmetry": ("quasi-newton", chunk_atoms),
        "engine, one at a time": ("quasi-newton", 1),
        "ASE BFGS": ("ase-bfgs", 1),
        "ASE FIRE": fire,
    }
    if energies_only:
        del runs["engine, one at a time"]
    if not symmetric:
        del runs["engine, symmetry"]
    rows = {name: Row() for name in runs}
    for first in range(0, len(crystals), GROUP):
        group = crystals[first : first + GROUP]
        for name, (optimizer, atoms) in runs.items():
            rows[name].add(
                clock,
                group,
                potential,
                optimizer=optimizer,
                chunk_atoms=atoms,
                symmetry=name == "engine, symmetry",
                **settings,
            )
        if calculator is not None:
            row = rows.setdefault("ASE BFGS, stock calculator", Row())
            row.add_stock(clock, group, calculator, **settings)
        times = ", ".join(f"{name} {row.wall_seconds:.0f} s" for name, row in rows.items())
        print(f"{mode}: {first + len(group)} crystals, {times}", flush=True)
    compared = [name for name in ("engine", "engine, symmetry", "ASE BFGS", "ASE FIRE") if name in rows]
    best = np.nanmin([rows[name].energy for name in compared], axis=0)
    table = {name: row.summary(best) for name, row in rows.items()}
    if symmetric:
        for name, row in rows.items():
            table[name]["metastable"] = row.metastable(crystals, potential)
    for name, summary in table.items():
        print(f"{mode:10s} {name:22s} {summary}", flush=True)
    engine, bfgs = rows["engine"], rows["ASE BFGS"]
    gains = {
        "faster_than_ase_bfgs": round(bfgs.seconds / engine.seconds, 2),
        "faster_than_ase_bfgs_wall": round(bfgs.wall_seconds / engine.wall_seconds, 2),
        "gain_by_optimiser": round(bfgs.evaluations / engine.evaluations, 2),
    }
    if symmetric:
        kept = rows["engine, symmetry"]
        gains["gain_by_symmetry"] = round(engine.seconds / kept.seconds, 2)
        gains["symmetry_faster_than_ase_bfgs"] = round(bfgs.seconds / kept.seconds, 2)
        gains["symmetry_faster_than_ase_bfgs_wall"] = round(bfgs.wall_seconds / kept.wall_seconds, 2)
    if calculator is not None:
        other = rows["ASE BFGS, stock calculator"]
        gains["faster_than_stock_ase_bfgs"] = round(other.seconds / engine.seconds, 2)
        gains["faster_than_stock_ase_bfgs_wall"] = round(other.wall_seconds / engine.wall_seconds, 2)
    if not energies_only:
        each = {name: row.seconds / row.evaluations for name, row in rows.items()}
        apart = np.abs(np.subtract(engine.energy, rows["engine, one at a time"].energy))
        gains |= {
            "faster_than_ase_fire": round(rows["ASE FIRE"].seconds / engine.seconds, 2),
            "gain_by_less_overhead": round(each["ASE BFGS"] / each["engine, one at a time"], 2),
            "gain_by_batching": round(each["engine, one at a time"] / each["engine"], 2),
            "median_mev_batched_against_alone": round(float(np.nanmedian(apart)) * 1000, 4),
            "largest_mev_batched_against_alone": round(float(np.nanmax(apart)) * 1000, 2),
        }
        print(
            f"{mode}: {gains['faster_than_ase_bfgs']} times faster than ASE BFGS = optimiser "
            f"{gains['gain_by_optimiser']} x overhead {gains['gain_by_less_overhead']} x batching "
            f"{gains['gain_by_batching']}",
            flush=True,
        )
    return {**table, **gains}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--potential", default="mattersim-1m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunk-atoms", type=int, default=256)
    parser.add_argument("--modes", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument(
        "--energies-only",
        action="store_true",
        help="no split of the gain: for many crystals, in half the time",
    )
    parser.add_argument("--stock", action="store_true", help="also ASE BFGS with the package's calculator")
    parser.add_argument("--crystals", choices=["rattled", "default", "neutral"], default="rattled")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    potential = load_potential(options.potential, device=options.device)
    if options.crystals == "rattled":
        crystals = distorted(options.n, potential, options.seed)
    else:
        crystals = proposed(options.crystals, options.n, potential, options.seed)
    clock = Clock(potential)
    relax(crystals[:2], potential, cell=True, max_steps=2, fmax=FMAX)  # warm up
    document = {"benchmark": "relax", "crystals": len(crystals), "atoms": crystals.n_atoms, **vars(options)}
    for mode in options.modes:
        document[mode] = compare(
            crystals,
            potential,
            clock,
            mode,
            chunk_atoms=options.chunk_atoms,
            energies_only=options.energies_only,
            symmetric=options.crystals != "rattled",
            calculator=stock(options.potential) if options.stock else None,
        )
    print(json.dumps(document))


if __name__ == "__main__":
    main()
