"""This version against an earlier one: evaluations and relaxations with MatterSim, taking turns.

    git worktree add ../older COMMIT
    python benchmarks/versions.py ../older/src [--potential mattersim-1m] [--n 64] [--rounds 5]

Each version lives in a process of its own with one thread and does the same work when it is its turn, so that
what else the machine does hits both alike. CPU times; the crystals are those that the template prior makes of
the shipped policy's compositions, made once by this version.

  evaluate  energy, forces and stress of the first 19 crystals (about 280 atoms), no symmetry
  relax     all of them in groups of 32 as a search does it: positions, symmetry kept
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RELAX: dict[str, Any] = {
    "cell": False,
    "max_steps": 100,
    "fmax": 0.02,
    "optimizer": "quasi-newton",
    "symmetry": True,
    "chunk_atoms": 256,
}


PARTS = ("counts", "numbers", "frac", "lattice")
"""Of crystals, in the order in which every version makes them."""


def crystals(n: int) -> dict[str, np.ndarray]:
    """Of the shipped policy and the template prior, as plain arrays."""
    from anchor.config import load_config
    from anchor.search.environment import Environment
    from search import drawn

    overrides = ["run.workers=1", "hull.kind=dft", "policy.source=policy", "prior.name=templates-all"]
    found = drawn("default", n, Environment.load(load_config(overrides=overrides).config))[1]
    return {name: getattr(found, name) for name in PARTS}


def worker(path: str, potential_name: str) -> None:
    """Answers each line of the input with CPU seconds and energies per atom."""
    import torch

    from anchor.crystals.crystals import Crystals
    from anchor.potentials.registry import load_potential
    from anchor.relax.parallel import Relaxer

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    stored = np.load(path)
    given = Crystals(*(stored[name] for name in PARTS))
    potential = load_potential(potential_name)
    relaxer, inside = Relaxer(potential), 0.0
    forward = potential.forward

    def timed(state: Any, **more: Any) -> Any:
        nonlocal inside
        began = time.process_time()
        found = forward(state, **more)
        inside += time.process_time() - began
        return found

    potential.forward = timed
    groups = [given[np.arange(a, min(a + 32, len(given)))] for a in range(0, len(given), 32)]
    for line in sys.stdin:
        inside, began = 0.0, time.process_time()
        if line.strip() == "evaluate":
            few = given[:19]
            energies = potential.evaluate(few).energy / few.counts
        else:
            done = relaxer.relax_all(groups, **RELAX)
            energies = np.concatenate([one.relaxation.energy_per_atom for one in done])
        spent = time.process_time() - began
        print(json.dumps({"spent": spent, "inside": inside, "energies": energies.tolist()}), flush=True)


def ask(child: subprocess.Popen[str], what: str) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(what + "\n")
    child.stdin.flush()
    while not (line := child.stdout.readline()).startswith("{"):
        assert line, "a version has died"
    return dict(json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", help="src folder of an earlier version")
    parser.add_argument("--potential", default="mattersim-1m")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker, options.potential)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "crystals.npz")
        np.savez(path, **crystals(options.n))
        children = {}
        for name, source in (("older", options.older), ("this", str(HERE.parent / "src"))):
            command = [
                sys.executable,
                __file__,
                source,
                "--potential",
                options.potential,
                "--worker",
                str(path),
            ]
            environment = {**os.environ, "PYTHONPATH": source}
            children[name] = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        rows = []
        for what in ("evaluate", "relax"):
            for child in children.values():
                ask(child, what)  # tables, caches
            times: dict[str, list[dict[str, Any]]] = {name: [] for name in children}
            for _ in range(options.rounds * (4 if what == "evaluate" else 1)):
                for name, child in children.items():
                    times[name].append(ask(child, what))
            apart = np.abs(np.subtract(*(times[name][-1]["energies"] for name in children)))
            row: dict[str, Any] = {"what": what}
            for key in ("spent", "inside"):
                seconds = {name: [one[key] for one in times[name]] for name in children}
                row[key] = {name: round(min(values), 3) for name, values in seconds.items()}
                row[f"{key}_ratio_of_minima"] = round(min(seconds["older"]) / min(seconds["this"]), 3)
                pairs = [a / b for a, b in zip(seconds["older"], seconds["this"], strict=True)]
                row[f"{key}_median_ratio"] = round(statistics.median(pairs), 3)
            row["largest_difference_ev_per_atom"] = float(np.nanmax(apart))
            rows.append(row)
            print(json.dumps(row, indent=1), flush=True)
        for child in children.values():
            assert child.stdin is not None
            child.stdin.close()
            child.wait()
    print(json.dumps({"benchmark": "versions", **vars(options), "rows": rows}))
    return None


if __name__ == "__main__":
    main()
