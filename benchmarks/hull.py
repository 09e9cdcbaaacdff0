"""Energy above hull against pymatgen's PhaseDiagram on the same entries, in one run.

    python benchmarks/hull.py [--systems 150] [--hull oqmd|mp]

Cold: quaternary systems never asked before, one candidate each, in groups of 32 as a search asks. pymatgen
gets its entries ready-made and builds a diagram for each; anchor also looks them up among all phases.
Cached: the systems are known. Two comparisons are given: with building the diagram (what a run without a
cache does each time) and with asking a diagram that is kept. CPU times, best of two rounds for both.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

import numpy as np
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.chemistry.elements import SYMBOLS
from anchor.hull.hull import Hull
from anchor.hull.references import load_hull
from anchor.random import generator
from anchor.reference.reference import load_reference

CANDIDATES_PER_SYSTEM = 64
GROUP = 32
ROUNDS = 2


def quaternaries(hull: Hull, n: int) -> list[tuple[int, ...]]:
    """Random quaternary systems in which at least one quaternary phase is known."""
    numbers = hull.index.phases.numbers
    full = np.unique(numbers[np.count_nonzero(numbers, axis=1) == 4, :4], axis=0)
    chosen = generator(0, "benchmark", "hull").choice(len(full), size=n, replace=False)
    return [tuple(row) for row in full[chosen].tolist()]


def all_entries(hull: Hull, system: tuple[int, ...]) -> list[PDEntry]:
    """Every phase of the system and its subsystems, unstable ones included, as pymatgen takes them."""
    phases = hull.index.phases
    rows = np.flatnonzero(np.isin(phases.numbers, [0, *system]).all(axis=1))
    entries = []
    for row in rows:
        pairs = zip(phases.numbers[row].tolist(), phases.fractions[row].tolist(), strict=True)
        composition = Composition({SYMBOLS[z]: x for z, x in pairs if z})
        entries.append(PDEntry(composition, phases.energies[row]))
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=150)
    parser.add_argument("--hull", choices=("oqmd", "mp"), default="oqmd", help="a search asks both")
    arguments = parser.parse_args()
    n = arguments.systems

    start = time.process_time()
    hull = load_hull("mattersim-1m").hulls[arguments.hull]  # with the potential's own phases
    load_s = time.process_time() - start
    systems = quaternaries(hull, n)
    rng = generator(0, "benchmark", "candidates")
    amounts = np.zeros((n, CANDIDATES_PER_SYSTEM, 119))
    for table, system in zip(amounts, systems, strict=True):
        table[:, system] = rng.integers(1, 9, size=(CANDIDATES_PER_SYSTEM, 4))
    energies = rng.normal(-0.5, 0.5, size=(n, CANDIDATES_PER_SYSTEM))
    entries = [all_entries(hull, system) for system in systems]
    asked = [
        [
            PDEntry(Composition({SYMBOLS[z]: float(row[z]) for z in system}), e * row.sum())
            for row, e in zip(table, energy, strict=True)
        ]
        for table, energy, system in zip(amounts, energies, systems, strict=True)
    ]

    def ask(diagram: PhaseDiagram, candidate: PDEntry) -> float:
        return diagram.get_e_above_hull(candidate, allow_negative=True, check_stable=False)

    expected = np.zeros_like(energies)
    flat_amounts, flat_energies = amounts.reshape(-1, 119), energies.reshape(-1)
    gc.collect()
    gc.freeze()  # the prepared entries are not what either side has to clean up after
    rounds = []
    for _ in range(ROUNDS):
        fresh = Hull(hull.index.phases, hull.identity)
        times = dict.fromkeys(("pymatgen_cold", "pymatgen_kept", "cold", "cached"), 0.0)
        for at in range(0, n, GROUP):  # alternating, so that other load on the machine falls on both
            group = range(at, min(at + GROUP, n))
            start = time.process_time()
            diagrams = [PhaseDiagram(entries[i]) for i in group]
            expected[group, 0] = [ask(d, asked[i][0]) for d, i in zip(diagrams, group, strict=True)]
            built = time.process_time()
            for diagram, i in zip(diagrams, group, strict=True):
                expected[i, 1:] = [ask(diagram, candidate) for candidate in asked[i][1:]]
            answered = time.process_time()
            fresh.energy_above_hull(amounts[group, 0], energies[group, 0])
            times["cold"] += time.process_time() - answered
            times["pymatgen_cold"] += built - start
            times["pymatgen_kept"] += answered - built
        found = fresh.energy_above_hull(flat_amounts, flat_energies)  # now all is known
        start = time.process_time()
        again = fresh.energy_above_hull(flat_amounts, flat_energies)
        times["cached"] = time.process_time() - start
        assert np.array_equal(again, found)
        rounds.append(times)

    best = {name: min(times[name] for times in rounds) for name in rounds[0]}
    built, cold, cached = best["pymatgen_cold"] / n, best["cold"] / n, best["cached"] / len(flat_amounts)
    kept = best["pymatgen_kept"] / (n * (CANDIDATES_PER_SYSTEM - 1))
    result = {
        "benchmark": "hull",
        "hull": arguments.hull,
        "quaternary_systems": n,
        "entries_per_system": round(float(np.mean([len(e) for e in entries])), 1),
        "candidates": len(flat_amounts),
        "largest_difference_ev_per_atom": float(np.abs(found - expected.reshape(-1)).max()),
        "load_index_s": round(load_s, 2),
        "pymatgen_build_and_ask_ms": round(1e3 * built, 3),
        "pymatgen_ask_kept_diagram_ms": round(1e3 * kept, 4),
        "anchor_cold_ms": round(1e3 * cold, 4),
        "anchor_cached_ms": round(1e3 * cached, 5),
        "times_faster_cold": round(built / cold, 1),
        "times_faster_cached": round(built / cached, 1),
        "times_faster_cached_than_kept_diagram": round(kept / cached, 1),
        "reference": load_reference().hash[:12],
    }
    print(f"cold:   pymatgen {1e3 * built:.3f} ms, anchor {1e3 * cold:.4f} ms per candidate")
    print(f"cached: pymatgen {1e3 * kept:.4f} ms, anchor {1e3 * cached:.5f} ms per candidate")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
