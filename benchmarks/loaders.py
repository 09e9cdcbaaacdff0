"""Speed of every reader and writer on random crystals of 1 to 20 atoms, beside pymatgen's CIF reader.

Usage: python benchmarks/loaders.py [-n 1000] [--seed 0]; crystals per second of processor time, one core.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from pymatgen.core import Structure
from pymatgen.entries.computed_entries import ComputedStructureEntry

from anchor.cli.common import print_table
from anchor.crystals.crystals import Crystals
from anchor.formats import load, write
from anchor.random import generator

OUTPUTS = ["a.csv", "a.cif", "cifs", "cifs.zip", "a.extxyz", "a.json", "a.parquet", "a.db"]


def invented(n: int, rng: np.random.Generator) -> Crystals:
    counts = rng.integers(1, 21, n)
    lattice = np.eye(3) * rng.uniform(3, 9, (n, 1, 3)) + rng.normal(0, 0.3, (n, 3, 3))
    return Crystals(counts, rng.integers(3, 84, counts.sum()), rng.random((counts.sum(), 3)), lattice)


def write_lmdb(path: Path, crystals: Crystals) -> None:
    with lmdb.open(str(path), map_size=2**32, subdir=False) as env, env.begin(write=True) as transaction:
        for i, structure in enumerate(crystals.to_structures()):
            entry = ComputedStructureEntry(structure, -1.0).as_dict()
            transaction.put(f"system.formula.{i}".encode(), pickle.dumps(entry, protocol=5))


def per_second(n: int, work: Callable[[], Any]) -> str:
    start = time.process_time()
    work()
    return f"{n / (time.process_time() - start):,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="crystals")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n = arguments.n
    crystals = invented(n, generator(arguments.seed, "loaders"))
    ids = [f"x{i}" for i in range(n)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load(write(folder / "warm.cif", crystals[:5]))
        for output in OUTPUTS:
            written = per_second(n, lambda path=folder / output: write(path, crystals, ids))  # type: ignore[misc]
            rows.append((output, written, per_second(n, lambda path=folder / output: load(path))))  # type: ignore[misc]
        write_lmdb(folder / "a.lmdb", crystals)
        rows.append(("a.lmdb", "", per_second(n, lambda: load(folder / "a.lmdb"))))
        texts = [(folder / "cifs" / f"{id}.cif").read_text() for id in ids[:200]]
        by_pymatgen = per_second(len(texts), lambda: [Structure.from_str(text, fmt="cif") for text in texts])
        rows.append(("pymatgen, the same CIFs", "", by_pymatgen))
    print_table(["format", "written per s", "loaded per s"], rows)


if __name__ == "__main__":
    main()
