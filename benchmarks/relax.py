"""The relaxation engine against ASE one crystal at a time: time, evaluations, energies, in one run.

    python benchmarks/relax.py [--n 32] [--potential mattersim-1m] [--threads 1] [--modes positions cell]

Bundled reference crystals of 8 to 20 atoms, strained (up to 2, 5 or 10 %) and rattled (0.1 to 0.4 Å), are
relaxed by the engine, by the engine with one crystal per batch, by ASE's BFGS (the paper's way) and by ASE's
FIRE: positions only (100 steps) and with the cell (400 steps), fmax 0.02 eV/Å, the same potential for all.
Times are CPU times of this process on a CPU (other people's work stretches wall times; both are printed). The
gain over ASE BFGS is the product of three ratios: evaluations (optimiser), time per evaluation of ASE against
the engine with one crystal at a time (overhead), and that against the whole batch (batching).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from anchor.data.crystals import Crystals
from anchor.data.reference import load_reference
from anchor.potentials import Potential, load_potential
from anchor.random import generator
from anchor.relax import Relaxation, relax

FMAX = 0.02
STEPS = {"positions": 100, "cell": 400}
TOO_HIGH = 0.005  # eV/atom above the best of the three


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


def run(clock: Clock, *args: Any, **settings: Any) -> tuple[Relaxation, dict[str, float]]:
    wall, began, clock.inside = time.perf_counter(), clock.now(), 0.0
    found = relax(*args, fmax=FMAX, **settings)
    seconds = clock.now() - began
    return found, {
        "seconds": round(seconds, 2),
        "wall_seconds": round(time.perf_counter() - wall, 2),
        "inside_potential": round(clock.inside / seconds, 3),
        "evaluations": int(found.evaluations.sum()),
        **{
            status: int((found.status == status).sum())
            for status in ("converged", "capped", "diverged", "failed")
        },
    }


def compare(
    crystals: Crystals, potential: Potential, clock: Clock, mode: str, chunk_atoms: int
) -> dict[str, Any]:
    settings = {"cell": mode == "cell", "max_steps": STEPS[mode]}
    found, rows = {}, {}
    for name, optimizer, atoms in (
        ("engine", "quasi-newton", chunk_atoms),
        ("engine, one at a time", "quasi-newton", 1),
        ("ASE BFGS", "ase-bfgs", 1),
        ("ASE FIRE", "ase-fire", 1),
    ):
        found[name], rows[name] = run(
            clock, crystals, potential, optimizer=optimizer, chunk_atoms=atoms, **settings
        )
        print(f"{mode:10s} {name:22s} {rows[name]}", flush=True)
    three = ("engine", "ASE BFGS", "ASE FIRE")
    energy = {name: found[name].energy_per_atom for name in three}
    best = np.nanmin(np.stack(list(energy.values())), axis=0)
    for name in three:
        high = ~(energy[name] - best <= TOO_HIGH)  # a failed one counts
        rows[name]["more_than_5_mev_above_best"] = int(high.sum())
        rows[name]["median_mev_above_best"] = round(float(np.nanmedian(energy[name] - best)) * 1000, 3)
        rows[name]["largest_mev_above_best"] = round(float(np.nanmax(energy[name] - best)) * 1000, 1)
    engine, single, bfgs, fire = rows.values()
    apart = np.abs(found["engine"].energy_per_atom - found["engine, one at a time"].energy_per_atom)
    each = {name: row["seconds"] / row["evaluations"] for name, row in rows.items()}
    return {
        **rows,
        "faster_than_ase_bfgs": round(bfgs["seconds"] / engine["seconds"], 2),
        "faster_than_ase_bfgs_wall": round(bfgs["wall_seconds"] / engine["wall_seconds"], 2),
        "faster_than_ase_fire": round(fire["seconds"] / engine["seconds"], 2),
        "gain_by_optimiser": round(bfgs["evaluations"] / engine["evaluations"], 2),
        "gain_by_less_overhead": round(each["ASE BFGS"] / each["engine, one at a time"], 2),
        "gain_by_batching": round(each["engine, one at a time"] / each["engine"], 2),
        "median_mev_batched_against_alone": round(float(np.nanmedian(apart)) * 1000, 4),
        "largest_mev_batched_against_alone": round(float(np.nanmax(apart)) * 1000, 2),
        "evaluations_one_at_a_time_against_batched": round(single["evaluations"] / engine["evaluations"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--potential", default="mattersim-1m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunk-atoms", type=int, default=256)
    parser.add_argument("--modes", nargs="+", choices=list(STEPS), default=list(STEPS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    potential = load_potential(options.potential, device=options.device)
    crystals = distorted(options.n, potential, options.seed)
    clock = Clock(potential)
    relax(crystals[:2], potential, cell=True, max_steps=2, fmax=FMAX)  # warm up
    document = {"benchmark": "relax", "crystals": len(crystals), "atoms": crystals.n_atoms, **vars(options)}
    document |= {
        mode: compare(crystals, potential, clock, mode, options.chunk_atoms) for mode in options.modes
    }
    for mode in options.modes:
        row = document[mode]
        print(
            f"{mode}: {row['faster_than_ase_bfgs']} times faster than ASE BFGS = optimiser "
            f"{row['gain_by_optimiser']} x overhead {row['gain_by_less_overhead']} x batching "
            f"{row['gain_by_batching']}"
        )
    print(json.dumps(document))


if __name__ == "__main__":
    main()
