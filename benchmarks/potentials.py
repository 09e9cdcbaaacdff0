"""Milliseconds for energy + forces + stress of one crystal, for each potential and batch size, in one run.

    python benchmarks/potentials.py [--names mattersim-1m chgnet ...] [--device cpu]

Eight bundled crystals of 8 to 20 atoms: one by one with the package's own ASE calculator ("stock"), one by
one, eight at once and 32 at once (each four times) with anchor. One thread; process time on a CPU, which
other people's work on the machine does not stretch as it does wall time; wall time on any other device.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import contextlib
import io
import json
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from ase.calculators.calculator import Calculator

from anchor.crystals.crystals import Crystals
from anchor.potentials import Potential, load_potential
from anchor.potentials.graph import neighbour_pairs
from anchor.potentials.registry import fetch_weights, find
from anchor.potentials.state import to_state
from anchor.potentials.weights import verified
from anchor.random import generator
from anchor.reference.reference import load_reference

NAMES = ["mattersim-1m", "mattersim-5m", "chgnet", "sevennet-0", "sevennet-l3i5"]


def sample(names: list[str], n: int = 8) -> Crystals:
    """Bundled crystals of 8 to 20 atoms that every potential covers."""
    crystals = load_reference().crystals
    rows = np.flatnonzero((crystals.counts >= 8) & (crystals.counts <= 20))
    chosen = crystals[generator(0, "benchmark", "potentials").choice(rows, size=4 * n, replace=False)]
    covered = np.all([load_potential(name).supports(chosen) for name in names], axis=0)
    return chosen[covered][:n]


def stock(name: str) -> Calculator:
    """The package's own ASE calculator with the same weights."""
    path = str(verified(find(name).weights, hint=""))
    with contextlib.redirect_stdout(io.StringIO()):
        if name.startswith("mattersim"):
            from mattersim.forcefield import MatterSimCalculator

            return MatterSimCalculator(load_path=path, device="cpu")
        if name == "chgnet":
            from chgnet.model.dynamics import CHGNetCalculator

            return CHGNetCalculator(use_device="cpu")
        from sevenn.calculator import SevenNetCalculator

        return SevenNetCalculator(path, device="cpu")


def timed(run: Callable[[], object], crystals: int, clock: Callable[[], float], rounds: int = 2) -> float:
    """Best of a few rounds, ms per crystal."""
    best = np.inf
    for _ in range(rounds):
        start = clock()
        run()
        best = min(best, clock() - start)
    return 1e3 * best / crystals


def measure(name: str, potential: Potential, eight: Crystals) -> dict[str, float]:
    on_cpu = potential.device.type == "cpu"
    clock = time.process_time if on_cpu else time.perf_counter
    many = Crystals.concatenate([eight] * 4)
    potential.evaluate(eight[:1])
    row = {
        "1": timed(lambda: [potential.evaluate(one) for one in eight], 8, clock),
        "8": timed(lambda: potential.evaluate(eight), 8, clock),
        "32": timed(lambda: potential.evaluate(many), 32, clock, rounds=1),
        "graph": timed(lambda: neighbour_pairs(to_state(eight), potential.cutoff), 8, clock),  # type: ignore[arg-type]
    }
    if on_cpu:
        calculator, atoms = stock(name), eight.to_atoms()
        properties = ["energy", "forces", "stress"]
        calculator.calculate(atoms[0].copy(), properties, [])
        row["stock"] = timed(
            lambda: [calculator.calculate(a.copy(), properties, []) for a in atoms], 8, clock
        )
        row["stock / 8"] = row["stock"] / row["8"]
    return {key: round(value, 2) for key, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for name in arguments.names:
        fetch_weights(name)
    eight = sample(arguments.names)
    print(f"{len(eight)} crystals, {eight.n_atoms / len(eight):.1f} atoms on average; ms per crystal")
    results = {}
    for name in arguments.names:
        results[name] = measure(name, load_potential(name, device=arguments.device), eight)
        print(
            f"{name:14s}",
            "  ".join(f"{key}: {value:8.2f}" for key, value in results[name].items()),
            flush=True,
        )
    print(json.dumps({"benchmark": "potentials", "unit": "ms per crystal", "results": results}))


if __name__ == "__main__":
    main()
