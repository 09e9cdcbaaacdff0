"""One cell per crystal: Niggli-reduced, right-handed, a along x and b in the xy-plane.

Two descriptions of one lattice give one cell, so a network never has to learn that they mean the same. The
atoms keep their places: only the axes that fractional coordinates refer to change.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import spglib
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import minkowski_reduce

_NIGGLI_TOLERANCE = 1e-5


def standard_cells(crystals: Crystals) -> Crystals:
    """The same crystals in their standard cells, coordinates in [0, 1)."""
    reduced, transform = minkowski_reduce(crystals.lattice)
    for i, lattice in enumerate(reduced):
        niggli = spglib.niggli_reduce(lattice, eps=_NIGGLI_TOLERANCE)
        if niggli is None:  # spglib gives up on a few extremely flat cells: Minkowski's is as good there
            continue
        step = np.rint(niggli @ np.linalg.inv(lattice))
        if abs(abs(np.linalg.det(step)) - 1) < 1e-6 and np.allclose(step @ lattice, niggli, atol=1e-3):
            transform[i] = step.astype(np.int64) @ transform[i]
    reduced = transform @ crystals.lattice
    # Turning all three axes round makes a left-handed cell right-handed and moves no atom.
    transform = transform * np.where(np.linalg.det(reduced) < 0, -1, 1)[:, None, None]
    reduced = transform @ crystals.lattice
    back = np.rint(np.linalg.inv(transform.astype(float)))
    frac = np.einsum("ai,aij->aj", crystals.frac, back[crystals.owner])
    return crystals.replace(frac=frac % 1.0, lattice=upright(reduced))


def upright(lattice: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cells turned so that the matrix is lower triangular with a positive diagonal.  # [n, 3, 3]"""
    factor: NDArray[np.float64] = np.linalg.cholesky(lattice @ np.swapaxes(lattice, 1, 2)).astype(np.float64)
    return factor


# The same in torch, for networks


def lengths_and_angles(lattice: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths, Å, and angles α, β, γ, radians.  # [..., 3], [..., 3]"""
    lengths = lattice.norm(dim=-1)
    unit = lattice / lengths[..., None]
    cosines = torch.stack(
        [(unit[..., i, :] * unit[..., j, :]).sum(-1) for i, j in ((1, 2), (0, 2), (0, 1))], dim=-1
    )
    return lengths, torch.acos(cosines.clamp(-1, 1))


def squared_volume_of_angles(angles: Tensor) -> Tensor:
    """(V / abc)² of a cell with these angles; not positive where no cell has them.  # [...]"""
    cosines = torch.cos(angles)
    return 1 - (cosines**2).sum(-1) + 2 * cosines.prod(-1)


def from_lengths_and_angles(lengths: Tensor, angles: Tensor, *, least: float | None = None) -> Tensor:
    """Lower triangular cells, Å; NaN where the angles make no cell, unless `least` > 0 bounds (V / abc)².

    # [..., 3, 3]
    """
    cos_a, cos_b, cos_g = torch.cos(angles).unbind(-1)
    sin_g = torch.sin(angles[..., 2])
    zero, one = torch.zeros_like(cos_a), torch.ones_like(cos_a)
    across = (cos_a - cos_b * cos_g) / sin_g
    flatness = squared_volume_of_angles(angles)
    height = torch.sqrt(flatness if least is None else flatness.clamp(min=least)) / sin_g
    rows = [
        torch.stack([one, zero, zero], dim=-1),
        torch.stack([cos_g, sin_g, zero], dim=-1),
        torch.stack([cos_b, across, height], dim=-1),
    ]
    return torch.stack(rows, dim=-2) * lengths[..., None]


@cache
def neighbour_images(device: torch.device) -> Tensor:
    """The 27 integer shifts to a cell and its neighbours, the cell itself first.  # [27, 3]"""
    shifts = sorted(product((-1.0, 0.0, 1.0), repeat=3), key=lambda s: (math.hypot(*s), s))
    return torch.tensor(shifts, device=device)


def wrap(x: Tensor) -> Tensor:
    """w1: the representative of x modulo 1 nearest to 0."""
    return x - torch.round(x)


def centre(x: Tensor) -> Tensor:
    """C: subtract each crystal's mean over its atoms.  # [b, n, 3]"""
    return x - x.mean(dim=-2, keepdim=True)


def cell_shape(cell: Tensor, n: int) -> Tensor:
    """Numbers of order one that describe cells of n atoms: log lengths, cosines, log volume per atom.

    # [b, 3, 3] -> [b, 7]
    """
    lengths, angles = lengths_and_angles(cell)
    volume = torch.linalg.det(cell).abs().clamp(min=1e-3)[:, None]
    return torch.cat([lengths.clamp(min=1e-2).log() - 1.7, angles.cos(), (volume / n).log() - 3], dim=1)


def paired(numbers: Tensor, clean: Tensor, noisy: Tensor) -> Tensor:
    """Clean coordinates given to noisy atoms of the same element so that Σ|displacement|² is least.

    Noise acts on a set of atoms: which of two equal ones a noisy one was does not change what is seen. A
    target that keeps their names makes a network average over all of them.
    # [b, n], [b, n, 3] fractional, [b, n, 3] -> [b, n, 3]
    """
    other = numbers[:, :, None] != numbers[:, None]
    gap = wrap(noisy[:, :, None] - clean[:, None])  # [b, noisy, clean, 3]
    cost = ((gap**2).sum(-1) + 1e3 * other).cpu().numpy()
    order = torch.from_numpy(np.stack([linear_sum_assignment(c)[1] for c in cost])).to(clean.device)
    return torch.gather(clean, 1, order[:, :, None].expand(-1, -1, 3))
