"""Generalised coordinates: atoms in the undeformed cell, and the logarithm of the cell's deformation.

Every optimiser here walks on the coordinates of ASE's FrechetCellFilter, so that one fmax means the same to
all of them. For a crystal of n atoms in the reference cell L (rows),

    cell rows   X = n log F       (force: −∂E/∂X, eV/Å-like, since X is scaled by n)
    atom rows   x_i               (position r_i = F x_i, force F^T f_i)

and the deformed cell is L F^T. With a fixed cell F stays 1 and its rows feel no force. A batch is padded to
the largest crystal: rows are [3 cell rows, atoms, padding].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.potentials.edges import SymmetricNeighbours
from anchor.relax.symmetry import find_symmetry

CELL_ROWS = 3


@dataclass
class Rows:
    """Tensors (or further Rows) that share a first dimension: one row per crystal of the working set."""

    def part(self, rows: torch.Tensor | slice) -> Self:
        """Some of the rows: a slice, an index or a boolean mask."""
        parts = {name: v.part(rows) if isinstance(v, Rows) else v[rows] for name, v in self._parts()}
        return type(self)(**parts)

    def joined(self, other: Self) -> Self:
        """The rows of both, in order."""
        parts = {}
        for name, value in self._parts():
            more = getattr(other, name)
            parts[name] = value.joined(more) if isinstance(value, Rows) else torch.cat([value, more])
        return type(self)(**parts)

    def put(self, rows: torch.Tensor, other: Self) -> None:
        """Overwrite some rows by those of another of the same kind, in place."""
        for name, value in self._parts():
            if isinstance(value, Rows):
                value.put(rows, getattr(other, name))
            else:
                value[rows] = getattr(other, name)

    def _parts(self) -> list[tuple[str, torch.Tensor | Rows]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass
class Objects(Rows):
    """Python objects as rows."""

    items: list[Any]

    def part(self, rows: torch.Tensor | slice) -> Objects:
        chosen = rows if isinstance(rows, slice) else rows.cpu().numpy()
        return Objects([self.items[k] for k in np.arange(len(self.items))[chosen]])

    def joined(self, other: Objects) -> Objects:
        return Objects(self.items + other.items)


@dataclass
class Frame(Rows):
    """What stays the same while a crystal moves.

    Attributes:
        index: Which crystal of the call.  # [b]
        counts: Atoms.  # [b]
        numbers: Atomic numbers, 0 = padding.  # [b, m]
        lattice: Reference cell, rows, Å.  # [b, 3, 3]
        moves: 1 for rows that may move (atoms, and the cell when it is free), else 0.  # [b, 3 + m]
        orbit: The first of the atoms that are equivalent by symmetry to each, itself without.  # [b, m]
        projector: On changes that keep the symmetry; empty where none is kept.  # [b, 3 (3 + m), 3 (3 + m)]
        neighbours: Who finds the edges of a crystal with symmetry, None for one without.  # [b]
    """

    index: torch.Tensor
    counts: torch.Tensor
    numbers: torch.Tensor
    lattice: torch.Tensor
    moves: torch.Tensor
    orbit: torch.Tensor
    projector: torch.Tensor
    neighbours: Objects

    @property
    def symmetric(self) -> bool:
        """Whether symmetry is kept."""
        return self.projector.shape[1] > 0

    @property
    def cell_moves(self) -> bool:
        """Whether the cells are free."""
        return bool(self.moves[:, 0].any())

    @property
    def atoms(self) -> torch.Tensor:
        """Which padded sites are atoms.  # [b, m], bool"""
        return self.numbers > 0


def start(
    crystals: Crystals,
    index: Sequence[int],
    *,
    cell: bool,
    size: int,
    device: torch.device,
    symmetry: bool = False,
) -> tuple[Frame, torch.Tensor]:
    """Frame and coordinates of crystals at rest in their own cells.

    Args:
        crystals: b crystals.
        index: Their numbers in the call.
        cell: Whether the cell is free.
        size: Atoms to pad to, m.
        device: Where the optimiser works.
        symmetry: Whether to keep the symmetry that they have; they are moved onto it.

    Returns:
        Frame, and coordinates [b, 3 + m, 3].
    """
    orbit, projector = np.tile(np.arange(size), (len(crystals), 1)), np.zeros((len(crystals), 0, 0))
    neighbours: list[SymmetricNeighbours | None] = [None] * len(crystals)
    if symmetry:
        crystals, orbit, projector, neighbours = _symmetrised(crystals, size)
    numbers, _ = crystals.padded(size)
    sites = torch.from_numpy(numbers).to(device)
    coordinates = torch.zeros(len(crystals), CELL_ROWS + size, 3, dtype=torch.float64, device=device)
    coordinates[:, CELL_ROWS:][sites > 0] = torch.from_numpy(crystals.cart).to(device)
    cell_moves = torch.full((len(crystals), CELL_ROWS), float(cell), dtype=torch.float64, device=device)
    frame = Frame(
        index=torch.tensor(list(index), dtype=torch.int64, device=device),
        counts=torch.from_numpy(crystals.counts).to(device),
        numbers=sites,
        lattice=torch.from_numpy(crystals.lattice).to(device),
        moves=torch.cat([cell_moves, (sites > 0).double()], dim=1),
        orbit=torch.from_numpy(orbit).to(device),
        projector=torch.from_numpy(projector).to(device),
        neighbours=Objects(neighbours),
    )
    return frame, coordinates


