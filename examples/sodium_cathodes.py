"""New sodium cathodes, ranked by a property of your own.

You get a table of new sodium oxides, phosphates and sulfates with a redox-active metal: energy above both DFT
hulls and the capacity that the sodium would give, and their CIF files. The capacity is also an objective of
the search: the policy is paid for it beside stability, novelty and diversity.

    python examples/sodium_cathodes.py               # two or three minutes on two cores
    python examples/sodium_cathodes.py -n 5000       # a real one
"""

import argparse
from pathlib import Path

import numpy as np

import anchor

REDOX = {"Ti": 1, "V": 2, "Cr": 1, "Mn": 2, "Fe": 1, "Co": 1, "Ni": 2, "Cu": 1}
"""Electrons that one atom may give in a battery, at most; ours to choose."""
CHARGE = 26_801.0  # mAh/mol
GOOD = 200.0  # mAh/g: as much earns a full point


def capacity(structure):
    """mAh/g: the sodium that can leave, as far as the metals can pay for it."""
    amounts = structure.composition.get_el_amt_dict()
    electrons = sum(REDOX.get(symbol, 0) * amount for symbol, amount in amounts.items())
    return CHARGE * min(amounts.get("Na", 0.0), electrons) / structure.composition.weight


def objective(structures):
    """Numbers in [0, 1], one per structure: what `reward.objectives` wants."""
    return np.array([min(capacity(structure) / GOOD, 1.0) for structure in structures])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=192, help="compositions to try")
    parser.add_argument("--finds", type=int, default=10, help="how many to relax to the end")
    parser.add_argument("--out", type=Path, default=Path("runs/sodium-cathodes"))
    options = parser.parse_args()
    found = anchor.search(
        ["Na", "O", "P", "S", *REDOX],
        options.n,
        out=options.out,
        finds=options.finds,
        must_contain=("Na", "O"),
        k=(3, 4),
        settings=[
            'reward.objectives=["sodium_cathodes:objective"]',
            "reward.alpha=[4, 2, 1, 1, 4]",  # stability, novelty, two kinds of diversity, and ours
            "policy.source=policy",  # who learns from rewards
        ],
    )
    if not len(found):
        print(f"{options.n} compositions were tried and nothing was found: try more (-n)")
        return
    table = found.to_pandas()[["formula", "spacegroup", "energy_above_hull_ev_per_atom", "why"]]
    table["capacity_mah_per_g"] = [round(capacity(structure)) for structure in found.to_structures()]
    print(table.sort_values("capacity_mah_per_g", ascending=False).to_string(index=False))
    print("crystals:", found.write(options.out / "cathodes", overwrite=True))


if __name__ == "__main__":  # a search has several processes
    main()
