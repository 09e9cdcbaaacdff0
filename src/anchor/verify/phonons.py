"""Phonons of a crystal by finite displacements, at the wave vectors that its supercell holds exactly.

    supercell = Supercell.of(primitive)
    phonons = supercell.phonons(relaxer.evaluate(supercell.displaced).forces)
    phonons.lowest                            # THz, imaginary ones negative
    phonons.distorted(0, {0: 1}, largest=0.1)  # moved along a mode, in the smallest cell that holds it

Between those wave vectors frequencies are interpolations, and in a supercell of the range of the forces their
errors look like soft acoustic modes. Nothing is judged there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import spglib
from ase.data import atomic_masses
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals

if TYPE_CHECKING:
    from phonopy import Phonopy  # an extra, and a second to import

SHORTEST = 8.0
"""Å: no lattice vector of a supercell is shorter."""
DISPLACEMENT = 0.03
"""Å. Forces of a network in single precision are good to 4e-6 eV/Å, force constants therefore to about
1e-4 eV/Å²; the cubic part of the forces falls out where both directions are taken."""
SYMMETRIC_WITHIN = 1e-4
"""Å, for phonopy: crystals come from a relaxation that keeps symmetry."""
PRIMITIVE_WITHIN = 0.01
"""Å, of a crystal that was relaxed without imposed symmetry to 0.02 eV/Å."""
DEGENERATE = 0.01
"""THz within which modes at one wave vector count as one."""


def primitive(crystal: Crystals) -> Crystals:
    """The reduced primitive cell of one crystal, with its symmetry made exact."""
    cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
    found = spglib.standardize_cell(cell, to_primitive=True, symprec=PRIMITIVE_WITHIN) or cell
    lattice, frac, numbers = found
    reduced = spglib.niggli_reduce(lattice)
    if reduced is None:
        reduced = lattice
    frac = frac @ lattice @ np.linalg.inv(reduced)
    return Crystals(np.array([len(numbers)]), numbers, frac - np.floor(frac), reduced[None])


def multiples(lattice: NDArray[np.float64]) -> tuple[int, int, int]:
    """How often each vector of a reduced cell is repeated: one, or an even number.  # [3, 3]

    Even numbers hold the boundary of the Brillouin zone, where most distortions are; odd ones do not.
    """
    found = [1, 1, 1]
    steps = np.array(list(product((-2, -1, 0, 1, 2), repeat=3)))
    steps = steps[steps.any(axis=1)]
    while True:
        vectors = steps @ (np.array(found)[:, None] * lattice)
        lengths = np.linalg.norm(vectors, axis=1)
        short = lengths < SHORTEST
        if not short.any():
            return found[0], found[1], found[2]
        step = np.abs(steps[lengths.argmin()]) > 0
        axis = min(np.flatnonzero(step), key=lambda i: found[i] * np.linalg.norm(lattice[i]))
        found[axis] += 1 if found[axis] == 1 else 2


@dataclass(frozen=True, eq=False)
class Supercell:
    """A supercell of a primitive crystal and what has to be computed in it.

    Attributes:
        crystal: Primitive, relaxed.  # 1
        multiples: Of its vectors.
        displaced: Supercells with one atom displaced each.
        work: phonopy's state.
    """

    crystal: Crystals
    multiples: tuple[int, int, int]
    displaced: Crystals
    work: Phonopy

    @classmethod
    def of(cls, crystal: Crystals) -> Supercell:
        from phonopy import Phonopy
        from phonopy.structure.atoms import PhonopyAtoms

        times = multiples(crystal.lattice[0])
        cell = PhonopyAtoms(
            symbols=[SYMBOLS[z] for z in crystal.numbers],
            scaled_positions=crystal.frac,
            cell=crystal.lattice[0],
            masses=atomic_masses[crystal.numbers],
        )
        with warnings.catch_warnings():
            # A supercell may have fewer rotations than its crystal: only more displacements are needed then.
            warnings.filterwarnings("ignore", "Warning: Point group symmetries")
            work = Phonopy(
                cell,
                supercell_matrix=np.diag(times),
                primitive_matrix=np.eye(3),
                symprec=SYMMETRIC_WITHIN,
            )
            work.generate_displacements(distance=DISPLACEMENT)
        cells = work.supercells_with_displacements
        assert cells is not None
        displaced = Crystals(
            np.array([len(cell) for cell in cells]),
            np.concatenate([cell.numbers for cell in cells]),
            np.concatenate([cell.scaled_positions for cell in cells]),
            np.stack([cell.cell for cell in cells]),
        )
        return cls(crystal, times, displaced, work)

    def phonons(self, forces: NDArray[np.float64]) -> Phonons:
        """Phonons from the forces in all displaced supercells, eV/Å.  # [n_atoms of them, 3]"""
        from phonopy.harmonic.dynmat_to_fc import get_commensurate_points

        work = self.work
        work.forces = forces.reshape(len(self.displaced), -1, 3)
        work.produce_force_constants(show_drift=False)
        # Together: one after the other would leave the acoustic modes a little off zero.
        work.symmetrize_force_constants(use_symfc_projector=True, show_drift=False)
        points = get_commensurate_points(np.diag(self.multiples))
        points = points - np.rint(points - 1e-9)  # in (−1/2, 1/2]
        once = [q for i, q in enumerate(points) if not _reversed_before(q, points[:i])]
        solved = work.run_qpoints(np.array(once), with_eigenvectors=True)
        assert solved.eigenvectors is not None, "they were asked for"
        return Phonons(self.crystal, self.multiples, np.array(once), solved.frequencies, solved.eigenvectors)


