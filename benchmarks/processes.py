"""Processes against threads: how fast the crystals of a search are relaxed on this machine, in one run.

    python benchmarks/processes.py [--n 96] [--potential mattersim-1m]

The template prior's crystals for compositions of the shipped policy, positions relaxed with symmetry kept
(100 steps, fmax 0.02 eV/Å): one process with one thread, one with as many threads as cores, and as many
processes as cores with one thread each. Wall times, the better of two runs, processes and weights loaded.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

from anchor.executors import cores
from anchor.potentials import load_potential
from anchor.relax.parallel import Relaxer
from relax import proposed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=96)
    parser.add_argument("--potential", default="mattersim-1m")
    options = parser.parse_args()
    potential = load_potential(options.potential)
    crystals = proposed("default", options.n, potential)
    seconds: dict[str, float] = {}
    for name, workers, threads in (
        ("one process, one thread", 1, 1),
        (f"one process, {cores()} threads", 1, cores()),
        (f"{cores()} processes, one thread each", cores(), 1),
    ):
        torch.set_num_threads(threads)
        relaxer = Relaxer(potential, workers=workers, threads=threads)
        took = []
        for _ in range(3):
            began = time.perf_counter()
            relaxer(crystals, cell=False, max_steps=100, fmax=0.02, symmetry=True)
            took.append(time.perf_counter() - began)
        seconds[name] = round(min(took[1:]), 2)
        print(f"{name:32s} {seconds[name]:6.2f} s", flush=True)
    one, threaded, processes = seconds.values()
    document = {
        "benchmark": "processes",
        **vars(options),
        "cores": cores(),
        "seconds": seconds,
        "gain_by_threads": round(one / threaded, 2),
        "gain_by_processes": round(one / processes, 2),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
