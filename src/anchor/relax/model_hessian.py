"""A first guess of the Hessian: springs between neighbours.

A quasi-Newton method that starts from a multiple of the identity, as ASE's does, spends most of its steps on
learning that bonds are stiff, angles soft and the cell something else again. Springs know this beforehand: a
pair at distance r of atoms with covalent radii R has the stiffness k0 exp(−a (r / ΣR − 1)) along the bond and
a small part of it across. A stretched bond vector d changes by δr_j − δr_i + ε d, so that the same springs
give the cell's stiffness and its coupling to the atoms.

The numbers were fitted to finite-difference Hessians of MatterSim-1M on relaxed crystals and then tuned for
the number of evaluations (docs/journal/relaxation.md).
"""

from __future__ import annotations

import numpy as np
import torch
from ase.data import covalent_radii
from numpy.typing import NDArray
from vesin import NeighborList

from anchor.relax.coordinates import CELL_ROWS, Frame, deformation

STIFFNESS = 1.5
"""k0, eV/Å²: spring of a pair at the sum of its covalent radii."""
DECAY = 8.0
"""a: how fast springs weaken with r / ΣR."""
STIFFEST = 40.0
"""eV/Å²: limit for atoms that are too close."""
ACROSS = 0.05
"""Part of a spring that also resists motion across the bond."""
FLOOR = 1.0
"""eV/Å²: added for each atom, for what no spring holds (translations, lone atoms); 1/n of it for the cell."""
CUTOFF = 6.0
"""Å: a longer bond would have to be 1.2 times the sum of the two largest radii; its spring is weak."""


def model_hessian(frame: Frame, coordinates: torch.Tensor) -> torch.Tensor:
    """Positive definite guess of the second derivatives by the generalised coordinates.

    Args:
        frame: b crystals.
        coordinates: Where they are.  # [b, 3 + m, 3]

    Returns:
        eV/Å², the identity in rows that do not move.  # [b, 3 (3 + m), 3 (3 + m)]
    """
    size = coordinates.shape[1]
    deformed = deformation(frame, coordinates)
    positions = (coordinates[:, CELL_ROWS:] @ deformed.mT).cpu().numpy()
    cells = (frame.lattice @ deformed.mT).cpu().numpy()
    found = np.zeros((len(cells), size * 3, size * 3))
    for k, count in enumerate(frame.counts.tolist()):
        reach = 3 * (CELL_ROWS + count)
        numbers = frame.numbers[k, :count].cpu().numpy()
        found[k, :reach, :reach] = _springs(
            positions[k, :count], cells[k], numbers, deformed[k].cpu().numpy()
        )
    hessian = torch.from_numpy(found).to(coordinates.device)
    moves = frame.moves.repeat_interleave(3, dim=1)
    hessian *= moves[:, :, None] * moves[:, None, :]
    hessian.diagonal(dim1=1, dim2=2).add_(1.0 - moves)
    return hessian


def _springs(
    positions: NDArray[np.float64],
    cell: NDArray[np.float64],
    numbers: NDArray[np.int64],
    deformed: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The model of one crystal.  # [n, 3], [3, 3], [n], [3, 3] -> [3 (3 + n), 3 (3 + n)]"""
    n = len(positions)
    search = NeighborList(cutoff=CUTOFF, full_list=False)
    i, j, bonds = search.compute(points=positions, box=cell, periodic=True, quantities="ijD")
    i, j = i.astype(np.int64), j.astype(np.int64)
    length = np.linalg.norm(bonds, axis=1)
    stretch = length / (covalent_radii[numbers[i]] + covalent_radii[numbers[j]])
    spring = np.minimum(STIFFNESS * np.exp(-DECAY * (stretch - 1.0)), STIFFEST)
    along = bonds / length[:, None]
    stiffness = spring[:, None, None] * (
        (1.0 - ACROSS) * along[:, :, None] * along[:, None, :] + ACROSS * np.eye(3)
    )  # [p, 3, 3], ∂²E/∂d²

    # δd = F (δx_j − δx_i) + ε d, with ε = X / n
    by_atom = deformed.T @ stiffness  # [p, 3, 3], ∂²E/∂x_j ∂d
    blocks = np.zeros((n * n, 3, 3))
    pulled = by_atom @ deformed
    for sign, rows, columns in ((1, i, i), (1, j, j), (-1, i, j), (-1, j, i)):
        np.add.at(blocks, rows * n + columns, sign * pulled)
    atoms = blocks.reshape(n, n, 3, 3).transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
    coupling = np.zeros((n, 3, 3, 3))  # atom, its axis, ε's row, ε's column
    mixed = by_atom[:, :, :, None] * bonds[:, None, None, :] / n
    np.add.at(coupling, j, mixed)
    np.add.at(coupling, i, -mixed)
    elastic = np.einsum("pac,pb,pd->abcd", stiffness, bonds, bonds).reshape(9, 9) / n**2

    whole = np.empty((9 + 3 * n, 9 + 3 * n))
    whole[:9, :9] = elastic + np.eye(9) * FLOOR / n
    whole[9:, 9:] = atoms + np.eye(3 * n) * FLOOR
    whole[9:, :9] = coupling.reshape(3 * n, 9)
    whole[:9, 9:] = whole[9:, :9].T
    return whole
