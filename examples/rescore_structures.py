"""Score crystals that another program generated.

You get, for every structure, the energy above both DFT hulls and what it would decompose into, and for all of
them the rates that papers print, with counts (msun: metastable, unique, novel; new_msun: and in no list of
known formulas that we have). Structures may be files of any usual format, pymatgen or ASE; here are four:
a known salt twice, a perovskite, and one whose atoms are too close.

    python examples/rescore_structures.py                     # half a minute
    python examples/rescore_structures.py generated.extxyz    # yours
"""

import argparse
from pathlib import Path

from pymatgen.core import Lattice, Structure

import anchor


def generated():
    """Four crystals as a generator might hand them over: nothing is relaxed, nothing checked."""
    sites = [[0, 0, 0], [0.5, 0.5, 0.5]]
    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.8), ["Na", "Cl"], sites)
    again = salt.copy().perturb(0.05)
    perovskite = Structure.from_spacegroup(
        "Pm-3m", Lattice.cubic(4.0), ["K", "Mg", "F"], [[0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0]]
    )
    close = Structure(Lattice.cubic(3.0), ["Ti", "O"], [[0, 0, 0], [0.1, 0.1, 0.1]])
    return [salt, again, perovskite, close]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="structures; none: the four of this script")
    parser.add_argument("--protocol", default="internal", help="internal, mattergen or lemat")
    parser.add_argument("--potential", default="mattersim-1m", help="as in `anchor potentials list`")
    parser.add_argument("--out", type=Path, default=Path("eval/rescored"))
    options = parser.parse_args()
    structures = options.files or generated()

    placed = anchor.energy_above_hull(structures, potential=options.potential)
    names = ["formula", "spacegroup", "relaxation", "energy_above_hull_ev_per_atom", "decomposition"]
    print(placed.to_pandas()[names].to_string(index=False), "\n")

    done = anchor.evaluate(
        structures, protocol=options.protocol, potential=options.potential, out=options.out
    )
    for name, metric in done.summary["metrics"].items():
        pooled = metric["pooled"]
        if "k" in pooled:  # a rate; `anchor compare eval/rescored` prints all, with intervals
            print(f"{name:16} {pooled['k']} of {pooled['n']}")
    print("tables:", done.folder)


if __name__ == "__main__":
    main()