def _reversed_before(q: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Whether −q is among the others: it has the same frequencies."""
    sums = others + q
    return bool((np.abs(sums - np.rint(sums)) < 1e-6).all(axis=1).any())


@dataclass(frozen=True, eq=False)
class Phonons:
    """Frequencies and modes at all wave vectors of a supercell, q and −q once.

    Attributes:
        crystal: Primitive.  # 1, n atoms
        multiples: Of the supercell.
        q: In units of the reciprocal vectors.  # [m, 3]
        frequencies: THz, ascending, imaginary ones negative.  # [m, 3 n]
        modes: Eigenvectors of the dynamical matrix, as columns.  # [m, 3 n, 3 n], complex
    """

    crystal: Crystals
    multiples: tuple[int, int, int]
    q: NDArray[np.float64]
    frequencies: NDArray[np.float64]
    modes: NDArray[np.complex128]

    @cached_property
    def judged(self) -> NDArray[np.float64]:
        """The frequencies without the three translations, which are NaN.  # [m, 3 n]"""
        found = self.frequencies.copy()
        at_rest = np.flatnonzero(np.abs(self.q).max(axis=1) < 1e-9)
        for row in at_rest.tolist():
            found[row, np.argsort(np.abs(found[row]))[:3]] = np.nan
        return found

    @property
    def lowest(self) -> float:
        """Lowest frequency of all but the translations, THz; imaginary ones are negative."""
        return float(np.nanmin(self.judged, initial=np.inf))

    def soft(self, below: float) -> list[tuple[int, list[int]]]:
        """Wave vector and modes of each frequency below, lowest first; equal ones at one q together.

        The same frequency at other wave vectors is left out: they are images of the first.
        """
        found: list[tuple[int, list[int]]] = []
        seen: list[float] = []
        order = np.argsort(np.where(np.isnan(self.judged), np.inf, self.judged), axis=None, kind="stable")
        for flat in order.tolist():
            row, band = divmod(flat, self.judged.shape[1])
            value = self.judged[row, band]
            if not value < below:
                break
            if any(abs(value - one) < DEGENERATE for one in seen):
                continue
            seen.append(float(value))
            found.append((row, np.flatnonzero(np.abs(self.judged[row] - value) < DEGENERATE).tolist()))
        return found

    def distorted(self, row: int, weights: dict[int, complex], *, largest: float) -> Crystals:
        """The crystal moved along modes of one wave vector, in the smallest cell that holds them.

        Args:
            row: Of the wave vector.
            weights: Mode → amount; its phase shifts the wave.
            largest: Displacement of the atom that moves most, Å.
        """
        q, crystal = self.q[row], self.crystal
        matrix = commensurate_cell(q, crystal.lattice[0])
        cells = lattice_points(matrix)
        position = (crystal.frac[:, None] + cells).reshape(-1, 3)  # atoms, cells; primitive coordinates
        n, size = int(crystal.counts[0]), len(cells)
        mode = sum(w * self.modes[row, :, band] for band, w in weights.items())
        per_atom = np.asarray(mode).reshape(n, 3) / np.sqrt(atomic_masses[crystal.numbers])[:, None]
        wave = np.exp(2j * np.pi * position @ q)
        move = (np.repeat(per_atom, size, axis=0) * wave[:, None]).real
        move *= largest / max(np.linalg.norm(move, axis=1).max(), 1e-12)
        lattice = matrix @ crystal.lattice[0]
        cart = position @ crystal.lattice[0] + move
        return Crystals(
            np.array([n * size]),
            np.repeat(crystal.numbers, size),
            cart @ np.linalg.inv(lattice),
            lattice[None],
        )


def commensurate_cell(q: NDArray[np.float64], lattice: NDArray[np.float64]) -> NDArray[np.int64]:
    """Short vectors, in units of the primitive ones, of the smallest cell with whole waves.  # [3, 3]"""
    order = next(d for d in range(1, 1000) if np.abs(d * q - np.rint(d * q)).max() < 1e-6)
    steps = np.array(list(product(range(-order, order + 1), repeat=3)))
    steps = steps[steps.any(axis=1)]
    phase = steps @ q
    steps = steps[np.abs(phase - np.rint(phase)) < 1e-6]
    steps = steps[np.argsort(np.linalg.norm(steps @ lattice, axis=1), kind="stable")]
    chosen: list[NDArray[np.int64]] = []
    for step in steps:
        trial = np.array([*chosen, step])
        if np.linalg.matrix_rank(trial) < len(trial):
            continue
        if len(trial) == 3 and round(abs(np.linalg.det(trial))) != order:
            continue
        chosen.append(step)
        if len(chosen) == 3:
            break
    matrix = np.array(chosen, dtype=np.int64)
    return matrix if np.linalg.det(matrix) > 0 else -matrix


def lattice_points(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Primitive cells inside a supercell.  # [3, 3] -> [det, 3]"""
    reach = int(np.abs(matrix).sum())
    steps = np.array(list(product(range(-reach, reach + 1), repeat=3)))
    inside = steps @ np.linalg.inv(matrix)
    return steps[((inside > -1e-9) & (inside < 1 - 1e-9)).all(axis=1)]
