"""Crystals to relax and a smooth pair potential in double precision to relax them with."""

from __future__ import annotations

import numpy as np
import torch
from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.potentials.base import GradientPotential
from anchor.potentials.graph import Graph


class Morse(GradientPotential):
    """D (1 − exp(−a (r − r0)))² − D between all pairs, switched off smoothly, in double precision.

    (torch-sim's own Morse and Lennard-Jones models are not used: with a neighbour list their stress is twice
    the derivative of their energy.)
    """

    cutoff = 6.0  # Å

    def __init__(self, elements: frozenset[int] = frozenset({29, 47})) -> None:
        super().__init__(
            name="morse",
            elements=elements,
            energies_corrected=False,
            checkpoint_hash="0" * 64,
            dtype=torch.float64,
        )

    def energies(self, graph: Graph) -> torch.Tensor:
        length = graph.vectors.norm(dim=1)
        decay = torch.exp(-2.0 * (length - 2.6))
        switch = (1 - (length / self.cutoff) ** 2) ** 3
        pair = 0.5 * ((1 - decay) ** 2 - 1) * switch / 2  # each pair is there twice
        zeros = graph.positions.new_zeros(len(graph.numbers))
        return graph.sum_per_system(zeros.index_add(0, graph.edges[0], pair))


def rattled(seed: int, *, n: int = 4, amplitude: float = 0.15, strain: float = 0.04) -> Crystals:
    """n distorted cells of 4 to 8 atoms near minima of the Morse potential."""
    rng = np.random.default_rng(seed)
    cells = [
        bulk("Cu", "fcc", a=3.55, cubic=True),
        bulk("Cu", "hcp", a=2.5, c=4.1) * (2, 1, 1),
        bulk("Cu", "fcc", a=3.55) * (2, 2, 2),
        bulk("Cu", "fcc", a=3.55) * (1, 2, 3),
    ]
    out = []
    for k in range(n):
        atoms = cells[k % len(cells)].copy()
        shape = rng.uniform(-strain, strain, (3, 3))
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + (shape + shape.T) / 2), scale_atoms=True)
        atoms.positions += rng.normal(0, amplitude / np.sqrt(3), atoms.positions.shape)
        out.append(atoms)
    return Crystals.from_atoms(out)
