"""Your own potential and your own structure prior, in a search.

You get a search in which *your* prior draws the crystals (here: atoms in any order on a body-centred
lattice, CsCl and its kin), and crystals relaxed by *your* potential (here: a Morse potential of Cu, Ag, Au).
Both are classes of this file; anchor finds them as `own_potential_and_prior:Name`, on the command line too,
and checks the potential before it is believed.

    python examples/own_potential_and_prior.py       # a minute or two
    anchor potentials check own_potential_and_prior:Morse        # in the folder examples
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import anchor
from anchor.potentials import GradientPotential
from anchor.potentials.check import check_potential
from anchor.priors import Prior


class Morse(GradientPotential):
    """D ((1 − exp(−a (r − r₀)))² − 1) between all pairs, ending smoothly; forces follow from it."""

    cutoff = 6.0  # Å

    def __init__(self, *, device="cpu", dtype=torch.float64):
        super().__init__(
            name="morse", elements=frozenset({29, 47, 79}), energies_corrected=False,
            checkpoint_hash="morse-1", device=device, dtype=dtype,
        )  # fmt: skip

    def energies(self, graph):  # eV, [n_systems]
        length = graph.vectors.norm(dim=1)  # Å, of each pair, in both directions
        well = (1 - torch.exp(-1.4 * (length - 2.75))) ** 2 - 1
        pair = 0.5 * 0.33 * well * (1 - (length / self.cutoff) ** 2) ** 3
        atoms = graph.positions.new_zeros(len(graph.numbers)).index_add(0, graph.edges[0], pair)
        return graph.sum_per_system(atoms)


class Lattice(Prior):
    """Atoms in random order on a stack of body-centred layers, 15 Å³ each."""

    def __init__(self, device="cpu"):
        self.name, self.elements, self.max_atoms, self.hash = "lattice", frozenset(range(1, 95)), 20, "1"
        self.device = device

    def draw(self, requests):
        crystals = []
        for request in requests:
            numbers = request.rng("order", request.draw).permutation(request.composition.numbers)
            n = len(numbers)
            layers = np.arange(n)
            frac = np.stack([layers % 2 / 2, layers % 2 / 2, layers / n], axis=1)
            edge = 30.0 ** (1 / 3)  # Å; layers are half of it apart
            if n % 2:  # the stack meets its own image: lean by half a cell
                cell = np.array([[edge, 0, 0], [0, edge, 0], [edge / 2, edge / 2, n * edge / 2]])
                frac[:, :2] -= layers[:, None] / n / 2
            else:
                cell = np.diag([edge, edge, n * edge / 2])
            crystals.append(anchor.Crystals([n], numbers, frac, cell[None]))
        return anchor.Crystals.concatenate(crystals)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=64, help="compositions to try")
    parser.add_argument("--out", type=Path, default=Path("runs/own-prior"))
    options = parser.parse_args()

    assert all(check.passed for check in check_potential(anchor.load_potential(f"{HERE}:Morse")))
    alloys = anchor.load_prior(f"{HERE}:Lattice").sample(["Cu3Au", "CuAu", "AgAu"], seed=1)
    print(anchor.relax(alloys, potential=f"{HERE}:Morse"), "\n")

    # A search needs a hull, and the hulls that ship are of the potentials that ship.
    own = [f"prior.name={HERE}:Lattice"]
    found = anchor.search("K Rb Cs Mg Ba Cl Br I O", options.n, out=options.out, finds=5, settings=own)
    near = [row["formula"] for row in found if row["energy_above_hull_ev_per_atom"] < 0.1]
    print(found, f"{len(near)} of the best {len(found)} within 0.1 eV/atom of the hulls", sep="\n")


HERE = Path(__file__).stem
"""This module's name: other processes load the classes again by it."""

if __name__ == "__main__":
    main()
