"""The validity gates on known crystals, of which a good gate passes nearly all, and on random formulas.

    python benchmarks/gates.py [--n 200] [--formulas 2000] [--seed 0]

Draws n crystals of the bundled reference at random and gives them to LeMat-GenBench's checks and to the
paper's gate. The paper's bond table was taken from the same reference, so its bond check passes by
construction; its charge check, and all of LeMat's, know nothing of it. Random formulas are those of the
paper's action space; for them only the charge steps that need no crystal are asked. Each is repeated with the
oxidation states of smact's ICSD 24 table, to see how much the choice of table matters.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from importlib import metadata

import numpy as np
from pymatgen.core import Species

from anchor.chemistry.charge import neutral_assignment
from anchor.chemistry.elements import SYMBOLS
from anchor.chemistry.spaces import sample_random
from anchor.crystals.crystals import Crystals
from anchor.executors import Processes
from anchor.gates.lemat import LematGate, bv_analyzer_may_succeed
from anchor.gates.paper import bond_thresholds, check_bonds, check_charges
from anchor.random import generator
from anchor.reference.reference import load_reference


def paper_charge(crystal: Crystals) -> bool:
    """The paper's charge check for any elements and any number of them."""
    numbers, counts = np.unique(crystal.numbers, return_counts=True)
    return neutral_assignment([SYMBOLS[z] for z in numbers], counts.tolist()) is not None


def icsd24_states() -> dict[str, list[int]]:
    """Oxidation states by element in smact's table of ICSD 2024."""
    from smact.utils.oxidation import ICSD24OxStatesFilter

    states: dict[str, list[int]] = {}
    for text in ICSD24OxStatesFilter().get_species_occurrences_df()["species"]:
        species = Species.from_str(text)
        states.setdefault(species.symbol, []).append(int(species.oxi_state))
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--formulas", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    reference = load_reference()
    stream = generator(options.seed, "benchmark", "gates")
    chosen = np.sort(stream.choice(len(reference.crystals), options.n, replace=False))
    crystals, formulas = reference.crystals[chosen], reference.formulas[chosen].tolist()

    with Processes(seconds=300) as pool:
        gate = LematGate(pool=pool)
        gate(crystals[:2])  # processes have started
        start = time.perf_counter()
        checks = gate.check(crystals)
        seconds = time.perf_counter() - start
        own_images = LematGate(as_published=False, pool=pool)(crystals)
        icsd24 = LematGate(states=icsd24_states(), pool=pool)
        icsd24_valid = icsd24(crystals)
    lemat = np.array([check.valid for check in checks])

    bonds = check_bonds(crystals, bond_thresholds(reference.bonds.minimum)).ok
    charge = np.array([paper_charge(crystal) for crystal in crystals])
    paper = bonds & charge

    random = sample_random(options.formulas, stream)
    cells = [dict(zip(c.elements, c.counts, strict=True)) for c in random]
    by = [gate.neutral_by_composition(cell) for cell in cells]
    by_icsd24 = [icsd24.neutral_by_composition(cell) for cell in cells]

    failures = {f: list(check.reasons) for f, check in zip(formulas, checks, strict=True) if not check.valid}
    for formula, reasons in failures.items():
        print(f"LeMat fails {formula}: {'; '.join(reasons)}")
    print("the paper fails, charge:", ", ".join(f for f, ok in zip(formulas, charge, strict=True) if not ok))
    result = {
        "benchmark": "gates",
        "crystals": options.n,
        "seed": options.seed,
        "lemat": {
            "valid": int(lemat.sum()),
            "charge": sum(check.charge_ok for check in checks),
            "distance": sum(check.distance_ok for check in checks),
            "plausibility": sum(check.plausibility_ok for check in checks),
            "valid_with_own_images": int(own_images.sum()),
            "valid_with_icsd24_states": int(icsd24_valid.sum()),
            "charge_by": dict(Counter(check.charge_by or "none" for check in checks).most_common()),
            "failures": failures,
            "ms_per_crystal": round(1e3 * seconds / options.n, 1),
        },
        "paper": {"valid": int(paper.sum()), "bonds": int(bonds.sum()), "charge": int(charge.sum())},
        "both": int((lemat & paper).sum()),
        "lemat_only": int((lemat & ~paper).sum()),
        "paper_only": int((paper & ~lemat).sum()),
        "random_formulas": {
            "formulas": options.formulas,
            "paper_charge": int(check_charges(random).sum()),
            "lemat_charge_by_composition": sum(map(bool, by)),
            "with_icsd24_states": sum(map(bool, by_icsd24)),
            "decisions_that_differ": sum(bool(a) != bool(b) for a, b in zip(by, by_icsd24, strict=True)),
            "charge_by": dict(Counter(step or "none" for step in by).most_common()),
            "bv_analyzer_would_be_asked": sum(
                not step and bv_analyzer_may_succeed(cell) for step, cell in zip(by, cells, strict=True)
            ),
        },
        "packages": {name: metadata.version(name) for name in ("pymatgen", "smact", "spglib")},
        "reference": reference.hash[:12],
    }
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