def _symmetrised(
    crystals: Crystals, size: int
) -> tuple[Crystals, NDArray[np.int64], NDArray[np.float64], list[SymmetricNeighbours | None]]:
    """Crystals with the symmetry they nearly have; a frame's `orbit`, `projector` and `neighbours` of it."""
    reach = 3 * (CELL_ROWS + size)
    orbit = np.tile(np.arange(size), (len(crystals), 1))
    projector = np.tile(np.eye(reach), (len(crystals), 1, 1))
    moved, neighbours = [], []
    for k, crystal in enumerate(crystals):
        found = find_symmetry(crystal)
        moved.append(crystal if found is None else found.crystal)
        neighbours.append(None if found is None else found.neighbours())
        if found is not None:
            n = 3 * (CELL_ROWS + crystal.n_atoms)
            orbit[k, : crystal.n_atoms], projector[k, :n, :n] = found.orbit, found.projector()
    return Crystals.concatenate(moved), orbit, projector, neighbours


def deformation(frame: Frame, coordinates: torch.Tensor) -> torch.Tensor:
    """F = exp(X / n).  # [b, 3, 3]"""
    if not frame.cell_moves:
        return torch.eye(3, dtype=coordinates.dtype, device=coordinates.device).expand(len(coordinates), 3, 3)
    return torch.linalg.matrix_exp(coordinates[:, :CELL_ROWS] / frame.counts[:, None, None])


def geometry(frame: Frame, coordinates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of all atoms, crystal by crystal, and deformed cells (rows), Å.  # [n_atoms, 3], [b, 3, 3]"""
    if not frame.cell_moves:
        return coordinates[:, CELL_ROWS:][frame.atoms], frame.lattice
    transposed = deformation(frame, coordinates).mT
    return (coordinates[:, CELL_ROWS:] @ transposed)[frame.atoms], frame.lattice @ transposed


def gradient(
    frame: Frame, coordinates: torch.Tensor, forces: torch.Tensor, stress: torch.Tensor
) -> torch.Tensor:
    """Derivative of the energy by the generalised coordinates, zero in rows that do not move.

    Where symmetry is kept, the part of it along symmetric changes.

    Args:
        frame: b crystals.
        coordinates: Where they are.  # [b, 3 + m, 3]
        forces: eV/Å, of all atoms.  # [n_atoms, 3]
        stress: eV/Å³, positive = tension.  # [b, 3, 3]

    Returns:
        eV/Å.  # [b, 3 + m, 3]
    """
    rows = torch.zeros_like(coordinates)
    rows[:, CELL_ROWS:][frame.atoms] = -forces
    if frame.cell_moves:
        rows = _with_cell(frame, coordinates, rows, stress)
    if frame.symmetric:
        rows = (frame.projector @ rows.flatten(1)[..., None]).view_as(rows)
    return rows * frame.moves[..., None]


def _with_cell(
    frame: Frame, coordinates: torch.Tensor, rows: torch.Tensor, stress: torch.Tensor
) -> torch.Tensor:
    """The gradient by all coordinates, from that by the positions of atoms.  # [b, 3 + m, 3]"""
    scaled = coordinates[:, :CELL_ROWS] / frame.counts[:, None, None]
    deformed = torch.linalg.matrix_exp(scaled)
    volume = torch.linalg.det(frame.lattice @ deformed.mT).abs()
    by_deformation = volume[:, None, None] * stress @ torch.linalg.inv(deformed).mT  # ∂E/∂F
    # The derivative of exp at A along E is the upper right block of exp [[A, E], [0, A]]; its adjoint, which
    # takes ∂E/∂F to ∂E/∂A, is the same at A^T. One 6 × 6 exponential replaces ASE's nine.
    block = scaled.new_zeros(len(scaled), 6, 6)
    block[:, :3, :3] = block[:, 3:, 3:] = scaled.mT
    block[:, :3, 3:] = by_deformation
    by_log = torch.linalg.matrix_exp(block)[:, :3, 3:]
    return torch.cat([by_log / frame.counts[:, None, None], rows[:, CELL_ROWS:] @ deformed], dim=1)


def largest_row(vectors: torch.Tensor) -> torch.Tensor:
    """The longest row of each crystal: ASE's measure of forces and steps.  # [b, r, 3] -> [b]"""
    return vectors.norm(dim=2).amax(dim=1)


def to_crystals(frame: Frame, coordinates: torch.Tensor) -> Crystals:
    """The crystals at `coordinates`, atoms not wrapped."""
    transposed = deformation(frame, coordinates).mT
    # Fractional coordinates do not feel F: x (L F^T)^-1 with r = x F^T is x L^-1.
    frac = torch.linalg.solve(frame.lattice.mT, coordinates[:, CELL_ROWS:].mT).mT[frame.atoms]
    return Crystals(
        frame.counts.cpu().numpy(),
        frame.numbers[frame.atoms].cpu().numpy(),
        frac.cpu().numpy(),
        (frame.lattice @ transposed).cpu().numpy(),
    )
